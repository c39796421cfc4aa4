//! BLEST (Ferlin et al., IFIP Networking 2016): a slow carrier is skipped if its data could fill the peer's
//! window and block the fast one.
//!
//! Let n = ⌊linger_s / R_f⌋ + 1 be the rounds of the fast carrier until a slow segment arrives. In those
//! rounds it could send X = w_f·(2ⁿ − 1) packets in slow start, else (w_f + (n − 1)/2)·n. The slow carrier is
//! skipped if X·MSS·λ exceeds window − in flight on the slow one − length. λ adapts: it rises after blocking
//! and falls otherwise.

use std::time::Duration;

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};

/// The initial λ, its bounds, and its steps up and down.
const LAMBDA: f64 = 1.2;
const BOUNDS: (f64, f64) = (1.0, 1.3);
const STEP: (f64, f64) = (0.04, 0.01);

/// The blocking estimation scheduler.
#[derive(Debug)]
pub struct Blest {
    lambda: f64,
    /// λ does not change again before this time.
    settled_until: Instant,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: LAMBDA, settled_until: Instant::ORIGIN }
    }
}

impl Scheduler for Blest {
    fn name(&self) -> &'static str {
        "blest"
    }

    fn choose(&mut self, paths: &[PathView], pending: &PendingData, now: Instant) -> Choice {
        let fast = (0..paths.len()).min_by_key(|&index| paths[index].statistics.srtt);
        let Some(fast) = fast else {
            return Choice::Wait(WHEN_SOMETHING_CHANGES);
        };
        self.learn(&paths[fast], pending, now);
        if paths[fast].room > 0 {
            return Choice::Send(fast);
        }
        let ready = (0..paths.len()).filter(|&index| paths[index].room > 0);
        let Some(slow) = ready.min_by_key(|&index| paths[index].arrival(pending.length)) else {
            return Choice::Wait(WHEN_SOMETHING_CHANGES);
        };
        if self.would_block(&paths[fast], &paths[slow], pending) {
            return Choice::Wait(paths[slow].statistics.srtt.max(Duration::from_millis(1)));
        }
        Choice::Send(slow)
    }
}

impl Blest {
    fn would_block(&self, fast: &PathView, slow: &PathView, pending: &PendingData) -> bool {
        let mss = fast.statistics.mss.max(1) as f64;
        let round = fast.statistics.srtt.as_secs_f64().max(1e-6);
        let linger = slow.arrival(pending.length).as_secs_f64();
        let rounds = (linger / round).floor() + 1.0;
        let window = fast.statistics.window as f64 / mss;
        let packets = if fast.statistics.slow_start {
            window * (rounds.min(16.0).exp2() - 1.0)
        } else {
            (window + (rounds - 1.0) / 2.0) * rounds
        };
        let left = pending.window as f64 - slow.statistics.in_flight as f64 - pending.length as f64;
        packets * mss * self.lambda > left
    }

    /// Adapts λ. The fast carrier counts as blocked if data had to be sent a second time for lack of credit.
    fn learn(&mut self, fast: &PathView, pending: &PendingData, now: Instant) {
        if now < self.settled_until {
            return;
        }
        self.settled_until = now + fast.statistics.srtt.max(Duration::from_millis(1));
        let blocked = pending.credit < fast.statistics.mss as u64;
        let step = if blocked { STEP.0 } else { -STEP.1 };
        self.lambda = (self.lambda + step).clamp(BOUNDS.0, BOUNDS.1);
    }
}
