//! Earliest completion first (Lim et al., CoNEXT 2017): a slow carrier is used only when the fast
//! one, waited for, would not have everything there sooner. The default.
//!
//! With f the carrier of the lowest round trip, s the best of the others, k the bytes that wait,
//! w and R window and round trip, δ = max(σf, σs) and β = 0.25, where x = max(k, w): if
//! R_f·(x_f + w_f) < w_f·(R_s + δ)(1 + β·waiting) and R_s·x_s ≥ w_s·(2·R_f + δ), wait.

use std::time::Duration;

use hawser_time::Instant;

use super::{Choice, PathView, Pending, Scheduler, WHEN_SOMETHING_CHANGES};

/// Inertia of waiting.
const BETA: f64 = 0.25;

/// Earliest completion first.
#[derive(Debug, Default)]
pub struct EarliestCompletion {
    waiting: bool,
}

impl Scheduler for EarliestCompletion {
    fn name(&self) -> &'static str {
        "ecf"
    }

    fn choose(&mut self, paths: &[PathView], pending: &Pending, _: Instant) -> Choice {
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
            // Not for longer than the slow one would take.
            return Choice::Wait(paths[slow].statistics.srtt.max(Duration::from_millis(1)));
        }
        self.waiting = false;
        Choice::Send(slow)
    }
}

impl EarliestCompletion {
    fn is_worth_waiting(&self, fast: &PathView, slow: &PathView, pending: &Pending) -> bool {
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
