//! Properties by name: a request, a candidate, what a policy matches and what it adds.

use crate::names::Key;
use crate::property::{Merge, Property};

/// Two immutable properties that exclude each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Of which name.
    pub key: Key,
    /// What there was.
    pub mine: Property,
    /// What should have been merged onto it.
    pub theirs: Property,
}

/// By which candidates are ordered: first the one, then the other.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Score {
    /// Of properties that were compared with others.
    pub evaluated: f64,
    /// Of the others.
    pub rest: f64,
}

/// Properties by name, one of each, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    entries: Vec<(Key, Property)>,
    /// The union of [`Key::bit`] of the keys that there are or were.
    bits: u64,
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Properties {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Key, &Property)> {
        self.entries.iter().map(|(key, property)| (*key, property))
    }

    /// The property of this name.
    pub fn find(&self, key: Key) -> Option<&Property> {
        self.place(key).ok().map(|place| &self.entries[place].1)
    }

    /// Puts a property there, in the place of what was.
    pub fn set(&mut self, key: Key, property: Property) {
        self.bits |= key.bit();
        match self.place(key) {
            Ok(place) => self.entries[place].1 = property,
            Err(place) => self.entries.insert(place, (key, property)),
        }
    }

    /// Takes a property away.
    pub fn remove(&mut self, key: Key) -> Option<Property> {
        self.place(key).ok().map(|place| self.entries.remove(place).1)
    }

    /// Puts a property there, or merges it onto what is, whatever its precedence.
    ///
    /// # Errors
    /// Both are immutable and exclude each other.
    pub fn add(&mut self, key: Key, property: &Property) -> Result<(), Conflict> {
        match self.place(key) {
            Err(place) => {
                self.bits |= key.bit();
                self.entries.insert(place, (key, property.clone()));
                Ok(())
            }
            Ok(place) => {
                let mine = &mut self.entries[place].1;
                match mine.update(property) {
                    Some(_) => Ok(()),
                    None => Err(Conflict { key, mine: mine.clone(), theirs: property.clone() }),
                }
            }
        }
    }

    /// Merges all of `others` onto these and reports of each how it was merged; nothing for what is new.
    ///
    /// # Errors
    /// Two immutable ones exclude each other. Others may have been merged by then.
    pub fn merge(
        &mut self,
        others: &Properties,
        mut report: impl FnMut(Key, Option<Merge>),
    ) -> Result<(), Conflict> {
        self.bits |= others.bits;
        let mut at = 0;
        for (key, theirs) in &others.entries {
            while self.entries.get(at).is_some_and(|(mine, _)| mine < key) {
                at += 1;
            }
            match self.entries.get_mut(at) {
                Some((mine, property)) if mine == key => match property.merge(theirs) {
                    Some(how) => report(*key, Some(how)),
                    None => {
                        return Err(Conflict { key: *key, mine: property.clone(), theirs: theirs.clone() });
                    }
                },
                _ => {
                    self.entries.insert(at, (*key, theirs.clone()));
                    report(*key, None);
                }
            }
        }
        Ok(())
    }

    /// Takes over what `front` has, in the place of what was.
    pub fn overlay(&mut self, front: &Properties) {
        for (key, property) in &front.entries {
            self.set(*key, property.clone());
        }
    }

    /// Whether all of `wanted` are here, with values that overlap.
    pub fn cover(&self, wanted: &Properties) -> bool {
        self.bits & wanted.bits == wanted.bits
            && wanted.entries.iter().all(|(key, property)| {
                self.find(*key)
                    .is_some_and(|mine| mine.value.overlaps(&property.value))
            })
    }

    /// Whether both have the same names with the same values.
    pub fn same_values(&self, other: &Properties) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((mine, property), (theirs, with))| mine == theirs && property.value == with.value)
    }

    /// The sums by which candidates are ordered.
    pub fn score(&self) -> Score {
        let mut score = Score { evaluated: 0.0, rest: 0.0 };
        for (_, property) in &self.entries {
            let sum = if property.evaluated {
                &mut score.evaluated
            } else {
                &mut score.rest
            };
            *sum += property.score;
        }
        score
    }

    fn place(&self, key: Key) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key, |(key, _)| *key)
    }
}

impl FromIterator<(Key, Property)> for Properties {
    /// Of two with one name the later counts.
    fn from_iter<T: IntoIterator<Item = (Key, Property)>>(entries: T) -> Self {
        let mut all = Self::default();
        entries
            .into_iter()
            .for_each(|(key, property)| all.set(key, property));
        all
    }
}
