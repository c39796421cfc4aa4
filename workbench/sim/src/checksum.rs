//! The Internet checksum as a wire handles it. It completes checksums that a stack left to its device, and
//! locates the checksum field of a finished packet.

use hawser_engine::net::Sum;

use crate::frame::Headers;

/// Returns the offset of the checksum in the transport header, by IP protocol number, for devices that
/// complete checksums. It is `None` for protocols that they do not support.
pub(crate) fn field_offset(protocol: u8) -> Option<usize> {
    match protocol {
        6 => Some(16),
        17 => Some(6),
        58 => Some(2),
        _ => None,
    }
}

/// Returns the sum over the pseudo-header of IPv4 (RFC 9293, 3.1) or IPv6 (RFC 8200, 8.1).
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

/// Writes the checksum of a packet of this protocol into its field. A UDP checksum of zero is sent as all
/// ones, because zero means that the sender computed no checksum (RFC 768).
pub(crate) fn write_field(field: &mut [u8], sum: Sum, protocol: u8) {
    field.copy_from_slice(&match sum.complement() {
        [0, 0] if protocol == 17 => [0xff, 0xff],
        checksum => checksum,
    });
}

/// Returns the checksum after some covered bytes, at an even offset, were replaced by as many others (RFC
/// 1624, equation 3).
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

/// Converts between a checksum and its sum.
pub(crate) fn complement(field: [u8; 2]) -> [u8; 2] {
    field.map(|byte| !byte)
}
