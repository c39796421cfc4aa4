//! Random numbers from a seed, with a preference for edge cases.
//!
//! The same seed yields the same numbers on every machine; another version of `fastrand` may change them.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Creates a separate sequence for each seed and each purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Rng {
        let mut rng = fastrand::Rng::with_seed(seed);
        for byte in purpose.bytes() {
            rng = fastrand::Rng::with_seed(rng.u64(..) ^ u64::from(byte));
        }
        Rng(rng)
    }

    /// Returns 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    /// Returns true once in `n` times on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of several choices.
    ///
    /// # Panics
    /// If there are no choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns a number of `bits` bits. Half of them are at an edge of the range, where arithmetic errors
    /// show.
    pub fn edge(&mut self, bits: u8) -> u64 {
        let mask = u64::MAX >> (64 - u32::from(bits.clamp(1, 64)));
        let half = 1u64 << (bits.clamp(1, 64) - 1);
        let value = match self.below(12) {
            0 => 0,
            1 => 1,
            2 => mask,
            3 => half,
            4 => half.wrapping_sub(1),
            5 => half.wrapping_add(1),
            6 => mask.wrapping_sub(self.word() % 4),
            7 => 1 << self.below(usize::from(bits)),
            8 | 9 => self.word() % 20,
            _ => self.word(),
        };
        value & mask
    }

    /// Fills bytes at random, often with a single value, as damaged memory often is.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        match self.below(4) {
            0 => bytes.fill(0xff),
            1 => {
                let value = self.word() as u8;
                bytes.fill(value);
            }
            _ => self.0.fill(bytes),
        }
    }
}
