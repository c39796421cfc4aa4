//! The CRC-32 of sent packets, and the part of an invariant CRC that covers the headers in front of a
//! program's packet.
//!
//! The invariant CRC of the InfiniBand architecture (annex A17, RoCEv2) is valid from end to end: fields that
//! routers may change on the way count as ones.

use hawser_ir::{Blueprint, Crc32, CrcField};

use super::udp;
use crate::wire::TxFrame;

/// The bytes of ones that stand for InfiniBand's own link header.
const LINK: [u8; 8] = [0xff; 8];
/// The maximum size of the headers in front, in bytes: IPv6's with some extension headers, and UDP's.
const HEADERS: usize = 128;

/// The CRC-32 of a blueprint's packets.
#[derive(Clone, Debug)]
pub struct Crc {
    at: u32,
    in_trailer: bool,
    pub(crate) invariant: bool,
    masked: Vec<(u32, u32)>,
}

impl Crc {
    /// Returns the CRC of a blueprint, if it has one.
    #[must_use]
    pub fn from_blueprint(blueprint: &Blueprint) -> Option<Crc> {
        let field = blueprint.crc()?;
        Some(Crc {
            at: field.at,
            in_trailer: field.in_trailer,
            invariant: field.invariant,
            masked: field.masked.to_vec(),
        })
    }

    fn field(&self) -> CrcField<'_> {
        CrcField {
            at: self.at,
            in_trailer: self.in_trailer,
            offset: 0,
            invariant: self.invariant,
            masked: &self.masked,
        }
    }

    /// Computes the CRC of a frame whose network headers, of `network` bytes, are already written behind
    /// `link` bytes. The payload of a packet with a trailer is in the head, too. Returns false if the frame
    /// is too short.
    pub fn fill(&self, frame: &mut TxFrame, link: usize, network: usize) -> bool {
        let field = self.field();
        let start = link + network;
        let at = match self.in_trailer {
            true => frame.head.len().saturating_sub(size_of::<u32>()),
            false => start + self.at as usize / 8,
        };
        if at < start || at + size_of::<u32>() > frame.head.len() {
            return false;
        }
        let seed = if self.invariant {
            front(&frame.head[link..start])
        } else {
            0
        };
        let mut crc = Crc32::after(seed);
        let covered = if self.in_trailer { at } else { frame.head.len() };
        let plain = (start + field.plain_from()).min(covered);
        for (i, byte) in frame.head[start..plain].iter().enumerate() {
            crc.update(&[field.counted(i, *byte)]);
        }
        crc.update(&frame.head[plain..covered]);
        frame.payload.iter().for_each(|piece| crc.update(piece.bytes()));
        frame.head[at..at + size_of::<u32>()].copy_from_slice(&field.to_bytes(crc.value()));
        true
    }
}

/// Returns the CRC-32 of the data in front of a program's packet: the link header that InfiniBand would have,
/// and the network's headers, including UDP's. Returns 0 if there are more headers than a host sends, which
/// no packet matches.
#[must_use]
pub fn front(headers: &[u8]) -> u32 {
    let mut counted = [0; HEADERS];
    let Some(counted) = counted.get_mut(..headers.len()) else {
        return 0;
    };
    counted.copy_from_slice(headers);
    let ones: &[usize] = match headers.first().map(|first| first >> 4) {
        Some(4) => &[1, 8, 10, 11], // TOS, TTL, checksum
        _ => &[1, 2, 3, 7],         // traffic class and flow label, hop limit
    };
    for at in ones {
        if let Some(byte) = counted.get_mut(*at) {
            *byte = 0xff;
        }
    }
    if let Some(first) = counted.first_mut().filter(|first| **first >> 4 == 6) {
        *first |= 0x0f;
    }
    let len = counted.len();
    if let Some(checksum) = counted.get_mut(len.saturating_sub(udp::HEADER) + udp::CHECKSUM..) {
        checksum.fill(0xff);
    }
    let mut crc = Crc32::after(0);
    crc.update(&LINK);
    crc.update(counted);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "hello world!" as one SEND of packet 0xfffff0 to queue pair 0x1234, as scapy 2.7 (`contrib/roce.py`)
    /// makes it.
    const V4: &str = "4502003800034000401126ae0a0000010a000002c35012b700240000\
                      0400ffff0000123480fffff068656c6c6f20776f726c642185857410";
    const V6: &str = "6020000500241140fd000000000000000000000000000001fd000000000000000000000000000002c35012b700249740\
                      0400ffff0000123480fffff068656c6c6f20776f726c6421332b3c1a";

    fn bytes(text: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        (0..text.len()).step_by(2).map(digit).collect()
    }

    fn crc() -> Crc {
        Crc { at: 0, in_trailer: true, invariant: true, masked: vec![(32, 8)] }
    }

    fn filled(packet: &[u8], network: usize) -> Vec<u8> {
        let mut frame = TxFrame { head: packet.to_vec(), ..TxFrame::default() };
        let end = packet.len() - 4;
        frame.head[end..].fill(0);
        assert!(crc().fill(&mut frame, 0, network));
        frame.head[end..].to_vec()
    }

    #[test]
    fn an_invariant_crc_matches_recorded_packets() {
        for (text, network) in [(V4, 28), (V6, 48)] {
            let packet = bytes(text);
            assert_eq!(filled(&packet, network), packet[packet.len() - 4..], "{text}");
        }
    }

    #[test]
    fn an_invariant_crc_ignores_exactly_the_fields_routers_change() {
        for (text, network, changes) in [
            (V4, 28, &[1, 8, 10, 11, 26, 27, 32][..]),
            (V6, 48, &[1, 2, 3, 7, 46, 47, 52]),
        ] {
            let packet = bytes(text);
            for at in 1..packet.len() - 4 {
                let mut other = packet.clone();
                other[at] ^= 0x10;
                let same = filled(&other, network) == packet[packet.len() - 4..];
                assert_eq!(same, changes.contains(&at), "byte {at} of {text}");
            }
        }
    }
}
