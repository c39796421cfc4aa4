//! Rejects instructions about the chain's context that cannot be executed because there is no context.
//!
//! Every chain is walked in each case that it can meet. An instruction is rejected if it runs without a
//! context in every case. A context that may have been created on some path counts as existing.

use std::collections::{BTreeSet, HashMap};

use hawser_ir::facts::Facts;
use hawser_ir::visit;
use hawser_ir::{
    Base, Chain, EventKind, FuncId, Granularity, Instr, Module, Node, Precondition, Processor, Span, Stmt,
    StmtKind,
};

use crate::bounds::{runs, scenarios};
use crate::codes;
use crate::state::{Checker, ast_span};

/// File, offset of the first byte, offset one past the last.
type SourceRange = (u32, u32, u32);

/// A walk over the processors of one case.
struct Walk<'m> {
    module: &'m Module,
    /// True if a keyed context was found.
    keyed: bool,
    /// For a function, whether a context may exist before it, and `keyed`: whether a context may exist after it.
    known: HashMap<(FuncId, bool, bool), bool>,
    /// Instructions that have a context in some case.
    carried_out: BTreeSet<SourceRange>,
    /// Instructions that have no context in some case.
    without: BTreeSet<SourceRange>,
}

impl Checker<'_> {
    /// Reports instructions about the chain's context that never have one.
    pub(crate) fn check_subjects(&mut self) {
        let mut walk = Walk {
            module: &self.module,
            keyed: false,
            known: HashMap::new(),
            carried_out: BTreeSet::new(),
            without: BTreeSet::new(),
        };
        for (event, chain) in self.module.chains.iter().enumerate() {
            let has_keyed = may_find(&self.module, event, chain);
            for case in scenarios(&chain.processors) {
                let is_found = matches!(case, Precondition::Found(_));
                if is_found && !has_keyed {
                    continue;
                }
                walk.chain(&chain.processors, case, is_found);
                // A context of a type that the chain does not ask for can be found as well.
                if case == Precondition::NotFound && has_keyed {
                    walk.chain(&chain.processors, Precondition::Always, true);
                }
            }
        }
        let Walk { carried_out, without, .. } = walk;
        for (file, start, end) in without.difference(&carried_out) {
            let at = Span { file: *file, start: *start, end: *end };
            let message = "this instruction needs a keyed context";
            self.error_hint(
                codes::NO_CONTEXT,
                ast_span(at),
                message,
                "its chain has neither found nor created a keyed context here",
                "create the context first, or raise an event for the context: `emit raise(ev{…}, \
                         id);`",
            );
        }
    }
}

/// True if a chain can have a keyed context. It cannot if only timers of GLOBAL contexts raise its event, or
/// if its processors name only GLOBAL contexts.
fn may_find(module: &Module, event: usize, chain: &Chain) -> bool {
    if module.events[event].kind == EventKind::Timer {
        let holds = |context: &&hawser_ir::Context| {
            let mut timers = context.timers.iter();
            timers.any(|timer| timer.event.0 as usize == event)
        };
        let mut holders = module.contexts.iter().filter(holds);
        return holders.any(|context| context.granularity != Granularity::Global);
    }
    let names_others =
        chain.creates.is_some() || chain.processors.iter().any(|p| p.when != Precondition::Always);
    let is_global = |processor: &Processor| {
        let mut args = processor.args.iter();
        args.any(|place| matches!(place.base, Base::Global(_)))
    };
    names_others || !chain.processors.iter().any(is_global)
}

impl Walk<'_> {
    fn chain(&mut self, processors: &[Processor], case: Precondition, keyed: bool) {
        self.keyed = keyed;
        let running = processors.iter().filter(|processor| runs(processor.when, case));
        running.fold(false, |made, processor| self.function(processor.func, made));
    }

    /// Walks a function, and returns whether a context may have been created after it.
    fn function(&mut self, func: FuncId, made: bool) -> bool {
        let key = (func, made, self.keyed);
        if let Some(after) = self.known.get(&key) {
            return *after;
        }
        let module = self.module;
        let after = self.statements(&module.funcs[func.0 as usize].body, made);
        self.known.insert(key, after);
        after
    }

    fn statements(&mut self, stmts: &[Stmt], made: bool) -> bool {
        stmts.iter().fold(made, |made, stmt| self.statement(stmt, made))
    }

    fn statement(&mut self, stmt: &Stmt, mut made: bool) -> bool {
        visit::own_calls(stmt, |func, _| made = self.function(func, made));
        match &stmt.kind {
            StmtKind::Emit(Instr::NewCtx { .. }) => true,
            StmtKind::Emit(instr) => {
                if is_about_context(instr) {
                    let span = (stmt.span.file, stmt.span.start, stmt.span.end);
                    let seen = match self.keyed || made {
                        true => &mut self.carried_out,
                        false => &mut self.without,
                    };
                    seen.insert(span);
                }
                made
            }
            other => {
                let ways = other.blocks().map(|block| self.statements(block, made));
                ways.contains(&true)
            }
        }
    }
}

/// True if an instruction is about the chain's context without naming it in another way.
fn is_about_context(instr: &Instr) -> bool {
    struct Found(bool);
    impl Facts<'_> for Found {
        fn about_context(&mut self) {
            self.0 = true;
        }
    }
    let mut found = Found(false);
    instr.facts(&mut found);
    found.0
}
