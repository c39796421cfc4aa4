//! The Internet checksum (RFC 1071), as far as a wire has to do with it: completing what a stack
//! left to its device, and knowing where the checksum of a finished packet lies.

use crate::frame::Headers;

/// Sums 16-bit big-endian words in ones' complement; an odd last byte counts as the upper half
/// of a word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Adds bytes; pieces of any length may follow each other.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.odd
            && let Some((first, after)) = rest.split_first()
        {
            self.total += u64::from(*first);
            self.odd = false;
            rest = after;
        }
        let mut words = rest.chunks_exact(2);
        self.total += words
            .by_ref()
            .map(|w| u64::from(u16::from_be_bytes([w[0], w[1]])))
            .sum::<u64>();
        if let [last] = words.remainder() {
            self.total += u64::from(*last) << 8;
            self.odd = true;
        }
    }

    /// The folded sum, not complemented.
    pub(crate) fn fold(self) -> u16 {
        let mut total = self.total;
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    /// The checksum: the complement of the folded sum.
    pub(crate) fn finish(self) -> u16 {
        !self.fold()
    }
}

/// The checksum of one run of bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = Sum::default();
    sum.add(bytes);
    sum.finish()
}

/// Where devices that complete checksums find the field in the transport header, by IP protocol
/// number; `None` where they know none.
pub(crate) fn field_offset(protocol: u8) -> Option<usize> {
    match protocol {
        6 => Some(16),
        17 => Some(6),
        58 => Some(2),
        _ => None,
    }
}

/// The sum over the pseudo-header of IPv4 (RFC 9293, 3.1) or IPv6 (RFC 8200, 8.1).
pub(crate) fn pseudo_header(packet: &[u8], headers: &Headers, transport_len: usize) -> Sum {
    let mut sum = Sum::default();
    let addresses = if headers.is_v4 { 12..20 } else { 8..40 };
    sum.add(&packet[headers.network..][addresses]);
    sum.add(&(transport_len as u32).to_be_bytes());
    sum.add(&u16::from(headers.protocol).to_be_bytes());
    sum
}

/// Writes the header checksum of an IPv4 header.
pub(crate) fn fill_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let value = checksum(header);
    header[10..12].copy_from_slice(&value.to_be_bytes());
}

/// Writes a checksum field of a packet of this protocol. For UDP a sum of zero is sent as all
/// ones, because zero says that there is none (RFC 768).
pub(crate) fn write_field(field: &mut [u8], value: u16, protocol: u8) {
    let value = if protocol == 17 && value == 0 {
        0xffff
    } else {
        value
    };
    field.copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        //= RFC1071 3
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        let mut sum = Sum::default();
        sum.add(&bytes);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn pieces_sum_like_the_whole() {
        let bytes: Vec<u8> = (0..=200).collect();
        for cut in 0..bytes.len() {
            let mut sum = Sum::default();
            sum.add(&bytes[..cut]);
            sum.add(&bytes[cut..]);
            assert_eq!(sum.finish(), checksum(&bytes), "cut at {cut}");
        }
    }
}
