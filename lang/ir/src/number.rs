//! Total arithmetic (docs/language.md, Expressions): its meaning for the interpreter, and for constants in the
//! checker. Values are 64-bit registers, with unsigned types zero-extended and signed types sign-extended from
//! their width.
//!
//! No operation traps. Circular order is that of serial numbers (RFC 1982). As [`CmpOp`] says, the antipode
//! is below on both sides.

use crate::{BinOp, Builtin, CmpOp, Ty, UnOp};

/// The properties of a scalar type that arithmetic depends on.
#[derive(Clone, Copy, Debug)]
pub struct ScalarShape {
    pub bits: u32,
    pub signed: bool,
    pub circular: bool,
}

impl ScalarShape {
    /// Returns the shape of a scalar type; it is never called for aggregates.
    #[inline]
    pub fn from_type(ty: &Ty) -> ScalarShape {
        let (bits, signed) = ty.width().unwrap_or((64, false));
        ScalarShape { bits: u32::from(bits), signed, circular: matches!(ty, Ty::Seq { .. }) }
    }

    /// Returns the size of the type in memory, in bytes.
    #[inline]
    pub fn size(self) -> usize {
        match self.bits {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            _ => 8,
        }
    }

    /// Returns the size of the type in memory, in bits.
    pub fn storage(self) -> u32 {
        8 * self.size() as u32
    }

    /// True if the type uses all bits of its memory.
    pub fn is_whole(self) -> bool {
        self.bits == self.storage()
    }

    /// Truncates to the width, then sign-extends if the type is signed.
    #[inline]
    pub fn fit(self, value: u64) -> u64 {
        let spare = 64 - self.bits.clamp(1, 64);
        if self.signed {
            ((value << spare) as i64 >> spare) as u64
        } else {
            value << spare >> spare
        }
    }

    /// Returns the value's own bits, without sign extension.
    fn raw(self, value: u64) -> u64 {
        ScalarShape { signed: false, ..self }.fit(value)
    }

    /// True if `a < b` in the type's order.
    #[inline]
    pub fn less(self, a: u64, b: u64) -> bool {
        if self.circular {
            self.fit(a.wrapping_sub(b)) >> (self.bits - 1) == 1
        } else if self.signed {
            (a as i64) < b as i64
        } else {
            a < b
        }
    }
}

/// Reduces to a type's width: truncates or extends. `Bool` becomes `value != 0`.
#[inline]
pub fn reduce(value: u64, ty: &Ty) -> u64 {
    if matches!(ty, Ty::Bool) {
        u64::from(value != 0)
    } else {
        ScalarShape::from_type(ty).fit(value)
    }
}

/// Arithmetic in the type's width.
#[inline]
pub fn binary(op: BinOp, a: u64, b: u64, ty: &Ty) -> u64 {
    let shape = ScalarShape::from_type(ty);
    let amount = || shape.raw(b) % u64::from(shape.bits);
    let value = match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div if b == 0 => 0,
        BinOp::Div if shape.signed => (a as i64).wrapping_div(b as i64) as u64,
        BinOp::Div => a / b,
        BinOp::Rem if b == 0 => a,
        BinOp::Rem if shape.signed => (a as i64).wrapping_rem(b as i64) as u64,
        BinOp::Rem => a % b,
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a << amount(),
        BinOp::Shr if shape.signed => ((a as i64) >> amount()) as u64,
        BinOp::Shr => a >> amount(),
    };
    reduce(value, ty)
}

impl CmpOp {
    /// Compares two values in their own order.
    pub fn holds<T: Ord>(self, a: T, b: T) -> bool {
        match self {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
        }
    }
}

/// Compares two values of the given type.
#[inline]
pub fn compare(op: CmpOp, a: u64, b: u64, ty: &Ty) -> bool {
    let shape = ScalarShape::from_type(ty);
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => shape.less(a, b),
        CmpOp::Le => a == b || shape.less(a, b),
        CmpOp::Gt => shape.less(b, a),
        CmpOp::Ge => a == b || shape.less(b, a),
    }
}

#[inline]
pub fn unary(op: UnOp, a: u64, ty: &Ty) -> u64 {
    match op {
        UnOp::Neg => reduce(a.wrapping_neg(), ty),
        UnOp::Not => ScalarShape::from_type(ty).fit(!a),
        UnOp::LogicalNot => u64::from(a == 0),
    }
}

/// Evaluates a function of the language over up to three scalars. `ty` is the first operand's type; the
/// caller reduces the value to the result's type.
#[inline]
pub fn builtin(function: Builtin, [a, b, c]: [u64; 3], ty: &Ty) -> u64 {
    let shape = ScalarShape::from_type(ty);
    match function {
        Builtin::Min => {
            if shape.less(a, b) {
                a
            } else {
                b
            }
        }
        Builtin::Max => {
            if shape.less(a, b) {
                b
            } else {
                a
            }
        }
        Builtin::AbsDiff => abs_diff(a, b, shape),
        Builtin::SatSub => {
            if shape.less(a, b) {
                0
            } else {
                a.wrapping_sub(b)
            }
        }
        Builtin::MulDiv => mul_div(a, b, c, shape),
        Builtin::Unwrap => unwrap(a, b, shape.bits),
        Builtin::Cbrt => cbrt(a),
        Builtin::Sqrt => a.isqrt(),
        Builtin::Clz => u64::from(shape.raw(a).leading_zeros() - (64 - shape.bits)),
        Builtin::VarintLen => varint_len(a) as u64,
    }
}

/// Returns the distance between two values; on `seq<W>`, the shorter distance around the circle.
fn abs_diff(a: u64, b: u64, shape: ScalarShape) -> u64 {
    if shape.less(a, b) {
        shape.raw(b.wrapping_sub(a))
    } else {
        shape.raw(a.wrapping_sub(b))
    }
}

/// `a * b / c` with a 128-bit intermediate product; 0 if `c` is 0.
fn mul_div(a: u64, b: u64, c: u64, shape: ScalarShape) -> u64 {
    if c == 0 {
        0
    } else if shape.signed {
        (i128::from(a as i64) * i128::from(b as i64) / i128::from(c as i64)) as u64
    } else {
        (u128::from(a) * u128::from(b) / u128::from(c)) as u64
    }
}

/// Returns the 64-bit number nearest to `near` that is congruent to the `bits`-bit `seq`. Of two equally near
/// numbers it is the higher one, as in RFC 9000, A.3.
fn unwrap(seq: u64, near: u64, bits: u32) -> u64 {
    if bits >= 64 {
        return seq;
    }
    let turn = 1i128 << bits;
    let ahead = i128::from(seq.wrapping_sub(near) & (turn as u64 - 1));
    let up = i128::from(near) + ahead;
    let down = up - turn;
    let fits_up = up <= i128::from(u64::MAX);
    if fits_up && (ahead <= turn / 2 || down < 0) {
        up as u64
    } else {
        down as u64
    }
}

/// Returns the integer part of the cube root, computed bit by bit from the top.
fn cbrt(value: u64) -> u64 {
    (0..22).rev().fold(0, |root: u64, bit| {
        let candidate = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(value) {
            candidate
        } else {
            root
        }
    })
}

/// Returns the number of bytes of a variable-length integer (RFC 9000, section 16).
#[inline]
pub fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests;
