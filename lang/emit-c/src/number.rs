//! Total arithmetic in C (docs/language.md, Expressions).
//!
//! The C type of a value is that of its type in memory, and the value is always reduced to its width. C
//! promotes types narrower than `int`, so results are cast back, and no signed computation can overflow.
//! `lang/ir/src/number.rs` defines the meaning.

use hawser_ir::number::ScalarShape;
use hawser_ir::{BinOp, Builtin, CmpOp, Ty, UnOp};

use crate::types::{scalar, stored};

/// Puts parentheses around an expression that is more than an operand. Generated operators have spaces around
/// them.
pub(crate) fn paren(text: &str) -> String {
    let mut depth = 0i32;
    let loose = text.bytes().any(|b| {
        match b {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b' ' if depth == 0 => return true,
            _ => {}
        }
        false
    });
    if loose {
        format!("({text})")
    } else {
        text.to_owned()
    }
}

/// Removes the parentheses around a whole expression, for places where C has parentheses of its own.
pub(crate) fn bare_condition(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return text;
    };
    let mut depth = 0i32;
    let together = inner.bytes().all(|b| {
        depth += i32::from(b == b'(') - i32::from(b == b')');
        depth >= 0
    });
    if together { inner } else { text }
}

/// Returns the width in bits of the unsigned C type for computations; at least that of `unsigned`.
fn computed(shape: ScalarShape) -> u32 {
    shape.storage().max(32)
}

/// Converts arbitrary bits in a C expression of the stored type to a value, because memory may hold values
/// that are not reduced.
pub(crate) fn reduce(text: &str, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    if *ty == Ty::Bool {
        format!("({text} != 0)")
    } else if shape.is_whole() {
        text.to_owned()
    } else {
        wrap(text, ty)
    }
}

/// Converts an integer expression whose low bits are correct to a value of the type.
pub(crate) fn wrap(text: &str, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    let name = scalar(ty);
    if *ty == Ty::Bool {
        return format!("({text} != 0)");
    }
    match (shape.signed, shape.is_whole()) {
        (false, true) | (true, true) => format!("({name}){}", paren(text)),
        (false, false) => format!("({name})({} & {})", paren(text), mask(shape.bits)),
        (true, false) => format!("({name})hw_sign((uint64_t){}, {})", paren(text), shape.bits),
    }
}

fn mask(bits: u32) -> String {
    let mask = u64::MAX >> (64 - bits.clamp(1, 64));
    if bits > 32 {
        format!("UINT64_C({mask:#x})")
    } else {
        format!("{mask:#x}u")
    }
}

/// Formats a constant with its own C type.
pub(crate) fn constant(value: u64, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    if *ty == Ty::Bool {
        return if value != 0 { "true".into() } else { "false".into() };
    }
    match (shape.signed, computed(shape)) {
        (false, 32) => format!("{value}u"),
        (false, _) => format!("UINT64_C({value})"),
        (true, bits) => match value as i64 {
            i64::MIN => "(-INT64_C(9223372036854775807) - 1)".into(),
            number if bits == 64 && number < 0 => format!("(-INT64_C({}))", number.unsigned_abs()),
            number if bits == 64 => format!("INT64_C({number})"),
            -0x8000_0000 => "(-2147483647 - 1)".into(),
            number if number < 0 => format!("({number})"),
            number => format!("{number}"),
        },
    }
}

/// Formats a constant beside an operand of its type, where C's own rules give it the right type.
pub(crate) fn bare(value: u64, ty: &Ty) -> String {
    if *ty != Ty::Bool && value <= 0x7fff_ffff {
        value.to_string()
    } else {
        constant(value, ty)
    }
}

/// Converts a value of one type to another.
pub(crate) fn cast(text: &str, from: &Ty, to: &Ty) -> String {
    if from == to {
        return text.to_owned();
    }
    if *to == Ty::Bool {
        return format!("({} != 0)", paren(text));
    }
    let (a, b) = (ScalarShape::from_type(from), ScalarShape::from_type(to));
    if stored(from) == stored(to) && *from != Ty::Bool && (a.bits <= b.bits || b.is_whole()) {
        return text.to_owned();
    }
    let fits =
        (b.is_whole() && a.signed == b.signed) || (!a.signed && a.bits < b.bits + u32::from(!b.signed));
    if fits {
        format!("({}){}", scalar(to), paren(text))
    } else {
        wrap(text, to)
    }
}

