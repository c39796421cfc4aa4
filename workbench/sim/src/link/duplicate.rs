//! Sends a copy after some frames.

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Duplicate {
    share: f64,
}

impl Rule for Duplicate {
    fn name(&self) -> &'static str {
        "duplicate"
    }

    fn apply(&mut self, now: Instant, _frame: &mut Frame, rng: &mut Rng) -> Verdict {
        if rng.chance(self.share) {
            Verdict::Twice(now)
        } else {
            Verdict::Pass
        }
    }

    fn is_inert(&self) -> bool {
        self.share <= 0.0
    }

    fn tune(&mut self, profile: &Profile) {
        self.share = profile.duplicate;
    }
}
