//! Loses frames at random: each independently, or in bursts.
//!
//! Bursts follow Gilbert's model with two states: no frame is lost in the good state, and every frame is lost
//! in the bad one. The bad state ends after each frame with probability 1 / burst, so that `burst` is the
//! mean length. The good state ends with the probability that makes `loss` the long-run share: p / (p + r) =
//! loss, with r = 1 / burst.

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Loss {
    share: f64,
    burst: f64,
    /// True within a burst.
    bad: bool,
}

impl Loss {
    fn lost(&mut self, rng: &mut Rng) -> bool {
        if self.burst <= 1.0 || self.share >= 1.0 {
            return rng.chance(self.share);
        }
        let leave = 1.0 / self.burst;
        let enter = self.share * leave / (1.0 - self.share);
        self.bad = if self.bad {
            !rng.chance(leave)
        } else {
            rng.chance(enter)
        };
        self.bad
    }
}

impl Rule for Loss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn apply(&mut self, _now: Instant, _frame: &mut Frame, rng: &mut Rng) -> Verdict {
        if self.lost(rng) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }

    fn is_inert(&self) -> bool {
        self.share <= 0.0
    }

    fn tune(&mut self, profile: &Profile) {
        self.share = profile.loss;
        self.burst = profile.burst;
        self.bad &= self.share > 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::plain;

    fn outcomes(profile: &Profile, n: usize) -> Vec<bool> {
        let mut rule = Loss::default();
        rule.tune(profile);
        let mut rng = Rng::new(42, "loss");
        (0..n)
            .map(|_| rule.apply(Instant::ORIGIN, &mut plain(1), &mut rng) == Verdict::Drop)
            .collect()
    }

    /// Five standard deviations of a binomial count.
    fn five_sigma(n: f64, p: f64) -> f64 {
        5.0 * (n * p * (1.0 - p)).sqrt()
    }

    #[test]
    fn single_losses_are_binomial() {
        for p in [0.001, 0.01, 0.1, 0.5, 0.9] {
            let n = 100_000;
            let lost = outcomes(&Profile { loss: p, ..Profile::default() }, n);
            let count = lost.iter().filter(|l| **l).count() as f64;
            assert!(
                (count - n as f64 * p).abs() < five_sigma(n as f64, p),
                "{count} of {n} at {p}"
            );
            // Losses are independent: a loss follows a loss with probability p.
            let pairs = lost.windows(2).filter(|w| w[0] && w[1]).count() as f64;
            assert!(
                (pairs - n as f64 * p * p).abs() < five_sigma(n as f64, p * p) + 5.0,
                "{pairs} pairs"
            );
        }
    }

    #[test]
    fn bursts_have_the_share_and_the_length_asked_for() {
        let n = 400_000;
        let (share, burst) = (0.2, 4.0);
        let lost = outcomes(&Profile { loss: share, burst, ..Profile::default() }, n);
        let count = lost.iter().filter(|l| **l).count() as f64;
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // A two-state chain with p = 1/16 and r = 1/4 has the correlation c = 1 - p - r from one step to the
        // next, which widens the binomial variance by (1 + c) / (1 - c).
        let c: f64 = 1.0 - 1.0 / 16.0 - 1.0 / 4.0;
        let bound = five_sigma(n as f64, share) * ((1.0 + c) / (1.0 - c)).sqrt();
        assert!(
            (count - n as f64 * share).abs() < bound,
            "share {}",
            count / n as f64
        );
        // Lengths are geometric with mean 4 and variance 12; the bound is five standard errors of their mean.
        assert!(
            (count / bursts - 4.0).abs() < 5.0 * (12.0 / bursts).sqrt(),
            "length {}",
            count / bursts
        );
    }

    #[test]
    fn loss_shares_of_zero_and_one_are_exact() {
        assert!(outcomes(&Profile::default(), 1000).iter().all(|l| !l));
        assert!(
            outcomes(&Profile { loss: 1.0, burst: 3.0, ..Profile::default() }, 1000)
                .iter()
                .all(|l| *l)
        );
    }
}
