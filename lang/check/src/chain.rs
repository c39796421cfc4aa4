//! Chains: the processors that run on an event, and the binding of their parameters.

use std::collections::{HashMap, HashSet};

use hawser_ir as ir;
use hawser_ir::{Base, Chain, ContextId, EventKind, Granularity};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{DispatchEntry, Ident, Span};

use crate::attach::Attachment;
use crate::bounds::{Cost, Costs};
use crate::codes;
use crate::names::Def;
use crate::state::{Checker, MAX_DEPTH, RecordKind, ast_span};
use crate::steps::{MAX_ATTACHED_STEPS, MAX_STEPS, in_groups};
use crate::types::Type;

/// The maximum number of records, and of their bytes, that one chain may need.
const MAX_RECORDS: u64 = 1 << 16;
const MAX_RECORD_BYTES: u64 = 1 << 24;

/// The maximum number of names that an entry of a dispatch table lists, including those of the chains in it.
const MAX_LISTED: u64 = 1 << 12;

/// The number of processors in an entry after its named chains have been expanded.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// The number of names, with repetitions, and the nesting depth of chains.
    Listed(u64, u32),
    /// The chain is being counted already, so it contains itself.
    Circular,
    /// The chains are nested too deeply.
    Deep,
}

/// Returns the named chains that an entry lists.
fn inner_chains<'a>(
    entry: &'a DispatchEntry,
    named: &HashMap<&'a str, &'a DispatchEntry>,
) -> impl Iterator<Item = &'a DispatchEntry> {
    let listed = entry.processors.iter();
    listed.filter_map(|listed| named.get(listed.name.name.as_str()).copied())
}

/// True if a named chain contains itself, directly or indirectly.
fn is_circular<'a>(chain: &'a DispatchEntry, named: &HashMap<&'a str, &'a DispatchEntry>) -> bool {
    let mut open: Vec<_> = inner_chains(chain, named).collect();
    let mut seen = HashSet::new();
    while let Some(inner) = open.pop() {
        if std::ptr::eq(inner, chain) {
            return true;
        }
        if seen.insert(inner.name.name.as_str()) {
            open.extend(inner_chains(inner, named));
        }
    }
    false
}

/// Counts the names that an entry lists; each named chain is counted once.
fn size_of<'a>(
    entry: &'a DispatchEntry,
    named: &HashMap<&'a str, &'a DispatchEntry>,
    sizes: &mut HashMap<&'a str, Size>,
    depth: u32,
) -> Size {
    let name = entry.name.name.as_str();
    if depth > MAX_DEPTH {
        return Size::Deep;
    }
    if entry.is_chain {
        if let Some(known) = sizes.get(name) {
            return *known;
        }
        sizes.insert(name, Size::Circular);
    }
    let mut size = Size::Listed(entry.processors.len() as u64, 0);
    for inner in inner_chains(entry, named) {
        size = match (size, size_of(inner, named, sizes, depth + 1)) {
            (Size::Listed(_, _), Size::Listed(_, MAX_DEPTH..)) => Size::Deep,
            (Size::Listed(before, outer), Size::Listed(more, inner)) => {
                Size::Listed(before.saturating_add(more), outer.max(inner + 1))
            }
            (_, other @ (Size::Circular | Size::Deep)) | (other, _) => other,
        };
    }
    if entry.is_chain {
        sizes.insert(name, size);
    }
    size
}

/// A processor of a chain, as its dispatch table lists it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorEntry<'a> {
    pub(crate) func: usize,
    /// The place where it is listed.
    pub(crate) at: Span,
    /// The name of the parts on which it runs: its own, or that of the chain in which it is listed.
    pub(crate) part: Option<&'a Ident>,
}

impl<'a> Checker<'a> {
    /// Binds all chains.
    pub(crate) fn bind_chains(&mut self) {
        let empty = Chain {
            processors: Vec::new(),
            bounds: ir::Bounds::default(),
            creates: None,
            globals: Vec::new(),
        };
        self.module.chains = vec![empty; self.module.events.len()];
        self.chain_spans = vec![None; self.module.events.len()];
        let named = self.named_chains();
        let mut attachments = self.attachments();
        let mut sizes = HashMap::new();
        for index in 0..self.dispatches.len() {
            if !self.dispatches[index].registered {
                self.note_idle_table(index, &named);
                continue;
            }
            for entry in self.dispatches[index].entries {
                let can_be_flattened = self.can_be_flattened(entry, &named, &mut sizes);
                if entry.is_chain && can_be_flattened {
                    // Expanded even if it is not used, to report its errors.
                    self.flatten(entry, None, &named, &mut Vec::new());
                } else if can_be_flattened {
                    self.bind_entry(entry, &named, &mut attachments);
                }
            }
        }
        self.report_idle_attachments(&attachments);
        self.bound_chains();
    }

