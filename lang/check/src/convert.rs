//! Conversions: values that adapt their type, implicit conversions, and conversions that need a cast.

use hawser_ir::{Expr, Place, StmtKind, Ty};
use hawser_syntax::ast::{self, Span};

use crate::body::{Body, BodyKind, calls, load, place_calls};
use crate::codes;
use crate::fold;
use crate::state::EVENT;

/// The value of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// An error that has been reported.
    Error,
    /// An integer without a type, which takes the other operand's type. `mask` marks a complement, whose
    /// upper bits are all ones.
    Literal { value: i128, mask: bool },
    /// `INF`: the largest value of the type that it takes.
    Infinite,
    /// `NONE`
    None,
    /// A conditional whose arms have no type. It takes a type as they do.
    Choice(Box<Choice>),
    /// A scalar.
    Scalar(Expr),
    /// A value in memory, scalar or not.
    Place(Place),
    /// A whole table of constants, by its index. It can be indexed or asked for its length.
    Table(usize),
    /// An entry of an option list whose member is not known yet. Its tag is at the place.
    Entry(Place, hawser_ir::OptListId),
}

impl Value {
    /// True if its evaluation calls a function, which may change what other values read.
    pub(crate) fn calls(&self) -> bool {
        match self {
            Value::Scalar(expr) => calls(expr),
            Value::Place(place) | Value::Entry(place, _) => place_calls(place),
            Value::Choice(choice) => {
                calls(&choice.condition) || choice.then.calls() || choice.otherwise.calls()
            }
            Value::Error | Value::Literal { .. } | Value::Infinite | Value::None | Value::Table(_) => false,
        }
    }
}

/// The arms of [`Value::Choice`]. Each is a [`Value::Literal`], a [`Value::Infinite`] or another choice.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) condition: Expr,
    pub(crate) then: Value,
    pub(crate) otherwise: Value,
}

/// The way in which a value reaches its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By assignment, which truncates.
    Assign,
    /// As an argument, result or operand, which preserves the value.
    Pass,
}

