//! Holds some frames back for a time, so that later ones overtake them.

use std::time::Duration;

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Reorder {
    share: f64,
    hold: Duration,
}

impl Rule for Reorder {
    fn name(&self) -> &'static str {
        "reorder"
    }

    fn apply(&mut self, now: Instant, _frame: &mut Frame, rng: &mut Rng) -> Verdict {
        if rng.chance(self.share) {
            Verdict::Later(now + self.hold)
        } else {
            Verdict::Pass
        }
    }

    fn is_inert(&self) -> bool {
        self.share <= 0.0
    }

    fn tune(&mut self, profile: &Profile) {
        self.share = profile.reorder;
        self.hold = profile.hold;
    }
}
