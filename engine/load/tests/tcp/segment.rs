//! TCP segments in IPv4 packets, written and read by hand. This file shares no code with the stack.

use std::net::Ipv4Addr;

use hawser_testing::internet_checksum;

/// The stack under test.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The peer, played by the test.
pub(crate) const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A segment. `ack` is present if the ACK bit is set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Segment {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) psh: bool,
    pub(crate) window: u16,
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    /// The value and the echo.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// True if the option SACK-permitted is present.
    pub(crate) sack_permitted: bool,
    /// SACK blocks.
    pub(crate) sacks: Vec<(u32, u32)>,
    pub(crate) payload: Vec<u8>,
}

impl Segment {
    /// Returns the length in sequence numbers (RFC 9293, 3.4).
    pub(crate) fn numbers(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.syn) + u32::from(self.fin)
    }

    pub(crate) fn acks(mut self, ack: u32) -> Segment {
        self.ack = Some(ack);
        self
    }

    pub(crate) fn payload(mut self, payload: impl Into<Vec<u8>>) -> Segment {
        self.payload = payload.into();
        self
    }

    pub(crate) fn sack(mut self, blocks: &[(u32, u32)]) -> Segment {
        self.sacks = blocks.to_vec();
        self
    }

    pub(crate) fn at(mut self, seq: u32) -> Segment {
        self.seq = seq;
        self
    }

    pub(crate) fn fin(mut self) -> Segment {
        self.fin = true;
        self
    }

    pub(crate) fn rst(mut self) -> Segment {
        self.rst = true;
        self
    }

    pub(crate) fn syn(mut self) -> Segment {
        self.syn = true;
        self
    }

    /// Returns an IPv4 packet from the peer to the host.
    pub(crate) fn packet(&self) -> Vec<u8> {
        self.packet_from(PEER)
    }

    /// Returns an IPv4 packet to the host with this source address.
    pub(crate) fn packet_from(&self, source: Ipv4Addr) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
        }
        if let Some(scale) = self.scale {
            options.extend([1, 3, 3, scale]);
        }
        if let Some((value, echo)) = self.timestamps {
            options.extend([1, 1, 8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if self.sack_permitted {
            options.extend([1, 1, 4, 2]);
        }
        if !self.sacks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * self.sacks.len() as u8]);
            for (from, to) in &self.sacks {
                options.extend(from.to_be_bytes());
                options.extend(to.to_be_bytes());
            }
        }
        let mut tcp = Vec::new();
        tcp.extend(self.source.to_be_bytes());
        tcp.extend(self.destination.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.unwrap_or(0).to_be_bytes());
        tcp.push((((20 + options.len()) / 4) << 4) as u8);
        let flags = [self.fin, self.syn, self.rst, self.psh, self.ack.is_some()];
        tcp.push(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(&self.payload);
        let sum = checksum(source, HOST, &tcp);
        tcp[16..18].copy_from_slice(&sum);
        ip_packet(source, HOST, 6, &tcp)
    }

    /// Parses a packet of the host. Panics on a malformed one.
    pub(crate) fn parse(packet: &[u8]) -> Segment {
        assert_eq!(packet[0], 0x45, "IPv4 without options");
        assert_eq!(u16::from_be_bytes([packet[2], packet[3]]) as usize, packet.len(), "total length");
        assert_eq!(internet_checksum(&[&packet[..20]]), [0, 0], "IP checksum");
        assert_eq!(packet[9], 6, "TCP");
        assert_eq!((&packet[12..16], &packet[16..20]), (&HOST.octets()[..], &PEER.octets()[..]));
        let tcp = &packet[20..];
        assert_eq!(checksum(HOST, PEER, tcp), [0, 0], "TCP checksum");
        let word = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let long = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let header = usize::from(tcp[12] >> 4) * 4;
        let mut segment = Segment {
            source: word(0),
            destination: word(2),
            seq: long(4),
            ack: (tcp[13] & 0x10 != 0).then(|| long(8)),
            fin: tcp[13] & 1 != 0,
            syn: tcp[13] & 2 != 0,
            rst: tcp[13] & 4 != 0,
            psh: tcp[13] & 8 != 0,
            window: word(14),
            payload: tcp[header..].to_vec(),
            ..Segment::default()
        };
        let mut at = 20;
        while at < header {
            match tcp[at] {
                0 => break,
                1 => {
                    at += 1;
                    continue;
                }
                2 => segment.mss = Some(word(at + 2)),
                3 => segment.scale = Some(tcp[at + 2]),
                8 => segment.timestamps = Some((long(at + 2), long(at + 6))),
                4 => segment.sack_permitted = true,
                5 => {
                    let blocks = (at + 2..at + usize::from(tcp[at + 1])).step_by(8);
                    segment.sacks = blocks.map(|block| (long(block), long(block + 4))).collect();
                }
                kind => panic!("option {kind}"),
            }
            at += usize::from(tcp[at + 1]);
        }
        segment
    }
}

/// Cuts a super-segment of the host like a device: packets of `size` data bytes with their numbers and
/// checksums, PSH and FIN only on the last. With 0, returns one packet.
pub(crate) fn cut(head: &[u8], payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let size = if size == 0 { payload.len().max(1) } else { size };
    let count = payload.len().div_ceil(size).max(1);
    let packet = |i: usize| {
        let (mut ip, mut tcp) = (head[..20].to_vec(), head[20..].to_vec());
        let payload = &payload[i * size..payload.len().min((i + 1) * size)];
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add((i * size) as u32);
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        if i + 1 < count {
            tcp[13] &= !0x09;
        }
        if i > 0 {
            tcp[13] &= !0x80;
        }
        tcp[16..18].fill(0);
        tcp.extend(payload);
        let check = checksum(HOST, PEER, &tcp);
        tcp[16..18].copy_from_slice(&check);
        ip[2..4].copy_from_slice(&((20 + tcp.len()) as u16).to_be_bytes());
        ip[10..12].fill(0);
        let check = internet_checksum(&[&ip]);
        ip[10..12].copy_from_slice(&check);
        [ip, tcp].concat()
    };
    (0..count).map(packet).collect()
}

/// Builds an IPv4 packet.
pub(crate) fn ip_packet(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let header = internet_checksum(&[&packet]);
    packet[10..12].copy_from_slice(&header);
    packet.extend(payload);
    packet
}

/// Builds the peer's ICMP error about a packet of the host; it quotes 28 bytes (RFC 792).
pub(crate) fn icmp_error(kind: u8, code: u8, mtu: u16, about: &[u8]) -> Vec<u8> {
    let mut icmp = vec![kind, code, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend(&about[..28]);
    let check = internet_checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&check);
    ip_packet(PEER, HOST, 1, &icmp)
}

/// Returns a segment's checksum, which covers a pseudo-header (RFC 9293, 3.1, MUST-2). It is 0 for a segment
/// that contains its checksum.
fn checksum(from: Ipv4Addr, to: Ipv4Addr, tcp: &[u8]) -> [u8; 2] {
    let len = (tcp.len() as u16).to_be_bytes();
    internet_checksum(&[&from.octets(), &to.octets(), &[0, 6], &len, tcp])
}
