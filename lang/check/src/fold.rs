//! Constant folding: expressions of constants become constants, with exactly their run-time meaning
//! (docs/language.md, Expressions).

use hawser_ir::{BinOp, Builtin, CmpOp, Expr, ExprKind, Ty, UnOp};

/// Reduces a register value to a type's width.
pub(crate) fn reduce(value: u64, ty: &Ty) -> u64 {
    match ty.width() {
        None | Some((64.., _)) => value,
        Some((1, false)) if *ty == Ty::Bool => u64::from(value != 0),
        Some((bits, false)) => value & ((1 << bits) - 1),
        Some((bits, true)) => (((value << (64 - bits)) as i64) >> (64 - bits)) as u64,
    }
}

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
        (Some(x), Some(y)) => constant(arithmetic(op, x, y, &ty), ty),
        _ => Expr { ty, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) },
    }
}

fn arithmetic(op: BinOp, a: u64, b: u64, ty: &Ty) -> u64 {
    let (bits, signed) = ty.width().unwrap_or((64, false));
    let shift = (b % u64::from(bits)) as u32;
    match (op, signed) {
        (BinOp::Add, _) => a.wrapping_add(b),
        (BinOp::Sub, _) => a.wrapping_sub(b),
        (BinOp::Mul, _) => a.wrapping_mul(b),
        (BinOp::Div, false) => a.checked_div(b).unwrap_or(0),
        (BinOp::Div, true) if b == 0 => 0,
        (BinOp::Div, true) => (a as i64).wrapping_div(b as i64) as u64,
        (BinOp::Rem, false) => a.checked_rem(b).unwrap_or(a),
        (BinOp::Rem, true) if b == 0 => a,
        (BinOp::Rem, true) => (a as i64).wrapping_rem(b as i64) as u64,
        (BinOp::And, _) => a & b,
        (BinOp::Or, _) => a | b,
        (BinOp::Xor, _) => a ^ b,
        (BinOp::Shl, _) => a << shift,
        (BinOp::Shr, false) => a >> shift,
        (BinOp::Shr, true) => ((a as i64) >> shift) as u64,
    }
}

/// `a op b`, both of the same type.
pub(crate) fn compare(op: CmpOp, a: Expr, b: Expr) -> Expr {
    match (value_of(&a), value_of(&b)) {
        (Some(x), Some(y)) => constant(u64::from(compares(op, x, y, &a.ty)), Ty::Bool),
        _ => Expr { ty: Ty::Bool, kind: ExprKind::Compare(op, Box::new(a), Box::new(b)) },
    }
}

fn compares(op: CmpOp, a: u64, b: u64, ty: &Ty) -> bool {
    let less = |a: u64, b: u64| match ty {
        Ty::Seq { bits } => (a.wrapping_sub(b) >> (bits - 1)) & 1 == 1,
        Ty::Int { signed: true, .. } | Ty::Enum { signed: true, .. } => (a as i64) < (b as i64),
        _ => a < b,
    };
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => less(a, b),
        CmpOp::Le => a == b || less(a, b),
        CmpOp::Gt => less(b, a),
        CmpOp::Ge => a == b || less(b, a),
    }
}

/// A unary operator; the result has the operand's type.
pub(crate) fn unary(op: UnOp, a: Expr) -> Expr {
    let ty = a.ty.clone();
    match value_of(&a) {
        Some(x) => constant(
            match op {
                UnOp::Neg => x.wrapping_neg(),
                UnOp::Not => !x,
                UnOp::LogicalNot => u64::from(x == 0),
            },
            ty,
        ),
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
    let folded = match (which, values.as_deref()) {
        (Builtin::Min, Some([a, b])) => Some(if compares(CmpOp::Lt, *a, *b, &ty) { *a } else { *b }),
        (Builtin::Max, Some([a, b])) => Some(if compares(CmpOp::Lt, *a, *b, &ty) { *b } else { *a }),
        (Builtin::SatSub, Some([a, b])) => Some(a.saturating_sub(*b)),
        (Builtin::MulDiv, Some([a, b, c])) if !matches!(ty, Ty::Int { signed: true, .. }) => {
            let product = u128::from(*a) * u128::from(*b);
            Some(product.checked_div(u128::from(*c)).unwrap_or(0) as u64)
        }
        _ => None,
    };
    match folded {
        Some(value) => constant(value, ty),
        None => Expr { ty, kind: ExprKind::Builtin(which, args) },
    }
}
