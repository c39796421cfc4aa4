//! The common traversal of functions.
//!
//! A [`Visitor`] sees each node once, in the order of evaluation. A statement comes before its parts, and
//! operands before the place that they are stored to. An expression comes before the places and expressions
//! in it, the indices of a place before the place itself, and arguments before their call. Passes that only
//! inspect a program use this traversal; passes that translate it, node by node, have matches of their own.

use std::collections::BTreeSet;

use crate::body::{
    Arg, ContainerOp, Expr, ExprKind, IdPart, Index, Instr, Operand, Place, Query, Stmt, StmtKind,
};
use crate::module::{FuncId, Module};

/// The use that is made of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its value is used.
    Read,
    /// It is set, or a container in it is changed.
    Write,
    /// It is read, and a part of it is set. This is the case for the header of an event that is raised.
    Update,
    /// It is passed by reference; the callee decides what happens to it.
    Reference,
}

impl Access {
    /// True if the value is used by the node itself.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Access::Read | Access::Update)
    }

    /// True if the value is changed by the node itself.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Update)
    }
}

/// A visitor of the nodes of a body. By default, the methods are empty.
pub trait Visitor<'n> {
    /// A statement, before its parts and the blocks inside it.
    fn stmt(&mut self, _stmt: &'n Stmt) {}
    /// An expression, before its parts.
    fn expr(&mut self, _expr: &'n Expr) {}
    /// A place, after the expressions in its indices.
    fn place(&mut self, _place: &'n Place, _access: Access) {}
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
    Walk(v).stmt(&stmt.kind);
}

pub fn visit_expr<'n>(v: &mut (impl Visitor<'n> + ?Sized), expr: &'n Expr) {
    Walk(v).expr(expr);
}

/// Visits the places of a body, each with its kind of access.
pub fn places<'n>(stmts: &'n [Stmt], visit: impl FnMut(&'n Place, Access)) {
    struct Places<F>(F);
    impl<'n, F: FnMut(&'n Place, Access)> Visitor<'n> for Places<F> {
        fn place(&mut self, place: &'n Place, access: Access) {
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
    #[must_use]
    pub fn blocks(&self) -> [&[Stmt]; 2] {
        match self {
            StmtKind::If(_, then, otherwise) => [then, otherwise],
            StmtKind::For { body, .. } => [body, &[]],
            StmtKind::Store(..)
            | StmtKind::Copy(..)
            | StmtKind::Init(_)
            | StmtKind::MakeId(..)
            | StmtKind::MakeData { .. }
            | StmtKind::MakeIpv4(..)
            | StmtKind::Container { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(_)
            | StmtKind::Call(..)
            | StmtKind::Emit(_)
            | StmtKind::Done
            | StmtKind::Refuse(_)
            | StmtKind::Assert(..)
            | StmtKind::Extract { .. }
            | StmtKind::SetIds { .. }
            | StmtKind::PushEvent { .. }
            | StmtKind::Drop => [&[], &[]],
        }
    }
}

impl Instr {
    /// The scalar operands, in the order of evaluation.
    #[must_use]
    pub fn values(&self) -> Vec<&Expr> {
        match self {
            Instr::NewTxOrderedData { size: len, addr, .. }
            | Instr::AddTxData { addr, len, .. }
            | Instr::RxFlushAndNotify { len, addr, .. } => vec![addr, len],
            Instr::TxFlushAndNotify { len, .. } => vec![len],
            Instr::NewRxOrderedData { size: len, addr, cap: off, .. }
            | Instr::AddRxDataSeg { addr, len, off, .. } => vec![addr, len, off],
            Instr::PktGen { rules, rank, .. } => rank
                .iter()
                .chain(rules.iter().flat_map(|(_, args)| args))
                .collect(),
            Instr::TimerStart { dur, .. } => vec![dur],
            Instr::Notify { error, args, .. } => error.iter().chain(args).collect(),
            Instr::SetQueueRate { rate: value, .. } | Instr::SetQueuePrio { prio: value, .. } => vec![value],
            Instr::Extern { args, .. } => args.iter().collect(),
            Instr::DelTxOrderedData { .. }
            | Instr::DelRxOrderedData { .. }
            | Instr::TimerStop { .. }
            | Instr::NewCtx { .. }
            | Instr::DelCtx { .. }
            | Instr::AddId { .. }
            | Instr::DropId { .. }
            | Instr::Raise { .. }
            | Instr::Signal { .. }
            | Instr::QueueReset { .. } => Vec::new(),
        }
    }
}

/// The traversal itself, with one method for each kind of node.
struct Walk<'v, V: ?Sized>(&'v mut V);

