//! Constant folding: expressions of constants become constants, with exactly their run-time meaning
//! (docs/language.md, Expressions).

use hawser_ir::number::{self, reduce};
use hawser_ir::{BinOp, Builtin, CmpOp, Expr, ExprKind, Ty, UnOp};

pub(crate) fn constant(value: u64, ty: Ty) -> Expr {
    Expr { kind: ExprKind::Const(reduce(value, &ty)), ty }
}

/// Returns the value of a constant.
pub(crate) fn value_of(expr: &Expr) -> Option<u64> {
    match expr.kind {
        ExprKind::Const(value) => Some(value),
        _ => None,
    }
}

/// Converts an expression, if that is necessary.
pub(crate) fn cast(expr: Expr, ty: &Ty) -> Expr {
    if expr.ty == *ty {
        return expr;
    }
    match value_of(&expr) {
        Some(value) => constant(value, ty.clone()),
        None => Expr { ty: ty.clone(), kind: ExprKind::Cast(Box::new(expr)) },
    }
}

/// `a op b`, both of type `ty`.
pub(crate) fn binary(op: BinOp, a: Expr, b: Expr, ty: Ty) -> Expr {
    match (value_of(&a), value_of(&b)) {
        (Some(x), Some(y)) => constant(number::binary(op, x, y, &ty), ty),
        _ => Expr { ty, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) },
    }
}

/// `a op b`, both of the same type.
pub(crate) fn compare(op: CmpOp, a: Expr, b: Expr) -> Expr {
    match (value_of(&a), value_of(&b)) {
        (Some(x), Some(y)) => constant(u64::from(number::compare(op, x, y, &a.ty)), Ty::Bool),
        _ => Expr { ty: Ty::Bool, kind: ExprKind::Compare(op, Box::new(a), Box::new(b)) },
    }
}

/// A unary operator; the result has the operand's type.
pub(crate) fn unary(op: UnOp, a: Expr) -> Expr {
    let ty = a.ty.clone();
    match value_of(&a) {
        Some(x) => constant(number::unary(op, x, &ty), ty),
        None => Expr { ty, kind: ExprKind::Unary(op, Box::new(a)) },
    }
}

/// `a && b`
pub(crate) fn and(a: Expr, b: Expr) -> Expr {
    match value_of(&a) {
        Some(0) => a,
        Some(_) => b,
        None => Expr { ty: Ty::Bool, kind: ExprKind::And(Box::new(a), Box::new(b)) },
    }
}

/// `a || b`
pub(crate) fn or(a: Expr, b: Expr) -> Expr {
    match value_of(&a) {
        Some(0) => b,
        Some(_) => a,
        None => Expr { ty: Ty::Bool, kind: ExprKind::Or(Box::new(a), Box::new(b)) },
    }
}

/// `c ? a : b`, both of one type.
pub(crate) fn select(c: Expr, a: Expr, b: Expr) -> Expr {
    match value_of(&c) {
        Some(0) => b,
        Some(_) => a,
        None => Expr {
            ty: a.ty.clone(),
            kind: ExprKind::Select(Box::new(c), Box::new(a), Box::new(b)),
        },
    }
}

/// Calls a builtin; common ones fold if their arguments are constants.
pub(crate) fn builtin(which: Builtin, args: Vec<Expr>, ty: Ty) -> Expr {
    let values: Option<Vec<u64>> = args.iter().map(value_of).collect();
    let operands = match (which, values.as_deref()) {
        (Builtin::Min | Builtin::Max | Builtin::SatSub, Some([a, b])) => Some([*a, *b, 0]),
        (Builtin::MulDiv, Some([a, b, c])) => Some([*a, *b, *c]),
        _ => None,
    };
    match operands {
        Some(operands) => constant(number::builtin(which, operands, &args[0].ty), ty),
        None => Expr { ty, kind: ExprKind::Builtin(which, args) },
    }
}
