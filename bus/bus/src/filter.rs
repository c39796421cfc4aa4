//! The time filter and the frequency filter (iTCP, section 2.4), for one event of one flow and one
//! subscription.
//!
//! The paper's text says that the frequency filter counts the events that are skipped, but its Figure 4
//! passes every third for F = 3. F has the meaning of the figure here.

use std::time::Duration;

use hawser_time::Instant;

/// Limits how many of a subscription's events are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The length of an interval, which begins with the first event. Of the events in an interval only the
    /// last survives, and it is delivered when the interval ends. The next event then begins a new interval.
    /// If zero, all events survive at once.
    pub interval: Duration,
    /// Every n-th survivor passes; 0 and 1 pass all.
    pub frequency: u32,
}

impl Filter {
    /// Returns whether every event passes at once, so that no state is kept.
    #[must_use]
    #[inline]
    pub fn is_open(&self) -> bool {
        self.interval.is_zero() && self.frequency <= 1
    }
}

/// The outcome of an event at the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The event is delivered.
    Pass,
    /// The event is dropped.
    Drop,
    /// The event begins an interval. It is kept until this time, or until a later event replaces it.
    Hold(Instant),
    /// The event replaces the one that is kept.
    Replace,
}

/// The state of both filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterState {
    /// The end of the running interval.
    until: Option<Instant>,
    /// The number of survivors since the last event that passed.
    survivors: u32,
}

impl FilterState {
    /// Judges an event. If an interval has ended before `now`, the caller must call [`FilterState::close`]
    /// first.
    pub fn judge(&mut self, filter: &Filter, now: Instant) -> Passage {
        if filter.interval.is_zero() {
            return if self.survive(filter) {
                Passage::Pass
            } else {
                Passage::Drop
            };
        }
        if self.until.is_some() {
            return Passage::Replace;
        }
        let until = now + filter.interval;
        self.until = Some(until);
        Passage::Hold(until)
    }

    /// Ends the interval if it is over at `now`; returns then whether the event that was kept is delivered.
    pub fn close(&mut self, filter: &Filter, now: Instant) -> Option<bool> {
        if self.until? > now {
            return None;
        }
        self.until = None;
        Some(self.survive(filter))
    }

    /// Returns the end of the running interval.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// The frequency filter: counts a survivor, and returns whether it passes.
    fn survive(&mut self, filter: &Filter) -> bool {
        self.survivors += 1;
        let pass = self.survivors >= filter.frequency;
        if pass {
            self.survivors = 0;
        }
        pass
    }
}

#[cfg(test)]
mod tests {
    use hawser_time::nanos;

    use super::*;

    /// A filter whose interval is in nanoseconds.
    fn filter(interval: u64, frequency: u32) -> Filter {
        Filter { interval: Duration::from_nanos(interval), frequency }
    }

    /// Runs a filter over events at `times`, ascending, up to `end`, in nanoseconds. Returns the index of
    /// each delivered event and the time of its delivery.
    fn run(filter: Filter, times: &[u64], end: u64) -> Vec<(usize, u64)> {
        let mut gate = FilterState::default();
        let (mut kept, mut out) = (0, Vec::new());
        let close = |gate: &mut FilterState, kept: usize, now, out: &mut Vec<_>| {
            let until = gate.until();
            if gate.close(&filter, Instant::from_nanos(now)) == Some(true) {
                out.push((kept, until.expect("it was open").as_nanos()));
            }
        };
        for (i, &now) in times.iter().enumerate() {
            close(&mut gate, kept, now, &mut out);
            match gate.judge(&filter, Instant::from_nanos(now)) {
                Passage::Pass => out.push((i, now)),
                Passage::Drop => {}
                Passage::Hold(_) | Passage::Replace => kept = i,
            }
        }
        close(&mut gate, kept, end, &mut out);
        out
    }

    /// The same, following the paper's text: cut the time into intervals, take the last event of each, then
    /// every F-th of those.
    fn model(filter: Filter, times: &[u64], end: u64) -> Vec<(usize, u64)> {
        let interval = nanos(filter.interval);
        let mut survivors = Vec::new();
        let mut i = 0;
        while i < times.len() {
            let over = times[i] + interval;
            let after = times.iter().position(|t| *t >= over).filter(|_| interval > 0);
            let after = if interval == 0 {
                i + 1
            } else {
                after.unwrap_or(times.len())
            };
            if over <= end {
                survivors.push((after - 1, over));
            }
            i = after;
        }
        let every = filter.frequency.max(1) as usize;
        survivors.into_iter().skip(every - 1).step_by(every).collect()
    }

    /// Figure 4 of the paper: of eleven events the time filter passes the fourth, the seventh and the tenth.
    /// Of these the frequency filter passes the tenth.
    #[test]
    fn filters_reproduce_figure_4_of_the_paper() {
        // Four events in the first interval, three in the second and in the third, one after that.
        let times = [0, 25, 50, 75, 100, 130, 160, 200, 230, 260, 300];
        let number = |out: Vec<(usize, u64)>| out.into_iter().map(|(i, _)| i + 1).collect::<Vec<_>>();
        let time = filter(100, 0);
        assert_eq!(number(run(time, &times, 399)), [4, 7, 10]);
        let both = filter(100, 3);
        assert_eq!(number(run(both, &times, 399)), [10]);
        let neither = Filter::default();
        assert_eq!(number(run(neither, &times, 399)).len(), 11);
    }

    #[test]
    fn an_interval_begins_with_an_event() {
        let filter = filter(10, 0);
        assert_eq!(run(filter, &[1000, 1009, 1010], 1019), [(1, 1010)]);
        assert_eq!(run(filter, &[1000, 1009, 1010], 1020), [(1, 1010), (2, 1020)]);
    }

    /// Random sequences, one from each seed: bursts, pauses, equal times.
    #[test]
    fn filters_match_the_figure_of_the_paper() {
        for seed in 0..if cfg!(miri) { 40 } else { 4000 } {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut below = |n: u64| rng.u64(..n);
            let (interval, frequency) = (below(120), below(7) as u32);
            let (count, step) = (below(200), 1 + below(50));
            let mut now = 0;
            let times: Vec<u64> = (0..count)
                .map(|_| {
                    now += below(step);
                    now
                })
                .collect();
            let (end, filter) = (now + below(200), filter(interval, frequency));
            assert_eq!(
                run(filter, &times, end),
                model(filter, &times, end),
                "seed {seed}"
            );
        }
    }
}
