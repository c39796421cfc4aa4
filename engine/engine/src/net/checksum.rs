//! The Internet checksum (RFC 1071), over bytes in several pieces.

use crate::wire::TxFrame;

use super::address::{Ip, is_ipv4, octets};

/// A one's complement sum that is being computed.
///
/// Summing uses the machine's byte order, as RFC 1071, 2(B) permits; only the result is swapped. Pieces may
/// have odd lengths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Adds further bytes to the sum.
    #[must_use]
    #[inline]
    pub fn with(mut self, bytes: &[u8]) -> Sum {
        let mut bytes = bytes;
        if self.odd
            && let [first, rest @ ..] = bytes
        {
            self.total += u64::from(u16::from_ne_bytes([0, *first]));
            self.odd = false;
            bytes = rest;
        }
        let (blocks, rest) = bytes.as_chunks();
        if !blocks.is_empty() {
            self.total += blocks_sum(blocks);
        }
        // Each addend is below 2^32, so that 4 GiB of input cannot overflow the total.
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            self.total += u64::from(u32::from_ne_bytes(*word));
        }
        let mut pairs = rest.chunks_exact(2);
        for pair in &mut pairs {
            self.total += u64::from(u16::from_ne_bytes([pair[0], pair[1]]));
        }
        if let [last] = pairs.remainder() {
            self.total += u64::from(u16::from_ne_bytes([*last, 0]));
            self.odd = true;
        }
        self
    }

    /// Returns the sum of the pseudo-header of transports and of ICMPv6 (RFC 9293, 3.1; RFC 8200, 8.1).
    #[inline]
    pub(super) fn of_pseudo(src: &Ip, dst: &Ip, protocol: u8, len: u32) -> Sum {
        let addresses = if is_ipv4(dst) {
            Sum::default().with(&octets(src)).with(&octets(dst))
        } else {
            Sum::default().with(src).with(dst)
        };
        Sum {
            total: addresses.total + u64::from(len.to_be()) + u64::from(u32::from(protocol).to_be()),
            ..addresses
        }
    }

    /// Returns the sum folded to 16 bits, in network order; all ones if it includes a correct stored
    /// checksum.
    #[must_use]
    #[inline]
    pub fn folded(self) -> [u8; 2] {
        // From 64 bits to 33, to 18, to 17, to 16.
        let mut total = (self.total & 0xffff_ffff) + (self.total >> 32);
        for _ in 0..3 {
            total = (total & 0xffff) + (total >> 16);
        }
        (total as u16).to_ne_bytes()
    }

    /// Returns true if bytes summed together with their checksum field are intact.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.folded() == [0xff, 0xff]
    }

    /// Returns the checksum to store: the complement of the sum.
    #[must_use]
    pub fn complement(self) -> [u8; 2] {
        let [a, b] = self.folded();
        [!a, !b]
    }
}

/// Returns the sum of 32-bit words, for the bulk of the bytes; twice as fast as word by word. It is a
/// separate function so that short inputs of known length need no loop.
///
/// It computes two sums over 64-bit words. One is over the whole words and loses its carries; the other is
/// over their upper halves and cannot overflow below 16 GiB. The difference of the two is the sum of the
/// lower halves. The compiler vectorises such a loop at each optimisation level and in every context. It
/// vectorises arrays of sums only at the highest level and not everywhere, and additions with overflow checks
/// never. Two interleaved runs of words keep the processor's adders busy.
#[inline(never)]
fn blocks_sum(blocks: &[[u8; 64]]) -> u64 {
    let (words, _) = blocks.as_flattened().as_chunks::<8>();
    let (first, second) = words.split_at(words.len() / 2);
    let (mut sums, mut others) = (Halves::default(), Halves::default());
    for (word, other) in first.iter().zip(second) {
        sums = sums.with(*word);
        others = others.with(*other);
    }
    sums.total().wrapping_add(others.total())
}

/// Sums of 64-bit words: of the whole words, modulo 2^64, and of their upper halves.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    whole: u64,
    upper: u64,
}

impl Halves {
    #[inline]
    fn with(self, word: [u8; 8]) -> Halves {
        let word = u64::from_ne_bytes(word);
        Halves {
            whole: self.whole.wrapping_add(word),
            upper: self.upper.wrapping_add(word >> 32),
        }
    }

    /// Returns the sum of the lower and upper halves.
    #[inline]
    fn total(self) -> u64 {
        let lower = self.whole.wrapping_sub(self.upper << 32);
        lower.wrapping_add(self.upper)
    }
}

/// The offset of UDP's checksum in its header, in which zero means "none" (RFC 768).
const ZERO_MEANS_NONE: usize = 6;