/// Arithmetic in the type's width; operands are values of the type. `divisor` is the right operand if it is
/// constant.
pub(crate) fn binary(op: BinOp, a: &str, b: &str, ty: &Ty, divisor: Option<u64>) -> String {
    let shape = ScalarShape::from_type(ty);
    match op {
        BinOp::Add => ring("+", a, b, ty),
        BinOp::Sub => ring("-", a, b, ty),
        BinOp::Mul => ring("*", a, b, ty),
        BinOp::Div => divide("div", "/", a, b, ty, divisor),
        BinOp::Rem => divide("rem", "%", a, b, ty, divisor),
        BinOp::And => bitwise("&", a, b, ty),
        BinOp::Or => bitwise("|", a, b, ty),
        BinOp::Xor => bitwise("^", a, b, ty),
        BinOp::Shl => {
            let base = format!("(uint{}_t){}", computed(shape), paren(a));
            wrap(&format!("{base} << {}", amount(b, shape, divisor)), ty)
        }
        BinOp::Shr => wrap_promoted(&format!("{} >> {}", paren(a), amount(b, shape, divisor)), ty),
    }
}

/// `+`, `-` and `*`, where the low bits of the result depend only on those of the operands.
fn ring(op: &str, a: &str, b: &str, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    let own = !shape.signed && shape.storage() >= 32;
    if own {
        let text = format!("{} {op} {}", paren(a), paren(b));
        return if shape.is_whole() { text } else { wrap(&text, ty) };
    }
    let wide = format!("(uint{}_t)", computed(shape));
    wrap(&format!("{wide}{} {op} {wide}{}", paren(a), paren(b)), ty)
}

/// Bitwise operators. Reduced operands yield reduced results, and their sign extensions agree.
fn bitwise(op: &str, a: &str, b: &str, ty: &Ty) -> String {
    wrap_promoted(&format!("{} {op} {}", paren(a), paren(b)), ty)
}

/// Casts a result of C's promoted type that is already reduced.
fn wrap_promoted(text: &str, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    if *ty == Ty::Bool {
        format!("({text} != 0)")
    } else if shape.storage() >= 32 {
        text.to_owned()
    } else {
        format!("({})({text})", scalar(ty))
    }
}

/// Returns a shift's amount, modulo the width.
fn amount(b: &str, shape: ScalarShape, known: Option<u64>) -> String {
    let bits = u64::from(shape.bits);
    if let Some(value) = known {
        let raw = value & (u64::MAX >> (64 - shape.bits));
        return (raw % bits).to_string();
    }
    if shape.bits.is_power_of_two() {
        return format!("({} & {})", paren(b), bits - 1);
    }
    let raw = if shape.signed {
        format!("hw_low((uint64_t){}, {bits})", paren(b))
    } else {
        unsigned(b, shape)
    };
    format!("({raw} % {bits})")
}

/// Returns an unsigned number for a division. C would promote a small one to `int`, and eBPF has no division
/// of those.
fn unsigned(text: &str, shape: ScalarShape) -> String {
    let cast = if shape.storage() < 32 { "(uint32_t)" } else { "" };
    format!("{cast}{}", paren(text))
}

fn divide(name: &str, op: &str, a: &str, b: &str, ty: &Ty, divisor: Option<u64>) -> String {
    let shape = ScalarShape::from_type(ty);
    match divisor {
        Some(0) => {
            return if name == "div" {
                constant(0, ty)
            } else {
                a.to_owned()
            };
        }
        Some(_) if !shape.signed => {
            return wrap_promoted(&format!("{} {op} {}", unsigned(a, shape), paren(b)), ty);
        }
        Some(_) | None => {}
    }
    let kind = match (shape.signed, shape.storage()) {
        (true, _) => "i64",
        (false, 64) => "u64",
        (false, _) => "u32",
    };
    wrap(&format!("hw_{name}_{kind}({a}, {b})"), ty)
}

/// Compares two values of a type.
pub(crate) fn compare(op: CmpOp, a: &str, b: &str, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    let plain = |op| format!("{} {op} {}", paren(a), paren(b));
    match op {
        CmpOp::Eq => plain("=="),
        CmpOp::Ne => plain("!="),
        CmpOp::Lt if shape.circular => circular("<", a, b, shape),
        CmpOp::Le if shape.circular => circular("<=", a, b, shape),
        CmpOp::Gt if shape.circular => circular("<", b, a, shape),
        CmpOp::Ge if shape.circular => circular("<=", b, a, shape),
        CmpOp::Lt => plain("<"),
        CmpOp::Le => plain("<="),
        CmpOp::Gt => plain(">"),
        CmpOp::Ge => plain(">="),
    }
}

