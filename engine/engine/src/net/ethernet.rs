//! Ethernet II headers.

use super::verdict::DropReason;

/// A link-layer address.
pub(super) type Mac = [u8; 6];

/// The size of the header, in bytes.
pub(super) const HEADER: usize = 14;
/// The address of all stations on the link.
pub(super) const BROADCAST: Mac = [0xff; 6];

/// The protocol that an Ethernet frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtherType {
    Ipv4,
    Arp,
    Ipv6,
}

impl EtherType {
    fn number(self) -> u16 {
        match self {
            EtherType::Ipv4 => 0x0800,
            EtherType::Arp => 0x0806,
            EtherType::Ipv6 => 0x86dd,
        }
    }

    fn from_number(number: u16) -> Option<EtherType> {
        [EtherType::Ipv4, EtherType::Arp, EtherType::Ipv6]
            .into_iter()
            .find(|t| t.number() == number)
    }
}

/// Reads the header of a frame that is addressed to `own`, to all stations, or to an IPv6 group.
pub(super) fn read(frame: &[u8], own: Mac) -> Result<EtherType, DropReason> {
    let header: &[u8; HEADER] = frame.first_chunk().ok_or(DropReason::Truncated)?;
    let (to, rest) = header.split_at(6);
    // RFC 2464, 7: groups of IPv6 map to 33:33 and their last four bytes.
    if to != own && to != BROADCAST && to[..2] != [0x33, 0x33] {
        return Err(DropReason::Link);
    }
    EtherType::from_number(u16::from_be_bytes([rest[6], rest[7]])).ok_or(DropReason::Link)
}

/// Writes the header into the first [`HEADER`] bytes of `frame`.
pub(super) fn write(frame: &mut [u8], to: Mac, from: Mac, kind: EtherType) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&kind.number().to_be_bytes());
}
