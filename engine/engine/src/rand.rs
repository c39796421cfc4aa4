//! Random bits from one seed of 256 bits, in independent streams: for programs (`ev.rand`), for the keys of
//! the engine's own tables, for port numbers and for message numbers.
//!
//! The generator is ChaCha with 8 rounds (Bernstein, 2008; Aumasson, "Too Much Crypto", 2019, on the number
//! of rounds). An attacker may observe bits of a stream, as in port numbers or in a program's packets. These
//! bits do not reveal other bits or the keys. The same seed gives the same run.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// The source of a stack's randomness: 256 bits from the operating system's generator, or a number for a
/// repeatable run.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl From<[u8; 32]> for Seed {
    fn from(bytes: [u8; 32]) -> Seed {
        Seed(bytes)
    }
}

impl From<u64> for Seed {
    fn from(number: u64) -> Seed {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Seed(bytes)
    }
}

/// Secrets are derived from the seed, so its value is not shown.
impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(…)")
    }
}

/// The purpose of a stream of random bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The program's `ev.rand`.
    Programs,
    /// The keys of tables.
    Tables,
    /// Port numbers.
    Ports,
    /// The numbers of messages.
    Messages,
    /// The keys of registered memory.
    Regions,
}

#[derive(Debug)]
pub(crate) struct Rand(ChaCha8Rng);

impl Rand {
    /// Returns the stream of `seed` for a purpose.
    pub(crate) fn new(seed: &Seed, purpose: Purpose) -> Rand {
        Rand::of_shard(seed, purpose, 0)
    }

    /// Returns the stream of one of several stacks that share a seed. The first stack has the stream of
    /// [`Rand::new`].
    pub(crate) fn of_shard(seed: &Seed, purpose: Purpose, shard: u16) -> Rand {
        let mut stream = ChaCha8Rng::from_seed(seed.0);
        stream.set_stream(u64::from(shard) << 8 | purpose as u64);
        Rand(stream)
    }

    /// Returns 64 fresh bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a key of 128 bits.
    pub(crate) fn key(&mut self) -> (u64, u64) {
        (self.bits(), self.bits())
    }
}

#[cfg(test)]
impl Rand {
    /// Creates a generator for the random choices of tests.
    pub(crate) fn from_seed(seed: u64) -> Rand {
        Rand::new(&Seed::from(seed), Purpose::Programs)
    }

    /// Returns a number below `bound` (0 if `bound` is 0).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key stream of ChaCha8 for a key and a nonce of zeros (eSTREAM's test vector TC1, 256 bits).
    #[test]
    fn random_bits_match_the_chacha8_test_vector() {
        let mut rand = Rand::new(&Seed::from([0; 32]), Purpose::Programs);
        let first: Vec<u8> = (0..2).flat_map(|_| rand.bits().to_le_bytes()).collect();
        assert_eq!(
            first,
            [
                0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6, 0x7f, 0x5b, 0xb8, 0xe8, 0x1f, 0x09, 0xa5,
                0xa1
            ]
        );
    }

    #[test]
    fn each_byte_of_a_seed_and_each_purpose_matters() {
        let first = |seed: [u8; 32], purpose| Rand::new(&Seed::from(seed), purpose).bits();
        let mut seen = std::collections::HashSet::new();
        for purpose in [Purpose::Programs, Purpose::Tables, Purpose::Ports] {
            assert!(seen.insert(first([0; 32], purpose)));
            for byte in 0..32 {
                let mut seed = [0; 32];
                seed[byte] = 1;
                assert!(seen.insert(first(seed, purpose)), "byte {byte}");
            }
        }
    }
}
