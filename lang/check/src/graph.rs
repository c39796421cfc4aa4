//! The call graph: no recursion, and the facts about a function together with all its callees.

use hawser_ir::facts::Home;
use hawser_ir::visit;
use hawser_ir::{ContextId, EventId, FuncId, Instr, Span, StmtKind};
use hawser_syntax::ast;

use crate::codes;
use crate::state::{Checker, MAX_DEPTH, MAX_SIZE, ast_span};

/// The actions of a function and its callees, each with a place for messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionFacts {
    /// An action that belongs into a chain: it issues an instruction, or ends a chain.
    pub(crate) reacts: Option<Span>,
    /// An action that belongs into a parser.
    pub(crate) parses: Option<Span>,
    pub(crate) refuses: Option<Span>,
    pub(crate) creates: Vec<(ContextId, Span)>,
    pub(crate) pushes: Vec<(EventId, Span)>,
    pub(crate) calls: Vec<FuncId>,
    /// The number of functions on the longest path of calls that begins here, this one included.
    depth: u32,
    /// The largest number of bytes that the variables of the functions on such a path take together.
    memory: u64,
}

impl Checker<'_> {
    /// Reports recursion and calls that nest too deeply, and returns false if there are any. Machine code keeps
    /// the variables of nested calls on its thread's stack, so it also reports paths of calls that need too
    /// much memory.
    pub(crate) fn calls_are_acyclic(&mut self) -> bool {
        self.facts = (0..self.module.funcs.len()).map(|f| self.own_facts(f)).collect();
        let mut state = vec![Visit::New; self.module.funcs.len()];
        for func in 0..self.module.funcs.len() {
            let mut path = Vec::new();
            if !self.visit(func, &mut state, &mut path) {
                return false;
            }
        }
        true
    }

    /// Visits depth first, so that a callee is complete before its callers add its facts to theirs.
    fn visit(&mut self, func: usize, state: &mut [Visit], path: &mut Vec<usize>) -> bool {
        match state[func] {
            Visit::Done => return true,
            Visit::New if path.len() < MAX_DEPTH as usize => {}
            Visit::New => {
                self.report_depth(func);
                return false;
            }
            Visit::Active => {
                self.report_cycle(func, path);
                return false;
            }
        }
        state[func] = Visit::Active;
        path.push(func);
        for callee in self.facts[func].calls.clone() {
            if !self.visit(callee.0 as usize, state, path) {
                return false;
            }
            let of_callee = self.facts[callee.0 as usize].clone();
            self.facts[func].add(of_callee);
        }
        if self.facts[func].depth > MAX_DEPTH {
            self.report_depth(func);
            return false;
        }
        self.check_memory(func);
        path.pop();
        state[func] = Visit::Done;
        true
    }

    fn report_cycle(&mut self, func: usize, path: &[usize]) {
        let start = path.iter().position(|f| *f == func).unwrap_or(0);
        let names = path[start..]
            .iter()
            .chain([&func])
            .map(|f| self.module.funcs[*f].name.as_str());
        let cycle = names.collect::<Vec<_>>().join(" → ");
        let at = self.name_of(func);
        self.error_hint(
            codes::RECURSION,
            at,
            "functions call each other",
            cycle,
            "a chain's worst case is known before it runs: use a bounded loop, or `raise` an event",
        );
    }

    fn report_depth(&mut self, func: usize) {
        let at = self.name_of(func);
        self.error_hint(
            codes::RECURSION,
            at,
            "calls nest too deeply",
            format!("expected at most {MAX_DEPTH} functions that call one another in turn"),
            "let the caller call them one after the other",
        );
    }

    /// Adds a function's own variables to those of its callees, and reports the innermost function that takes
    /// the sum beyond the limit.
    fn check_memory(&mut self, func: usize) {
        let (of_callees, own) = (self.facts[func].memory, u64::from(self.module.funcs[func].frame));
        let memory = of_callees + own;
        self.facts[func].memory = memory;
        // A function that is too large by itself has been reported at its variable.
        if memory <= MAX_SIZE || of_callees > MAX_SIZE || own > MAX_SIZE {
            return;
        }
        let at = self.name_of(func);
        self.error_hint(
            codes::TOO_LARGE,
            at,
            format!("this function and those that it calls have variables of {memory} bytes"),
            format!("expected at most {MAX_SIZE} bytes along nested calls"),
            "keep large values in a context or the scratchpad, and pass them by reference",
        );
    }

    /// Returns the place of a function's name.
    fn name_of(&self, func: usize) -> ast::Span {
        match self.funcs.get(func) {
            Some(decl) => decl.name.span,
            None => ast_span(self.module.funcs[func].span),
        }
    }

    fn own_facts(&self, func: usize) -> FunctionFacts {
        let mut facts = FunctionFacts { depth: 1, ..FunctionFacts::default() };
        hawser_ir::statements(&self.module.funcs[func].body, &mut |stmt| {
            let at = stmt.span;
            visit::own_calls(stmt, |callee, _| {
                if !facts.calls.contains(&callee) {
                    facts.calls.push(callee);
                }
            });
            match stmt.kind.effects().home {
                Some(Home::Chain) => _ = facts.reacts.get_or_insert(at),
                Some(Home::Parser) => _ = facts.parses.get_or_insert(at),
                None => {}
            }
            match &stmt.kind {
                StmtKind::Emit(Instr::NewCtx { context }) => facts.creates.push((*context, at)),
                StmtKind::Refuse(_) => _ = facts.refuses.get_or_insert(at),
                StmtKind::PushEvent { event, .. } => facts.pushes.push((*event, at)),
                _ => {}
            }
        });
        facts
    }
}

impl FunctionFacts {
    fn add(&mut self, other: FunctionFacts) {
        self.depth = self.depth.max(1 + other.depth);
        self.memory = self.memory.max(other.memory);
        self.reacts = self.reacts.or(other.reacts);
        self.parses = self.parses.or(other.parses);
        self.refuses = self.refuses.or(other.refuses);
        for create in other.creates {
            if !self.creates.contains(&create) {
                self.creates.push(create);
            }
        }
        for push in other.pushes {
            if !self.pushes.contains(&push) {
                self.pushes.push(push);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    Active,
    Done,
}
