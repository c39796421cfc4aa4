//! ARP for IPv4 over Ethernet (RFC 826).

use super::address::{Ip, mapped, octets};
use super::ethernet::Mac;
use super::verdict::DropReason;

/// The size of a packet, in bytes.
pub(super) const PACKET: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, and their address lengths.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArpOperation {
    Request,
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arp {
    pub(super) operation: ArpOperation,
    pub(super) sender_mac: Mac,
    pub(super) sender_ip: Ip,
    pub(super) target_mac: Mac,
    pub(super) target_ip: Ip,
}

pub(super) fn read(bytes: &[u8]) -> Result<Arp, DropReason> {
    let packet: &[u8; PACKET] = bytes.first_chunk().ok_or(DropReason::Truncated)?;
    let (types, rest) = packet.split_at(6);
    if types != ETHERNET_IPV4 {
        return Err(DropReason::Malformed);
    }
    let operation = match [rest[0], rest[1]] {
        [0, 1] => ArpOperation::Request,
        [0, 2] => ArpOperation::Reply,
        _ => return Err(DropReason::Ignored),
    };
    let mac = |at: usize| {
        [
            rest[at],
            rest[at + 1],
            rest[at + 2],
            rest[at + 3],
            rest[at + 4],
            rest[at + 5],
        ]
    };
    let ip = |at: usize| mapped([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    Ok(Arp {
        operation,
        sender_mac: mac(2),
        sender_ip: ip(8),
        target_mac: mac(12),
        target_ip: ip(18),
    })
}

/// Appends a packet to `out`.
pub(super) fn write(out: &mut Vec<u8>, arp: &Arp) {
    out.extend(ETHERNET_IPV4);
    out.extend(match arp.operation {
        ArpOperation::Request => [0, 1],
        ArpOperation::Reply => [0, 2],
    });
    out.extend(arp.sender_mac);
    out.extend(octets(&arp.sender_ip));
    out.extend(arp.target_mac);
    out.extend(octets(&arp.target_ip));
}
