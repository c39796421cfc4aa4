//! The best n carriers, by latency or by throughput (MULTI III.B.4); n = 1 by latency is "lowest latency". Of
//! these, the carrier on which the segment would arrive first takes it.

use std::cmp::Reverse;

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};

/// The criterion by which carriers are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// A low smoothed round-trip time.
    Latency,
    /// A high delivery rate.
    Throughput,
}

/// Schedules on the best n carriers.
#[derive(Clone, Copy, Debug)]
pub struct Top {
    best: Best,
    count: usize,
}

impl Top {
    /// Creates a scheduler for the best `count` carriers by `best`; at least one.
    pub fn new(best: Best, count: usize) -> Self {
        Self { best, count: count.max(1) }
    }
}

impl Scheduler for Top {
    fn name(&self) -> &'static str {
        match (self.best, self.count) {
            (Best::Latency, 1) => "lowest-latency",
            (Best::Latency, _) => "top-latency",
            (Best::Throughput, _) => "top-throughput",
        }
    }

    fn choose(&mut self, paths: &[PathView], pending: &PendingData, _: Instant) -> Choice {
        let mut order: Vec<usize> = (0..paths.len()).collect();
        match self.best {
            Best::Latency => order.sort_by_key(|&index| paths[index].statistics.srtt),
            Best::Throughput => order.sort_by_key(|&index| Reverse(paths[index].statistics.pace())),
        }
        order.truncate(self.count);
        let ready = order.into_iter().filter(|&index| paths[index].room > 0);
        let soonest = ready.min_by_key(|&index| paths[index].arrival(pending.length));
        soonest.map_or(Choice::Wait(WHEN_SOMETHING_CHANGES), Choice::Send)
    }
}
