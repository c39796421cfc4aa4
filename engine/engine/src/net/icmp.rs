//! ICMP (RFC 792) and ICMPv6 (RFC 4443): the meaning of errors, and the messages that a stack sends.

use hawser_ir::abi::{ICMP_OTHER, ICMP_REFUSED, ICMP_TOO_BIG, ICMP_UNREACHABLE, Icmp};

/// The protocol number of ICMP.
pub(super) const PROTOCOL_V4: u8 = 1;
/// The protocol number of ICMPv6.
pub(super) const PROTOCOL_V6: u8 = 58;
/// The size of the first part of a message, in bytes: type, code, checksum and four type-specific bytes.
pub(super) const HEADER: usize = 8;

/// The maximum number of bytes of an ICMP error with its IPv4 header (RFC 1812, 4.3.2.3).
pub(super) const ERROR_LEN_V4: usize = 576;
/// The maximum number of bytes of an ICMPv6 error with its IPv6 header (RFC 4443, 2.4(c)).
pub(super) const ERROR_LEN_V6: usize = 1280;

/// The ICMP types that are handled.
pub(super) mod v4 {
    pub(crate) const ECHO_REPLY: u8 = 0;
    pub(crate) const UNREACHABLE: u8 = 3;
    pub(crate) const ECHO_REQUEST: u8 = 8;
    pub(crate) const TIME_EXCEEDED: u8 = 11;
    pub(crate) const PARAMETER_PROBLEM: u8 = 12;
    /// The code of [`UNREACHABLE`] for a protocol that no program takes.
    pub(crate) const PROTOCOL_UNREACHABLE: u8 = 2;
    /// The code of [`UNREACHABLE`] for a port without a listener.
    pub(crate) const PORT_UNREACHABLE: u8 = 3;
}

/// The ICMPv6 types that are handled.
pub(super) mod v6 {
    pub(crate) const UNREACHABLE: u8 = 1;
    /// The code of [`UNREACHABLE`] for a port without a listener.
    pub(crate) const PORT_UNREACHABLE: u8 = 4;
    pub(crate) const TOO_BIG: u8 = 2;
    pub(crate) const TIME_EXCEEDED: u8 = 3;
    pub(crate) const PARAMETER_PROBLEM: u8 = 4;
    pub(crate) const ECHO_REQUEST: u8 = 128;
    pub(crate) const ECHO_REPLY: u8 = 129;
    pub(crate) const NEIGHBOUR_SOLICITATION: u8 = 135;
    pub(crate) const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
}

/// The first eight bytes of every message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) code: u8,
    /// The type-specific bytes after the checksum.
    pub(super) own: [u8; 4],
}

/// Reads the first bytes of a message.
pub(super) fn read(message: &[u8]) -> Option<Header> {
    let header: &[u8; HEADER] = message.first_chunk()?;
    Some(Header {
        kind: header[0],
        code: header[1],
        own: [header[4], header[5], header[6], header[7]],
    })
}

/// Returns the content of an ICMP error; `None` for a message that is not an error. The MTU is 0 if the
/// router does not state one (RFC 1191, 5).
pub(super) fn error_v4(header: Header) -> Option<Icmp> {
    let (kind, mtu) = match (header.kind, header.code) {
        (v4::UNREACHABLE, 4) => (
            ICMP_TOO_BIG,
            u32::from(u16::from_be_bytes([header.own[2], header.own[3]])),
        ),
        // RFC 1122, 4.2.3.9, and the administrative codes of RFC 1812, 5.2.7.1.
        (v4::UNREACHABLE, 2 | 3 | 9 | 10 | 13) => (ICMP_REFUSED, 0),
        (v4::UNREACHABLE, _) => (ICMP_UNREACHABLE, 0),
        (v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM, _) => (ICMP_OTHER, 0),
        _ => return None,
    };
    Some(icmp(header, kind, mtu))
}

/// Returns the content of an ICMPv6 error; `None` for a message that is not an error.
pub(super) fn error_v6(header: Header) -> Option<Icmp> {
    let (kind, mtu) = match (header.kind, header.code) {
        (v6::TOO_BIG, _) => (ICMP_TOO_BIG, u32::from_be_bytes(header.own)),
        // No route, beyond scope, address unreachable; the other codes are refusals (RFC 4443, 3.1).
        (v6::UNREACHABLE, 0 | 2 | 3) => (ICMP_UNREACHABLE, 0),
        (v6::UNREACHABLE, _) | (v6::PARAMETER_PROBLEM, 1) => (ICMP_REFUSED, 0),
        (v6::TIME_EXCEEDED | v6::PARAMETER_PROBLEM, _) => (ICMP_OTHER, 0),
        // RFC 4443, 2.1: types below 128 are errors, and these are unknown to us.
        (5..=127, _) => (ICMP_OTHER, 0),
        _ => return None,
    };
    Some(icmp(header, kind, mtu))
}

fn icmp(header: Header, kind: u32, mtu: u32) -> Icmp {
    Icmp { kind, mtu, icmp_type: header.kind, icmp_code: header.code, pad: [0; 6] }
}

/// Appends the first bytes of a message, with a checksum of zero for now.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, code: u8, own: [u8; 4]) {
    out.extend([kind, code, 0, 0]);
    out.extend(own);
}
