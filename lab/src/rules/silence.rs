//! Drops all frames silently while it is on: a path that has failed behind an interface that is up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_time::Instant;

/// See the [module](self).
pub(crate) struct Silence {
    on: Arc<AtomicBool>,
}

impl Silence {
    /// Makes a rule that follows this switch.
    pub(crate) fn new(on: &Arc<AtomicBool>) -> Silence {
        Silence { on: Arc::clone(on) }
    }
}

impl Rule for Silence {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn apply(&mut self, _now: Instant, _frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        if self.on.load(Ordering::Relaxed) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }
}
