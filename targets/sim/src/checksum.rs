//! The Internet checksum, as far as a wire has to do with it: completing what a stack left to its
//! device, and knowing where the checksum of a finished packet lies.

use hawser_engine::net::Sum;

use crate::frame::Headers;

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
    let addresses = if headers.is_v4 { 12..20 } else { 8..40 };
    Sum::default()
        .with(&packet[headers.network..][addresses])
        .with(&(transport_len as u32).to_be_bytes())
        .with(&u16::from(headers.protocol).to_be_bytes())
}

/// Writes the header checksum of an IPv4 header.
pub(crate) fn fill_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum::default().with(header).complement();
    header[10..12].copy_from_slice(&checksum);
}

/// Writes the checksum of a packet of this protocol into its field. For UDP a checksum of zero is sent
/// as all ones, because zero means that there is none (RFC 768).
pub(crate) fn write_field(field: &mut [u8], sum: Sum, protocol: u8) {
    field.copy_from_slice(&match sum.complement() {
        [0, 0] if protocol == 17 => [0xff, 0xff],
        checksum => checksum,
    });
}

/// A checksum after some of what it covers was replaced by as many other bytes, at an even place (RFC 1624, equation 3).
pub(crate) fn replaced(field: [u8; 2], was: &[u8], now: &[u8]) -> [u8; 2] {
    let words = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks_exact(2);
        pairs
            .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum()
    };
    let inverted: Vec<u8> = was.iter().map(|byte| !byte).collect();
    let mut sum = u64::from(!u16::from_be_bytes(field)) + words(&inverted) + words(now);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The other form of a checksum: the sum itself.
pub(crate) fn complement(field: [u8; 2]) -> [u8; 2] {
    field.map(|byte| !byte)
}
