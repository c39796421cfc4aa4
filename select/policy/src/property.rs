//! One property: a value with its precedence and score, and how another one changes it.

use std::sync::Arc;

use crate::value::Value;

/// What may become of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// A default: gives way to anything.
    Base = 0,
    /// A preference.
    Optional = 1,
    /// A demand: only what agrees with it may stand beside it.
    Immutable = 2,
}

/// A property without its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// What it may be.
    pub value: Value,
    /// What may become of it.
    pub precedence: Precedence,
    /// Its weight.
    pub score: f64,
    /// Whether it was compared with another: such scores count first.
    pub evaluated: bool,
    /// What the value may not be in the end.
    pub banned: Arc<[Value]>,
}

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The values agree: what both allow stays, and the scores are added.
    Agreed,
    /// The other one's value, score and precedence stand now.
    Replaced,
    /// The other one has less precedence: what was, stays.
    Kept,
}

impl Property {
    /// An optional property without score.
    pub fn new(value: Value) -> Self {
        Self {
            value,
            precedence: Precedence::Optional,
            score: 0.0,
            evaluated: false,
            banned: Arc::default(),
        }
    }

    /// Merges `other` onto this. A base property merges the other way round: this is what counts, and
    /// nothing is evaluated.
    ///
    /// Nothing comes back, and nothing is changed, when both are immutable and exclude each other.
    pub fn merge(&mut self, other: &Property) -> Option<Merge> {
        if other.precedence != Precedence::Base {
            return self.update(other);
        }
        self.evaluated = false;
        self.ban(&other.banned);
        let Some(value) = other.value.overlap(&self.value) else {
            return Some(Merge::Kept);
        };
        self.value = value;
        self.score += other.score;
        Some(Merge::Agreed)
    }

    /// Merges `other` onto this, whatever its precedence.
    pub(crate) fn update(&mut self, other: &Property) -> Option<Merge> {
        let overlap = self.value.overlap(&other.value);
        let both = self.precedence == Precedence::Immutable && other.precedence == Precedence::Immutable;
        if overlap.is_none() && both {
            return None;
        }
        self.evaluated = true;
        self.ban(&other.banned);
        Some(match overlap {
            Some(value) => {
                self.value = value;
                self.score += other.score;
                self.precedence = self.precedence.max(other.precedence);
                Merge::Agreed
            }
            None if other.precedence >= self.precedence => {
                self.value = other.value.clone();
                self.score = other.score;
                self.precedence = other.precedence;
                Merge::Replaced
            }
            None => Merge::Kept,
        })
    }

    fn ban(&mut self, others: &Arc<[Value]>) {
        if others.is_empty() {
            return;
        }
        if self.banned.is_empty() {
            self.banned = others.clone();
            return;
        }
        let new: Vec<Value> = others
            .iter()
            .filter(|value| !self.banned.contains(value))
            .cloned()
            .collect();
        if !new.is_empty() {
            self.banned = self.banned.iter().cloned().chain(new).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Precedence::{Base, Immutable, Optional};
    use super::*;
    use crate::value::Scalar;

    fn property(value: f64, precedence: Precedence, score: f64) -> Property {
        Property { precedence, score, ..Property::new(Value::One(Scalar::Number(value))) }
    }

    /// NEAT's rules (doc/NEAT_properties.md, "Update"), every pair of precedences: what happens when
    /// values differ, and the score then.
    #[test]
    fn precedence_decides_between_values_that_differ() {
        let rows = [
            (Base, Base, Some((Merge::Kept, 1.0))),
            (Base, Optional, Some((Merge::Replaced, 2.0))),
            (Base, Immutable, Some((Merge::Replaced, 2.0))),
            (Optional, Base, Some((Merge::Kept, 1.0))),
            (Optional, Optional, Some((Merge::Replaced, 2.0))),
            (Optional, Immutable, Some((Merge::Replaced, 2.0))),
            (Immutable, Base, Some((Merge::Kept, 1.0))),
            (Immutable, Optional, Some((Merge::Kept, 1.0))),
            (Immutable, Immutable, None),
        ];
        for (mine, theirs, expected) in rows {
            let mut merged = property(10.0, mine, 1.0);
            let what = merged.merge(&property(20.0, theirs, 2.0));
            assert_eq!(
                what.map(|what| (what, merged.score)),
                expected,
                "{mine:?} {theirs:?}"
            );
            let compared = expected.is_some() && theirs != Base;
            assert_eq!(merged.evaluated, compared, "{mine:?} {theirs:?}");
        }
    }

    #[test]
    fn values_that_agree_add_their_scores() {
        for (mine, theirs) in [(Base, Immutable), (Immutable, Base), (Optional, Optional)] {
            let mut merged = property(10.0, mine, 1.0);
            assert_eq!(merged.merge(&property(10.0, theirs, 2.0)), Some(Merge::Agreed));
            assert_eq!((merged.score, merged.precedence), (3.0, mine.max(theirs)));
        }
    }

    #[test]
    fn a_merge_that_is_refused_changes_nothing() {
        let mut mine = property(10.0, Immutable, 1.0);
        let before = mine.clone();
        assert_eq!(mine.merge(&property(20.0, Immutable, 2.0)), None);
        assert_eq!(mine, before);
    }
}
