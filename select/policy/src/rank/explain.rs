//! The changes to each candidate, and the reasons for rejections.

use std::sync::Arc;

use super::Path;
use crate::names::Key;
use crate::properties::{Conflict, Properties};
use crate::property::{Merge, Property};

/// The source of a change to a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeSource {
    /// An alternative of the request, counted from 0.
    Request(usize),
    /// A profile, by its name.
    Profile(Arc<str>),
    /// A row of the CIB: its nodes from the root on, and the node that added it beside another row.
    Row(Path, Option<Arc<str>>),
    /// A policy, by its name.
    Policy(Arc<str>),
    /// The split of a set of transports into single ones.
    Transports,
    /// The removal of banned values.
    Banned,
    /// The removal of properties that callers cannot use.
    Cleaning,
}

/// The effect of a step on a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The property is new.
    Added,
    /// The property was merged.
    Merged(Merge),
    /// The property was removed.
    Removed,
}

/// A change of one property.
#[derive(Clone, Debug, PartialEq)]
pub struct PropertyChange {
    /// The key of the property.
    pub key: Key,
    /// The effect on the property.
    pub effect: Effect,
    /// The property afterwards, if it still exists.
    pub after: Option<Property>,
}

/// One step in the history of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The row, profile, policy or request that made the changes.
    pub source: ChangeSource,
    /// The changed properties.
    pub changes: Vec<PropertyChange>,
}

/// The reason for a rejection.
#[derive(Clone, Debug, PartialEq)]
pub enum RejectionReason {
    /// Immutable properties exclude each other.
    Conflict(Box<Conflict>),
    /// A row does not state this demanded property.
    Missing(Key),
    /// All permitted values of this property are banned.
    Banned(Key),
    /// It equals another candidate.
    Duplicate,
    /// This many other candidates are better.
    Rank(usize),
}

/// A rejected candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The properties of the candidate.
    pub candidate: Properties,
    /// The source that rejected it, or `None` if it was compared with the other candidates.
    pub by: Option<ChangeSource>,
    /// The rule that excluded it.
    pub why: RejectionReason,
}

/// The history of a candidate, which shares its beginning with other candidates. It is empty if the caller
/// requested no explanation.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    before: Trail,
    step: Step,
}

impl Trail {
    /// Begins a recorded trail.
    pub(super) fn begin(source: ChangeSource, properties: &Properties) -> Self {
        let added = |(key, property): (Key, &Property)| PropertyChange {
            key,
            effect: Effect::Added,
            after: Some(property.clone()),
        };
        let changes = properties.iter().map(added).collect();
        Self(Some(Arc::new(Link {
            before: Self(None),
            step: Step { source, changes },
        })))
    }

    /// Adds a step. Merged properties are given in `merged`; removed ones are found by comparison.
    pub(super) fn then(
        &self,
        source: ChangeSource,
        before: &Properties,
        after: &Properties,
        merged: &[(Key, Option<Merge>)],
    ) -> Self {
        let removed = before.iter().filter(|(key, _)| after.find(*key).is_none());
        let removed = removed.map(|(key, _)| PropertyChange { key, effect: Effect::Removed, after: None });
        let reported = merged.iter().map(|(key, how)| PropertyChange {
            key: *key,
            effect: how.map_or(Effect::Added, Effect::Merged),
            after: after.find(*key).cloned(),
        });
        let changes = removed.chain(reported).collect();
        Self(Some(Arc::new(Link {
            before: self.clone(),
            step: Step { source, changes },
        })))
    }

    /// Returns the steps from the first to the last.
    pub(super) fn steps(&self) -> Vec<&Step> {
        let mut steps = Vec::new();
        let mut trail = self;
        while let Some(link) = &trail.0 {
            steps.push(&link.step);
            trail = &link.before;
        }
        steps.reverse();
        steps
    }
}
