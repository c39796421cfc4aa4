//! Subscriptions: the events that a subscriber asks for.

use std::time::Duration;

use crate::filter::Filter;
use crate::pattern::Pattern;
use crate::scope::Scope;

/// The events that a subscriber receives, and the limits on their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The events, as names or patterns.
    pub events: Vec<Pattern>,
    /// Variables whose values come with each signal. A variable is given by its whole name, or without the
    /// provider's name from a dot on: `.conn.cc.cwnd`. If a source lacks the variable, its value is 0.
    pub with: Vec<String>,
    /// The flows whose events are received.
    pub scope: Scope,
    /// The priority: in the loop, the T-ware with the highest is called first, and it wins a variable that
    /// several T-wares want to set.
    pub priority: u8,
    /// The time filter and the frequency filter, applied to each event of each flow separately.
    pub filter: Filter,
}

impl Subscription {
    /// Subscribes to every occurrence of some events, with priority 1.
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

    /// Adds variables whose values come with each signal.
    #[must_use]
    pub fn with(mut self, variables: impl IntoIterator<Item = impl Into<String>>) -> Subscription {
        self.with.extend(variables.into_iter().map(Into::into));
        self
    }

    /// Limits the subscription to these flows.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Subscription {
        self.scope = scope;
        self
    }

    /// Delivers at most one event in this interval, the last.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Subscription {
        self.filter.interval = interval;
        self
    }

    /// Delivers every n-th of the events that pass the time filter.
    #[must_use]
    pub fn each_nth(mut self, frequency: u32) -> Subscription {
        self.filter.frequency = frequency;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Subscription {
        self.priority = priority;
        self
    }
}

/// The place in which a T-ware runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwarePlacement {
    /// In the source, as part of the event.
    Loop,
    /// Elsewhere, fed from a queue of this many signals.
    Queue(usize),
}

/// The counts of a subscription's events at its sources, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events that match the subscription, of flows in its scope.
    pub events: u64,
    /// Events that passed the filters.
    pub passed: u64,
    /// Events that passed the filters and found a full queue. Events lost before the source are included,
    /// whatever their flow.
    pub lost: u64,
    /// Events that were lost because there was no memory to keep them until the end of their interval.
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
