//! Propagation: every frame is delayed by the same time.

use std::time::Duration;

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Delay {
    delay: Duration,
}

impl Rule for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn apply(&mut self, now: Instant, _frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        Verdict::Later(now + self.delay)
    }

    fn control(&self, at: Instant, _bytes: u64) -> Instant {
        at + self.delay
    }

    fn is_inert(&self) -> bool {
        self.delay.is_zero()
    }

    fn tune(&mut self, profile: &Profile) {
        self.delay = profile.delay;
    }
}
