//! The content of transfers: bytes that each encode their position.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The number of bytes generated at once.
const PIECE: usize = 262_144;

/// The pieces of a content of known length, from its beginning.
pub(crate) struct Content {
    block: Bytes,
    left: u64,
    number: u64,
    is_cheap: bool,
}

impl Content {
    /// Makes a content of this length. With `is_cheap`, one block is repeated, for transfers that must be
    /// fast rather than checked.
    pub(crate) fn new(length: u64, is_cheap: bool) -> Self {
        Self { block: block(0), left: length, number: 0, is_cheap }
    }
}

fn block(number: u64) -> Bytes {
    let first = number * (PIECE as u64 / 8);
    // Multiplication by an odd number is a bijection, so no two words of a content are alike.
    let word = |index: u64| (first + index).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..PIECE as u64 / 8).flat_map(word).collect::<Vec<u8>>().into()
}

impl Iterator for Content {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        if !self.is_cheap {
            self.block = block(self.number);
            self.number += 1;
        }
        let length = self.left.min(PIECE as u64) as usize;
        self.left -= length as u64;
        Some(self.block.slice(..length))
    }
}

/// Returns the SHA-256 of a content.
pub(crate) fn digest(length: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    Content::new(length, false).for_each(|piece| hash.update(&piece));
    hash.finalize().into()
}
