//! Binary operators: their operand types, and the width at which they are computed.

use hawser_ir as ir;
use hawser_ir::{BinOp, CmpOp, Expr, Place, Ty};
use hawser_syntax::ast::{self, BinOp as Op, Span};

use crate::body::Body;
use crate::codes;
use crate::convert::{How, Value};
use crate::fold;

impl<'a> Body<'_, 'a> {
    pub(crate) fn binary(
        &mut self,
        op: Op,
        a: &'a ast::Expr,
        b: &'a ast::Expr,
        want: Option<&Ty>,
        at: Span,
    ) -> Value {
        match op {
            Op::And | Op::Or => {
                self.warn_of_repeated_operand(op == Op::And, a, b);
                return self.logical(op == Op::And, a, b);
            }
            _ => {}
        }
        let comparison = comparison(op);
        let want = if comparison.is_some() { None } else { want };
        let left = self.value(a, want);
        let right = self.value(
            b,
            if matches!(op, Op::Shl | Op::Shr) {
                None
            } else {
                want
            },
        );
        if matches!(left, Value::Error) || matches!(right, Value::Error) {
            return Value::Error;
        }
        match comparison {
            Some(comparison) => self.compare(comparison, left, right, a.span, b.span, at),
            None => self.arithmetic(op, left, right, want, [a.span, b.span, at]),
        }
    }

    /// Lowers an arithmetic operator on lowered operands. `spans` are those of the operands and of the whole
    /// expression.
    pub(crate) fn arithmetic(
        &mut self,
        op: Op,
        left: Value,
        right: Value,
        want: Option<&Ty>,
        spans: [Span; 3],
    ) -> Value {
        let [left_at, right_at, at] = spans;
        if op == Op::Sub {
            self.ck.warn_of_same_sides(left_at, right_at);
        }
        if let (Value::Literal { value: a, .. }, Value::Literal { value: b, .. }) = (&left, &right) {
            self.warn_of_division(op, u64::try_from(*b).ok(), at);
            return match literal_arithmetic(op, *a, *b) {
                Some(value) => Value::Literal { value, mask: false },
                None => {
                    self.error(
                        codes::LITERAL,
                        at,
                        "this constant exceeds 64 bits",
                        "expected a smaller value",
                    );
                    Value::Error
                }
            };
        }
        let Some(ir_op) = arithmetic_op(op) else {
            return Value::Error;
        };
        if let Some(named) = [&left, &right].into_iter().find_map(enum_of) {
            return self.no_arithmetic(op, &named, at);
        }
        if matches!(op, Op::Shl | Op::Shr) {
            return self.shift(op, ir_op, left, right, want, spans);
        }
        // A literal or `INF` takes the other operand's type, except for a plain factor beside a duration.
        let (left, right) = match (untyped(&left), untyped(&right)) {
            (true, true) => (self.scalar(left, left_at), self.scalar(right, right_at)),
            (true, false) => {
                let right = self.scalar(right, right_at);
                let ty = right
                    .as_ref()
                    .map(|e| widened(literal_type(op, &e.ty, true), &left));
                (ty.map(|ty| self.convert(left, &ty, How::Pass, left_at)), right)
            }
            (false, true) => {
                let left = self.scalar(left, left_at);
                let ty = left
                    .as_ref()
                    .map(|e| widened(literal_type(op, &e.ty, false), &right));
                (left, ty.map(|ty| self.convert(right, &ty, How::Pass, right_at)))
            }
            (false, false) => (self.scalar(left, left_at), self.scalar(right, right_at)),
        };
        let (Some(left), Some(right)) = (left, right) else {
            return Value::Error;
        };
        self.warn_of_division(op, fold::value_of(&right), at);
        match operand_types(op, &left.ty, &right.ty) {
            Some((operands, result)) => {
                let (left, right) = (fold::cast(left, &operands), fold::cast(right, &operands));
                self.warn_of_narrow(op, &left, &right, want, at);
                let raw = fold::binary(ir_op, left, right, operands);
                Value::Scalar(fold::cast(raw, &result))
            }
            None => self.operands_differ(op, &left.ty, &right.ty, at),
        }
    }

    fn no_arithmetic(&mut self, op: Op, named: &Ty, at: Span) -> Value {
        let found = self.ck.show(named);
        let integer = named
            .width()
            .map(|(bits, signed)| self.ck.show(&Ty::Int { bits, signed }));
        self.error_hint(
            codes::OPERATOR,
            at,
            format!("`{}` does not take {found}, which is an enum", symbol(op)),
            "expected numbers",
            format!(
                "`{}(x)` converts it to a number, `{found}(n)` converts a number",
                integer.unwrap_or_default()
            ),
        );
        Value::Error
    }

    fn operands_differ(&mut self, op: Op, left: &Ty, right: &Ty, at: Span) -> Value {
        let (left_name, right_name) = (self.ck.show(left), self.ck.show(right));
        match (left, right) {
            (Ty::Int { .. }, Ty::Int { .. }) => self.error_hint(
                codes::NEEDS_CAST,
                at,
                format!("signed and unsigned operands: {left_name} and {right_name}"),
                "neither type holds all values of the other",
                "cast one of them: `int64(x)`, `uint32(x)`",
            ),
            (Ty::Seq { .. }, Ty::Int { .. } | Ty::Seq { .. }) | (Ty::Int { .. }, Ty::Seq { .. }) => self
                .error_hint(
                    codes::OPERATOR,
                    at,
                    format!("`{}` does not take {left_name} and {right_name}", symbol(op)),
                    "a sequence number takes `+ n`, `- n`, and `-` of its own type",
                    "cast it to a number first: `uint32(x)`",
                ),
            (Ty::Duration | Ty::Time, _) | (_, Ty::Duration | Ty::Time) => self.error_hint(
                codes::OPERATOR,
                at,
                format!("`{}` does not take {left_name} and {right_name}", symbol(op)),
                "times take `- time`, `+ duration`, `- duration`; durations also `* n`, `/ n`, `/ duration`",
                "`uint64(d)` is a duration in nanoseconds, `duration_t(n)` makes one",
            ),
            _ => self.error(
                codes::OPERATOR,
                at,
                format!("`{}` does not take {left_name} and {right_name}", symbol(op)),
                "expected numbers",
            ),
        }
        Value::Error
    }

    fn shift(
        &mut self,
        written: Op,
        op: BinOp,
        left: Value,
        right: Value,
        want: Option<&Ty>,
        [left_at, right_at, at]: [Span; 3],
    ) -> Value {
        let left = match want {
            Some(ty @ (Ty::Int { .. } | Ty::Duration)) if untyped(&left) => {
                Some(self.convert(left, ty, How::Pass, left_at))
            }
            _ => self.scalar(left, left_at),
        };
        let (Some(left), Some(right)) = (left, self.scalar(right, right_at)) else {
            return Value::Error;
        };
        if !matches!(left.ty, Ty::Int { .. } | Ty::Duration) || !matches!(right.ty, Ty::Int { .. } | Ty::Bool)
        {
            let (a, b) = (self.ck.show(&left.ty), self.ck.show(&right.ty));
            self.error(
                codes::OPERATOR,
                left_at,
                format!("{a} cannot be shifted by {b}"),
                "expected integers",
            );
            return Value::Error;
        }
        self.warn_of_narrow(written, &left, &right, want, at);
        let ty = left.ty.clone();
        let bits = ty.width().map_or(64, |(bits, _)| bits);
        self.warn_of_shift(&right, bits, at);
        let amount = shift_amount(right, bits);
        Value::Scalar(fold::binary(op, left, fold::cast(amount, &ty), ty))
    }

    pub(crate) fn compare(
        &mut self,
        op: CmpOp,
        left: Value,
        right: Value,
        left_at: Span,
        right_at: Span,
        at: Span,
    ) -> Value {
        self.ck.warn_of_same_sides(left_at, right_at);
        if let (Value::Literal { value: a, .. }, Value::Literal { value: b, .. }) = (&left, &right) {
            return Value::Scalar(fold::constant(u64::from(op.holds(*a, *b)), Ty::Bool));
        }
        match (&left, &right) {
            (Value::Place(a), Value::Place(b)) if !a.ty.is_scalar() && !b.ty.is_scalar() => {
                return self.compare_bytes(op, a.clone(), b.clone(), at);
            }
            (Value::Place(place), Value::None) | (Value::None, Value::Place(place))
                if !place.ty.is_scalar() =>
            {
                return self.compare_none(op, place.clone(), at);
            }
            _ => {}
        }
        let (left, right) = match (untyped(&left), untyped(&right)) {
            (true, false) => {
                let Some(right) = self.scalar(right, right_at) else {
                    return Value::Error;
                };
                self.warn_of_comparison(op, &left, &Value::Error, &right.ty, at);
                let ty = widened(right.ty.clone(), &left);
                (Some(self.convert(left, &ty, How::Pass, left_at)), Some(right))
            }
            (false, true) => {
                let Some(left) = self.scalar(left, left_at) else {
                    return Value::Error;
                };
                self.warn_of_comparison(op, &Value::Error, &right, &left.ty, at);
                let ty = widened(left.ty.clone(), &right);
                let right = self.convert(right, &ty, How::Pass, right_at);
                (Some(left), Some(right))
            }
            (true, true) | (false, false) => {
                let sides = (self.scalar(left, left_at), self.scalar(right, right_at));
                if let (Some(left), Some(right)) = &sides {
                    self.warn_of_compared_constant(op, left, right, at);
                }
                sides
            }
        };
        let (Some(left), Some(right)) = (left, right) else {
            return Value::Error;
        };
        let ordered = !matches!(op, CmpOp::Eq | CmpOp::Ne);
        match compared_type(&left.ty, &right.ty) {
            Some(Ty::Bool | Ty::Addr) if ordered => {
                let found = self.ck.show(&left.ty);
                self.error(
                    codes::OPERATOR,
                    at,
                    format!("{found} has no order"),
                    "expected `==` or `!=`",
                );
                Value::Error
            }
            Some(ty) => Value::Scalar(fold::compare(op, fold::cast(left, &ty), fold::cast(right, &ty))),
            None => self.not_comparable(&left.ty, &right.ty, at),
        }
    }

    fn not_comparable(&mut self, left: &Ty, right: &Ty, at: Span) -> Value {
        let (a, b) = (self.ck.show(left), self.ck.show(right));
        let both_numbers = left.width().is_some() && right.width().is_some();
        let hint = if both_numbers {
            "cast one of them to the other's type"
        } else {
            "compare their fields"
        };
        self.error_hint(
            codes::NEEDS_CAST,
            at,
            format!("{a} cannot be compared with {b}"),
            "expected two values of one type",
            hint,
        );
        Value::Error
    }

    fn compare_bytes(&mut self, op: CmpOp, a: Place, b: Place, at: Span) -> Value {
        if a.ty != b.ty || !matches!(a.ty, Ty::Ip | Ty::Id | Ty::Bytes { .. }) {
            return self.not_comparable(&a.ty, &b.ty, at);
        }
        let same = Expr { ty: Ty::Bool, kind: ir::ExprKind::SameBytes(a, b) };
        self.equality(op, same, at)
    }

    fn compare_none(&mut self, op: CmpOp, place: Place, at: Span) -> Value {
        if !matches!(place.ty, Ty::Ip | Ty::Id | Ty::Bytes { .. }) {
            let found = self.ck.show(&place.ty);
            self.error(
                codes::MISMATCH,
                at,
                format!("{found} is never `NONE`"),
                "expected an id or an address",
            );
            return Value::Error;
        }
        let zero = Expr { ty: Ty::Bool, kind: ir::ExprKind::IsZero(place) };
        self.equality(op, zero, at)
    }

    fn equality(&mut self, op: CmpOp, same: Expr, at: Span) -> Value {
        match op {
            CmpOp::Eq => Value::Scalar(same),
            CmpOp::Ne => Value::Scalar(fold::unary(ir::UnOp::LogicalNot, same)),
            CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => {
                self.error(
                    codes::OPERATOR,
                    at,
                    "ids and addresses have no order",
                    "expected `==` or `!=`",
                );
                Value::Error
            }
        }
    }

    /// Returns the common type of two values, for `?:`, `min` and the like.
    pub(crate) fn common_type(&mut self, a: &Value, b: &Value, want: Option<&Ty>, at: Span) -> Option<Ty> {
        let of = |value: &Value| match value {
            Value::Scalar(expr) => Some(expr.ty.clone()),
            Value::Place(place) if place.ty == Ty::Varint => Some(Ty::uint(64)),
            Value::Place(place) => Some(place.ty.clone()),
            Value::None => Some(Ty::Addr),
            _ => None,
        };
        match (of(a), of(b)) {
            (Some(a), Some(b)) => {
                let common = compared_type(&a, &b);
                if common.is_none() {
                    self.not_comparable(&a, &b, at);
                }
                common
            }
            (Some(ty), None) | (None, Some(ty)) => Some(ty),
            (None, None) => {
                let fallback = Ty::Int { bits: 64, signed: is_negative(a) || is_negative(b) };
                Some(want.filter(|ty| ty.is_scalar()).cloned().unwrap_or(fallback))
            }
        }
    }
}

