//! IPv4 headers (RFC 791).

use hawser_ir::abi::Net;
use hawser_ir::buf::NET_ZERO;

use super::address::{mapped, octets};
use super::checksum::Sum;
use super::verdict::DropReason;

/// The size of a header without options, in bytes; sent headers have no options.
pub(super) const HEADER: usize = 20;

const DONT_FRAGMENT: u16 = 0x4000;
/// The bits of More Fragments and of the fragment offset.
const FRAGMENT: u16 = 0x3fff;

/// A header as read from a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) net: Net,
    /// True if the packet is one of several fragments.
    pub(super) is_fragment: bool,
    /// True if the packet may not be fragmented.
    pub(super) dont_fragment: bool,
}

/// Reads a header with its options. It checks neither the checksum nor the packet length, because a header
/// quoted by an ICMP error has neither intact.
#[inline]
pub(super) fn read(packet: &[u8]) -> Result<Header, DropReason> {
    let fixed: &[u8; HEADER] = packet.first_chunk().ok_or(DropReason::Truncated)?;
    //= RFC9293 3.9.2
    //# a TCP implementation MUST ignore options that it does not understand (MUST-50)
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let total_len = u16::from_be_bytes([fixed[2], fixed[3]]);
    if fixed[0] >> 4 != 4 || header_len < HEADER || usize::from(total_len) < header_len {
        return Err(DropReason::Malformed);
    }
    if packet.len() < header_len {
        return Err(DropReason::Truncated);
    }
    let flags = u16::from_be_bytes([fixed[6], fixed[7]]);
    let net = Net {
        src_ip: mapped([fixed[12], fixed[13], fixed[14], fixed[15]]),
        dst_ip: mapped([fixed[16], fixed[17], fixed[18], fixed[19]]),
        tot_len: u32::from(total_len),
        hdr_len: header_len as u16,
        segs: 1,
        protocol: fixed[9],
        ttl: fixed[8],
        ecn: fixed[1] & 3,
        dscp: fixed[1] >> 2,
        version: 4,
        ..NET_ZERO
    };
    Ok(Header {
        net,
        is_fragment: flags & FRAGMENT != 0,
        dont_fragment: flags & DONT_FRAGMENT != 0,
    })
}

/// Returns true if the header at the start of `packet` is intact; `header` was read from it.
#[inline]
pub(super) fn is_intact(packet: &[u8], header: &Header) -> bool {
    match packet.first_chunk() {
        Some(fixed) if usize::from(header.net.hdr_len) == HEADER => sum(fixed).is_valid(),
        _ => Sum::default()
            .with(&packet[..usize::from(header.net.hdr_len)])
            .is_valid(),
    }
}

/// Returns the sum of a header without options, as nearly all headers are. The known length needs no loop.
#[inline]
fn sum(header: &[u8; HEADER]) -> Sum {
    Sum::default().with(header)
}

/// Returns the number of bytes behind an intact header that differs from an accepted header only in length,
/// identification and checksum.
#[inline]
pub(super) fn goes_on(taken: &[u8; HEADER], next: &[u8; HEADER]) -> Option<usize> {
    let is_alike = next[..2] == taken[..2] && next[6..10] == taken[6..10] && next[12..] == taken[12..];
    let behind = usize::from(u16::from_be_bytes([next[2], next[3]])).checked_sub(HEADER)?;
    (is_alike && sum(next).is_valid()).then_some(behind)
}

/// Writes a header into the first [`HEADER`] bytes of `out`, for a packet of `total_len` bytes.
///
/// A packet that may not be fragmented is atomic, so its identification may have any value (RFC 6864, 4.1).
pub(super) fn write(out: &mut [u8], net: &Net, total_len: u16, (identification, may_fragment): (u16, bool)) {
    let mut header = [0; HEADER];
    header[0] = 0x45;
    header[1] = net.dscp << 2 | net.ecn & 3;
    header[2..4].copy_from_slice(&total_len.to_be_bytes());
    header[4..6].copy_from_slice(&identification.to_be_bytes());
    let flags = if may_fragment { 0 } else { DONT_FRAGMENT };
    header[6..8].copy_from_slice(&flags.to_be_bytes());
    header[8] = net.ttl;
    header[9] = net.protocol;
    header[12..16].copy_from_slice(&octets(&net.src_ip));
    header[16..20].copy_from_slice(&octets(&net.dst_ip));
    let checksum = sum(&header).complement();
    header[10..12].copy_from_slice(&checksum);
    out[..HEADER].copy_from_slice(&header);
}
