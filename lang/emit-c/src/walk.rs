//! Visits everything that a statement or an expression is made of.

use hawser_ir::{
    Arg, ContainerOp, Expr, ExprKind, FuncId, IdPart, Index, Instr, Operand, Place, Query, Stmt, StmtKind,
};

/// What is done to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Something that wants to see places and calls. Arguments passed by reference are not reported as
/// places: what becomes of them is the callee's matter.
pub(crate) trait Visitor {
    fn place(&mut self, place: &Place, how: Use);
    fn call(&mut self, func: FuncId, args: &[Arg]);
    /// An expression, before its parts.
    fn expr(&mut self, _expr: &Expr) {}
}

/// Visits statements and those inside them.
pub(crate) fn block(v: &mut dyn Visitor, stmts: &[Stmt]) {
    stmts.iter().for_each(|stmt| whole(v, stmt));
}

/// Visits a statement and those inside it.
pub(crate) fn whole(v: &mut dyn Visitor, stmt: &Stmt) {
    own(v, stmt);
    stmt.kind.blocks().into_iter().for_each(|inside| block(v, inside));
}

/// Visits a statement, but not the blocks inside it.
pub(crate) fn own(v: &mut dyn Visitor, stmt: &Stmt) {
    match &stmt.kind {
        StmtKind::Store(to, value) | StmtKind::MakeIpv4(to, value) => {
            expr(v, value);
            place(v, to, Use::Write);
        }
        StmtKind::Copy(to, from) => {
            place(v, from, Use::Read);
            place(v, to, Use::Write);
        }
        StmtKind::Init(to) => place(v, to, Use::Write),
        StmtKind::MakeId(to, parts) => {
            parts.iter().for_each(|p| part(v, p));
            place(v, to, Use::Write);
        }
        StmtKind::MakeData {
            dst,
            uid,
            off,
            len,
            seg_size,
        } => {
            place(v, uid, Use::Read);
            [off, len, seg_size].into_iter().for_each(|e| expr(v, e));
            place(v, dst, Use::Write);
        }
        StmtKind::Container { op, ok } => {
            container(v, op);
            ok.iter().for_each(|p| place(v, p, Use::Write));
        }
        StmtKind::If(condition, ..) => expr(v, condition),
        StmtKind::For { var, from, to, .. } => {
            expr(v, from);
            expr(v, to);
            place(v, var, Use::Write);
        }
        StmtKind::Return(value) => value.iter().for_each(|e| expr(v, e)),
        StmtKind::Call(func, args) => call(v, *func, args),
        StmtKind::Emit(instr) => instruction(v, instr),
        StmtKind::Refuse(e) | StmtKind::Assert(e, _) => expr(v, e),
        StmtKind::Extract { dst, ok, .. } => {
            place(v, dst, Use::Write);
            ok.iter().for_each(|p| place(v, p, Use::Write));
        }
        StmtKind::SetIds { event, ids } => {
            ids.iter().for_each(|p| place(v, p, Use::Read));
            place(v, event, Use::Write);
        }
        StmtKind::PushEvent { from, .. } => place(v, from, Use::Read),
        StmtKind::Break | StmtKind::Continue | StmtKind::Done | StmtKind::Drop => {}
    }
}

fn container(v: &mut dyn Visitor, op: &ContainerOp) {
    match op {
        ContainerOp::PushBack(list, x) | ContainerOp::Put(list, x) => {
            match x {
                Operand::Value(e) => expr(v, e),
                Operand::Ref(p) => place(v, p, Use::Read),
            }
            place(v, list, Use::Write);
        }
        ContainerOp::PopFront(list, to) => {
            place(v, list, Use::Write);
            to.iter().for_each(|p| place(v, p, Use::Write));
        }
        ContainerOp::Clear(list) => place(v, list, Use::Write),
        ContainerOp::Remove(list, key) | ContainerOp::WindowSlide(list, key) => {
            expr(v, key);
            place(v, list, Use::Write);
        }
        ContainerOp::WindowSet(window, a, b) | ContainerOp::WindowUnset(window, a, b) => {
            expr(v, a);
            expr(v, b);
            place(v, window, Use::Write);
        }
        ContainerOp::OptionAdd(list, _, from) => {
            place(v, from, Use::Read);
            place(v, list, Use::Write);
        }
    }
}