    fn named_chains(&mut self) -> HashMap<&'a str, &'a DispatchEntry> {
        let mut named: HashMap<&'a str, &'a DispatchEntry> = HashMap::new();
        for index in 0..self.dispatches.len() {
            for entry in self.dispatches[index]
                .entries
                .iter()
                .filter(|entry| entry.is_chain)
            {
                let other = named.get(entry.name.name.as_str()).map(|first| first.name.span);
                let other = other.or_else(|| self.defs.get(entry.name.name.as_str()).map(|(_, at)| *at));
                if let Some(first) = other {
                    self.report(
                        Diagnostic::error(
                            codes::DEFINED_TWICE,
                            entry.name.span,
                            format!("`{}` is defined twice", entry.name.name),
                        )
                        .label("all files share one namespace")
                        .related(first, "first defined here")
                        .hint("rename one of them"),
                    );
                }
                named.insert(&entry.name.name, entry);
            }
        }
        named
    }

    /// True if an entry's named chains can be expanded; reports the reason otherwise.
    fn can_be_flattened(
        &mut self,
        entry: &'a DispatchEntry,
        named: &HashMap<&'a str, &'a DispatchEntry>,
        sizes: &mut HashMap<&'a str, Size>,
    ) -> bool {
        let name = &entry.name;
        let diagnostic = match size_of(entry, named, sizes, 0) {
            Size::Listed(names, _) if names <= MAX_LISTED => return true,
            Size::Listed(..) => Diagnostic::error(
                codes::CHAIN_TOO_LARGE,
                name.span,
                format!("`{}` lists too many names", name.name),
            )
            .label(format!(
                "more than {MAX_LISTED} names, with those of the chains that it contains"
            ))
            .hint("a chain that is listed twice runs twice: list it once"),
            // If an entry lists a chain that contains itself, only that chain is reported.
            Size::Circular if !is_circular(entry, named) => return false,
            Size::Circular => {
                let message = format!("the chain `{}` contains itself", name.name);
                Diagnostic::error(codes::CHAIN_CYCLE, name.span, message)
                    .label("expected chains that do not contain each other")
            }
            Size::Deep => Diagnostic::error(
                codes::CHAIN_TOO_LARGE,
                name.span,
                format!("`{}` nests chains too deeply", name.name),
            )
            .label(format!("more than {MAX_DEPTH} chains inside each other")),
        };
        self.report(diagnostic);
        false
    }

    /// Returns the functions of an entry, with named chains expanded. A function that states no part of its
    /// own runs on that of the chain around it. The entry [can be flattened](Checker::can_be_flattened).
    fn flatten(
        &mut self,
        entry: &'a DispatchEntry,
        around: Option<&'a Ident>,
        named: &HashMap<&'a str, &'a DispatchEntry>,
        out: &mut Vec<ProcessorEntry<'a>>,
    ) {
        for listed in &entry.processors {
            let name = &listed.name;
            let part = listed.part.as_ref().or(around);
            if let Some(inner) = named.get(name.name.as_str()) {
                self.note_use(name.span, inner.name.span);
                self.flatten(inner, part, named, out);
                continue;
            }
            match self.lookup(name) {
                Some(Def::Func(func)) => {
                    self.funcs[func].in_chain = true;
                    let at = name.span;
                    out.push(ProcessorEntry { func, at, part });
                }
                Some(other) => self.error(
                    codes::NOT_A_PROCESSOR,
                    name.span,
                    format!("`{}` is {}", name.name, other.what()),
                    "expected a processor or a chain",
                ),
                None => {
                    let functions = self.funcs.iter().map(|f| f.name.name.as_str());
                    let near = self
                        .gives_hints()
                        .then(|| hawser_syntax::nearest(&name.name, functions.chain(named.keys().copied())));
                    let hint = near.flatten().map(crate::names::did_you_mean);
                    self.unknown(name, "a processor or a chain", hint);
                }
            }
        }
    }

    /// Records the uses of names in a table that is not in force.
    fn note_idle_table(&self, index: usize, named: &HashMap<&'a str, &'a DispatchEntry>) {
        for entry in self.dispatches[index].entries {
            if !entry.is_chain {
                self.lookup(&entry.name);
            }
            for listed in &entry.processors {
                let name = &listed.name;
                match named.get(name.name.as_str()) {
                    Some(chain) => self.note_use(name.span, chain.name.span),
                    None => _ = self.lookup(name),
                }
            }
        }
    }

