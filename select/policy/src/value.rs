//! Values of properties: any value, one, a range of numbers, or a set; and the overlap of two of them.
//!
//! `true` and `false` are the numbers 1 and 0 when compared, as in NEAT.

use std::fmt;
use std::sync::Arc;

/// A single value.
#[derive(Clone, Debug)]
pub enum Scalar {
    /// A Boolean value.
    Bool(bool),
    /// A finite number.
    Number(f64),
    /// A text, which is case-sensitive.
    Text(Arc<str>),
}

impl Scalar {
    fn number(&self) -> Option<f64> {
        match self {
            Scalar::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Scalar::Number(number) => Some(*number),
            Scalar::Text(_) => None,
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Scalar::Text(mine), Scalar::Text(theirs)) => mine == theirs,
            _ => self.number().is_some_and(|number| Some(number) == other.number()),
        }
    }
}

/// The permitted values of a property.
#[derive(Clone, Debug)]
pub enum Value {
    /// Any value: `null`.
    Any,
    /// A single value.
    One(Scalar),
    /// A number from `start` to `end`, both included. Either may be infinite.
    Range(f64, f64),
    /// One of two or more values, in the given order.
    Set(Arc<[Scalar]>),
}

impl Value {
    /// Returns the value that permits `members`, or `None` if there are none.
    pub fn from_members(members: Vec<Scalar>) -> Option<Self> {
        let mut distinct: Vec<Scalar> = Vec::with_capacity(members.len());
        for member in members {
            if !distinct.contains(&member) {
                distinct.push(member);
            }
        }
        match distinct.len() {
            0 => None,
            1 => distinct.pop().map(Value::One),
            _ => Some(Value::Set(distinct.into())),
        }
    }

    /// Returns the values that both permit, or `None` if they exclude each other.
    pub fn overlap(&self, other: &Value) -> Option<Value> {
        match (self, other) {
            (Value::Any, value) | (value, Value::Any) => Some(value.clone()),
            (Value::One(mine), Value::One(theirs)) => (mine == theirs).then(|| other.clone()),
            (Value::Set(members), Value::One(one)) | (Value::One(one), Value::Set(members)) => {
                members.contains(one).then(|| Value::One(one.clone()))
            }
            (Value::Set(members), Value::Set(others)) => Value::from_members(
                members
                    .iter()
                    .filter(|member| others.contains(member))
                    .cloned()
                    .collect(),
            ),
            (Value::Set(members), Value::Range(start, end))
            | (Value::Range(start, end), Value::Set(members)) => {
                let within = |member: &&Scalar| is_within(member, *start, *end);
                Value::from_members(members.iter().filter(within).cloned().collect())
            }
            (Value::One(one), Value::Range(start, end)) | (Value::Range(start, end), Value::One(one)) => {
                is_within(one, *start, *end).then(|| Value::One(one.clone()))
            }
            (Value::Range(start, end), Value::Range(from, to)) => {
                let (start, end) = (start.max(*from), end.min(*to));
                match start <= end {
                    // A range of one finite number is a single value.
                    true if start == end && start.is_finite() => Some(Value::One(Scalar::Number(start))),
                    true => Some(Value::Range(start, end)),
                    false => None,
                }
            }
        }
    }

    /// Returns whether the two have a value in common.
    pub fn overlaps(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Any, _) | (_, Value::Any) => true,
            (Value::One(mine), Value::One(theirs)) => mine == theirs,
            (Value::Range(start, end), Value::Range(from, to)) => start.max(*from) <= end.min(*to),
            (Value::One(one), Value::Range(start, end)) | (Value::Range(start, end), Value::One(one)) => {
                is_within(one, *start, *end)
            }
            (Value::Set(members), other) | (other, Value::Set(members)) => {
                members.iter().any(|member| other.allows(member))
            }
        }
    }

    /// Returns the value without those that `banned` permits, or `None` if no value is left. A range is
    /// either removed as a whole or left unchanged.
    pub fn without(&self, banned: &Value) -> Option<Value> {
        match self {
            Value::Any => (!matches!(banned, Value::Any)).then_some(Value::Any),
            Value::One(one) => (!banned.allows(one)).then(|| self.clone()),
            Value::Set(members) => Value::from_members(
                members
                    .iter()
                    .filter(|member| !banned.allows(member))
                    .cloned()
                    .collect(),
            ),
            Value::Range(start, end) => {
                let whole = match banned {
                    Value::Any => true,
                    Value::Range(from, to) => from <= start && end <= to,
                    Value::One(_) | Value::Set(_) => false,
                };
                (!whole).then(|| self.clone())
            }
        }
    }

    fn allows(&self, one: &Scalar) -> bool {
        match self {
            Value::Any => true,
            Value::One(mine) => mine == one,
            Value::Range(start, end) => is_within(one, *start, *end),
            Value::Set(members) => members.contains(one),
        }
    }
}

