//! Redundant: every byte is sent on every carrier, each at its own pace. Bytes that were acknowledged through
//! one carrier need not be sent on the others. For short, urgent exchanges over paths that fail.

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};

/// Sends every byte on every carrier.
#[derive(Debug, Default)]
pub struct Redundant;

impl Scheduler for Redundant {
    fn name(&self) -> &'static str {
        "redundant"
    }

    fn choose(&mut self, paths: &[PathView], pending: &PendingData, _: Instant) -> Choice {
        let ready = (0..paths.len()).filter(|&index| paths[index].room > 0);
        let soonest = ready.min_by_key(|&index| paths[index].arrival(pending.length));
        soonest.map_or(Choice::Wait(WHEN_SOMETHING_CHANGES), Choice::Send)
    }

    fn is_redundant(&self) -> bool {
        true
    }
}
