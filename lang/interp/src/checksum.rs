//! The Internet checksum (RFC 1071).

use hawser_ir::abi::Net;

/// A running ones' complement sum over pieces of any length, in order.
///
/// Words are added in native byte order and swapped once at the end. The sum does not depend on byte order
/// (RFC 1071, 2 B).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Adds bytes. If an odd number of bytes came before, the piece counts with its bytes swapped.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let sum = fold(words(bytes));
        self.total += u64::from(if self.odd { sum.swap_bytes() } else { sum });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// Returns the folded sum as the two bytes on the wire, not complemented.
    pub(crate) fn folded(self) -> [u8; 2] {
        fold(self.total).to_ne_bytes()
    }

    /// Returns the checksum, which is the complement of the sum.
    pub(crate) fn complement(self) -> [u8; 2] {
        self.folded().map(|b| !b)
    }

    /// True if the data, which includes its checksum, sums up correctly.
    pub(crate) fn is_valid(self) -> bool {
        self.folded() == [0xff, 0xff]
    }
}

/// Sums 32-bit words into 64 bits, 32 bytes per iteration. No carry is lost below 16 GiB, and the compiler
/// turns the lanes into vector instructions.
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
    // A final odd byte is padded with a zero (RFC 1071, 4.1).
    sum + pairs
        .remainder()
        .first()
        .map_or(0, |b| u64::from(u16::from_ne_bytes([*b, 0])))
}

/// Adds the carries, down to 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of the pseudo-header: RFC 9293, 3.1 for IPv4, RFC 8200, 8.1 for IPv6.
///
/// `len` is the length of the transport packet in bytes, header included.
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
    // Both forms add the same numbers: IPv4's 16-bit length equals IPv6's 32-bit length without its leading
    // zeros.
    sum.add(&(len as u32).to_be_bytes());
    sum.add(&[0, protocol]);
    sum
}

/// Returns the four bytes of an IPv4-mapped address.
fn v4(address: &[u8; 16]) -> Option<&[u8]> {
    address.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

#[cfg(test)]
mod tests;
