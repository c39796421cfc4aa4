//! Random numbers from a seed, with a taste for the edges.
//!
//! SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). The same
//! seed gives the same numbers on every machine and in every version of this crate's dependencies.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Numbers of their own for each seed and each purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5851_f42d_4c95_7f2d);
        for byte in purpose.bytes() {
            rng.0 = rng.word() ^ u64::from(byte);
        }
        rng
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 below 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            0
        } else {
            (self.word() % limit as u64) as usize
        }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A number of `bits` bits: half the time one at an edge, where arithmetic goes wrong.
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

    /// Fills bytes at random; often with a single value, as damaged memory has it.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        match self.below(4) {
            0 => bytes.fill(0xff),
            1 => {
                let value = self.word() as u8;
                bytes.fill(value);
            }
            _ => bytes.iter_mut().for_each(|byte| *byte = self.word() as u8),
        }
    }
}
