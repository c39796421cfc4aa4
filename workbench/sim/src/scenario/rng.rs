//! Seeded random numbers.
//!
//! Each random process has its own generator, labelled with its purpose, so that adding one process does not
//! shift the numbers of another. The same seed and label give the same numbers on every machine.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// A generator: xoshiro256** (Blackman and Vigna, 2018). It is not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates the generator for a label in a world with this seed.
    #[must_use]
    pub fn new(seed: u64, label: &str) -> Rng {
        let mut hasher = SipHasher13::new_with_keys(seed, 0);
        hasher.write(label.as_bytes());
        let mut mix = SplitMix(hasher.finish());
        Rng { state: std::array::from_fn(|_| mix.next()) }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound`, uniform to within 2^-64 · `bound`; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        if span == u64::MAX {
            self.bits()
        } else {
            low + self.below(span + 1)
        }
    }

    /// Returns true with this probability. Certain outcomes (0 or less, 1 or more) draw no number.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || self.fraction() < probability
    }

    /// Returns a number in [0, 1).
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponentially distributed number with mean 1: the time between two independent events. It
    /// uses von Neumann's method of 1951, which compares numbers and needs no logarithm, so that the result
    /// is the same on every machine.
    pub fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.fraction();
            let (mut last, mut falling) = (first, 1u32);
            loop {
                let next = self.fraction();
                if next >= last {
                    break;
                }
                (last, falling) = (next, falling + 1);
            }
            if falling % 2 == 1 {
                return whole + first;
            }
            whole += 1.0;
        }
    }

    /// Fills `bytes`. Calls with whole multiples of 8 bytes can be joined and split freely.
    #[inline]
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Expands one word to a state: SplitMix64 (Steele, Lea and Flood, 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_their_distribution() {
        let mut rng = Rng::new(5, "exponential");
        let count = 100_000;
        let mut all: Vec<f64> = (0..count).map(|_| rng.exponential()).collect();
        all.sort_by(f64::total_cmp);
        // The test of Kolmogorov and Smirnov: the largest distance from 1 - e^-x, at a level of 1 in 1,000.
        let distance = all
            .iter()
            .enumerate()
            .map(|(place, x)| ((place + 1) as f64 / f64::from(count) - (1.0 - (-x).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / f64::from(count).sqrt(), "{distance}");
    }

    #[test]
    fn split_mix_matches_its_published_sequence() {
        // The test vector of the reference implementation for seed 1234567.
        let mut mix = SplitMix(1_234_567);
        assert_eq!(mix.next(), 6_457_827_717_110_365_317);
        assert_eq!(mix.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn xoshiro_matches_its_published_sequence() {
        // The first outputs of the reference implementation for the state 1, 2, 3, 4.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.bits()).collect();
        assert_eq!(first, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn random_numbers_depend_on_label_and_seed() {
        let first = |seed, label| Rng::new(seed, label).bits();
        assert_eq!(first(1, "loss"), first(1, "loss"));
        assert_ne!(first(1, "loss"), first(1, "delay"));
        assert_ne!(first(1, "loss"), first(2, "loss"));
    }

    #[test]
    fn random_numbers_stay_within_their_bounds() {
        let mut rng = Rng::new(7, "bounds");
        for _ in 0..10_000 {
            assert!((3..=9).contains(&rng.between(3, 9)));
            assert!((0.0..1.0).contains(&rng.fraction()));
        }
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