/// Prepares the amount of a shift for the cast to the shifted type. If the width is not a power of two, the
/// cast alone would change the amount modulo the width.
fn shift_amount(amount: Expr, width: u8) -> Expr {
    let (bits, _) = amount.ty.width().unwrap_or((64, false));
    let always_below = bits < 8 && (1u16 << bits) <= u16::from(width);
    if width.is_power_of_two() || always_below {
        return amount;
    }
    let ty = Ty::uint(bits.max(8));
    let modulus = fold::constant(u64::from(width), ty.clone());
    fold::binary(BinOp::Rem, fold::cast(amount, &ty), modulus, ty)
}

/// True if a literal, or an arm of a choice, is negative.
pub(crate) fn is_negative(value: &Value) -> bool {
    match value {
        Value::Literal { value, mask } => *value < 0 && !mask,
        Value::Choice(choice) => is_negative(&choice.then) || is_negative(&choice.otherwise),
        _ => false,
    }
}

/// Returns the type of a value if it is an enum.
fn enum_of(value: &Value) -> Option<Ty> {
    let ty = match value {
        Value::Scalar(expr) => &expr.ty,
        Value::Place(place) => &place.ty,
        _ => return None,
    };
    matches!(ty, Ty::Enum { .. }).then(|| ty.clone())
}