impl<'a> Body<'_, 'a> {
    /// Lowers an expression to a scalar of the given type, as an assignment does.
    pub(crate) fn expr_as(&mut self, e: &'a ast::Expr, ty: &Ty) -> Expr {
        let value = self.value(e, Some(ty));
        self.convert(value, ty, How::Assign, e.span)
    }

    /// Lowers an argument.
    pub(crate) fn argument(&mut self, e: &'a ast::Expr, ty: &Ty) -> Expr {
        let value = self.value(e, Some(ty));
        self.convert(value, ty, How::Pass, e.span)
    }

    /// Lowers a condition.
    pub(crate) fn condition(&mut self, e: &'a ast::Expr) -> Expr {
        let value = self.value(e, Some(&Ty::Bool));
        self.truth(value, e.span)
    }

    /// Lowers a value as a condition.
    pub(crate) fn truth(&mut self, value: Value, at: Span) -> Expr {
        if let Value::Literal { .. } | Value::Choice(_) = value {
            return self.convert(value, &Ty::Bool, How::Pass, at);
        }
        let Some(expr) = self.scalar(value, at) else {
            return self.nothing(&Ty::Bool);
        };
        match expr.ty {
            Ty::Bool => expr,
            Ty::Int { bits: 1, signed: false } => fold::cast(expr, &Ty::Bool),
            _ => {
                let found = self.ck.show(&expr.ty);
                let hint = match expr.ty {
                    Ty::Enum { .. } => "compare it with a variant: `x == NAME`",
                    _ => "compare it: `x != 0`",
                };
                self.error_hint(
                    codes::CONDITION,
                    at,
                    format!("a condition cannot be of type {found}"),
                    "expected `bool`",
                    hint,
                );
                self.nothing(&Ty::Bool)
            }
        }
    }

    /// Returns a placeholder where an error was reported.
    pub(crate) fn nothing(&mut self, ty: &Ty) -> Expr {
        self.poisoned = true;
        fold::constant(0, ty.clone())
    }

    /// Returns a value as a scalar of its own type. A literal is a `uint64`, or an `int64` if it is negative.
    pub(crate) fn scalar(&mut self, value: Value, at: Span) -> Option<Expr> {
        match value {
            Value::Error => {
                self.poisoned = true;
                None
            }
            Value::Literal { value, mask } => {
                let signed = value < 0 && !mask;
                Some(self.literal(value, mask, &Ty::Int { bits: 64, signed }, at))
            }
            Value::Infinite => Some(fold::constant(u64::MAX, Ty::uint(64))),
            Value::None => Some(fold::constant(0, Ty::Addr)),
            Value::Choice(_) => {
                let ty = Ty::Int { bits: 64, signed: crate::ops::is_negative(&value) };
                Some(self.convert(value, &ty, How::Pass, at))
            }
            Value::Scalar(expr) => Some(expr),
            Value::Place(place) => {
                if place.ty == Ty::Timer {
                    self.error_hint(
                        codes::OPERATOR,
                        at,
                        "a timer is not a value",
                        "expected a number",
                        "`.armed` is true while it runs; `timer_start` and `timer_stop` take it",
                    );
                    return None;
                }
                if !place.ty.is_scalar() {
                    let found = self.ck.show(&place.ty);
                    self.error(
                        codes::MISMATCH,
                        at,
                        format!("a whole `{found}`"),
                        "expected a number or a bool",
                    );
                    return None;
                }
                Some(load(place))
            }
            Value::Table(table) => {
                let name = self.ck.tables[table].name.name.clone();
                self.error_hint(
                    codes::MISMATCH,
                    at,
                    format!("the table `{name}` cannot be used as a whole"),
                    "expected a number or a bool",
                    format!("choose one of its values: `{name}[i]`"),
                );
                None
            }
            Value::Entry(..) => {
                self.error_hint(
                    codes::MISMATCH,
                    at,
                    "an entry of an option list cannot be used as a whole",
                    "expected a number or a bool",
                    "name the member: `x[member].field`, `x[member].valid()`",
                );
                None
            }
        }
    }

    /// Converts a value to a scalar type, or reports why it does not convert.
    pub(crate) fn convert(&mut self, value: Value, to: &Ty, how: How, at: Span) -> Expr {
        match value {
            Value::Literal { value, mask } => self.literal(value, mask, to, at),
            Value::Infinite => self.infinite(to, at),
            Value::Choice(choice) => {
                let then = self.convert(choice.then, to, how, at);
                let otherwise = self.convert(choice.otherwise, to, how, at);
                fold::select(choice.condition, then, otherwise)
            }
            Value::None if *to == Ty::Addr => fold::constant(0, Ty::Addr),
            Value::None => {
                let expected = self.ck.show(to);
                self.error(
                    codes::MISMATCH,
                    at,
                    "`NONE` is not a number",
                    format!("expected {expected}"),
                );
                self.nothing(to)
            }
            value => {
                let Some(expr) = self.scalar(value, at) else {
                    return self.nothing(to);
                };
                self.convert_scalar(expr, to, how, at)
            }
        }
    }

    fn convert_scalar(&mut self, expr: Expr, to: &Ty, how: How, at: Span) -> Expr {
        match conversion(&expr.ty, to, how) {
            Conversion::Implicit => fold::cast(expr, to),
            Conversion::Cast(hint) => {
                let (found, expected) = (self.ck.show(&expr.ty), self.ck.show(to));
                self.error_hint(
                    codes::NEEDS_CAST,
                    at,
                    format!("{found} is not converted to {expected} implicitly"),
                    format!("expected {expected}, found {found}"),
                    hint.unwrap_or_else(|| format!("write `{expected}(…)` if that is meant")),
                );
                self.nothing(to)
            }
            Conversion::Never => {
                let (found, expected) = (self.ck.show(&expr.ty), self.ck.show(to));
                self.error(
                    codes::MISMATCH,
                    at,
                    format!("{found} where {expected} is needed"),
                    format!("expected {expected}, found {found}"),
                );
                self.nothing(to)
            }
        }
    }

    /// Returns a literal of the given type.
    pub(crate) fn literal(&mut self, value: i128, mask: bool, to: &Ty, at: Span) -> Expr {
        let fits = match to {
            Ty::Int { bits, signed: true } => {
                let limit = 1i128 << (bits - 1);
                (-limit..limit).contains(&value)
            }
            Ty::Int { bits, .. } if mask && value < 0 => -value <= 1i128 << bits,
            Ty::Int { bits, signed: false } => (0..1i128 << bits).contains(&value),
            Ty::Seq { bits } => (-(1i128 << bits)..1i128 << bits).contains(&value),
            Ty::Varint => (0..1i128 << 62).contains(&value),
            Ty::Bool => (0..=1).contains(&value),
            Ty::Duration | Ty::Time | Ty::Addr | Ty::Timer => value == 0,
            Ty::Enum { .. }
            | Ty::Ip
            | Ty::Id
            | Ty::Data
            | Ty::Bytes { .. }
            | Ty::Struct(_)
            | Ty::Array { .. }
            | Ty::List { .. }
            | Ty::Sorted { .. }
            | Ty::Window { .. }
            | Ty::Options { .. } => false,
        };
        if fits {
            return fold::constant(value as u64, to.clone());
        }
        let expected = self.ck.show(to);
        let hint = match to {
            Ty::Duration => {
                format!("durations have units: `{value}ns`, `{value}us`, `{value}ms`, `{value}s`")
            }
            Ty::Bool => "write `true` or `false`".to_owned(),
            Ty::Enum { index, .. } => match self.ck.variant_of(*index, value) {
                Some(name) => format!("write `{name}`"),
                None => format!("name one of its variants, or write `{expected}({value})` if that is meant"),
            },
            Ty::Int { .. } | Ty::Seq { .. } | Ty::Varint => {
                format!("write `{expected}(…)` if its lower bits are meant")
            }
            _ => "a number cannot be a value of this type".to_owned(),
        };
        self.error_hint(
            codes::LITERAL,
            at,
            format!("{value} is not a value of {expected}"),
            format!("expected {expected}"),
            hint,
        );
        self.nothing(to)
    }

    fn infinite(&mut self, to: &Ty, at: Span) -> Expr {
        match to {
            Ty::Int { bits, signed: true } => fold::constant((1 << (bits - 1)) - 1, to.clone()),
            Ty::Int { signed: false, .. } | Ty::Duration | Ty::Time => fold::constant(u64::MAX, to.clone()),
            _ => {
                let expected = self.ck.show(to);
                self.error(
                    codes::MISMATCH,
                    at,
                    "`INF` is an integer or a time",
                    format!("expected {expected}"),
                );
                self.nothing(to)
            }
        }
    }

    /// Lowers an expression to an aggregate of the given type, and returns the place that holds it.
    pub(crate) fn aggregate(&mut self, e: &'a ast::Expr, ty: &Ty) -> Option<Place> {
        let value = self.value(e, Some(ty));
        self.aggregate_value(value, ty, e.span)
    }

    /// Returns a value as an aggregate of the given type.
    pub(crate) fn aggregate_value(&mut self, value: Value, ty: &Ty, at: Span) -> Option<Place> {
        match value {
            Value::Error => {
                self.poisoned = true;
                None
            }
            Value::Place(place) if place.ty == *ty => Some(place),
            // Every event is an `event_t`, because its header comes first.
            Value::Place(place) if *ty == Ty::Struct(EVENT) && self.ck.event_of(&place.ty).is_some() => {
                Some(Place { ty: ty.clone(), ..place })
            }
            Value::None if matches!(ty, Ty::Id | Ty::Ip | Ty::Bytes { .. }) => {
                if !self.statements_allowed(at) {
                    return None;
                }
                let place = self.temporary(ty.clone());
                self.push(StmtKind::Init(place.clone()));
                Some(place)
            }
            value => {
                let expected = self.ck.show(ty);
                let found = self.describe(&value);
                self.error(
                    codes::MISMATCH,
                    at,
                    format!("{found} where {expected} is needed"),
                    format!("expected {expected}, found {found}"),
                );
                None
            }
        }
    }

    /// Describes a value's type for messages.
    pub(crate) fn describe(&self, value: &Value) -> String {
        match value {
            Value::Error => "an error".to_owned(),
            Value::Literal { .. } | Value::Choice(_) => "a number".to_owned(),
            Value::Infinite => "`INF`".to_owned(),
            Value::None => "`NONE`".to_owned(),
            Value::Scalar(expr) => self.ck.show(&expr.ty),
            Value::Place(place) => self.ck.show(&place.ty),
            Value::Table(_) => "a table of constants".to_owned(),
            Value::Entry(..) => "an option list's entry".to_owned(),
        }
    }

    /// True if this body is a function that makes events out of inputs.
    pub(crate) fn is_parser(&self) -> bool {
        use crate::body::Returns;
        matches!(self.kind, BodyKind::Function(Returns::Events | Returns::Event(_)))
    }
}