/// `a < b` is the top bit of the difference, which is its sign in the type's width.
fn circular(op: &str, a: &str, b: &str, shape: ScalarShape) -> String {
    let difference = format!("{} - {}", paren(a), paren(b));
    if shape.is_whole() {
        format!("(int{}_t)({difference}) {op} 0", shape.bits)
    } else {
        format!("hw_sign((uint64_t)({difference}), {}) {op} 0", shape.bits)
    }
}

/// A unary operator on a value of the type.
pub(crate) fn unary(op: UnOp, a: &str, ty: &Ty) -> String {
    let shape = ScalarShape::from_type(ty);
    let wide = format!("(uint{}_t)", computed(shape));
    match op {
        UnOp::Neg => wrap(&format!("0 - {wide}{}", paren(a)), ty),
        UnOp::Not => wrap(&format!("~{wide}{}", paren(a)), ty),
        UnOp::LogicalNot => format!("!{}", paren(a)),
    }
}

/// A built-in function; `operand` is the type of its first argument.
pub(crate) fn builtin(function: Builtin, args: &[String], operand: &Ty, result: &Ty) -> String {
    let shape = ScalarShape::from_type(operand);
    let args = args.join(", ");
    let ordered = |name: &str| {
        if shape.circular {
            format!("hw_{name}_seq({args}, {})", shape.bits)
        } else if shape.signed {
            format!("hw_{name}_i64({args})")
        } else {
            format!("hw_{name}_u64({args})")
        }
    };
    let text = match function {
        Builtin::Min => ordered("min"),
        Builtin::Max => ordered("max"),
        Builtin::AbsDiff => ordered("abs_diff"),
        Builtin::SatSub => ordered("sat_sub"),
        Builtin::MulDiv if shape.signed => format!("hw_mul_div_i64({args})"),
        Builtin::MulDiv => format!("hw_mul_div_u64({args})"),
        Builtin::Unwrap => format!("hw_unwrap({args}, {})", shape.bits),
        Builtin::Cbrt => format!("hw_cbrt({args})"),
        Builtin::Sqrt => format!("hw_sqrt({args})"),
        Builtin::Clz => format!("hw_clz((uint64_t)({args}), {})", shape.bits),
        Builtin::VarintLen => format!("hw_varint_len({args})"),
    };
    let wide = matches!(
        ScalarShape::from_type(result),
        ScalarShape { bits: 64, signed: false, .. }
    );
    let signed_result = matches!(function, Builtin::Min | Builtin::Max) && shape.signed && !shape.circular;
    if wide && !signed_result {
        text
    } else {
        wrap(&text, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_bracketed_when_they_are_more_than_one() {
        assert_eq!(paren("c->snd_una"), "c->snd_una");
        assert_eq!(paren("a + b"), "(a + b)");
        assert_eq!(paren("f(a, b)"), "f(a, b)");
        assert_eq!(bare_condition("(a + b)"), "a + b");
        assert_eq!(bare_condition("(a) + (b)"), "(a) + (b)");
    }

    #[test]
    fn narrow_arithmetic_avoids_promotion_to_int() {
        assert_eq!(
            binary(BinOp::Mul, "a", "b", &Ty::uint(16), None),
            "(uint16_t)((uint32_t)a * (uint32_t)b)"
        );
        assert_eq!(binary(BinOp::Add, "a", "b", &Ty::uint(64), None), "a + b");
        let int32 = Ty::Int { bits: 32, signed: true };
        assert_eq!(
            binary(BinOp::Add, "a", "b", &int32, None),
            "(int32_t)((uint32_t)a + (uint32_t)b)"
        );
        assert_eq!(
            binary(BinOp::Add, "a", "b", &Ty::uint(24), None),
            "(uint32_t)((a + b) & 0xffffffu)"
        );
    }

    #[test]
    fn circular_order_is_the_sign_of_the_difference() {
        let seq = Ty::Seq { bits: 32 };
        assert_eq!(compare(CmpOp::Lt, "a", "b", &seq), "(int32_t)(a - b) < 0");
        assert_eq!(compare(CmpOp::Ge, "a", "b", &seq), "(int32_t)(b - a) <= 0");
    }
}
