//! The Internet checksum (RFC 1071).

use hawser_ir::abi::Net;

/// A running one's complement sum over pieces of any length, in order.
///
/// Words are added in native byte order and swapped once at the end: the sum does not depend on
/// byte order (RFC 1071, 2 B).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Adds bytes. A piece that follows an odd number of bytes counts with its bytes swapped.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let sum = fold(words(bytes));
        self.total += u64::from(if self.odd { sum.swap_bytes() } else { sum });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// The folded sum as the two bytes that stand on the wire, not complemented.
    pub(crate) fn folded(self) -> [u8; 2] {
        fold(self.total).to_ne_bytes()
    }

    /// The checksum: the sum's complement.
    pub(crate) fn complement(self) -> [u8; 2] {
        self.folded().map(|b| !b)
    }

    /// Whether bytes that hold their checksum sum up to it.
    pub(crate) fn is_valid(self) -> bool {
        self.folded() == [0xff, 0xff]
    }
}

/// Sums 32-bit words into 64 bits, 32 bytes a round: no carry is lost below 16 GiB, and the
/// compiler turns the lanes into vector instructions.
fn words(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 8];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut pairs = blocks.remainder().chunks_exact(2);
    let mut sum: u64 = lanes.iter().sum();
    for pair in &mut pairs {
        sum += u64::from(u16::from_ne_bytes([pair[0], pair[1]]));
    }
    // A last odd byte is padded with a zero (RFC 1071, 4.1).
    sum + pairs
        .remainder()
        .first()
        .map_or(0, |b| u64::from(u16::from_ne_bytes([*b, 0])))
}

/// Adds the carries back in, down to 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum of the pseudo-header: RFC 9293, 3.1 for IPv4, RFC 8200, 8.1 for IPv6.
///
/// `len` is the length in bytes of the transport packet, header included.
pub(crate) fn pseudo_header(net: &Net, protocol: u8, len: usize) -> Sum {
    let mut sum = Sum::default();
    match (v4(&net.src_ip), v4(&net.dst_ip)) {
        (Some(source), Some(destination)) => {
            sum.add(source);
            sum.add(destination);
        }
        _ => {
            sum.add(&net.src_ip);
            sum.add(&net.dst_ip);
        }
    }
    // Both forms add the same numbers: IPv4's 16-bit length is IPv6's 32-bit one without zeros.
    sum.add(&(len as u32).to_be_bytes());
    sum.add(&[0, protocol]);
    sum
}

/// The four bytes of an IPv4-mapped address.
fn v4(address: &[u8; 16]) -> Option<&[u8]> {
    address.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

#[cfg(test)]
mod tests;