    fn bind_entry(
        &mut self,
        entry: &'a DispatchEntry,
        named: &HashMap<&'a str, &'a DispatchEntry>,
        attachments: &mut [Attachment],
    ) {
        let event = match self.lookup(&entry.name) {
            Some(Def::Record(record)) => match self.records[record].kind {
                RecordKind::Event(index, _) => Some(index),
                _ => None,
            },
            _ => None,
        };
        let mut funcs = Vec::new();
        self.flatten(entry, None, named, &mut funcs);
        let Some(event) = event else {
            let events = self.module.events.iter().map(|e| e.name.as_str());
            let hint = self.nearest_member(&entry.name.name, events);
            self.unknown(&entry.name, "an event", hint);
            return;
        };
        if let Some(first) = self.chain_spans[event as usize] {
            self.report(
                Diagnostic::error(
                    codes::TWO_CHAINS,
                    entry.name.span,
                    format!("`{}` already has a chain", entry.name.name),
                )
                .label("an event can have one chain only")
                .related(first, "the first one")
                .hint("list all processors in one chain, in the order in which they run"),
            );
            return;
        }
        self.chain_spans[event as usize] = Some(entry.name.span);
        Self::attach(event, attachments, &mut funcs);
        self.check_chain_kinds(event, &funcs);
        let asked = self.contexts_asked_for(&funcs);
        let mut processors = Vec::new();
        for entry in &funcs {
            processors.extend(self.bind_processor(event, entry, &asked));
        }
        self.report_parts_not_met(&funcs);
        self.module.chains[event as usize].processors = processors;
    }

