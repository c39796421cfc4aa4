//! Ids: compared word by word, and hashed under a secret key.

use bytemuck::cast_ref;
use hawser_ir::abi::Id;
use siphasher::sip::SipHasher13;

/// The number of 64-bit words in an id.
const WORDS: usize = size_of::<Id>() / 8;

/// Returns true if two ids are equal: `==` without a function call.
#[inline]
pub(crate) fn same(one: &Id, other: &Id) -> bool {
    let (one, other): (&[u64; WORDS], &[u64; WORDS]) = (cast_ref(one), cast_ref(other));
    one.iter()
        .zip(other)
        .fold(0, |difference, (a, b)| difference | (a ^ b))
        == 0
}

/// A keyed hash of ids. A peer that does not know the key cannot make ids collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    sip: SipHasher13,
    pub(crate) key: (u64, u64),
}

impl Hasher {
    pub(crate) fn new(key: (u64, u64)) -> Hasher {
        Hasher { sip: SipHasher13::new_with_keys(key.0, key.1), key }
    }

    /// Returns SipHash-1-3 of the id's used bytes.
    #[inline]
    pub(crate) fn hash(&self, id: &Id) -> u64 {
        self.sip.hash(id.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_compare_equal_only_if_all_bits_agree() {
        let mut id = Id::NONE;
        id.push_bytes(&[7; 36]);
        assert!(same(&id, &id.clone()) && same(&Id::NONE, &Id::NONE));
        for byte in 0..size_of::<Id>() {
            for bit in 0..8 {
                let mut other = id;
                other.0[byte] ^= 1 << bit;
                assert!(!same(&id, &other) && id != other);
            }
        }
    }
}
