//! Loses chosen frames by number, for tests in which one particular packet must be lost.

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Pick {
    /// The numbers still to come, in ascending order; the first frame has the number 1.
    chosen: Vec<u64>,
    seen: u64,
}

impl Rule for Pick {
    fn name(&self) -> &'static str {
        "drop"
    }

    fn apply(&mut self, _now: Instant, _frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        self.seen += 1;
        if self.chosen.binary_search(&self.seen).is_ok() {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }

    fn tune(&mut self, profile: &Profile) {
        self.chosen.clone_from(&profile.drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::plain;

    #[test]
    fn exactly_the_chosen_frames_are_lost() {
        let mut rule = Pick::default();
        rule.tune(&Profile { drop: vec![1, 4], ..Profile::default() });
        let mut rng = Rng::new(1, "drop");
        let lost: Vec<bool> = (0..5)
            .map(|_| rule.apply(Instant::ORIGIN, &mut plain(1), &mut rng) == Verdict::Drop)
            .collect();
        assert_eq!(lost, [true, false, false, true, false]);
    }
}
