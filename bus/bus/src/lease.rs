//! Leases: the variables that are held, with their flow, their holder and their end.
//!
//! A held variable keeps its holder's value: the source writes it again after each event of the flow. The
//! value that the provider itself wrote in between is kept separately, and the variable returns to it when
//! the lease ends. A variable that the provider never writes therefore gets back its earlier value. A
//! variable that the provider updates continues from the provider's last value.

use std::time::Duration;

use hawser_time::Instant;

use crate::flow::FlowId;
use crate::map::Map;
use crate::order::SubscriberId;
use crate::schema::VariableId;

/// The maximum number of variables held at a source.
pub(crate) const MAX_HOLDS: usize = 65_536;
/// The longest lease: one day.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(86_400);

/// A variable that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The variable's number in the source's schema.
    pub variable: VariableId,
    /// The holder.
    pub(crate) subscriber: SubscriberId,
    /// The priority of the hold.
    pub priority: u8,
    /// The value that the holder set.
    pub value: u64,
    /// The provider's own value, to which the variable returns.
    pub own: u64,
    /// The end of the lease.
    pub until: Instant,
}

/// All holds at a source.
#[derive(Debug, Default)]
pub struct LeaseTable {
    by_flow: Map<FlowId, Vec<Lease>>,
    count: usize,
    /// A lower bound of the ends of all leases.
    next: Option<Instant>,
}

/// The outcome of a request to hold a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseOutcome {
    /// The variable was not held before; its value before.
    New(u64),
    /// The same subscriber held it already; its value before.
    Again(u64),
    /// It was taken from another subscriber of lower priority; its value before.
    Taken(SubscriberId, u64),
    /// A subscriber of equal or higher priority holds it.
    Denied(SubscriberId, u8),
    /// The table of holds is full.
    Full,
}

impl LeaseTable {
    /// Returns whether no variable is held.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of held variables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the earliest time at which a lease may end.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the holds of a flow.
    #[must_use]
    #[inline]
    pub fn for_flow(&mut self, flow: FlowId) -> &mut [Lease] {
        self.by_flow.get_mut(&flow).map_or(&mut [], |list| list)
    }

    /// Holds a variable; `hold.own` is its current value.
    pub(crate) fn take(&mut self, flow: FlowId, hold: Lease) -> LeaseOutcome {
        let list = self.by_flow.entry(flow).or_default();
        let held = match list.iter_mut().find(|h| h.variable == hold.variable) {
            Some(there) if there.subscriber == hold.subscriber => {
                let before = there.value;
                *there = Lease { own: there.own, ..hold };
                LeaseOutcome::Again(before)
            }
            Some(there) if there.priority >= hold.priority => {
                LeaseOutcome::Denied(there.subscriber, there.priority)
            }
            Some(there) => {
                let (loser, before) = (there.subscriber, there.value);
                *there = Lease { own: there.own, ..hold };
                LeaseOutcome::Taken(loser, before)
            }
            None if self.count >= MAX_HOLDS => LeaseOutcome::Full,
            None => {
                list.push(hold);
                self.count += 1;
                LeaseOutcome::New(hold.own)
            }
        };
        if list.is_empty() {
            self.by_flow.remove(&flow);
        }
        if !matches!(held, LeaseOutcome::Denied(..) | LeaseOutcome::Full) {
            self.next = Some(self.next.map_or(hold.until, |next| next.min(hold.until)));
        }
        held
    }

    /// Ends the holds of all flows that satisfy `ends`, and passes each to `ended`.
    pub(crate) fn end(
        &mut self,
        ends: impl Fn(FlowId, &Lease) -> bool,
        mut ended: impl FnMut(FlowId, Lease),
    ) {
        let (mut count, mut next) = (0, None::<Instant>);
        self.by_flow.retain(|flow, list| {
            list.retain(|hold| {
                let over = ends(*flow, hold);
                if over {
                    ended(*flow, *hold);
                }
                !over
            });
            count += list.len();
            let first = list.iter().map(|hold| hold.until).min();
            next = [next, first].into_iter().flatten().min();
            !list.is_empty()
        });
        self.count = count;
        self.next = next;
    }

    /// Ends the holds of a flow that satisfy `ends`.
    pub(crate) fn end_of(
        &mut self,
        flow: FlowId,
        ends: impl Fn(&Lease) -> bool,
        mut ended: impl FnMut(FlowId, Lease),
    ) {
        let Some(list) = self.by_flow.get_mut(&flow) else {
            return;
        };
        let before = list.len();
        list.retain(|hold| {
            let over = ends(hold);
            if over {
                ended(flow, *hold);
            }
            !over
        });
        self.count -= before - list.len();
        if list.is_empty() {
            self.by_flow.remove(&flow);
        }
        if self.count == 0 {
            self.next = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowId = FlowId(1);

    fn hold(subscriber: u32, priority: u8, value: u64, until: u64) -> Lease {
        Lease {
            variable: VariableId(0),
            subscriber: SubscriberId(subscriber),
            priority,
            value,
            own: 7,
            until: Instant::from_nanos(until),
        }
    }

    #[test]
    fn the_higher_priority_wins_and_equals_keep_the_first() {
        let mut holds = LeaseTable::default();
        assert_eq!(holds.take(FLOW, hold(1, 1, 10, 100)), LeaseOutcome::New(7));
        assert_eq!(
            holds.take(FLOW, hold(2, 1, 20, 100)),
            LeaseOutcome::Denied(SubscriberId(1), 1)
        );
        assert_eq!(holds.take(FLOW, hold(1, 1, 11, 200)), LeaseOutcome::Again(10));
        assert_eq!(
            holds.take(FLOW, hold(2, 2, 20, 150)),
            LeaseOutcome::Taken(SubscriberId(1), 11)
        );
        assert_eq!(holds.for_flow(FLOW), [hold(2, 2, 20, 150)]);
        assert_eq!(holds.len(), 1);
    }

    #[test]
    fn leases_end_at_their_deadline() {
        let mut holds = LeaseTable::default();
        holds.take(FLOW, hold(1, 1, 10, 100));
        holds.take(FlowId(2), hold(1, 1, 10, 300));
        assert_eq!(holds.next(), Some(Instant::from_nanos(100)));
        let mut ended = Vec::new();
        holds.end(
            |_, h| h.until <= Instant::from_nanos(100),
            |flow, _| ended.push(flow),
        );
        assert_eq!((ended, holds.len()), (vec![FLOW], 1));
        assert_eq!(holds.next(), Some(Instant::from_nanos(300)));
        holds.end_of(FlowId(2), |_| true, |_, _| {});
        assert!(holds.is_empty() && holds.next().is_none());
    }
}
