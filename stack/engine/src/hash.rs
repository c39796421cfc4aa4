//! Tables by handle.
//!
//! The engine chooses handles and keys of memory, and no peer influences them: nobody can make them collide, and a
//! multiplication serves where a table needs a secret hash otherwise.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::state::Handle;

/// What is known of handles.
pub type ByHandle<T> = HashMap<Handle, T, BuildHasherDefault<Numbers>>;

/// The properties of numbers that the engine gives out.
pub type ByNumber<T> = HashMap<u64, T, BuildHasherDefault<Numbers>>;

/// Hashes numbers that count up.
#[derive(Debug, Default)]
pub struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Knuth's multiplicative hash: 2^64 over the golden ratio; the upper bits are the good ones,
        // and a table looks at both ends.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A table takes its place from the low bits and a tag of seven from the high ones.
    #[test]
    fn neighbours_are_spread_at_both_ends() {
        let hash = |number: u64| {
            let mut hasher = Numbers::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        // 4,096 handles of one generation, and one index in 4,096 generations.
        for step in [1, 1 << 32] {
            let hashes: Vec<u64> = (0..4096).map(|i| hash(i * step)).collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 4095).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // Thrown at random, 4,096 balls leave about 63 % of as many boxes occupied.
            assert!(low.len() > 2300, "{} of 4,096", low.len());
            assert_eq!(high.len(), 128);
        }
    }
}
