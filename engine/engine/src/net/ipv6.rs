//! IPv6 headers and the extension headers between them and the transport (RFC 8200).

use hawser_ir::abi::Net;
use hawser_ir::buf::NET_ZERO;

use super::verdict::DropReason;

/// The size of the fixed header, in bytes; sent packets have no other.
pub(super) const HEADER: usize = 40;

/// The maximum number of extension headers that are passed over.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;

/// The reason for which a packet's extension headers end its processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: DropReason,
    /// The parameter problem to report to the sender (RFC 4443, 3.4).
    pub(super) problem: Option<Problem>,
}

/// An ICMPv6 parameter problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) code: u8,
    /// The offending byte's offset in the packet.
    pub(super) pointer: u32,
}

impl Problem {
    pub(super) const ERRONEOUS_FIELD: u8 = 0;
    pub(super) const UNKNOWN_NEXT_HEADER: u8 = 1;
    pub(super) const UNKNOWN_OPTION: u8 = 2;
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Refusal {
        Refusal { reason, problem: None }
    }
}

/// Reads the fixed header. `protocol` is the first next header and `hdr_len` is 40 until [`walk`] has passed
/// over the extension headers.
pub(super) fn read(packet: &[u8]) -> Result<Net, DropReason> {
    let fixed: &[u8; HEADER] = packet.first_chunk().ok_or(DropReason::Truncated)?;
    let (words, addresses) = fixed.split_at(8);
    let first = u32::from_be_bytes([words[0], words[1], words[2], words[3]]);
    if first >> 28 != 6 {
        return Err(DropReason::Malformed);
    }
    let mut net = Net {
        tot_len: HEADER as u32 + u32::from(u16::from_be_bytes([words[4], words[5]])),
        flow_label: first & 0xf_ffff,
        hdr_len: HEADER as u16,
        segs: 1,
        protocol: words[6],
        ttl: words[7],
        ecn: (first >> 20 & 3) as u8,
        dscp: (first >> 22 & 0x3f) as u8,
        version: 6,
        ..NET_ZERO
    };
    net.src_ip.copy_from_slice(&addresses[..16]);
    net.dst_ip.copy_from_slice(&addresses[16..]);
    Ok(net)
}

/// Returns the number of bytes behind a header that differs from an accepted header only in its length.
#[inline]
pub(super) fn goes_on(taken: &[u8; HEADER], next: &[u8; HEADER]) -> Option<usize> {
    let is_alike = next[..4] == taken[..4] && next[6..] == taken[6..];
    is_alike.then_some(usize::from(u16::from_be_bytes([next[4], next[5]])))
}

/// Passes over the extension headers of `packet`, which ends where `net.tot_len` states; `net` was read from
/// it. Sets `protocol` and `hdr_len` to those of the transport. Returns the offset of the byte that named the
/// transport.
pub(super) fn walk(packet: &[u8], net: &mut Net) -> Result<usize, Refusal> {
    let mut named_at = 6;
    let mut at = HEADER;
    let mut next = net.protocol;
    for _ in 0..=MAX_EXTENSIONS {
        let len = match next {
            HOP_BY_HOP if named_at == 6 => options(packet, at)?,
            HOP_BY_HOP => {
                // RFC 8200, 4.1: in any other place the header counts as unrecognized.
                return Err(problem(Problem::UNKNOWN_NEXT_HEADER, named_at));
            }
            DESTINATION_OPTIONS => options(packet, at)?,
            ROUTING => routing(packet, at)?,
            FRAGMENT => fragment(packet, at)?,
            NO_NEXT_HEADER => return Err(DropReason::Ignored.into()),
            transport => {
                net.protocol = transport;
                net.hdr_len = at as u16;
                return Ok(named_at);
            }
        };
        named_at = at;
        next = packet[at];
        at += len;
    }
    Err(DropReason::Extension.into())
}

/// Returns the length of the extension header at `at`, which lies entirely inside the packet.
fn extension_len(packet: &[u8], at: usize) -> Result<usize, DropReason> {
    let units = packet.get(at + 1).ok_or(DropReason::Truncated)?;
    let len = (usize::from(*units) + 1) * 8;
    if packet.len() < at + len {
        Err(DropReason::Truncated)
    } else {
        Ok(len)
    }
}

/// Passes over hop-by-hop or destination options. An option is not interpreted beyond the action that its
/// type prescribes for unrecognized options (RFC 8200, 4.2).
fn options(packet: &[u8], at: usize) -> Result<usize, Refusal> {
    let len = extension_len(packet, at)?;
    let mut option = at + 2;
    while option < at + len {
        let kind = packet[option];
        let size = match kind {
            0 => 1,
            _ if option + 1 == at + len => return Err(problem(Problem::ERRONEOUS_FIELD, option)),
            _ => usize::from(packet[option + 1]) + 2,
        };
        if option + size > at + len {
            return Err(problem(Problem::ERRONEOUS_FIELD, option + 1));
        }
        match kind >> 6 {
            0 => option += size,
            1 => return Err(DropReason::Extension.into()),
            _ => return Err(problem(Problem::UNKNOWN_OPTION, option)),
        }
    }
    Ok(len)
}

/// Passes over a routing header with no segments left (RFC 8200, 4.4; RFC 5095).
fn routing(packet: &[u8], at: usize) -> Result<usize, Refusal> {
    let len = extension_len(packet, at)?;
    match packet[at + 3] {
        0 => Ok(len),
        _ => Err(problem(Problem::ERRONEOUS_FIELD, at + 2)),
    }
}

/// Passes over the fragment header of a packet that is not fragmented (RFC 6946).
fn fragment(packet: &[u8], at: usize) -> Result<usize, Refusal> {
    let header: &[u8; 8] = packet
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .ok_or(DropReason::Truncated)?;
    let offset_and_more = u16::from_be_bytes([header[2], header[3]]) & 0xfff9;
    if offset_and_more == 0 {
        Ok(8)
    } else {
        Err(DropReason::Fragment.into())
    }
}

fn problem(code: u8, pointer: usize) -> Refusal {
    Refusal {
        reason: DropReason::Extension,
        problem: Some(Problem { code, pointer: pointer as u32 }),
    }
}

/// Writes a header into the first [`HEADER`] bytes of `out`, for a packet with `payload_len` bytes
/// behind it.
pub(super) fn write(out: &mut [u8], net: &Net, payload_len: u16) {
    let traffic_class = u32::from(net.dscp & 0x3f) << 2 | u32::from(net.ecn & 3);
    let first = 6 << 28 | traffic_class << 20 | net.flow_label & 0xf_ffff;
    out[..4].copy_from_slice(&first.to_be_bytes());
    out[4..6].copy_from_slice(&payload_len.to_be_bytes());
    out[6] = net.protocol;
    out[7] = net.ttl;
    out[8..24].copy_from_slice(&net.src_ip);
    out[24..40].copy_from_slice(&net.dst_ip);
}
