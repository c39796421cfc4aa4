//! Earliest completion first (Lim et al., CoNEXT 2017), the default. A slow carrier is used only if waiting
//! for the fast one would not complete the transfer sooner.
//!
//! Let f be the carrier with the lowest round trip, s the best of the others, and k the waiting bytes. Let w
//! and R be a carrier's window and round trip, δ = max(σf, σs), β = 0.25 and x = max(k, w). The scheduler
//! waits if R_f·(x_f + w_f) < w_f·(R_s + δ)(1 + β·waiting) and R_s·x_s ≥ w_s·(2·R_f + δ).

use std::time::Duration;

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};

/// β, the hysteresis of waiting.
const BETA: f64 = 0.25;

/// The earliest completion first scheduler.
#[derive(Debug, Default)]
pub struct EarliestCompletion {
    waiting: bool,
}

impl Scheduler for EarliestCompletion {
    fn name(&self) -> &'static str {
        "ecf"
    }

    fn choose(&mut self, paths: &[PathView], pending: &PendingData, _: Instant) -> Choice {
        let by_latency = |&index: &usize| paths[index].statistics.srtt;
        let Some(fast) = (0..paths.len()).min_by_key(by_latency) else {
            return Choice::Wait(WHEN_SOMETHING_CHANGES);
        };
        if paths[fast].room > 0 {
            self.waiting = false;
            return Choice::Send(fast);
        }
        let ready = (0..paths.len()).filter(|&index| paths[index].room > 0);
        let Some(slow) = ready.min_by_key(|&index| paths[index].arrival(pending.length)) else {
            return Choice::Wait(WHEN_SOMETHING_CHANGES);
        };
        if self.is_worth_waiting(&paths[fast], &paths[slow], pending) {
            self.waiting = true;
            // Waits no longer than the slow carrier would take.
            return Choice::Wait(paths[slow].statistics.srtt.max(Duration::from_millis(1)));
        }
        self.waiting = false;
        Choice::Send(slow)
    }
}

impl EarliestCompletion {
    fn is_worth_waiting(&self, fast: &PathView, slow: &PathView, pending: &PendingData) -> bool {
        let figures = |path: &PathView| {
            let window = path.statistics.window.max(path.statistics.mss as u64).max(1) as f64;
            let waiting = (pending.waiting.max(pending.length as u64) as f64).max(window);
            (path.statistics.srtt.as_secs_f64(), window, waiting)
        };
        let ((r_f, w_f, x_f), (r_s, w_s, x_s)) = (figures(fast), figures(slow));
        let delta = fast.statistics.rttvar.max(slow.statistics.rttvar).as_secs_f64();
        let inertia = if self.waiting { 1.0 + BETA } else { 1.0 };
        r_f * (x_f + w_f) < w_f * (r_s + delta) * inertia && r_s * x_s >= w_s * (2.0 * r_f + delta)
    }
}
