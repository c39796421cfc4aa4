//! A host's program by names and lines.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::trace::{Flows, Leaf, ProgramLine, ProgramLines, Reader, Tracer, leaves};
use hawser_engine::program::Program;
use hawser_interp::{Interpreter, Unsupported};
use hawser_ir::visit::{callees, statements};
use hawser_ir::{EventId, FuncId, Module, Span};
use hawser_sim::START;

/// The program that runs on a host.
pub(crate) struct HostProgram {
    pub(crate) host: String,
    pub(crate) module: Arc<Module>,
    pub(crate) interpreter: Interpreter,
    pub(crate) tracer: RefCell<Tracer>,
    pub(crate) flows: Arc<Flows>,
    pub(crate) lines: ProgramLines,
    /// The fields of each context type.
    pub(crate) contexts: Vec<Vec<Leaf>>,
    member_size: Vec<u32>,
}

impl HostProgram {
    pub(crate) fn new(
        program: &Arc<dyn Program>,
        host: &str,
        flows: &Arc<Flows>,
    ) -> Result<HostProgram, Unsupported> {
        let module = Arc::new(program.module().clone());
        let member_size = module.member_sizes();
        let reader = Reader::new(&module, &member_size, START);
        let contexts = module.contexts.iter();
        let contexts = contexts.map(|context| leaves(&reader, context.body)).collect();
        Ok(HostProgram {
            host: host.to_owned(),
            flows: Arc::clone(flows),
            contexts,
            interpreter: Interpreter::new(Arc::clone(&module), program.params().to_vec())?,
            tracer: RefCell::new(Tracer::new(program, host, START)?),
            lines: ProgramLines::from_module(&module),
            member_size,
            module,
        })
    }

    /// Returns a reader of the program's values.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.module, &self.member_size, START)
    }

    /// Returns the text of one of its files, by its name in the program or the end of that name.
    pub(crate) fn file(&self, name: &str) -> Option<(u32, &str, &str)> {
        let is_meant = |known: &str| {
            let rest = known.strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let files = self.module.files.iter().enumerate();
        let found = files.filter(|(_, (known, _))| is_meant(known));
        // An exact match takes precedence over one by the end.
        let found = found.min_by_key(|(_, (known, _))| known.len());
        found.map(|(number, (known, text))| (number as u32, known.as_str(), text.as_str()))
    }

    /// Returns the first line of a file, from this one on, in which a statement of a chain begins. Also
    /// returns the events whose chains can run it.
    pub(crate) fn stops_at(&self, file: u32, line: u32) -> Option<(u32, BTreeSet<EventId>)> {
        let mut found: Option<(u32, BTreeSet<FuncId>)> = None;
        let mut take = |span: Span, func: FuncId| {
            let at = self.lines.line(span).line;
            if span.file != file || span == Span::default() || at < line {
                return;
            }
            match &mut found {
                Some((known, _)) if *known < at => {}
                Some((known, funcs)) if *known == at => {
                    funcs.insert(func);
                }
                _ => found = Some((at, BTreeSet::from([func]))),
            }
        };
        for func in self.funcs_of_chains() {
            let body = &self.module.funcs[func.0 as usize].body;
            statements(body, &mut |stmt| take(stmt.span, func));
        }
        let (line, funcs) = found?;
        let events = (0..self.module.chains.len() as u32).map(EventId);
        Some((
            line,
            events.filter(|event| self.reaches(*event, &funcs)).collect(),
        ))
    }

    /// Returns whether the chain of an event can run one of these functions.
    fn reaches(&self, event: EventId, funcs: &BTreeSet<FuncId>) -> bool {
        let chain = self.module.chains.get(event.0 as usize);
        let processors = chain.map_or(&[][..], |chain| &chain.processors);
        let reached = self.reached(processors.iter().map(|processor| processor.func));
        !reached.is_disjoint(funcs)
    }

    fn funcs_of_chains(&self) -> BTreeSet<FuncId> {
        let chains = self.module.chains.iter();
        self.reached(chains.flat_map(|chain| chain.processors.iter().map(|processor| processor.func)))
    }

    /// Returns these functions and all functions that they call.
    fn reached(&self, from: impl Iterator<Item = FuncId>) -> BTreeSet<FuncId> {
        let mut found = BTreeSet::new();
        let mut left: Vec<FuncId> = from.collect();
        while let Some(func) = left.pop() {
            if found.insert(func)
                && let Some(function) = self.module.funcs.get(func.0 as usize)
            {
                left.extend(callees(&function.body));
            }
        }
        found
    }

    /// Returns the name of a function.
    pub(crate) fn function(&self, func: FuncId) -> &str {
        self.module
            .funcs
            .get(func.0 as usize)
            .map_or("", |function| &function.name)
    }

    pub(crate) fn line(&self, span: Span) -> ProgramLine {
        self.lines.line(span)
    }
}
