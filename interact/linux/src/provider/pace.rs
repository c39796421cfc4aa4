//! How long records wait for the reader.
//!
//! To wake it costs more than to read a record, and who steers a flow sees what comes of it a round trip
//! later. So records wait for a small part of the shortest round trip among the flows with records.

use std::time::Duration;

use hawser_time::Instant;

/// What part of a round trip a record may wait.
const PART: u32 = 100;
/// How long one waits at most, unless more is asked for.
const MAX_PAUSE: Duration = Duration::from_millis(1);
/// How long nothing shorter must have been recorded before they wait longer.
const CALM: Duration = Duration::from_millis(100);

/// The present waiting time, and what the next depends on.
#[derive(Debug)]
pub(super) struct Pace {
    /// What was asked for: they never wait less. Zero: they do not wait at all.
    min_wait: Duration,
    wait: Duration,
    /// The shortest round trip since the last change or the last `CALM`.
    shortest: Option<Duration>,
    /// When that is over; from the first round trip on.
    until: Option<Instant>,
}

impl Pace {
    pub(super) fn new(min_wait: Duration) -> Pace {
        Pace { min_wait, wait: min_wait, shortest: None, until: None }
    }

    /// A record came of a flow whose round trip takes at least this; zero: none was measured.
    #[inline]
    pub(super) fn see(&mut self, round_trip: Duration) {
        if !round_trip.is_zero() {
            self.shortest = Some(
                self.shortest
                    .map_or(round_trip, |shortest| shortest.min(round_trip)),
            );
        }
    }

    /// The waiting time, when it is another one from now on: less at once, more after a while.
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

    /// What it changes to with one record of this round trip at each millisecond from `from` on.
    fn run(pace: &mut Pace, from: u64, count: u64, round_trip: Duration) -> Vec<(u64, Duration)> {
        let mut changes = Vec::new();
        for at in from..from + count {
            pace.see(round_trip);
            changes.extend(pace.change(Instant::after(ms(at))).map(|wait| (at, wait)));
        }
        changes
    }

    #[test]
    fn long_round_trips_let_records_wait_longer() {
        let mut pace = Pace::new(us(200));
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

    /// Nor at its first record, nor at the first after an idle period.
    #[test]
    fn nothing_waits_longer_before_a_while_is_over() {
        let mut pace = Pace::new(us(200));
        assert_eq!(run(&mut pace, 0, 101, ms(40)), [(100, us(400))]);
        assert_eq!(run(&mut pace, 9000, 300, ms(400)), [(9100, ms(1))]);
    }

    #[test]
    fn the_shortest_of_several_counts() {
        let mut pace = Pace::new(us(200));
        let mut changes = Vec::new();
        for at in 0..1000 {
            pace.see(if at % 50 == 0 { ms(30) } else { ms(120) });
            changes.extend(pace.change(Instant::after(ms(at))));
        }
        assert_eq!(changes, [us(300)]);
    }

    #[test]
    fn who_asks_to_be_woken_at_once_is() {
        let mut pace = Pace::new(Duration::ZERO);
        assert_eq!(run(&mut pace, 0, 300, ms(400)), []);
        let mut pace = Pace::new(ms(20));
        assert_eq!(run(&mut pace, 0, 300, ms(400)), [], "nor less than is asked for");
        assert_eq!(
            run(&mut pace, 300, 300, Duration::ZERO),
            [],
            "no round trip was measured"
        );
    }
}
