//! One property: a value with its precedence and score, and the rules for merging two.

use std::sync::Arc;

use crate::value::Value;

/// The precedence of a property in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// A default, which gives way to any other property.
    Base = 0,
    /// A preference, which gives way to demands.
    Optional = 1,
    /// A demand, which excludes values that disagree with it.
    Immutable = 2,
}

/// A property without its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// The permitted values.
    pub value: Value,
    /// The precedence in a merge.
    pub precedence: Precedence,
    /// The weight in the ranking.
    pub score: f64,
    /// True if it was compared with another property. Such scores count first.
    pub evaluated: bool,
    /// The values that the final value must not have.
    pub banned: Arc<[Value]>,
}

/// The effect of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The values agree: the common values stay, and the scores are added.
    Agreed,
    /// The other property's value, score and precedence replace the previous ones.
    Replaced,
    /// The other property has less precedence, so the previous one stays.
    Kept,
}

impl Property {
    /// Makes an optional property without a score.
    pub fn new(value: Value) -> Self {
        Self {
            value,
            precedence: Precedence::Optional,
            score: 0.0,
            evaluated: false,
            banned: Arc::default(),
        }
    }

    /// Merges `other` onto this property. If `other` is a base property, the roles are reversed: this
    /// property takes precedence, and does not count as evaluated.
    ///
    /// Returns `None`, without a change, if both are immutable and exclude each other.
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

    /// Merges `other` onto this property, independent of its precedence.
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

    /// NEAT's rules (doc/NEAT_properties.md, "Update") for every pair of precedences: the effect if values
    /// differ, and the resulting score.
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
    fn a_refused_merge_has_no_effect() {
        let mut mine = property(10.0, Immutable, 1.0);
        let before = mine.clone();
        assert_eq!(mine.merge(&property(20.0, Immutable, 2.0)), None);
        assert_eq!(mine, before);
    }
}