/// True for a value that takes the other operand's type.
fn untyped(value: &Value) -> bool {
    matches!(
        value,
        Value::Literal { .. } | Value::Infinite | Value::None | Value::Choice(_)
    )
}

/// Returns the type of a literal beside an operand.
fn literal_type(op: Op, other: &Ty, literal_is_left: bool) -> Ty {
    match (other, op) {
        (Ty::Duration, Op::Mul) => Ty::uint(64),
        (Ty::Duration, Op::Div) if !literal_is_left => Ty::uint(64),
        (Ty::Time, Op::Add | Op::Sub) => Ty::Duration,
        (Ty::Addr, _) => Ty::uint(32),
        (Ty::Seq { bits }, Op::Add) => Ty::uint(*bits),
        (Ty::Seq { bits }, Op::Sub) if !literal_is_left => Ty::uint(*bits),
        (ty, _) => ty.clone(),
    }
}

/// Returns the narrowest type of at least 8, 16, 32 or 64 bits that holds a literal beside an operand of this
/// integer type. If the operand's own type is too narrow, both widen, so that no value is lost.
pub(crate) fn widened(ty: Ty, literal: &Value) -> Ty {
    let value = match literal {
        Value::Literal { value, mask: false } => value,
        Value::Choice(choice) => return widened(widened(ty, &choice.then), &choice.otherwise),
        _ => return ty,
    };
    let Ty::Int { bits, signed } = &ty else { return ty };
    let fits = |bits: u8| match signed {
        true => (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(value),
        false => (0..1i128 << bits).contains(value),
    };
    let wider = [8, 16, 32, 64]
        .into_iter()
        .find(|width| width > bits && fits(*width));
    match wider {
        Some(wide) if !fits(*bits) => Ty::Int { bits: wide, signed: *signed },
        _ => ty,
    }
}

/// Returns the type to which both operands are cast, and the result's type.
fn operand_types(op: Op, left: &Ty, right: &Ty) -> Option<(Ty, Ty)> {
    let same = |ty: Ty| Some((ty.clone(), ty));
    match (left, right) {
        (Ty::Int { .. }, Ty::Int { .. }) => same(common_integer(left, right)?),
        (Ty::Bool, Ty::Bool) if matches!(op, Op::BitAnd | Op::BitOr | Op::BitXor) => same(Ty::Bool),
        (Ty::Seq { bits: a }, Ty::Seq { bits: b }) if a == b => match op {
            Op::Sub => same(Ty::uint(*a)),
            _ => None,
        },
        (Ty::Seq { bits }, Ty::Int { .. }) if matches!(op, Op::Add | Op::Sub) => {
            same(Ty::Seq { bits: *bits })
        }
        (Ty::Int { .. }, Ty::Seq { bits }) if op == Op::Add => same(Ty::Seq { bits: *bits }),
        (Ty::Time, Ty::Time) if op == Op::Sub => same(Ty::Duration),
        (Ty::Time, Ty::Duration) if matches!(op, Op::Add | Op::Sub) => same(Ty::Time),
        (Ty::Duration, Ty::Time) if op == Op::Add => same(Ty::Time),
        (Ty::Duration, Ty::Duration) => match op {
            Op::Add | Op::Sub | Op::Rem => same(Ty::Duration),
            Op::Div => same(Ty::uint(64)),
            _ => None,
        },
        (Ty::Duration, Ty::Int { signed: false, .. }) if matches!(op, Op::Mul | Op::Div) => {
            same(Ty::Duration)
        }
        (Ty::Int { signed: false, .. }, Ty::Duration) if op == Op::Mul => same(Ty::Duration),
        (Ty::Addr, Ty::Int { signed: false, .. }) if op == Op::Add => same(Ty::Addr),
        (Ty::Int { signed: false, .. }, Ty::Addr) if op == Op::Add => same(Ty::Addr),
        _ => None,
    }
}

/// Returns the type at which two scalars are compared.
pub(crate) fn compared_type(left: &Ty, right: &Ty) -> Option<Ty> {
    match (left, right) {
        (Ty::Int { .. }, Ty::Int { .. }) => common_integer(left, right),
        (Ty::Bool, Ty::Int { bits: 1, signed: false }) | (Ty::Int { bits: 1, signed: false }, Ty::Bool) => {
            Some(Ty::Bool)
        }
        _ => (left == right && left.is_scalar()).then(|| left.clone()),
    }
}

/// Returns the wider of two integer types if it holds all values of both.
fn common_integer(left: &Ty, right: &Ty) -> Option<Ty> {
    let (Ty::Int { bits: a, signed: s }, Ty::Int { bits: b, signed: t }) = (left, right) else {
        return None;
    };
    match (s, t) {
        (false, false) | (true, true) => Some(Ty::Int { bits: *a.max(b), signed: *s }),
        (true, false) => (a > b).then(|| left.clone()),
        (false, true) => (b > a).then(|| right.clone()),
    }
}

fn literal_arithmetic(op: Op, a: i128, b: i128) -> Option<i128> {
    let value = match op {
        Op::Mul => a.checked_mul(b)?,
        Op::Div => a.checked_div(b).unwrap_or(0),
        Op::Rem => a.checked_rem(b).unwrap_or(a),
        Op::Add => a.checked_add(b)?,
        Op::Sub => a.checked_sub(b)?,
        Op::Shl => a.checked_mul(1i128.checked_shl(u32::try_from(b).ok().filter(|b| *b < 64)?)?)?,
        Op::Shr => a >> u32::try_from(b).ok().filter(|b| *b < 64)?,
        Op::BitAnd => a & b,
        Op::BitXor => a ^ b,
        Op::BitOr => a | b,
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::And | Op::Or => return None,
    };
    (-(1i128 << 64)..1i128 << 64).contains(&value).then_some(value)
}

fn comparison(op: Op) -> Option<CmpOp> {
    match op {
        Op::Eq => Some(CmpOp::Eq),
        Op::Ne => Some(CmpOp::Ne),
        Op::Lt => Some(CmpOp::Lt),
        Op::Le => Some(CmpOp::Le),
        Op::Gt => Some(CmpOp::Gt),
        Op::Ge => Some(CmpOp::Ge),
        _ => None,
    }
}

fn arithmetic_op(op: Op) -> Option<BinOp> {
    match op {
        Op::Mul => Some(BinOp::Mul),
        Op::Div => Some(BinOp::Div),
        Op::Rem => Some(BinOp::Rem),
        Op::Add => Some(BinOp::Add),
        Op::Sub => Some(BinOp::Sub),
        Op::Shl => Some(BinOp::Shl),
        Op::Shr => Some(BinOp::Shr),
        Op::BitAnd => Some(BinOp::And),
        Op::BitXor => Some(BinOp::Xor),
        Op::BitOr => Some(BinOp::Or),
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::And | Op::Or => None,
    }
}

fn symbol(op: Op) -> &'static str {
    match op {
        Op::Mul => "*",
        Op::Div => "/",
        Op::Rem => "%",
        Op::Add => "+",
        Op::Sub => "-",
        Op::Shl => "<<",
        Op::Shr => ">>",
        Op::Lt => "<",
        Op::Le => "<=",
        Op::Gt => ">",
        Op::Ge => ">=",
        Op::Eq => "==",
        Op::Ne => "!=",
        Op::BitAnd => "&",
        Op::BitXor => "^",
        Op::BitOr => "|",
        Op::And => "&&",
        Op::Or => "||",
    }
}
