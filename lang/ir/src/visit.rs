//! The common traversal of functions.
//!
//! A [`Visitor`] sees each node once, in the order of evaluation. A statement comes before its parts, and
//! operands before the place that they are stored to. An expression comes before the places and expressions
//! in it, the indices of a place before the place itself, and arguments before their call. Passes that only
//! inspect a program use this traversal, which is made from the facts of the nodes ([`crate::facts`]); passes
//! that translate it, node by node, have matches of their own.

use std::collections::BTreeSet;

use crate::body::{Arg, Expr, Place, Stmt, StmtKind};
pub use crate::facts::PlaceAccess;
use crate::facts::{Exit, Facts, Home, Node};
use crate::module::{FuncId, Module};

/// A visitor of the nodes of a body. By default, the methods are empty.
pub trait Visitor<'n> {
    /// Any node, by its kind and name, before its parts.
    fn node(&mut self, _kind: &'static str, _name: &'static str) {}
    /// A statement, before its parts and the blocks inside it.
    fn stmt(&mut self, _stmt: &'n Stmt) {}
    /// An expression, before its parts.
    fn expr(&mut self, _expr: &'n Expr) {}
    /// A place, after the expressions in its indices.
    fn place(&mut self, _place: &'n Place, _access: PlaceAccess) {}
    /// A call, after its arguments.
    fn call(&mut self, _func: FuncId, _args: &'n [Arg]) {}
}

/// Visits statements and the statements nested in them.
pub fn visit_block<'n>(v: &mut (impl Visitor<'n> + ?Sized), stmts: &'n [Stmt]) {
    for stmt in stmts {
        visit_own(v, stmt);
        for block in stmt.kind.blocks() {
            visit_block(v, block);
        }
    }
}

/// Visits a statement, but not the blocks inside it.
pub fn visit_own<'n>(v: &mut (impl Visitor<'n> + ?Sized), stmt: &'n Stmt) {
    v.stmt(stmt);
    visit_node(v, &stmt.kind);
}

pub fn visit_expr<'n>(v: &mut (impl Visitor<'n> + ?Sized), expr: &'n Expr) {
    Walk(v).value(expr);
}

/// Visits a node and its parts, but not the blocks inside it.
pub fn visit_node<'n>(v: &mut (impl Visitor<'n> + ?Sized), node: &'n impl Node) {
    Walk(v).node(node);
}

/// Visits the places of a body, each with its kind of access.
pub fn places<'n>(stmts: &'n [Stmt], visit: impl FnMut(&'n Place, PlaceAccess)) {
    struct Places<F>(F);
    impl<'n, F: FnMut(&'n Place, PlaceAccess)> Visitor<'n> for Places<F> {
        fn place(&mut self, place: &'n Place, access: PlaceAccess) {
            self.0(place, access);
        }
    }
    visit_block(&mut Places(visit), stmts);
}

/// Visits the calls in a statement itself, but not those in the blocks inside it.
pub fn own_calls<'n>(stmt: &'n Stmt, visit: impl FnMut(FuncId, &'n [Arg])) {
    visit_own(&mut Calls(visit), stmt);
}

/// Returns the functions that a body calls, one entry for each call.
#[must_use]
pub fn callees(stmts: &[Stmt]) -> Vec<FuncId> {
    let mut found = Vec::new();
    visit_block(&mut Calls(|func, _: &[Arg]| found.push(func)), stmts);
    found
}

/// Returns a function and all functions that it calls, directly or indirectly.
#[must_use]
pub fn reached(module: &Module, func: FuncId) -> BTreeSet<FuncId> {
    let mut found = BTreeSet::from([func]);
    let mut open = vec![func];
    while let Some(func) = open.pop() {
        let called = callees(&module.funcs[func.0 as usize].body);
        open.extend(called.into_iter().filter(|func| found.insert(*func)));
    }
    found
}

struct Calls<F>(F);

impl<'n, F: FnMut(FuncId, &'n [Arg])> Visitor<'n> for Calls<F> {
    fn call(&mut self, func: FuncId, args: &'n [Arg]) {
        self.0(func, args);
    }
}

/// Visits every statement, outer statements first, without their parts.
pub fn statements<'n>(stmts: &'n [Stmt], visit: &mut dyn FnMut(&'n Stmt)) {
    for stmt in stmts {
        visit(stmt);
        for block in stmt.kind.blocks() {
            statements(block, visit);
        }
    }
}

impl StmtKind {
    /// Returns the blocks inside a statement.
    #[must_use]
    pub fn blocks(&self) -> [&[Stmt]; 2] {
        struct Blocks<'n>(usize, [&'n [Stmt]; 2]);
        impl<'n> Facts<'n> for Blocks<'n> {
            fn block(&mut self, stmts: &'n [Stmt]) {
                self.1[self.0] = stmts;
                self.0 += 1;
            }
        }
        let mut found = Blocks(0, [&[], &[]]);
        self.facts(&mut found);
        found.1
    }

    /// Returns the effects of a statement itself, without those of the blocks inside it.
    #[must_use]
    pub fn effects(&self) -> StmtEffects {
        let mut effects = StmtEffects::default();
        self.facts(&mut effects);
        effects
    }
}

/// The effects of a statement other than on places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StmtEffects {
    /// The destination of a statement that never continues with the next one.
    pub exit: Option<Exit>,
    /// True if it may end the chain or the parser.
    pub may_end: bool,
    /// True if it does more than change places and calls functions.
    pub acts: bool,
    /// The only place where it may stand.
    pub home: Option<Home>,
}

impl Facts<'_> for StmtEffects {
    fn exit(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.may_end |= exit == Exit::Run;
        self.acts |= exit == Exit::Run;
    }

    fn may_refuse(&mut self) {
        self.may_end = true;
        self.acts = true;
    }

    fn acts(&mut self) {
        self.acts = true;
    }

    fn only_in(&mut self, home: Home) {
        self.home = Some(home);
    }
}

/// The traversal itself.
struct Walk<'v, V: ?Sized>(&'v mut V);

impl<'n, V: Visitor<'n> + ?Sized> Facts<'n> for Walk<'_, V> {
    fn value(&mut self, value: &'n Expr) {
        self.0.expr(value);
        self.node(&value.kind);
    }

    fn place(&mut self, place: &'n Place, access: PlaceAccess) {
        self.nodes(place.steps.iter().map(|step| &step.index));
        self.node(&place.base);
        self.0.place(place, access);
    }

    fn call(&mut self, func: FuncId, args: &'n [Arg]) {
        self.nodes(args);
        self.0.call(func, args);
    }

    fn node<N: Node>(&mut self, node: &'n N) {
        self.0.node(N::KIND, node.name());
        node.facts(self);
    }
}
