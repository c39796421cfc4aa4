//! Neighbour solicitations and advertisements (RFC 4861, 4.3, 4.4), behind the ICMPv6 header.

use super::address::{Ip, is_unicast};
use super::ethernet::Mac;
use super::icmp;
use super::verdict::DropReason;

/// The hop limit that proves that a message comes from the same link (RFC 4861, 7.1).
pub(super) const HOP_LIMIT: u8 = 255;
/// The group of all nodes of the link.
pub(super) const ALL_NODES: Ip = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Returns the group to which a possible owner of `ip` listens (RFC 4291, 2.7.1).
pub(super) fn solicited_node(ip: &Ip) -> Ip {
    [
        0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, ip[13], ip[14], ip[15],
    ]
}

/// Returns the Ethernet address of an IPv6 group (RFC 2464, 7).
pub(super) fn group_mac(group: &Ip) -> Mac {
    [0x33, 0x33, group[12], group[13], group[14], group[15]]
}

/// Returns the link-local address that an interface derives from its Ethernet address (RFC 4291, appendix A).
pub(super) fn link_local(mac: Mac) -> Ip {
    let [a, b, c, d, e, f] = mac;
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The address that the message is about.
    pub(super) target: Ip,
    /// The sender's Ethernet address in a solicitation, the target's in an advertisement.
    pub(super) mac: Option<Mac>,
    /// True for an advertisement that answers a solicitation.
    pub(super) solicited: bool,
    /// True for an advertisement that may replace a known address.
    pub(super) overrides: bool,
}

/// Reads a solicitation or advertisement and validates it by RFC 4861, 7.1, except for hop limit and
/// checksum.
pub(super) fn read(message: &[u8]) -> Result<Message, DropReason> {
    let header = icmp::read(message).ok_or(DropReason::Truncated)?;
    let target: &[u8; 16] = message
        .get(icmp::HEADER..)
        .and_then(<[u8]>::first_chunk)
        .ok_or(DropReason::Truncated)?;
    if header.code != 0 || !is_unicast(target) {
        return Err(DropReason::Malformed);
    }
    let wanted = match header.kind {
        icmp::v6::NEIGHBOUR_SOLICITATION => SOURCE_LINK_ADDRESS,
        _ => TARGET_LINK_ADDRESS,
    };
    Ok(Message {
        target: *target,
        mac: link_address(&message[icmp::HEADER + 16..], wanted)?,
        solicited: header.own[0] & SOLICITED != 0,
        overrides: header.own[0] & OVERRIDE != 0,
    })
}

/// Finds the option `wanted`. An option of length zero makes the message invalid.
fn link_address(options: &[u8], wanted: u8) -> Result<Option<Mac>, DropReason> {
    let mut rest = options;
    let mut found = None;
    while let [kind, units, ..] = *rest {
        let len = usize::from(units) * 8;
        if len == 0 || rest.len() < len {
            return Err(DropReason::Malformed);
        }
        if kind == wanted && units == 1 {
            found = Some([rest[2], rest[3], rest[4], rest[5], rest[6], rest[7]]);
        }
        rest = &rest[len..];
    }
    if rest.is_empty() {
        Ok(found)
    } else {
        Err(DropReason::Malformed)
    }
}

/// Appends a solicitation for `target` by the owner of `own`.
pub(super) fn write_solicitation(out: &mut Vec<u8>, target: &Ip, own: Mac) {
    icmp::write(out, icmp::v6::NEIGHBOUR_SOLICITATION, 0, [0; 4]);
    out.extend(target);
    out.extend([SOURCE_LINK_ADDRESS, 1]);
    out.extend(own);
}

/// Appends a solicitation for `target` from the unspecified address, which names no sender (RFC 4862, 5.4.2).
pub(super) fn write_probe(out: &mut Vec<u8>, target: &Ip) {
    icmp::write(out, icmp::v6::NEIGHBOUR_SOLICITATION, 0, [0; 4]);
    out.extend(target);
}

/// Appends an advertisement of `target`, owned by `own`; `solicited` unless it is sent to all nodes.
pub(super) fn write_advertisement(out: &mut Vec<u8>, target: &Ip, own: Mac, solicited: bool) {
    let flags = OVERRIDE | if solicited { SOLICITED } else { 0 };
    icmp::write(out, icmp::v6::NEIGHBOUR_ADVERTISEMENT, 0, [flags, 0, 0, 0]);
    out.extend(target);
    out.extend([TARGET_LINK_ADDRESS, 1]);
    out.extend(own);
}
