//! Cost and quota: the cheapest carriers that together can carry the pending data.
//!
//! Carriers are taken in the order of their cost per byte. A more expensive one is used only while the
//! cheaper ones cannot keep up. They cannot if they would need more than a stated time for the waiting data.
//! The session enforces quotas: a carrier whose quota is spent is never shown.

use std::time::Duration;

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};

/// Schedules on the cheapest carriers that keep up.
#[derive(Clone, Copy, Debug)]
pub struct Cheapest {
    limit: Duration,
}

impl Cheapest {
    /// Creates a scheduler that uses more expensive carriers if the cheaper ones would need longer than
    /// `limit` for the waiting data.
    pub fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl Default for Cheapest {
    fn default() -> Self {
        Self::new(Duration::from_secs(2))
    }
}

impl Scheduler for Cheapest {
    fn name(&self) -> &'static str {
        "cheapest"
    }

    fn choose(&mut self, paths: &[PathView], pending: &PendingData, _: Instant) -> Choice {
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.sort_by_key(|&index| (paths[index].cost, paths[index].arrival(pending.length)));
        let (mut pace, mut dearest) = (0, None);
        for index in order {
            let path = &paths[index];
            let costs_more = dearest.is_some_and(|cost| path.cost > cost);
            let time = Duration::from_secs_f64(pending.waiting as f64 / pace.max(1) as f64);
            if costs_more && pace > 0 && time <= self.limit {
                break;
            }
            if path.room > 0 {
                return Choice::Send(index);
            }
            pace += path.statistics.pace();
            dearest = Some(path.cost);
        }
        Choice::Wait(WHEN_SOMETHING_CHANGES)
    }
}
