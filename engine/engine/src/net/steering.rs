//! The distribution of packets over several stacks that run beside each other (shards).
//!
//! All packets of a connection are for one shard. It is chosen by the peer's address and, for protocols that
//! begin with ports (numbers 6 and 17), by both ports. An ICMP error is for the shard of the packet that it
//! quotes. Other hosts' announcements of their link-layer addresses are for all shards.
//!
//! A classic BPF program can compute the hash. Its keys are secret, so that peers cannot direct their
//! connections to a single shard.

use crate::wire::{Medium, RxFrame};

use super::{ethernet, icmp, ipv4, ipv6};

/// The protocols that begin with the ports of both ends.
const WITH_PORTS: [u8; 2] = [6, 17];
const ARP: u16 = 0x0806;
const ARP_REPLY: u8 = 2;

/// The parameters that distribute packets over shards, and the index of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// The number of shards: 1 or more.
    pub shards: u16,
    /// The index of this shard, less than `shards`.
    pub index: u16,
    /// The keys of the hash: odd numbers.
    pub keys: [u32; 2],
}

/// The shard that a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A single shard.
    Shard(u16),
    /// The shard that has received it, whichever it is.
    Any,
    /// All shards.
    All,
}

impl Steering {
    /// The multiplier of the hash's last step: 2^32 divided by the golden ratio, as an odd number.
    pub const SPREAD: u32 = 0x9e37_79b1;

    /// The steering of a single stack.
    pub const ALONE: Steering = Steering { shards: 1, index: 0, keys: [1; 2] };

    /// Returns the shard of a peer's packets. The ports are the peer's and ours, or 0 if the protocol has no
    /// ports.
    #[must_use]
    pub fn shard(&self, peer: &[u8; 16], peer_port: u16, own_port: u16) -> u16 {
        let words = peer.chunks_exact(4).filter_map(<[u8]>::first_chunk);
        let address = words.fold(0, |all, word| all ^ u32::from_be_bytes(*word));
        let ports = u32::from(peer_port) << 16 | u32::from(own_port);
        let hash = (address.wrapping_mul(self.keys[0]) ^ ports).wrapping_mul(self.keys[1]);
        // A second step that uses the upper bits: Linux's own ports are all even and consecutive.
        let hash = (hash ^ (hash >> 15)).wrapping_mul(Steering::SPREAD);
        (((hash >> 16) * u32::from(self.shards)) >> 16) as u16
    }

    /// Returns true if this shard receives a peer's packets. `with_ports` is true for a protocol that begins
    /// with ports.
    #[must_use]
    pub fn takes(&self, peer: &[u8; 16], peer_port: u16, own_port: u16, with_ports: bool) -> bool {
        let (peer_port, own_port) = if with_ports { (peer_port, own_port) } else { (0, 0) };
        self.shards == 1 || self.shard(peer, peer_port, own_port) == self.index
    }

    /// Returns true if the ports of a protocol's packets count.
    #[must_use]
    pub fn has_ports(protocol: u8) -> bool {
        WITH_PORTS.contains(&protocol)
    }

    /// Returns the recipient of a received frame.
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

    /// Returns the recipient of a packet or, if an error quotes a packet of ours, the recipient of the quoted
    /// one. Returns `None` for a packet that no shard can use.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::to_bytes;
    use hawser_ir::abi::Csum;
    use hawser_time::Instant;

    const STEERING: Steering = Steering { shards: 4, index: 1, keys: [0x9e37_79b1, 0x85eb_ca6b] };

    fn recipient(medium: Medium, packet: &[u8]) -> Recipient {
        let frame = RxFrame {
            head: packet,
            tail: &[],
            csum: Csum::Unverified,
            seg_size: 0,
            at: Instant::ORIGIN,
        };
        STEERING.recipient(medium, &frame)
    }

    fn v4(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let len = (20 + transport.len()) as u8;
        let head = [0x45, 0, 0, len, 0, 0, 0, 0, 64, protocol, 0, 0];
        [&head[..], &[10, 0, 0, 1, 10, 0, 0, 2], transport].concat()
    }

    fn v6(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let head = [0x60, 0, 0, 0, 0, transport.len() as u8, protocol, 64];
        let addresses = ["fd00::1", "fd00::2"].map(|ip| to_bytes(ip.parse().unwrap()));
        [&head[..], &addresses.concat(), transport].concat()
    }

