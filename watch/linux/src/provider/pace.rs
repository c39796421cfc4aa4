//! The time that records wait for the reader.
//!
//! Waking the reader costs more than reading a record, and a subscriber that steers a flow sees the effect a
//! round trip later. Records therefore wait for a small part of the shortest round trip among the flows with
//! records.

use std::time::Duration;

use hawser_time::Instant;

/// The divisor of the round trip that gives the time that a record may wait.
const PART: u32 = 100;
/// The longest wait, unless `Options::wake` is longer.
const MAX_PAUSE: Duration = Duration::from_millis(1);
/// The time without a shorter round trip after which records may wait longer.
const CALM: Duration = Duration::from_millis(100);

/// The present waiting time, and the state that determines the next.
#[derive(Debug)]
pub(super) struct PollInterval {
    /// The requested minimum of the waiting time. If zero, records do not wait at all.
    min_wait: Duration,
    wait: Duration,
    /// The shortest round trip since the last change or the last `CALM`.
    shortest: Option<Duration>,
    /// The end of the present `CALM`; set by the first round trip.
    until: Option<Instant>,
}

impl PollInterval {
    pub(super) fn new(min_wait: Duration) -> PollInterval {
        PollInterval { min_wait, wait: min_wait, shortest: None, until: None }
    }

    /// Takes the smallest round-trip time of a flow that has a record; zero means that none was measured.
    #[inline]
    pub(super) fn see(&mut self, round_trip: Duration) {
        if !round_trip.is_zero() {
            self.shortest = Some(
                self.shortest
                    .map_or(round_trip, |shortest| shortest.min(round_trip)),
            );
        }
    }

    /// Returns the waiting time if it changes: it shrinks at once, and grows only after a while.
    pub(super) fn change(&mut self, now: Instant) -> Option<Duration> {
        let shortest = self.shortest.filter(|_| !self.min_wait.is_zero())?;
        let wait = (shortest / PART).clamp(self.min_wait, MAX_PAUSE.max(self.min_wait));
        let is_over = now >= *self.until.get_or_insert(now + CALM);
        if is_over {
            (self.shortest, self.until) = (None, None);
        }
        if wait < self.wait || (is_over && wait > self.wait) {
            self.wait = wait;
            return Some(wait);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    const fn us(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    /// Returns the changes of the waiting time with one record of this round trip each millisecond from
    /// `from` on.
    fn run(pace: &mut PollInterval, from: u64, count: u64, round_trip: Duration) -> Vec<(u64, Duration)> {
        let mut changes = Vec::new();
        for at in from..from + count {
            pace.see(round_trip);
            changes.extend(pace.change(Instant::after(ms(at))).map(|wait| (at, wait)));
        }
        changes
    }

    #[test]
    fn long_round_trips_let_records_wait_longer() {
        let mut pace = PollInterval::new(us(200));
        assert_eq!(
            run(&mut pace, 0, 300, ms(10)),
            [],
            "a hundredth is less than the least"
        );
        assert_eq!(
            run(&mut pace, 300, 300, ms(40)),
            [(403, us(400))],
            "when the short one has no records any more"
        );
        assert_eq!(run(&mut pace, 600, 300, ms(400)), [(706, ms(1))], "bounded");
        assert_eq!(run(&mut pace, 900, 300, ms(30)), [(900, us(300))], "less at once");
    }

    /// Neither at the first record, nor at the first one after an idle period.
    #[test]
    fn batching_grows_only_after_a_warm_up() {
        let mut pace = PollInterval::new(us(200));
        assert_eq!(run(&mut pace, 0, 101, ms(40)), [(100, us(400))]);
        assert_eq!(run(&mut pace, 9000, 300, ms(400)), [(9100, ms(1))]);
    }

    #[test]
    fn the_shortest_round_trip_sets_the_pace() {
        let mut pace = PollInterval::new(us(200));
        let mut changes = Vec::new();
        for at in 0..1000 {
            pace.see(if at % 50 == 0 { ms(30) } else { ms(120) });
            changes.extend(pace.change(Instant::after(ms(at))));
        }
        assert_eq!(changes, [us(300)]);
    }

    #[test]
    fn a_subscriber_with_zero_delay_is_woken_at_once() {
        let mut pace = PollInterval::new(Duration::ZERO);
        assert_eq!(run(&mut pace, 0, 300, ms(400)), []);
        let mut pace = PollInterval::new(ms(20));
        assert_eq!(run(&mut pace, 0, 300, ms(400)), [], "nor less than is asked for");
        assert_eq!(
            run(&mut pace, 300, 300, Duration::ZERO),
            [],
            "no round trip was measured"
        );
    }
}