/// The ways in which a type can convert to another.
pub(crate) enum Conversion {
    Implicit,
    /// Only by a cast. The hint replaces the usual one where that would mislead.
    Cast(Option<String>),
    Never,
}

pub(crate) fn conversion(from: &Ty, to: &Ty, how: How) -> Conversion {
    if from == to {
        return Conversion::Implicit;
    }
    match (from, to) {
        (Ty::Int { bits: a, signed: s }, Ty::Int { bits: b, signed: t }) => {
            let preserves = match (s, t) {
                (false, true) => a < b,
                (true, false) => false,
                (false, false) | (true, true) => a <= b,
            };
            // An assignment may lose upper bits, but never changes the meaning of the top bit.
            if preserves || (how == How::Assign && s == t) {
                Conversion::Implicit
            } else {
                Conversion::Cast(None)
            }
        }
        (Ty::Enum { .. }, Ty::Bool) => {
            Conversion::Cast(Some("compare it with a variant: `x == NAME`".to_owned()))
        }
        (Ty::Enum { .. }, Ty::Int { .. } | Ty::Enum { .. } | Ty::Seq { .. } | Ty::Varint)
        | (Ty::Int { .. } | Ty::Varint, Ty::Enum { .. }) => Conversion::Cast(None),
        (Ty::Bool, Ty::Int { signed: false, .. }) | (Ty::Int { bits: 1, signed: false }, Ty::Bool) => {
            Conversion::Implicit
        }
        (Ty::Int { .. }, Ty::Bool) => Conversion::Cast(Some("compare it: `x != 0`".to_owned())),
        (Ty::Int { bits, signed: false }, Ty::Seq { bits: width }) => {
            if bits <= width || how == How::Assign {
                Conversion::Implicit
            } else {
                Conversion::Cast(None)
            }
        }
        (Ty::Int { signed: false, .. }, Ty::Varint) | (Ty::Varint, Ty::Int { signed: false, .. }) => {
            Conversion::Implicit
        }
        (Ty::Duration, Ty::Int { .. }) => Conversion::Cast(Some(
            "durations are nanoseconds: write `uint64(…)` if that is meant".to_owned(),
        )),
        (Ty::Time, Ty::Int { .. }) | (Ty::Seq { .. }, Ty::Int { .. } | Ty::Seq { .. }) => {
            Conversion::Cast(None)
        }
        (Ty::Int { .. }, Ty::Duration | Ty::Time | Ty::Seq { .. }) => Conversion::Cast(None),
        (Ty::Duration, Ty::Time) | (Ty::Time, Ty::Duration) => Conversion::Cast(Some(
            "a time is a point: subtract two, or add a duration to one".to_owned(),
        )),
        _ => Conversion::Never,
    }
}