/// Sets are equal in any order.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Any, Value::Any) => true,
            (Value::One(mine), Value::One(theirs)) => mine == theirs,
            (Value::Range(start, end), Value::Range(from, to)) => (start, end) == (from, to),
            (Value::Set(mine), Value::Set(theirs)) => {
                mine.len() == theirs.len() && mine.iter().all(|member| theirs.contains(member))
            }
            (Value::Any | Value::One(_) | Value::Range(..) | Value::Set(_), _) => false,
        }
    }
}

fn is_within(one: &Scalar, start: f64, end: f64) -> bool {
    one.number()
        .is_some_and(|number| start <= number && number <= end)
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(truth) => write!(f, "{truth}"),
            Scalar::Number(number) => write!(f, "{number}"),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Any => f.write_str("any"),
            Value::One(one) => write!(f, "{one}"),
            Value::Range(start, end) => write!(f, "{start}–{end}"),
            Value::Set(members) => {
                for (index, member) in members.iter().enumerate() {
                    write!(f, "{}{member}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(number: f64) -> Scalar {
        Scalar::Number(number)
    }
    fn t(text: &str) -> Scalar {
        Scalar::Text(text.into())
    }
    fn set(members: &[Scalar]) -> Value {
        Value::from_members(members.to_vec()).expect("it has members")
    }

    /// Each case has the left value, the right value and their overlap, which is checked in both directions.
    #[test]
    fn overlaps_of_values_are_symmetric() {
        let rows = [
            (Value::Any, Value::One(t("TCP")), Some(Value::One(t("TCP")))),
            (Value::One(t("TCP")), Value::One(t("tcp")), None),
            (Value::One(t("")), Value::One(t("")), Some(Value::One(t("")))),
            (
                Value::One(Scalar::Bool(true)),
                Value::One(n(1.0)),
                Some(Value::One(n(1.0))),
            ),
            (Value::One(Scalar::Bool(true)), Value::One(t("true")), None),
            (
                Value::Range(50.0, 1000.0),
                Value::One(n(100.0)),
                Some(Value::One(n(100.0))),
            ),
            (Value::Range(50.0, 1000.0), Value::One(n(9000.0)), None),
            (Value::Range(50.0, 1000.0), Value::One(t("x")), None),
            (
                Value::Range(0.0, 5.0),
                Value::Range(5.0, 9.0),
                Some(Value::One(n(5.0))),
            ),
            (
                Value::Range(0.0, 6.0),
                Value::Range(5.0, 9.0),
                Some(Value::Range(5.0, 6.0)),
            ),
            (Value::Range(0.0, 4.0), Value::Range(5.0, 9.0), None),
            (
                Value::Range(1.0, f64::INFINITY),
                Value::Range(2.0, f64::INFINITY),
                Some(Value::Range(2.0, f64::INFINITY)),
            ),
            (
                Value::Range(50.0, 1000.0),
                set(&[n(100.0), n(500.0), n(9000.0)]),
                Some(set(&[n(500.0), n(100.0)])),
            ),
            // NEAT's manager matches the next two with an empty set, or fails on the text.
            (Value::Range(5.0, 9.0), set(&[n(1.0), n(2.0)]), None),
            (
                Value::Range(5.0, 9.0),
                set(&[n(6.0), t("foo")]),
                Some(Value::One(n(6.0))),
            ),
            (
                set(&[t("a"), t("b")]),
                set(&[t("b"), t("c")]),
                Some(Value::One(t("b"))),
            ),
            (set(&[t("a"), t("b")]), set(&[t("c"), t("d")]), None),
            (
                set(&[t("a"), t("b")]),
                Value::One(t("a")),
                Some(Value::One(t("a"))),
            ),
            // A list of one item is that item.
            (
                set(&[n(1500.0)]),
                Value::Range(1000.0, 2000.0),
                Some(Value::One(n(1500.0))),
            ),
        ];
        for (left, right, both) in rows {
            assert_eq!(left.overlap(&right), both, "{left} and {right}");
            assert_eq!(right.overlap(&left), both, "{right} and {left}");
            assert_eq!(
                (left.overlaps(&right), right.overlaps(&left)),
                (both.is_some(), both.is_some())
            );
        }
    }

    #[test]
    fn a_banned_value_is_removed() {
        let transports = set(&[t("TCP"), t("UDP"), t("SCTP")]);
        assert_eq!(
            transports.without(&Value::One(t("UDP"))),
            Some(set(&[t("TCP"), t("SCTP")]))
        );
        assert_eq!(Value::One(t("UDP")).without(&transports), None);
        assert_eq!(Value::Any.without(&Value::One(t("UDP"))), Some(Value::Any));
        assert_eq!(Value::Range(1.0, 2.0).without(&Value::Range(0.0, 3.0)), None);
        assert_eq!(
            Value::Range(1.0, 2.0).without(&Value::One(n(1.0))),
            Some(Value::Range(1.0, 2.0))
        );
    }
}
