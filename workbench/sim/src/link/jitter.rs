//! A delay that varies from frame to frame, uniformly between zero and a maximum.
//!
//! Order is kept: a frame never leaves before the one that came before it. Reordering is a separate rule
//! ([`super::reorder`]).

use std::time::Duration;

use hawser_time::{Instant, nanos};

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Jitter {
    max: Duration,
    /// The time at which the last frame leaves.
    last: Instant,
}

impl Rule for Jitter {
    fn name(&self) -> &'static str {
        "jitter"
    }

    fn apply(&mut self, now: Instant, _frame: &mut Frame, rng: &mut Rng) -> Verdict {
        let extra = match nanos(self.max) {
            0 => 0,
            max => rng.between(0, max),
        };
        self.last = self.last.max(now.plus_nanos(extra));
        Verdict::Later(self.last)
    }

    fn is_inert(&self) -> bool {
        self.max.is_zero() && self.last == Instant::ORIGIN
    }

    fn tune(&mut self, profile: &Profile) {
        self.max = profile.jitter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::plain;

    fn delays(gap: u64, n: u64) -> Vec<u64> {
        let mut rule = Jitter::default();
        rule.tune(&Profile { jitter: Duration::from_micros(1), ..Profile::default() });
        let mut rng = Rng::new(5, "jitter");
        (0..n)
            .map(|i| Instant::from_nanos(i * gap))
            .map(|now| match rule.apply(now, &mut plain(1), &mut rng) {
                Verdict::Later(at) => at.nanos_since(now),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn jitter_is_uniform_for_distant_frames() {
        let delays = delays(10_000, 10_000);
        let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
        // Uniform on 0..=1000: mean 500, standard deviation 1000 / √12; the bound is five standard errors.
        assert!(
            (mean - 500.0).abs() < 5.0 * 1000.0 / 12f64.sqrt() / 100.0,
            "mean {mean}"
        );
        assert!(delays.iter().all(|d| *d <= 1000));
    }

    #[test]
    fn jitter_keeps_the_order_of_close_frames() {
        let delays = delays(10, 10_000);
        assert!(delays.windows(2).all(|w| w[1] + 10 >= w[0]));
        assert!(delays.iter().all(|d| *d <= 1000));
    }
}