fn instruction(v: &mut dyn Visitor, instr: &Instr) {
    let mut read = |p: &Place| place(v, p, Use::Read);
    match instr {
        Instr::NewTxOrderedData { uid, .. }
        | Instr::AddTxData { uid, .. }
        | Instr::TxFlushAndNotify { uid, .. }
        | Instr::NewRxOrderedData { uid, .. }
        | Instr::AddRxDataSeg { uid, .. }
        | Instr::RxFlushAndNotify { uid, .. }
        | Instr::DelTxOrderedData { uid }
        | Instr::DelRxOrderedData { uid } => read(uid),
        Instr::PktGen { net, bp, .. } => {
            read(net);
            read(bp);
        }
        Instr::AddId { id } | Instr::DropId { id } => read(id),
        Instr::Notify { id, .. } => id.iter().for_each(read),
        Instr::Raise { from, target, .. } => {
            target.iter().for_each(read);
            // The event's number is put into its header.
            place(v, from, Use::Read);
            place(v, from, Use::Write);
        }
        Instr::Signal { from, .. } => read(from),
        Instr::TimerStart { timer, .. } | Instr::TimerStop { timer, .. } => place(v, timer, Use::Write),
        Instr::NewCtx { .. }
        | Instr::DelCtx { .. }
        | Instr::SetQueueRate { .. }
        | Instr::SetQueuePrio { .. }
        | Instr::QueueReset { .. }
        | Instr::Extern { .. } => {}
    }
    instruction_values(instr).into_iter().for_each(|e| expr(v, e));
}

/// The scalar operands of an instruction, in the order in which they are evaluated.
pub(crate) fn instruction_values(instr: &Instr) -> Vec<&Expr> {
    match instr {
        Instr::NewTxOrderedData { size: len, addr, .. }
        | Instr::AddTxData { addr, len, .. }
        | Instr::RxFlushAndNotify { len, addr, .. } => vec![addr, len],
        Instr::TxFlushAndNotify { len, .. } => vec![len],
        Instr::NewRxOrderedData {
            size: len,
            addr,
            cap: off,
            ..
        }
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

/// Visits an expression.
pub(crate) fn expr(v: &mut dyn Visitor, e: &Expr) {
    v.expr(e);
    match &e.kind {
        ExprKind::Const(_)
        | ExprKind::Param(_)
        | ExprKind::RuleArg(_)
        | ExprKind::Wanted(_)
        | ExprKind::Wire(_) => {}
        ExprKind::Load(p) | ExprKind::IsZero(p) => place(v, p, Use::Read),
        ExprKind::Cast(a) | ExprKind::Unary(_, a) => expr(v, a),
        ExprKind::Binary(_, a, b) | ExprKind::Compare(_, a, b) | ExprKind::And(a, b) | ExprKind::Or(a, b) => {
            expr(v, a);
            expr(v, b);
        }
        ExprKind::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| expr(v, e)),
        ExprKind::Builtin(_, args) => args.iter().for_each(|e| expr(v, e)),
        ExprKind::SameBytes(a, b) => {
            place(v, a, Use::Read);
            place(v, b, Use::Read);
        }
        ExprKind::Query(q) => query(v, q),
        ExprKind::KeyedHash(keys, parts) => {
            keys.iter().for_each(|e| expr(v, e));
            parts.iter().for_each(|p| part(v, p));
        }
        ExprKind::Call(func, args) => call(v, *func, args),
    }
}

fn query(v: &mut dyn Visitor, q: &Query) {
    match q {
        Query::Len(p) | Query::HasTag(p, _) | Query::WindowHead(p) => place(v, p, Use::Read),
        Query::HasKey(p, e)
        | Query::WindowIsSet(p, e)
        | Query::WindowFirstSet(p, e)
        | Query::WindowFirstUnset(p, e)
        | Query::WindowRunFrom(p, e)
        | Query::WindowRunTo(p, e) => {
            expr(v, e);
            place(v, p, Use::Read);
        }
        Query::FirstFrom(p, prefix) => {
            place(v, p, Use::Read);
            prefix.iter().for_each(|e| expr(v, e));
        }
    }
}

fn part(v: &mut dyn Visitor, p: &IdPart) {
    match p {
        IdPart::Scalar(e, _) => expr(v, e),
        IdPart::Bytes(p) => place(v, p, Use::Read),
    }
}

fn call(v: &mut dyn Visitor, func: FuncId, args: &[Arg]) {
    for arg in args {
        match arg {
            Arg::Value(e) => expr(v, e),
            Arg::Ref(p) => indices(v, p),
        }
    }
    v.call(func, args);
}

fn place(v: &mut dyn Visitor, p: &Place, how: Use) {
    indices(v, p);
    v.place(p, how);
}

fn indices(v: &mut dyn Visitor, p: &Place) {
    for step in &p.steps {
        match &step.index {
            Index::At(e) | Index::Key(e, _) => expr(v, e),
            Index::Tag(_) => {}
        }
    }
}
