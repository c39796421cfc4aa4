//! How long records wait for the reader.
//!
//! To wake it costs more than to read a record, and who steers a flow sees what comes of it a round trip
//! later. So records wait for a small part of the shortest round trip among the flows with records.

use std::time::Duration;

use hawser_bus::Nanos;

/// What part of a round trip a record may wait.
const PART: Nanos = 100;
/// How long one waits at most, unless more is asked for.
const MAX_PAUSE: Nanos = 1_000_000;
/// How long nothing shorter must have been recorded before they wait longer.
const CALM: Nanos = 100_000_000;

/// The present waiting time, and what the next depends on.
#[derive(Debug)]
pub(super) struct Pace {
    /// What was asked for: they never wait less. 0: they do not wait at all.
    min_wait: Nanos,
    wait: Nanos,
    /// The shortest round trip since the last change or the last `CALM`.
    shortest: Option<Nanos>,
    /// When that is over; from the first round trip on.
    until: Option<Nanos>,
}

impl Pace {
    pub(super) fn new(min_wait: Duration) -> Pace {
        let min_wait = min_wait.as_nanos().min(u128::from(Nanos::MAX)) as Nanos;
        Pace {
            min_wait,
            wait: min_wait,
            shortest: None,
            until: None,
        }
    }

    /// A record came of a flow whose round trip takes at min_wait this; 0: none was measured.
    #[inline]
    pub(super) fn see(&mut self, round_trip: Nanos) {
        if round_trip > 0 {
            self.shortest = Some(
                self.shortest
                    .map_or(round_trip, |shortest| shortest.min(round_trip)),
            );
        }
    }

    /// The waiting time, when it is another one from now on: less at once, more after a while.
    pub(super) fn change(&mut self, now: Nanos) -> Option<Duration> {
        let shortest = self.shortest.filter(|_| self.min_wait > 0)?;
        let wait = (shortest / PART).clamp(self.min_wait, MAX_PAUSE.max(self.min_wait));
        let is_over = now >= *self.until.get_or_insert(now + CALM);
        if is_over {
            (self.shortest, self.until) = (None, None);
        }
        if wait < self.wait || (is_over && wait > self.wait) {
            self.wait = wait;
            return Some(Duration::from_nanos(wait));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// What it changes to with one record of this round trip at each millisecond from `from` on.
    fn run(pace: &mut Pace, from: Nanos, count: u64, round_trip: Nanos) -> Vec<(u64, Nanos)> {
        let mut changes = Vec::new();
        for at in from..from + count {
            pace.see(round_trip);
            changes.extend(pace.change(at * MS).map(|wait| (at, wait.as_nanos() as Nanos)));
        }
        changes
    }

    #[test]
    fn long_round_trips_let_records_wait_longer() {
        let mut pace = Pace::new(Duration::from_micros(200));
        assert_eq!(
            run(&mut pace, 0, 300, 10 * MS),
            [],
            "a hundredth is less than the least"
        );
        assert_eq!(
            run(&mut pace, 300, 300, 40 * MS),
            [(403, 400_000)],
            "when the short one has no records any more"
        );
        assert_eq!(run(&mut pace, 600, 300, 400 * MS), [(706, MS)], "bounded");
        assert_eq!(
            run(&mut pace, 900, 300, 30 * MS),
            [(900, 300_000)],
            "less at once"
        );
    }

    /// Nor at its first record, nor at the first after an idle period.
    #[test]
    fn nothing_waits_longer_before_a_while_is_over() {
        let mut pace = Pace::new(Duration::from_micros(200));
        assert_eq!(run(&mut pace, 0, 101, 40 * MS), [(100, 400_000)]);
        assert_eq!(run(&mut pace, 9000, 300, 400 * MS), [(9100, MS)]);
    }

    #[test]
    fn the_shortest_of_several_counts() {
        let mut pace = Pace::new(Duration::from_micros(200));
        let mut changes = Vec::new();
        for at in 0..1000 {
            pace.see(if at % 50 == 0 { 30 * MS } else { 120 * MS });
            changes.extend(pace.change(at * MS).map(|wait| wait.as_nanos() as Nanos));
        }
        assert_eq!(changes, [300_000]);
    }

    #[test]
    fn who_asks_to_be_woken_at_once_is() {
        let mut pace = Pace::new(Duration::ZERO);
        assert_eq!(run(&mut pace, 0, 300, 400 * MS), []);
        let mut pace = Pace::new(Duration::from_millis(20));
        assert_eq!(run(&mut pace, 0, 300, 400 * MS), [], "nor less than is asked for");
        assert_eq!(run(&mut pace, 300, 300, 0), [], "no round trip was measured");
    }
}