/// Completes the checksum that [`TxFrame::csum`] leaves open, in software. The field holds the
/// pseudo-header's sum. Returns false if the offsets lie outside the frame's head.
pub(super) fn complete(frame: &mut TxFrame) -> bool {
    let Some((start, field)) = frame.csum.take() else {
        return true;
    };
    let (start, field) = (start as usize, field as usize);
    if start > field || field + 2 > frame.head.len() {
        return false;
    }
    let sum = frame
        .payload
        .iter()
        .fold(Sum::default().with(&frame.head[start..]), |s, p| {
            s.with(p.bytes())
        });
    // In UDP's field zero means "none", and all ones is the other form of the same sum (RFC 768). In other
    // protocols a sum is all ones only over zeros (RFC 1624, 3), and analysers report it as wrong.
    let checksum = match sum.complement() {
        [0, 0] if field - start == ZERO_MEANS_NONE => [0xff, 0xff],
        other => other,
    };
    frame.head[field..field + 2].copy_from_slice(&checksum);
    true
}

#[cfg(test)]
mod tests {
    use hawser_testing::internet_checksum;

    use super::*;
    use crate::wire::PayRef;

    /// RFC 1071, 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
    const RFC_1071: [u8; 8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];

    #[test]
    fn the_example_of_rfc_1071_has_its_checksum() {
        assert_eq!(Sum::default().with(&RFC_1071).folded(), [0xdd, 0xf2]);
        assert_eq!(Sum::default().with(&RFC_1071).complement(), [0x22, 0x0d]);
    }

    #[test]
    fn pieces_of_any_length_sum_alike() {
        let bytes: Vec<u8> = (0..600u32).map(|i| (i * 37 + 11) as u8).collect();
        let expected = internet_checksum(&[&bytes]);
        for cut in 0..40 {
            for second in cut..60 {
                let sum = Sum::default()
                    .with(&bytes[..cut])
                    .with(&bytes[cut..second])
                    .with(&bytes[second..]);
                assert_eq!(sum.complement(), expected, "cut at {cut} and {second}");
            }
        }
    }

    /// Sums blocks, words and bytes at any place in memory and in any number of pieces, including inputs that
    /// need all carries.
    #[test]
    fn bytes_anywhere_in_memory_sum_as_rfc_1071_has_it() {
        let mut rand = crate::rand::Rand::from_seed(1071);
        let bytes: Vec<u8> = (0..5000).map(|_| rand.bits() as u8).collect();
        for bytes in [bytes, vec![0xff; 5000]] {
            for _ in 0..2000 {
                let from = rand.below(70) as usize;
                let to = from + rand.below(4900) as usize;
                let mut sum = Sum::default();
                let mut rest = &bytes[from..to];
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(1 + rand.below(rest.len() as u64) as usize);
                    (sum, rest) = (sum.with(piece), after);
                }
                let expected = internet_checksum(&[&bytes[from..to]]);
                assert_eq!(sum.complement(), expected, "{from}..{to}");
            }
        }
    }

    #[test]
    fn completion_reaches_into_the_payload() {
        // The example's bytes behind a checksum field that holds a pseudo-header sum of zero.
        let mut frame = TxFrame { head: vec![9, 9, 0, 0, 0, 1], csum: Some((2, 2)), ..TxFrame::default() };
        frame.payload.push(PayRef::from(RFC_1071[2..].to_vec()));
        assert!(complete(&mut frame));
        assert_eq!(frame.head, [9, 9, 0x22, 0x0d, 0, 1]);
        assert_eq!(frame.csum, None);
    }

    /// Only RFC 768 gives a zero a meaning; in other protocols a sum is never all ones (RFC 1624, 3).
    #[test]
    fn a_zero_checksum_is_replaced_in_the_field_of_udp_alone() {
        for (field, expected) in [(16, [0, 0]), (6, [0xff, 0xff]), (2, [0, 0])] {
            let mut frame = TxFrame { head: vec![0; 20], csum: Some((0, field)), ..TxFrame::default() };
            frame.payload.push(PayRef::from(vec![0xff, 0xff]));
            assert!(complete(&mut frame));
            let field = field as usize;
            assert_eq!(frame.head[field..field + 2], expected, "at {field}");
        }
    }

    #[test]
    fn offsets_outside_the_head_are_refused() {
        for csum in [(0, 5), (6, 4), (0, u16::MAX)] {
            let mut frame = TxFrame { head: vec![0; 6], csum: Some(csum), ..TxFrame::default() };
            assert!(!complete(&mut frame));
        }
    }
}
