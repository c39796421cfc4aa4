//! Properties by name: the common form of requests, candidates, and the matched and added properties of a
//! policy.

use crate::names::Key;
use crate::property::{Merge, Property};

/// Two immutable properties exclude each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The name of both properties.
    pub key: Key,
    /// The property that was present.
    pub mine: Property,
    /// The property that should have been merged onto it.
    pub theirs: Property,
}

/// The score by which candidates are ordered: first by `evaluated`, then by `rest`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Score {
    /// The sum over properties that were compared with others.
    pub evaluated: f64,
    /// The sum over the other properties.
    pub rest: f64,
}

/// Properties by name, one of each, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    entries: Vec<(Key, Property)>,
    /// The union of [`Key::bit`] of all present and removed keys.
    bits: u64,
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Properties {
    /// Returns the number of properties.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the properties in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Key, &Property)> {
        self.entries.iter().map(|(key, property)| (*key, property))
    }

    /// Returns the property of this name.
    pub fn find(&self, key: Key) -> Option<&Property> {
        self.place(key).ok().map(|place| &self.entries[place].1)
    }

    /// Sets a property, replacing the previous one.
    pub fn set(&mut self, key: Key, property: Property) {
        self.bits |= key.bit();
        match self.place(key) {
            Ok(place) => self.entries[place].1 = property,
            Err(place) => self.entries.insert(place, (key, property)),
        }
    }

    /// Removes a property, and returns it.
    pub fn remove(&mut self, key: Key) -> Option<Property> {
        self.place(key).ok().map(|place| self.entries.remove(place).1)
    }

    /// Adds a property, or merges it onto the existing one, independent of its precedence.
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

    /// Merges all of `others` onto these, and reports each merge, with `None` for a new property.
    ///
    /// # Errors
    /// Two immutable properties exclude each other. Others may have been merged already.
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

    /// Sets all properties of `front`, replacing the previous ones.
    pub fn overlay(&mut self, front: &Properties) {
        for (key, property) in &front.entries {
            self.set(*key, property.clone());
        }
    }

    /// Returns whether all of `wanted` are present, with values that overlap.
    pub fn cover(&self, wanted: &Properties) -> bool {
        self.bits & wanted.bits == wanted.bits
            && wanted.entries.iter().all(|(key, property)| {
                self.find(*key)
                    .is_some_and(|mine| mine.value.overlaps(&property.value))
            })
    }

    /// Returns whether both have the same names with the same values.
    pub fn same_values(&self, other: &Properties) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((mine, property), (theirs, with))| mine == theirs && property.value == with.value)
    }

    /// Returns the sums by which candidates are ordered.
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
    /// Collects properties. Of two with one name, the later is kept.
    fn from_iter<T: IntoIterator<Item = (Key, Property)>>(entries: T) -> Self {
        let mut all = Self::default();
        entries
            .into_iter()
            .for_each(|(key, property)| all.set(key, property));
        all
    }
}
