//! Walks over lowered bodies: which calls a statement makes, and what it is made of.

use hawser_ir::{
    Arg, ContainerOp, Expr, ExprKind, FuncId, IdPart, Index, Instr, Operand, Place, Query, StmtKind,
};

/// A part of a statement.
pub(crate) enum Node<'n> {
    Call(FuncId, &'n [Arg]),
    Expr(&'n Expr),
    Place(&'n Place),
}

type Visit<'v> = dyn FnMut(Node<'_>) + 'v;

/// Visits the calls in a statement itself, not those in the statements inside it.
pub(crate) fn calls(stmt: &StmtKind, visit: &mut dyn FnMut(FuncId, &[Arg])) {
    nodes(stmt, &mut |node| {
        if let Node::Call(func, args) = node {
            visit(func, args);
        }
    });
}

/// Visits each part of a statement itself, inner ones first; not the statements inside it.
pub(crate) fn nodes(stmt: &StmtKind, visit: &mut Visit<'_>) {
    match stmt {
        StmtKind::Store(p, e) | StmtKind::MakeIpv4(p, e) => {
            place(p, visit);
            expr(e, visit);
        }
        StmtKind::Copy(a, b) => {
            place(a, visit);
            place(b, visit);
        }
        StmtKind::Init(p) => place(p, visit),
        StmtKind::MakeId(p, parts) => {
            place(p, visit);
            parts.iter().for_each(|part| id_part(part, visit));
        }
        StmtKind::MakeData {
            dst,
            uid,
            off,
            len,
            seg_size,
        } => {
            place(dst, visit);
            place(uid, visit);
            [off, len, seg_size].into_iter().for_each(|e| expr(e, visit));
        }
        StmtKind::Container { op, ok } => {
            container(op, visit);
            ok.iter().for_each(|p| place(p, visit));
        }
        StmtKind::If(condition, _, _) => expr(condition, visit),
        StmtKind::For {
            var,
            from,
            to,
            max: _,
            body: _,
        } => {
            place(var, visit);
            expr(from, visit);
            expr(to, visit);
        }
        StmtKind::Break | StmtKind::Continue | StmtKind::Done | StmtKind::Drop => {}
        StmtKind::Return(value) => value.iter().for_each(|e| expr(e, visit)),
        StmtKind::Call(func, args) => call(*func, args, visit),
        StmtKind::Emit(instruction) => instr(instruction, visit),
        StmtKind::Refuse(e) | StmtKind::Assert(e, _) => expr(e, visit),
        StmtKind::Extract {
            blueprint: _,
            dst,
            ok,
        } => {
            place(dst, visit);
            ok.iter().for_each(|p| place(p, visit));
        }
        StmtKind::SetIds { event, ids } => {
            place(event, visit);
            ids.iter().for_each(|id| place(id, visit));
        }
        StmtKind::PushEvent { event: _, from } => place(from, visit),
    }
}

fn call(func: FuncId, args: &[Arg], visit: &mut Visit<'_>) {
    for arg in args {
        match arg {
            Arg::Value(e) => expr(e, visit),
            Arg::Ref(p) => place(p, visit),
        }
    }
    visit(Node::Call(func, args));
}

fn place(p: &Place, visit: &mut Visit<'_>) {
    for step in &p.steps {
        match &step.index {
            Index::At(e) | Index::Key(e, _) => expr(e, visit),
            Index::Tag(_) => {}
        }
    }
    visit(Node::Place(p));
}

fn id_part(part: &IdPart, visit: &mut Visit<'_>) {
    match part {
        IdPart::Scalar(e, _) => expr(e, visit),
        IdPart::Bytes(p) => place(p, visit),
    }
}

fn operand(x: &Operand, visit: &mut Visit<'_>) {
    match x {
        Operand::Value(e) => expr(e, visit),
        Operand::Ref(p) => place(p, visit),
    }
}

fn container(op: &ContainerOp, visit: &mut Visit<'_>) {
    match op {
        ContainerOp::PushBack(p, x) | ContainerOp::Put(p, x) => {
            place(p, visit);
            operand(x, visit);
        }
        ContainerOp::PopFront(p, to) => {
            place(p, visit);
            to.iter().for_each(|p| place(p, visit));
        }
        ContainerOp::Clear(p) => place(p, visit),
        ContainerOp::Remove(p, e) | ContainerOp::WindowSlide(p, e) => {
            place(p, visit);
            expr(e, visit);
        }
        ContainerOp::WindowSet(p, a, b) | ContainerOp::WindowUnset(p, a, b) => {
            place(p, visit);
            expr(a, visit);
            expr(b, visit);
        }
        ContainerOp::OptionAdd(p, _, member) => {
            place(p, visit);
            place(member, visit);
        }
    }
}

fn expr(e: &Expr, visit: &mut Visit<'_>) {
    match &e.kind {
        ExprKind::Const(_)
        | ExprKind::Param(_)
        | ExprKind::RuleArg(_)
        | ExprKind::Wanted(_)
        | ExprKind::Wire(_) => {}
        ExprKind::Load(p) | ExprKind::IsZero(p) => place(p, visit),
        ExprKind::Cast(a) | ExprKind::Unary(_, a) => expr(a, visit),
        ExprKind::Binary(_, a, b) | ExprKind::Compare(_, a, b) | ExprKind::And(a, b) | ExprKind::Or(a, b) => {
            expr(a, visit);
            expr(b, visit);
        }
        ExprKind::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| expr(e, visit)),
        ExprKind::Builtin(_, args) => args.iter().for_each(|e| expr(e, visit)),
        ExprKind::SameBytes(a, b) => {
            place(a, visit);
            place(b, visit);
        }
        ExprKind::Query(q) => query(q, visit),
        ExprKind::KeyedHash(keys, parts) => {
            keys.iter().for_each(|e| expr(e, visit));
            parts.iter().for_each(|part| id_part(part, visit));
        }
        ExprKind::Call(func, args) => call(*func, args, visit),
    }
    visit(Node::Expr(e));
}

