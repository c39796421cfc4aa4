//! Rewrites addresses and ports in packets, and updates the checksums.
//!
//! Every offset comes from [`Packet::find`] or is checked against the frame's length.

use std::net::Ipv4Addr;

use hawser_engine::net::Sum;

use super::super::packet::{self, ICMP, Packet, TCP, UDP};
use super::table::Endpoint;

/// One end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketEnd {
    Source,
    Destination,
}

/// A packet that can be translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct TranslatablePacket {
    /// The offsets of the IP header and of the transport header.
    network: usize,
    transport: usize,
    end: usize,
    kind: Kind,
    /// The two ends of the packet. For an error, they are those of the quoted packet, swapped, as in an
    /// answer to it.
    source: Endpoint,
    destination: Endpoint,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// TCP or UDP, with the offset of the checksum.
    Ports {
        checksum: usize,
    },
    Echo,
    /// An ICMP error, with the offsets of the quoted IP header and transport header.
    Error {
        network: usize,
        transport: usize,
    },
}

impl TranslatablePacket {
    /// Parses a packet, or returns `None` if it cannot be translated.
    pub(super) fn parse(frame: &[u8], packet: &Packet) -> Option<TranslatablePacket> {
        let transport = packet.transport.filter(|_| packet.is_v4 && !packet.is_fragment)?;
        let message = frame.get(transport..packet.end)?;
        let (source, destination) = addresses(frame, packet.network)?;
        let (kind, source, destination) = match packet.protocol {
            protocol @ (TCP | UDP) => {
                let checksum = if protocol == TCP { 16 } else { 6 };
                message.get(checksum..checksum + 2)?;
                let (from, to) = packet.ports(frame)?;
                let end = |address, port| Endpoint { protocol, address, port };
                (Kind::Ports { checksum }, end(source, from), end(destination, to))
            }
            ICMP => of_icmp(frame, packet, transport, source, destination)?,
            _ => return None,
        };
        Some(TranslatablePacket {
            network: packet.network,
            transport,
            end: packet.end,
            kind,
            source,
            destination,
        })
    }

    /// Returns source and destination.
    pub(super) fn ends(&self) -> (Endpoint, Endpoint) {
        (self.source, self.destination)
    }

    /// Returns whether it is an error about another packet.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.kind, Kind::Error { .. })
    }

    /// Replaces one of its ends with another endpoint.
    pub(super) fn rewrite(&self, frame: &mut [u8], end: PacketEnd, new: Endpoint) {
        match self.kind {
            Kind::Ports { checksum } => {
                let at = self.transport + checksum;
                let is_absent = new.protocol == UDP && frame[at..at + 2] == [0, 0];
                let port_at = self.transport + if end == PacketEnd::Source { 0 } else { 2 };
                let change = self
                    .rewrite_address(frame, end, new.address)
                    .then(put(frame, port_at, new.port));
                if !is_absent {
                    update(frame, at, change, new.protocol == UDP);
                }
            }
            Kind::Echo => {
                self.rewrite_address(frame, end, new.address);
                let change = put(frame, self.transport + 4, new.port);
                update(frame, self.transport + 2, change, false);
            }
            Kind::Error { network, transport } => self.rewrite_error(frame, end, new, network, transport),
        }
    }

    /// Rewrites an error: its own address and the opposite end of the packet that it quotes.
    fn rewrite_error(
        &self,
        frame: &mut [u8],
        end: PacketEnd,
        new: Endpoint,
        network: usize,
        transport: usize,
    ) {
        self.rewrite_address(frame, end, new.address);
        let quoted_end = if end == PacketEnd::Source {
            PacketEnd::Destination
        } else {
            PacketEnd::Source
        };
        let quoted = TranslatablePacket { network, ..*self };
        quoted.rewrite_address(frame, quoted_end, new.address);
        let port = match (new.protocol, quoted_end) {
            (ICMP, _) => transport + 4,
            (_, PacketEnd::Source) => transport,
            (_, PacketEnd::Destination) => transport + 2,
        };
        put(frame, port, new.port);
        // The quoted transport checksum may be cut off, and receivers do not verify it. The error's own
        // checksum covers all changes.
        let at = self.transport + 2;
        frame[at..at + 2].fill(0);
        let sum = Sum::default().with(&frame[self.transport..self.end]).complement();
        frame[at..at + 2].copy_from_slice(&sum);
    }

    /// Changes an address and updates the IP header's checksum.
    fn rewrite_address(&self, frame: &mut [u8], end: PacketEnd, new: Ipv4Addr) -> ChecksumDelta {
        let at = self.network + if end == PacketEnd::Source { 12 } else { 16 };
        let [a, b, c, d] = new.octets();
        let high = put(frame, at, u16::from_be_bytes([a, b]));
        let change = high.then(put(frame, at + 2, u16::from_be_bytes([c, d])));
        update(frame, self.network + 10, change, false);
        change
    }
}

