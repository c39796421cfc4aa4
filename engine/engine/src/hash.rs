//! Hash tables keyed by handles and other numbers that the engine assigns.
//!
//! The engine chooses handles and memory keys without any influence of peers, so that an attacker cannot make
//! them collide. A multiplication therefore replaces the secret hash that a table would otherwise need.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::state::Handle;

/// A map keyed by handles.
pub type ByHandle<T> = HashMap<Handle, T, BuildHasherDefault<SequentialHasher>>;

/// A map keyed by numbers that the engine assigns.
pub type ByNumber<T> = HashMap<u64, T, BuildHasherDefault<SequentialHasher>>;

/// A hasher for numbers that count up.
#[derive(Debug, Default)]
pub struct SequentialHasher(u64);

impl Hasher for SequentialHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Knuth's multiplicative hash: 2^64 divided by the golden ratio. The upper bits are well mixed, and a
        // table uses both ends.
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

    /// A hash table takes the bucket from the low bits and a tag of seven bits from the high ones.
    #[test]
    fn consecutive_numbers_spread_in_low_and_high_bits() {
        let hash = |number: u64| {
            let mut hasher = SequentialHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        // 4,096 handles of one generation, and one index in 4,096 generations.
        for step in [1, 1 << 32] {
            let hashes: Vec<u64> = (0..4096).map(|i| hash(i * step)).collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 4095).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // Throwing 4,096 balls at random into 4,096 boxes leaves about 63 % of the boxes occupied.
            assert!(low.len() > 2300, "{} of 4,096", low.len());
            assert_eq!(high.len(), 128);
        }
    }
}