fn query(q: &Query, visit: &mut Visit<'_>) {
    match q {
        Query::Len(p) | Query::HasTag(p, _) | Query::WindowHead(p) => place(p, visit),
        Query::HasKey(p, e)
        | Query::WindowIsSet(p, e)
        | Query::WindowFirstSet(p, e)
        | Query::WindowFirstUnset(p, e)
        | Query::WindowRunFrom(p, e)
        | Query::WindowRunTo(p, e) => {
            place(p, visit);
            expr(e, visit);
        }
        Query::FirstFrom(p, values) => {
            place(p, visit);
            values.iter().for_each(|e| expr(e, visit));
        }
    }
}

fn instr(instruction: &Instr, visit: &mut Visit<'_>) {
    match instruction {
        Instr::NewTxOrderedData { size, uid, addr } => {
            place(uid, visit);
            expr(size, visit);
            expr(addr, visit);
        }
        Instr::AddTxData { addr, len, uid } | Instr::RxFlushAndNotify { uid, len, addr } => {
            place(uid, visit);
            expr(addr, visit);
            expr(len, visit);
        }
        Instr::TxFlushAndNotify { uid, len } => {
            place(uid, visit);
            expr(len, visit);
        }
        Instr::DelTxOrderedData { uid } | Instr::DelRxOrderedData { uid } => place(uid, visit),
        Instr::NewRxOrderedData { size, uid, addr, cap } => {
            place(uid, visit);
            [size, addr, cap].into_iter().for_each(|e| expr(e, visit));
        }
        Instr::AddRxDataSeg { addr, len, uid, off } => {
            place(uid, visit);
            [addr, len, off].into_iter().for_each(|e| expr(e, visit));
        }
        Instr::PktGen {
            net,
            blueprint: _,
            bp,
            rules,
            queue: _,
            rank,
        } => {
            place(net, visit);
            place(bp, visit);
            rules
                .iter()
                .flat_map(|(_, args)| args)
                .for_each(|e| expr(e, visit));
            rank.iter().for_each(|e| expr(e, visit));
        }
        Instr::TimerStart { timer, index: _, dur } => {
            place(timer, visit);
            expr(dur, visit);
        }
        Instr::TimerStop { timer, index: _ } => place(timer, visit),
        Instr::NewCtx { .. } | Instr::DelCtx { .. } | Instr::QueueReset { .. } => {}
        Instr::AddId { id } | Instr::DropId { id } => place(id, visit),
        Instr::Notify {
            on: _,
            code: _,
            error,
            id,
            args,
        } => {
            error.iter().chain(args).for_each(|e| expr(e, visit));
            id.iter().for_each(|p| place(p, visit));
        }
        Instr::Raise {
            event: _,
            from,
            target,
        } => {
            place(from, visit);
            target.iter().for_each(|p| place(p, visit));
        }
        Instr::Signal { signal: _, from } => place(from, visit),
        Instr::SetQueueRate {
            queue: _,
            rate: value,
        }
        | Instr::SetQueuePrio {
            queue: _,
            prio: value,
        } => {
            expr(value, visit);
        }
        Instr::Extern { callee: _, args } => args.iter().for_each(|e| expr(e, visit)),
    }
}