impl<'n, V: Visitor<'n> + ?Sized> Walk<'_, V> {
    fn stmt(&mut self, stmt: &'n StmtKind) {
        match stmt {
            StmtKind::Store(to, value) | StmtKind::MakeIpv4(to, value) => {
                self.expr(value);
                self.place(to, Access::Write);
            }
            StmtKind::Copy(to, from) => {
                self.place(from, Access::Read);
                self.place(to, Access::Write);
            }
            StmtKind::Init(to) => self.place(to, Access::Write),
            StmtKind::MakeId(to, parts) => {
                self.id_parts(parts);
                self.place(to, Access::Write);
            }
            StmtKind::MakeData { dst, uid, off, len, seg_size } => {
                self.place(uid, Access::Read);
                self.exprs([off, len, seg_size]);
                self.place(dst, Access::Write);
            }
            StmtKind::Container { op, ok } => {
                self.container(op);
                self.places(ok, Access::Write);
            }
            StmtKind::If(condition, _, _) => self.expr(condition),
            StmtKind::For { var, from, to, max: _, body: _ } => {
                self.exprs([from, to]);
                self.place(var, Access::Write);
            }
            StmtKind::Return(value) => self.exprs(value),
            StmtKind::Call(func, args) => self.call(*func, args),
            StmtKind::Emit(instr) => self.instr(instr),
            StmtKind::Refuse(value) | StmtKind::Assert(value, _) => self.expr(value),
            StmtKind::Extract { blueprint: _, dst, ok } => {
                self.place(dst, Access::Write);
                self.places(ok, Access::Write);
            }
            StmtKind::SetIds { event, ids } => {
                self.places(ids, Access::Read);
                self.place(event, Access::Write);
            }
            StmtKind::PushEvent { event: _, from } => self.place(from, Access::Read),
            StmtKind::Break | StmtKind::Continue | StmtKind::Done | StmtKind::Drop => {}
        }
    }

    fn container(&mut self, op: &'n ContainerOp) {
        match op {
            ContainerOp::PushBack(list, element) | ContainerOp::Put(list, element) => {
                match element {
                    Operand::Value(value) => self.expr(value),
                    Operand::Ref(from) => self.place(from, Access::Read),
                }
                self.place(list, Access::Write);
            }
            ContainerOp::PopFront(list, to) => {
                self.place(list, Access::Write);
                self.places(to, Access::Write);
            }
            ContainerOp::Clear(list) => self.place(list, Access::Write),
            ContainerOp::Remove(list, value) | ContainerOp::WindowSlide(list, value) => {
                self.expr(value);
                self.place(list, Access::Write);
            }
            ContainerOp::WindowSet(window, from, to) | ContainerOp::WindowUnset(window, from, to) => {
                self.exprs([from, to]);
                self.place(window, Access::Write);
            }
            ContainerOp::OptionAdd(list, _, from) => {
                self.place(from, Access::Read);
                self.place(list, Access::Write);
            }
        }
    }

    fn instr(&mut self, instr: &'n Instr) {
        match instr {
            Instr::NewTxOrderedData { uid, .. }
            | Instr::AddTxData { uid, .. }
            | Instr::TxFlushAndNotify { uid, .. }
            | Instr::NewRxOrderedData { uid, .. }
            | Instr::AddRxDataSeg { uid, .. }
            | Instr::RxFlushAndNotify { uid, .. }
            | Instr::DelTxOrderedData { uid }
            | Instr::DelRxOrderedData { uid } => {
                self.place(&uid.id, Access::Read);
                self.places(&uid.of, Access::Read);
            }
            Instr::AddId { id: place } | Instr::DropId { id: place } | Instr::Signal { from: place, .. } => {
                self.place(place, Access::Read)
            }
            Instr::PktGen { net, bp, .. } => self.places([net, bp], Access::Read),
            Instr::Notify { id, .. } => self.places(id, Access::Read),
            Instr::Raise { from, target, .. } => {
                self.places(target, Access::Read);
                self.place(from, Access::Update);
            }
            Instr::TimerStart { timer, .. } | Instr::TimerStop { timer, .. } => {
                self.place(timer, Access::Write);
            }
            Instr::NewCtx { .. }
            | Instr::DelCtx { .. }
            | Instr::SetQueueRate { .. }
            | Instr::SetQueuePrio { .. }
            | Instr::QueueReset { .. }
            | Instr::Extern { .. } => {}
        }
        self.exprs(instr.values());
    }

    fn expr(&mut self, expr: &'n Expr) {
        self.0.expr(expr);
        match &expr.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::RuleArg(_)
            | ExprKind::Wanted(_)
            | ExprKind::Wire(_) => {}
            ExprKind::Load(place) | ExprKind::IsZero(place) => self.place(place, Access::Read),
            ExprKind::Cast(a) | ExprKind::Unary(_, a) | ExprKind::Table(_, a) => self.expr(a),
            ExprKind::Binary(_, a, b)
            | ExprKind::Compare(_, a, b)
            | ExprKind::And(a, b)
            | ExprKind::Or(a, b) => self.exprs([&**a, b]),
            ExprKind::Select(condition, a, b) => self.exprs([&**condition, a, b]),
            ExprKind::Builtin(_, args) => self.exprs(args),
            ExprKind::SameBytes(a, b) => self.places([a, b], Access::Read),
            ExprKind::Query(query) => self.query(query),
            ExprKind::KeyedHash(keys, parts) => {
                self.exprs(&**keys);
                self.id_parts(parts);
            }
            ExprKind::Call(func, args) => self.call(*func, args),
        }
    }

    fn query(&mut self, query: &'n Query) {
        match query {
            Query::Len(list) | Query::HasTag(list, _) | Query::WindowHead(list) => {
                self.place(list, Access::Read);
            }
            Query::HasKey(list, value)
            | Query::WindowIsSet(list, value)
            | Query::WindowFirstSet(list, value)
            | Query::WindowFirstUnset(list, value)
            | Query::WindowRunFrom(list, value)
            | Query::WindowRunTo(list, value) => {
                self.expr(value);
                self.place(list, Access::Read);
            }
            Query::FirstFrom(list, prefix) => {
                self.exprs(prefix);
                self.place(list, Access::Read);
            }
        }
    }

    fn call(&mut self, func: FuncId, args: &'n [Arg]) {
        for arg in args {
            match arg {
                Arg::Value(value) => self.expr(value),
                Arg::Ref(place) => self.place(place, Access::Reference),
            }
        }
        self.0.call(func, args);
    }

    fn id_parts(&mut self, parts: &'n [IdPart]) {
        for part in parts {
            match part {
                IdPart::Scalar(value, _) => self.expr(value),
                IdPart::Bytes(place) => self.place(place, Access::Read),
            }
        }
    }

    fn place(&mut self, place: &'n Place, access: Access) {
        for step in &place.steps {
            match &step.index {
                Index::At(value) | Index::Key(value, _) => self.expr(value),
                Index::Tag(_) => {}
            }
        }
        self.0.place(place, access);
    }

    fn exprs(&mut self, exprs: impl IntoIterator<Item = &'n Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn places(&mut self, places: impl IntoIterator<Item = &'n Place>, access: Access) {
        places.into_iter().for_each(|place| self.place(place, access));
    }
}
