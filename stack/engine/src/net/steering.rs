//! Which of several stacks beside each other (shards) a packet is for.
//!
//! All packets of a connection are for one shard: by the peer's address, and where the protocol begins with ports
//! (numbers 6 and 17), by both ports. An ICMP error is for the shard of the packet that it quotes. What other hosts say of
//! their link-layer addresses is for all.
//!
//! The hash is one that a classic BPF program can compute. Its keys are secret, so that peers cannot make their connections
//! meet in one shard.

use crate::wire::{Medium, RxFrame};

use super::{ethernet, icmp, ipv4, ipv6};

/// Protocols that begin with the ports of both ends.
const WITH_PORTS: [u8; 2] = [6, 17];
const ARP: u16 = 0x0806;
const ARP_REPLY: u8 = 2;

/// How packets are shared out among shards, and which of them a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// How many there are: 1 or more.
    pub shards: u16,
    /// This one: less than `shards`.
    pub index: u16,
    /// The hash's keys: odd numbers.
    pub keys: [u32; 2],
}

/// Whom a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A shard.
    Shard(u16),
    /// Whoever has received it.
    Any,
    /// All of them.
    All,
}

impl Steering {
    /// One stack alone.
    pub const ALONE: Steering = Steering {
        shards: 1,
        index: 0,
        keys: [1; 2],
    };

    /// The shard of a peer's packets; the ports are its own and ours, and 0 where the protocol has none.
    #[must_use]
    pub fn shard(&self, peer: &[u8; 16], peer_port: u16, own_port: u16) -> u16 {
        let words = peer.chunks_exact(4).filter_map(<[u8]>::first_chunk);
        let address = words.fold(0, |all, word| all ^ u32::from_be_bytes(*word));
        let ports = u32::from(peer_port) << 16 | u32::from(own_port);
        let hash = (address.wrapping_mul(self.keys[0]) ^ ports).wrapping_mul(self.keys[1]);
        ((hash >> 16) % u32::from(self.shards.max(1))) as u16
    }

    /// Whether this shard gets a peer's packets. `with_ports`: of a protocol that begins with ports.
    #[must_use]
    pub fn takes(&self, peer: &[u8; 16], peer_port: u16, own_port: u16, with_ports: bool) -> bool {
        let (peer_port, own_port) = if with_ports { (peer_port, own_port) } else { (0, 0) };
        self.shards == 1 || self.shard(peer, peer_port, own_port) == self.index
    }

    /// Whether the ports of a protocol's packets count.
    #[must_use]
    pub fn has_ports(protocol: u8) -> bool {
        WITH_PORTS.contains(&protocol)
    }

    /// Whom a received frame is for.
    #[must_use]
    pub fn recipient(&self, medium: Medium, frame: &RxFrame<'_>) -> Recipient {
        let packet = match medium {
            Medium::Ethernet(_) => {
                let kind = frame.head.get(12..14).and_then(<[u8]>::first_chunk);
                if kind.is_some_and(|kind| u16::from_be_bytes(*kind) == ARP) {
                    let is_reply = frame.head.get(ethernet::HEADER + 7) == Some(&ARP_REPLY);
                    return if is_reply { Recipient::All } else { Recipient::Any };
                }
                frame.head.get(ethernet::HEADER..)
            }
            Medium::Ip | Medium::Socket => Some(frame.head),
        };
        packet
            .and_then(|packet| self.of_packet(packet, false))
            .unwrap_or(Recipient::Any)
    }

    /// Whom a packet is for, or if it is one of ours that an error quotes, whom that is for. Nothing for what no shard has
    /// a use for.
    fn of_packet(&self, packet: &[u8], is_quoted: bool) -> Option<Recipient> {
        let net = match packet.first()? >> 4 {
            4 => ipv4::read(packet).ok().filter(|header| !header.is_fragment)?.net,
            _ => {
                let mut net = ipv6::read(packet).ok()?;
                ipv6::walk(packet, &mut net).ok()?;
                net
            }
        };
        let transport = packet.get(usize::from(net.hdr_len)..)?;
        match (net.version, net.protocol) {
            (4, icmp::PROTOCOL_V4) | (6, icmp::PROTOCOL_V6) if is_quoted => None,
            (4, icmp::PROTOCOL_V4) => match *transport.first()? {
                icmp::v4::UNREACHABLE | icmp::v4::TIME_EXCEEDED | icmp::v4::PARAMETER_PROBLEM => {
                    self.of_packet(transport.get(icmp::HEADER..)?, true)
                }
                _ => None,
            },
            (6, icmp::PROTOCOL_V6) => match *transport.first()? {
                icmp::v6::NEIGHBOUR_ADVERTISEMENT => Some(Recipient::All),
                // Errors have the numbers below 128 (RFC 4443, 2.1).
                0..128 => self.of_packet(transport.get(icmp::HEADER..)?, true),
                _ => None,
            },
            (_, protocol) => {
                let ports = match Steering::has_ports(protocol) {
                    true => transport.first_chunk()?,
                    false => &[0; 4],
                };
                let [a, b, c, d] = *ports;
                let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                Some(Recipient::Shard(match is_quoted {
                    true => self.shard(&net.dst_ip, to, from),
                    false => self.shard(&net.src_ip, from, to),
                }))
            }
        }
    }
}