/// Parses an echo, or an error about a packet.
fn of_icmp(
    frame: &[u8],
    packet: &Packet,
    transport: usize,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Option<(Kind, Endpoint, Endpoint)> {
    let message = frame.get(transport..packet.end)?;
    let header: &[u8; 8] = message.first_chunk()?;
    let echo = |address| Endpoint {
        protocol: ICMP,
        address,
        port: u16::from_be_bytes([header[4], header[5]]),
    };
    match header[0] {
        // Echo reply and echo request (RFC 792).
        0 | 8 => Some((Kind::Echo, echo(source), echo(destination))),
        // Destination unreachable, time exceeded, parameter problem.
        3 | 11 | 12 => {
            let network = transport + 8;
            let quoted: &[u8; 20] = frame.get(network..packet.end)?.first_chunk()?;
            let header_len = usize::from(quoted[0] & 15) * 4;
            if quoted[0] >> 4 != 4 || header_len < 20 {
                return None;
            }
            let inner = network + header_len;
            let start: &[u8; 8] = frame.get(inner..packet.end)?.first_chunk()?;
            let protocol = quoted[9];
            let (from_port, to_port) = match protocol {
                TCP | UDP => (
                    u16::from_be_bytes([start[0], start[1]]),
                    u16::from_be_bytes([start[2], start[3]]),
                ),
                ICMP if matches!(start[0], 0 | 8) => {
                    let id = u16::from_be_bytes([start[4], start[5]]);
                    (id, id)
                }
                _ => return None,
            };
            let (from, to) = addresses(frame, network)?;
            let end = |address, port| Endpoint { protocol, address, port };
            Some((
                Kind::Error { network, transport: inner },
                end(to, to_port),
                end(from, from_port),
            ))
        }
        _ => None,
    }
}

fn addresses(frame: &[u8], network: usize) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let packet = packet_header(frame, network)?;
    let at = |i: usize| Ipv4Addr::new(packet[i], packet[i + 1], packet[i + 2], packet[i + 3]);
    Some((at(12), at(16)))
}

fn packet_header(frame: &[u8], network: usize) -> Option<&[u8; packet::IPV4_HEADER]> {
    frame.get(network..)?.first_chunk()
}

/// The contribution of a change to a ones' complement sum (RFC 1624, equation 3).
#[derive(Clone, Copy, Debug)]
struct ChecksumDelta(u32);

impl ChecksumDelta {
    fn then(self, other: ChecksumDelta) -> ChecksumDelta {
        ChecksumDelta(self.0 + other.0)
    }
}

/// Writes a 16-bit word, and returns the change.
fn put(frame: &mut [u8], at: usize, new: u16) -> ChecksumDelta {
    let old = u16::from_be_bytes([frame[at], frame[at + 1]]);
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    ChecksumDelta(u32::from(!old) + u32::from(new))
}

/// Updates a checksum. For UDP, a sum of zero is sent as all ones (RFC 768).
fn update(frame: &mut [u8], at: usize, change: ChecksumDelta, is_udp: bool) {
    let old = u16::from_be_bytes([frame[at], frame[at + 1]]);
    let new = !fold(u32::from(!old) + change.0);
    let new = if is_udp && new == 0 { 0xffff } else { new };
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