    /// Each shard gets about its share, whatever the distance between ports, the number of shards and the
    /// keys.
    #[test]
    fn connections_are_shared_out_evenly() {
        let peer = to_bytes("10.9.0.1".parse().unwrap());
        for keys in [
            STEERING.keys,
            [0x1234_5679, 0xdead_beef],
            [0x8000_0001, 0x0001_0003],
        ] {
            for (shards, stride) in [(2, 1), (2, 2), (3, 2), (4, 4), (7, 2), (16, 6)] {
                let steering = Steering { shards, index: 0, keys };
                let mut counts = vec![0; shards.into()];
                let ports = (0..200 * shards).map(|n| 32_768u16.wrapping_add(n * stride));
                ports.for_each(|port| counts[usize::from(steering.shard(&peer, port, 80))] += 1);
                let fair = counts.iter().all(|count| (100..=320).contains(count));
                assert!(
                    fair,
                    "{shards} shards, every {stride}th port, {keys:x?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn all_packets_of_a_connection_go_to_one_shard() {
        let of_ports = |packet: &[u8]| recipient(Medium::Ip, packet);
        let segment = [0x12, 0x34, 0, 80, 0, 0, 0, 0];
        for (packet, peer) in [(v4(6, &segment), "10.0.0.1"), (v6(17, &segment), "fd00::1")] {
            let shard = STEERING.shard(&to_bytes(peer.parse().unwrap()), 0x1234, 80);
            assert_eq!(of_ports(&packet), Recipient::Shard(shard));
            let framed = [&[2; 12][..], &[8, 0], &packet].concat();
            assert_eq!(
                recipient(Medium::Ethernet([2; 6]), &framed),
                Recipient::Shard(shard)
            );
        }
        // A hop-by-hop header with padding (RFC 8200, 4.3) does not hide the ports behind it.
        let behind = v6(0, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &segment].concat());
        assert_eq!(of_ports(&behind), of_ports(&v6(17, &segment)));
        // A protocol for experiments (RFC 3692) has no ports.
        assert_eq!(of_ports(&v4(253, &segment)), of_ports(&v4(253, &[9; 8])));
    }

    /// RFC 792, RFC 4443 3: an error quotes a packet of ours, so the two ends of the quote are swapped.
    #[test]
    fn an_icmp_error_goes_to_the_shard_of_the_quoted_packet() {
        let (to_us, from_us) = ([0x12, 0x34, 0, 80, 0, 0, 0, 0], [0, 80, 0x12, 0x34, 0, 0, 0, 0]);
        let swap = |mut packet: Vec<u8>, at: usize, len: usize| {
            let (a, b) = packet[at..at + 2 * len].split_at_mut(len);
            a.swap_with_slice(b);
            packet
        };
        let quoted = swap(v4(6, &from_us), 12, 4);
        let error = v4(1, &[&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat());
        assert_eq!(
            recipient(Medium::Ip, &error),
            recipient(Medium::Ip, &v4(6, &to_us))
        );
        let quoted = swap(v6(6, &from_us), 8, 16);
        let error = v6(58, &[&[2, 0, 0, 0, 0, 0, 5, 0][..], &quoted].concat());
        assert_eq!(
            recipient(Medium::Ip, &error),
            recipient(Medium::Ip, &v6(6, &to_us))
        );
    }

    #[test]
    fn address_announcements_go_to_all_shards() {
        let own = Medium::Ethernet([2; 6]);
        let arp = |operation| [&[2; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation], &[0; 20]].concat();
        assert_eq!(recipient(own, &arp(2)), Recipient::All);
        assert_eq!(recipient(own, &arp(1)), Recipient::Any);
        assert_eq!(recipient(Medium::Ip, &v6(58, &[136, 0, 0, 0])), Recipient::All);
        assert_eq!(recipient(Medium::Ip, &v6(58, &[128, 0, 0, 0])), Recipient::Any);
    }

    #[test]
    fn unparsable_packets_go_to_any_shard() {
        let fragment = {
            let mut packet = v4(6, &[0; 8]);
            packet[6] = 0x20;
            packet
        };
        for packet in [
            &[][..],
            &[0x45],
            &fragment,
            &v4(6, &[1, 2]),
            &v6(0, &[17]),
            &v4(1, &[3, 4]),
        ] {
            assert_eq!(recipient(Medium::Ip, packet), Recipient::Any, "{packet:?}");
            assert_eq!(
                recipient(Medium::Ethernet([2; 6]), packet),
                Recipient::Any,
                "{packet:?}"
            );
        }
    }
}
