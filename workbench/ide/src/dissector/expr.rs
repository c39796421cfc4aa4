//! Expressions over a header, as Lua.
//!
//! Numbers of Lua 5.2 are doubles, which are exact for integers up to 2^53. Values that decide the shape of a
//! header stay far below that.

use hawser_ir::{Base, BinOp, Builtin, CmpOp, Expr, ExprKind, Module, Ty, UnOp, WireFact};

/// Translates an expression over a header into Lua, or returns `None` if it uses anything else. In the Lua
/// code, `m` holds the values read so far, by their place in memory; `at` is the header's place there; `f`
/// holds lengths. Truth values are 0 and 1, as in the language.
pub(crate) fn value(module: &Module, expr: &Expr) -> Option<String> {
    let leaf = |kind: &ExprKind| match kind {
        ExprKind::Load(place) if place.base == Base::Blueprint && place.steps.is_empty() => {
            Some(format!("(m[at + {}] or 0)", place.offset))
        }
        ExprKind::Wire(WireFact::TotalLen) => Some("f.total".to_owned()),
        ExprKind::Wire(WireFact::HeaderLen) => Some("f.header".to_owned()),
        ExprKind::Wire(WireFact::DataLen) => Some("f.data".to_owned()),
        _ => None, // The shape of a header depends on nothing else.
    };
    value_over(module, expr, &leaf)
}

/// Translates an expression whose loads, and all other values from outside, `leaf` translates.
pub(crate) fn value_over(
    module: &Module,
    expr: &Expr,
    leaf: &dyn Fn(&ExprKind) -> Option<String>,
) -> Option<String> {
    let of = |expr: &Expr| value_over(module, expr, leaf);
    let truth = |text: String| format!("truth({text})");
    Some(match &expr.kind {
        ExprKind::Const(value) => value.to_string(),
        ExprKind::Param(index) => module.params.get(*index as usize)?.default.to_string(),
        ExprKind::Cast(inner) => cast(&of(inner)?, &expr.ty),
        ExprKind::Binary(op, a, b) => binary(*op, &of(a)?, &of(b)?, &expr.ty)?,
        ExprKind::Compare(op, a, b) => {
            if matches!(a.ty, Ty::Seq { .. }) && !matches!(op, CmpOp::Eq | CmpOp::Ne) {
                return None; // circular order
            }
            let op = match op {
                CmpOp::Eq => "==",
                CmpOp::Ne => "~=",
                CmpOp::Lt => "<",
                CmpOp::Le => "<=",
                CmpOp::Gt => ">",
                CmpOp::Ge => ">=",
            };
            truth(format!("{} {op} {}", of(a)?, of(b)?))
        }
        ExprKind::Unary(UnOp::LogicalNot, a) => truth(format!("{} == 0", of(a)?)),
        ExprKind::And(a, b) => truth(format!("{} ~= 0 and {} ~= 0", of(a)?, of(b)?)),
        ExprKind::Or(a, b) => truth(format!("{} ~= 0 or {} ~= 0", of(a)?, of(b)?)),
        ExprKind::Select(c, a, b) => format!("select_({}, {}, {})", of(c)?, of(a)?, of(b)?),
        ExprKind::Builtin(Builtin::Min, args) => {
            format!("math.min({}, {})", of(args.first()?)?, of(args.get(1)?)?)
        }
        ExprKind::Builtin(Builtin::Max, args) => {
            format!("math.max({}, {})", of(args.first()?)?, of(args.get(1)?)?)
        }
        other => leaf(other)?,
    })
}

/// Unsigned types wrap. For signed types, the result is correct only if the value fits.
fn cast(inner: &str, ty: &Ty) -> String {
    match ty {
        Ty::Bool => format!("truth({inner} ~= 0)"),
        _ => match ty.width() {
            Some((bits @ 0..=52, false)) => format!("({inner}) % {}", 1_u64 << bits),
            _ => format!("({inner})"),
        },
    }
}

fn binary(op: BinOp, a: &str, b: &str, ty: &Ty) -> Option<String> {
    let text = match op {
        BinOp::Add => format!("({a} + {b})"),
        BinOp::Sub => format!("({a} - {b})"),
        BinOp::Mul => format!("({a} * {b})"),
        BinOp::Div => format!("divided({a}, {b})"),
        BinOp::Rem => format!("remainder({a}, {b})"),
        BinOp::And => format!("bit32.band({a}, {b})"),
        BinOp::Or => format!("bit32.bor({a}, {b})"),
        BinOp::Xor => format!("bit32.bxor({a}, {b})"),
        BinOp::Shl => format!("({a} * 2 ^ ({b}))"),
        BinOp::Shr => format!("math.floor({a} / 2 ^ ({b}))"),
    };
    let narrow = ty.width().is_some_and(|(bits, _)| bits <= 32);
    let is_bitwise = matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
    (narrow || !is_bitwise).then(|| cast(&text, ty))
}
