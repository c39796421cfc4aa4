//! What a subscriber asks for.

use std::time::Duration;

use crate::filter::Filter;
use crate::pattern::Pattern;
use crate::scope::Scope;

/// Which events a subscriber receives, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Events: names or patterns.
    pub events: Vec<Pattern>,
    /// Variables whose values come with each signal, by whole name, or without the provider's name
    /// from a dot on: `.conn.cc.cwnd`. One that a source does not have is 0 there.
    pub with: Vec<String>,
    /// Of which flows.
    pub scope: Scope,
    /// Who is called first, in the loop; and who wins a variable that several want to set.
    pub priority: u8,
    /// The time and the frequency filter, for each event of each flow apart.
    pub filter: Filter,
}

impl Subscription {
    /// All of some events, with priority 1.
    #[must_use]
    pub fn new(events: impl IntoIterator<Item = impl Into<Pattern>>) -> Subscription {
        Subscription {
            events: events.into_iter().map(Into::into).collect(),
            with: Vec::new(),
            scope: Scope::All,
            priority: 1,
            filter: Filter::default(),
        }
    }

    /// With these variables' values.
    #[must_use]
    pub fn with(mut self, variables: impl IntoIterator<Item = impl Into<String>>) -> Subscription {
        self.with.extend(variables.into_iter().map(Into::into));
        self
    }

    /// Of these flows only.
    #[must_use]
    pub fn of(mut self, scope: Scope) -> Subscription {
        self.scope = scope;
        self
    }

    /// At most one in this span, the last.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Subscription {
        self.filter.interval = interval;
        self
    }

    /// Every n-th of what is left.
    #[must_use]
    pub fn each_nth(mut self, frequency: u32) -> Subscription {
        self.filter.frequency = frequency;
        self
    }

    /// With this priority.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Subscription {
        self.priority = priority;
        self
    }
}

/// Where a T-ware runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the source, as part of the event.
    Loop,
    /// Elsewhere, from a queue of this many signals.
    Queue(usize),
}

/// What became of a subscription's events at its sources, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events that the subscription names, of flows in its scope.
    pub events: u64,
    /// Of them passed the filters.
    pub passed: u64,
    /// Of those found a full queue, or were lost before the source: then of whatever flow.
    pub lost: u64,
    /// Events that there was no room to keep until their interval's end: they were lost, too.
    pub crowded: u64,
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.events += other.events;
        self.passed += other.passed;
        self.lost += other.lost;
        self.crowded += other.crowded;
    }
}
