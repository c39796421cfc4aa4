//! Messages: each end that sends any sends them at intervals, and the other end times their arrival.
//!
//! On a stream, a message is a number of bytes. Its time runs from its due time until its last byte was read,
//! so it includes waiting behind other messages. If messages are delivered whole, it runs until the message
//! was read.

use std::time::Duration;

use hawser_time::{Instant, nanos};

use super::{FlowSide, Script};
use crate::rng::Rng;

/// The messages of one direction; both ends draw the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The offset at which each message ends, from the start of its direction.
    ends: Vec<u64>,
    /// The due time of each message, from the start.
    due: Vec<Duration>,
}

/// The time from one message to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageInterval {
    /// A constant time.
    Even(Duration),
    /// Exponentially distributed times with this mean, independent of each other: a Poisson process.
    Poisson(Duration),
}

impl Schedule {
    /// Draws `count` messages with sizes between the given bounds, at least 1 byte each. The first is due at
    /// once.
    #[must_use]
    pub fn draw(count: u64, size: (u64, u64), pace: MessageInterval, rng: &mut Rng) -> Schedule {
        let mut end = 0;
        let ends = (0..count).map(|_| {
            end = u64::saturating_add(end, rng.between(size.0, size.1).max(1));
            end
        });
        let ends = ends.collect();
        let mut next = Duration::ZERO;
        let due = (0..count).map(|_| {
            let due = next;
            let gap = match pace {
                MessageInterval::Even(gap) => gap,
                MessageInterval::Poisson(mean) => {
                    Duration::from_nanos((nanos(mean) as f64 * rng.exponential()) as u64)
                }
            };
            next = next.saturating_add(gap);
            due
        });
        let due = due.collect();
        Schedule { ends, due }
    }

    /// Returns the size of each message.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        self.ends
            .iter()
            .zip(begins)
            .map(|(end, begin)| end - begin)
            .collect()
    }

    /// Returns the due time of the last message after a start.
    pub(crate) fn last_due(&self, start: Instant) -> Instant {
        self.due(start, self.ends.len().saturating_sub(1))
    }

    fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the due time of the n-th message after a start, counted from 0.
    fn due(&self, start: Instant, n: usize) -> Instant {
        start + self.due.get(n).copied().unwrap_or_default()
    }
}

/// One end of a flow of messages.
#[derive(Clone, Debug)]
pub struct MessagesEnd {
    outgoing: Schedule,
    incoming: Schedule,
    /// The time at which the flow starts, for both directions.
    start: Instant,
    /// The number of messages that are due, and of messages that have arrived.
    due: usize,
    come: usize,
    times: Vec<Duration>,
}

impl MessagesEnd {
    /// Creates one end of a flow that starts at `start`; `forward` goes from client to server.
    #[must_use]
    pub fn new(side: FlowSide, forward: Schedule, backward: Schedule, start: Instant) -> MessagesEnd {
        let (outgoing, incoming) = match side {
            FlowSide::Client => (forward, backward),
            FlowSide::Server => (backward, forward),
        };
        MessagesEnd { outgoing, incoming, start, due: 0, come: 0, times: Vec::new() }
    }
}

impl Script for MessagesEnd {
    fn allowance(&mut self, now: Instant, _received: u64) -> u64 {
        while self.due < self.outgoing.ends.len() && self.outgoing.due(self.start, self.due) <= now {
            self.due += 1;
        }
        self.due.checked_sub(1).map_or(0, |last| self.outgoing.ends[last])
    }

    fn wake_at(&self) -> Option<Instant> {
        (self.due < self.outgoing.ends.len()).then(|| self.outgoing.due(self.start, self.due))
    }

    fn outgoing(&self) -> u64 {
        self.outgoing.total()
    }

    fn incoming(&self) -> u64 {
        self.incoming.total()
    }

    fn on_received(&mut self, now: Instant, received: u64) {
        while self
            .incoming
            .ends
            .get(self.come)
            .is_some_and(|end| *end <= received)
        {
            self.times.push(now - self.incoming.due(self.start, self.come));
            self.come += 1;
        }
    }

    fn on_message(&mut self, now: Instant, n: usize) {
        self.times.push(now - self.incoming.due(self.start, n));
    }

    fn times(&self) -> &[Duration] {
        &self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn messages_are_due_at_their_pace_and_timed_from_then() {
        let schedule = Schedule::draw(
            3,
            (10, 10),
            MessageInterval::Even(Duration::from_nanos(100)),
            &mut Rng::new(1, "sizes"),
        );
        let mut client = MessagesEnd::new(FlowSide::Client, schedule.clone(), Schedule::default(), at(1000));
        let mut server = MessagesEnd::new(FlowSide::Server, schedule, Schedule::default(), at(1000));
        assert_eq!(
            (client.allowance(at(1000), 0), client.wake_at()),
            (10, Some(at(1100)))
        );
        assert_eq!((client.allowance(at(1250), 0), client.wake_at()), (30, None));
        assert_eq!(
            (server.allowance(at(1250), 0), server.wake_at(), server.incoming()),
            (0, None, 30)
        );
        server.on_received(at(1040), 15);
        server.on_received(at(1260), 30);
        assert_eq!(server.times(), [40, 160, 60].map(Duration::from_nanos));
    }

    #[test]
    fn poisson_messages_are_due_in_order_at_the_mean_pace() {
        let count = 10_000;
        let mean = Duration::from_micros(50);
        let schedule = Schedule::draw(
            count,
            (1, 1),
            MessageInterval::Poisson(mean),
            &mut Rng::new(3, "gaps"),
        );
        assert!(schedule.due.is_sorted() && schedule.due[0] == Duration::ZERO);
        // The last of n - 1 gaps is due within five standard deviations, each as long as a mean gap.
        let (last, gaps) = (schedule.due[count as usize - 1].as_secs_f64(), (count - 1) as f64);
        let expected = mean.as_secs_f64() * gaps;
        assert!(
            (last - expected).abs() < 5.0 * mean.as_secs_f64() * gaps.sqrt(),
            "{last}"
        );
        let even = Schedule::draw(3, (1, 1), MessageInterval::Even(mean), &mut Rng::new(3, "gaps"));
        assert_eq!(even.due, [0, 50, 100].map(Duration::from_micros));
    }
}
