//! Packets as bytes: builds the peer's packets and parses the stack's.
//!
//! The code is written from the RFCs, independently of the engine's network layer and the programs'
//! blueprints, so that it does not share their faults. It only uses the engine's arithmetic of checksums.

mod build;
mod decode;
mod options;
mod show;

use std::net::{IpAddr, SocketAddr};

use hawser_engine::net::Sum;

use crate::script::syntax::tree::TcpOption;

pub(crate) use build::{icmp_frame, ip_frame, tcp_bytes, tcp_frame};
pub(crate) use decode::decode;
pub(crate) use show::{expected, flags as show_flags, option as show_option, seen};

/// A TCP segment with its numbers as on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The TOS byte, or IPv6's traffic class.
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) flow_label: u32,
    pub(crate) flags: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<TcpOption>,
    pub(crate) payload: Vec<u8>,
}

/// The content of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodedContent {
    /// A TCP segment with correct checksums.
    Tcp(Tcp),
    /// A packet of another protocol.
    Other { from: IpAddr, protocol: u8, len: usize },
    /// An invalid packet, with the reason.
    Broken(&'static str),
}

/// IP's protocol numbers.
pub(crate) const TCP: u8 = 6;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;

/// Returns the byte at a sequence number of a script, which makes all sent data recognisable.
pub(crate) fn pattern(seq: u32) -> u8 {
    (seq ^ (seq >> 8) ^ (seq >> 16)) as u8
}

/// Computes the Internet checksum (RFC 1071) over several pieces.
pub(crate) fn checksum(pieces: &[&[u8]]) -> u16 {
    let sum = pieces.iter().fold(Sum::default(), |sum, piece| sum.with(piece));
    u16::from_be_bytes(sum.complement())
}

/// Returns the pseudo-header (RFC 9293, 3.1; RFC 8200, 8.1).
pub(crate) fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            bytes.extend([0, protocol]);
            bytes.extend((len as u16).to_be_bytes());
        }
        (from, to) => {
            bytes.extend(v6(from));
            bytes.extend(v6(to));
            bytes.extend((len as u32).to_be_bytes());
            bytes.extend([0, 0, 0, protocol]);
        }
    }
    bytes
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_packets_are_decoded_as_they_were() {
        for (from, to) in [
            ("192.0.2.1:80", "192.168.0.1:8080"),
            ("[2001:db8::1]:80", "[fd00::1]:8080"),
        ] {
            let tcp = Tcp {
                from: from.parse().expect("an address"),
                to: to.parse().expect("an address"),
                tos: 3,
                ttl: 7,
                flow_label: 0,
                flags: 0x118,
                seq: u32::MAX,
                ack: 5,
                window: 1234,
                urgent: 9,
                options: vec![
                    TcpOption::Mss(1460),
                    TcpOption::Sack(vec![(1, 2), (3, 4)]),
                    TcpOption::Timestamp { val: 1, ecr: 2 },
                    TcpOption::Nop,
                    TcpOption::Wscale(7),
                ],
                payload: vec![1, 2, 3],
            };
            let frame = tcp_frame(&tcp).expect("it fits");
            // Options are padded to a multiple of four bytes with end-of-list options.
            let DecodedContent::Tcp(mut back) = decode(&frame) else {
                panic!("a segment")
            };
            back.options.retain(|option| *option != TcpOption::Eol);
            assert_eq!(back, tcp);
            for bit in 0..frame.len() * 8 {
                let mut bad = frame.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(decode(&bad), DecodedContent::Tcp(tcp.clone()), "bit {bit}");
            }
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused() {
        for len in 0..120_usize {
            for seed in 0..40_u32 {
                let bytes: Vec<u8> = (0..len as u32)
                    .map(|i| ((i + 1).wrapping_mul(seed.wrapping_mul(2_654_435_761)) >> 24) as u8)
                    .collect();
                decode(&bytes);
                let mut bytes = bytes;
                if let Some(first) = bytes.first_mut() {
                    *first = if seed % 2 == 0 { 0x45 } else { 0x60 };
                }
                decode(&bytes);
            }
        }
    }
}