    /// Reports actions of functions that do not belong into a chain, or not into this one.
    fn check_chain_kinds(&mut self, event: u32, funcs: &[ProcessorEntry<'_>]) {
        let kind = self.module.events[event as usize].kind;
        for ProcessorEntry { func, at, .. } in funcs {
            let facts = self.facts[*func].clone();
            let name = self.funcs[*func].name.name.clone();
            if !matches!(
                self.funcs[*func].result,
                Type::Void | Type::InstrList | Type::Error
            ) {
                self.error(
                    codes::NOT_A_PROCESSOR,
                    *at,
                    format!("`{name}` returns a value"),
                    "expected a processor: `void` or `list<instr_t>`",
                );
                continue;
            }
            if let Some(parses) = facts.parses {
                self.report(
                    Diagnostic::error(
                        codes::PARSER_ONLY,
                        ast_span(parses),
                        "this is allowed in parsers only",
                    )
                    .label("ids and headers are settled before a chain runs")
                    .related(*at, format!("`{name}` runs in a chain")),
                );
            }
            if let (Some(refuses), true) = (facts.refuses, !matches!(kind, EventKind::App | EventKind::Net)) {
                self.report(
                    Diagnostic::error(
                        codes::REFUSE_NOT_APP,
                        ast_span(refuses),
                        "`refuse` is not allowed in this chain",
                    )
                    .label("only chains of requests and of packets may refuse")
                    .related(*at, format!("`{name}` runs in this chain"))
                    .hint("`done;` ends the chain; `return;` ends the processor"),
                );
            }
        }
    }

    pub(crate) fn is_global(&self, context: ContextId) -> bool {
        self.module.contexts[context.0 as usize].granularity == Granularity::Global
    }

    /// Computes the needs of each chain, the contexts that it creates, and the globals that it touches.
    fn bound_chains(&mut self) {
        let mut costs = Costs::new(&self.module, &self.member_size);
        let worst: Vec<_> = self
            .module
            .chains
            .iter()
            .map(|chain| costs.chain(&chain.processors))
            .collect();
        self.limit_steps(&worst);
        for (event, cost) in worst.into_iter().enumerate() {
            let Some(at) = self.chain_spans[event] else {
                continue;
            };
            let creates = self.created_context(event, at);
            if cost.creates > 1 {
                self.two_contexts(at, "one path creates more than one context");
            }
            if has_too_many_records(&cost) {
                self.error_hint(
                    codes::CHAIN_TOO_LARGE,
                    at,
                    "the chain's worst case is too large",
                    format!(
                        "up to {} records of {} bytes in all",
                        cost.records, cost.record_bytes
                    ),
                    "lower the loops' bounds, and `raise` an event to go on",
                );
            }
            let chain = &mut self.module.chains[event];
            chain.bounds = cost.bounds();
            chain.creates = creates;
            for processor in &chain.processors {
                for place in &processor.args {
                    if let Base::Global(context) = place.base
                        && !chain.globals.contains(&context)
                    {
                        chain.globals.push(context);
                    }
                }
            }
        }
    }

    /// Reports chains whose work is too much for a running stack, with the processor that does most of it.
    /// The last attachment is limited by the work that it adds, just as earlier ones were when they were
    /// attached. It is reported once, for the event at which it adds most.
    fn limit_steps(&mut self, worst: &[Cost]) {
        let mut costs = Costs::new(&self.module, &self.member_size);
        let mut diagnostics = Vec::new();
        let mut attached: Option<(u64, usize, (u64, usize))> = None;
        for ((event, cost), chain) in worst.iter().enumerate().zip(&self.module.chains) {
            let Some(at) = self.chain_spans[event].filter(|_| !has_too_many_records(cost)) else {
                continue;
            };
            let steps = |p: &ir::Processor| (costs.function(p.func).steps, p.func.0 as usize);
            let processors: Vec<_> = chain.processors.iter().map(steps).collect();
            let is_last = |file: u32| file as usize + 1 == self.files.len();
            let is_attached = |p: &&(u64, usize)| {
                let at = self.funcs[p.1].name.span;
                self.is_attached(at) && is_last(at.file)
            };
            let added = processors.iter().filter(is_attached);
            let sum = added
                .clone()
                .fold(0, |sum: u64, (steps, _)| sum.saturating_add(*steps));
            if let Some(costliest) = added.max()
                && sum > MAX_ATTACHED_STEPS
            {
                attached = attached.max(Some((sum, event, *costliest)));
            } else if let Some(costliest) = processors.iter().max()
                && cost.steps > MAX_STEPS
            {
                diagnostics.push(self.too_many_steps(at, event, cost.steps, MAX_STEPS, *costliest));
            }
        }
        if let Some((sum, event, costliest)) = attached {
            let at = self.funcs[costliest.1].name.span;
            diagnostics.push(self.too_many_steps(at, event, sum, MAX_ATTACHED_STEPS, costliest));
        }
        self.diagnostics.extend(diagnostics);
    }

    fn too_many_steps(
        &self,
        at: Span,
        event: usize,
        steps: u64,
        limit: u64,
        costliest: (u64, usize),
    ) -> Diagnostic {
        let event = &self.module.events[event].name;
        let what = if limit == MAX_STEPS {
            "the chain takes"
        } else {
            "the attachment adds"
        };
        let diagnostic = Diagnostic::error(
            codes::TOO_MANY_STEPS,
            at,
            format!("the work for one `{event}` exceeds the limit"),
        )
        .label(format!(
            "{what} up to {} steps, the limit is {}",
            in_groups(steps),
            in_groups(limit)
        ))
        .hint("lower the loops' bounds, or do a part of the work and `raise` an event for the rest");
        let func = self.funcs[costliest.1].name;
        if func.span == at {
            return diagnostic;
        }
        diagnostic.related(
            func.span,
            format!(
                "`{}` alone takes up to {} steps",
                func.name,
                in_groups(costliest.0)
            ),
        )
    }

    /// Determines the keyed contexts on which each chain can create one.
    pub(crate) fn find_creators(&mut self) {
        let of_chain = |chain: &ir::Chain| {
            let makes = |p: &&ir::Processor| !self.facts[p.func.0 as usize].creates.is_empty();
            let mut when: Vec<ir::Precondition> = Vec::new();
            for processor in chain.processors.iter().filter(makes) {
                if !when.contains(&processor.when) {
                    when.push(processor.when);
                }
            }
            when
        };
        self.module.creators = self.module.chains.iter().map(of_chain).collect();
    }

    /// Returns the single context type that a chain creates.
    fn created_context(&mut self, event: usize, at: Span) -> Option<ContextId> {
        let mut made: Option<(ContextId, ir::Span)> = None;
        let processors = &self.module.chains[event].processors;
        let all: Vec<_> = processors
            .iter()
            .flat_map(|p| self.facts[p.func.0 as usize].creates.clone())
            .collect();
        for (context, span) in all {
            if self.is_global(context) {
                let name = self.module.contexts[context.0 as usize].name.clone();
                self.error(
                    codes::NEW_CONTEXT,
                    ast_span(span),
                    format!("`{name}` is GLOBAL: it always exists"),
                    "expected a context of granularity FLOW or SHARD",
                );
                continue;
            }
            match made {
                Some((first, _)) if first != context => {
                    self.two_contexts(
                        at,
                        "the processors of this chain create contexts of different types",
                    );
                    return Some(first);
                }
                Some(_) => {}
                None => made = Some((context, span)),
            }
        }
        made.map(|(context, _)| context)
    }

    fn two_contexts(&mut self, at: Span, why: &str) {
        self.error_hint(
            codes::TWO_NEW_CONTEXTS,
            at,
            "this chain creates more than one context",
            why.to_owned(),
            "one slot is reserved before the chain runs: `raise` an event for the other",
        );
    }
}

fn has_too_many_records(cost: &Cost) -> bool {
    cost.records > MAX_RECORDS || cost.record_bytes > MAX_RECORD_BYTES
}
