//! What touched a candidate, and why others were rejected.

use std::sync::Arc;

use super::Path;
use crate::names::Key;
use crate::properties::{Conflict, Properties};
use crate::property::{Merge, Property};

/// What touched a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An alternative of the request, counted from 0.
    Request(usize),
    /// A profile, by its name.
    Profile(Arc<str>),
    /// A row of the CIB: its nodes from the root on, and the node that added it beside another.
    Row(Path, Option<Arc<str>>),
    /// A policy, by its name.
    Policy(Arc<str>),
    /// A set of transports became one each.
    Transports,
    /// What was banned was taken away.
    Banned,
    /// What nobody outside can use was taken away.
    Cleaning,
}

/// What became of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is new.
    Added,
    /// It was merged.
    Merged(Merge),
    /// It was taken away.
    Removed,
}

/// A property that was touched.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The property's key.
    pub key: Key,
    /// How.
    pub effect: Effect,
    /// What it is afterwards.
    pub after: Option<Property>,
}

/// One thing that touched a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The row, profile, policy or request that touched it.
    pub source: Source,
    /// Which properties it touched.
    pub changes: Vec<Change>,
}

/// Why a candidate is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Immutable properties exclude each other.
    Conflict(Box<Conflict>),
    /// A row does not say what is demanded.
    Missing(Key),
    /// All that it may be is banned.
    Banned(Key),
    /// It is the same as one that is there.
    Duplicate,
    /// So many others are better.
    Rank(usize),
}

/// A candidate that is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// What it was.
    pub candidate: Properties,
    /// What it met; nothing when it was compared with the other candidates.
    pub by: Option<Source>,
    /// The rule that excluded it.
    pub why: Why,
}

/// The way of a candidate, shared with those that went part of it; nothing when nobody asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    before: Trail,
    step: Step,
}

impl Trail {
    /// The beginning of one that is written down.
    pub(super) fn begin(source: Source, properties: &Properties) -> Self {
        let added = |(key, property): (Key, &Property)| Change {
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

    /// One step further: what was merged is told, what is gone is seen.
    pub(super) fn then(
        &self,
        source: Source,
        before: &Properties,
        after: &Properties,
        merged: &[(Key, Option<Merge>)],
    ) -> Self {
        let removed = before.iter().filter(|(key, _)| after.find(*key).is_none());
        let removed = removed.map(|(key, _)| Change { key, effect: Effect::Removed, after: None });
        let reported = merged.iter().map(|(key, how)| Change {
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

    /// From the first to the last.
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
