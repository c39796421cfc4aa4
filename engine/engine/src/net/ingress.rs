//! Receiving a frame: the link header, the network header, and then delivery to a program or to
//! [`super::control`].

use hawser_ir::abi::{Csum, Net};
use hawser_time::Instant;

use crate::wire::{Medium, RxFrame};

use super::address::{UNSPECIFIED, is_of_a_host, is_unicast};
use super::ethernet::{self, EtherType};
use super::ipv6::{Problem, Refusal};
use super::verdict::{DropReason, Ingress};
use super::{Interface, icmp, ipv4, ipv6, ndisc, udp};

/// An IP packet inside a received frame, without its padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) net: Net,
    /// The packet from its network header on, as far as it is in the frame's head.
    pub(super) whole: &'a [u8],
    /// The rest of the packet.
    pub(super) tail: &'a [u8],
    /// The offset of the packet in the frame.
    pub(super) offset: u32,
    /// The offset of the byte in the packet that names its transport protocol.
    pub(super) protocol_at: u32,
}

impl<'a> Packet<'a> {
    /// Returns the packet from its transport header on, as far as it is in the frame's head.
    pub(super) fn transport(&self) -> &'a [u8] {
        &self.whole[usize::from(self.net.hdr_len)..]
    }

    /// Returns true if the packet is shorter than its header states.
    fn is_trimmed(&self) -> bool {
        self.whole.len() + self.tail.len() < self.net.tot_len as usize
    }

    /// Returns the offset of the transport header in the frame.
    pub(super) fn transport_offset(&self) -> u32 {
        self.offset + u32::from(self.net.hdr_len)
    }
}

/// The content of a frame whose headers have been read.
#[derive(Clone, Copy, Debug)]
enum FrameContent<'a> {
    Arp(&'a [u8]),
    Ip(Packet<'a>),
}

impl Interface {
    /// Parses a received frame, answers it if the network layer handles it, and returns its content for the
    /// engine.
    pub fn ingress<'a>(&mut self, now: Instant, frame: &RxFrame<'a>) -> Ingress<'a> {
        match self.open(frame) {
            Ok(FrameContent::Arp(bytes)) => self.arp(now, bytes),
            Ok(FrameContent::Ip(packet)) => match (packet.net.version, packet.net.protocol) {
                (4, icmp::PROTOCOL_V4) | (6, icmp::PROTOCOL_V6) if packet.is_trimmed() => {
                    Err(DropReason::Truncated)
                }
                (4, icmp::PROTOCOL_V4) => self.icmp_v4(now, frame, &packet),
                (6, icmp::PROTOCOL_V6) => self.icmp_v6(now, frame, &packet),
                // For IPv4 this has been checked already: `open_v4` accepts only packets to our own
                // addresses.
                (6, _) if !self.is_ours(&packet.net.dst_ip) => Err(DropReason::NotForUs),
                (_, _) if packet.is_trimmed() => {
                    Ok(Ingress::Trimmed { net: packet.net, head: packet.transport(), tail: packet.tail })
                }
                (_, _) => Ok(deliver(frame, &packet)),
            },
            Err((refusal, packet)) => {
                if let (Some(problem), Some(packet)) = (refusal.problem, packet) {
                    self.report_problem(now, &packet, problem);
                }
                Err(refusal.reason)
            }
        }
        .unwrap_or_else(|reason| {
            self.counters.count(reason);
            Ingress::Drop(reason)
        })
    }

    /// Answers a packet whose protocol no program takes with an ICMP error (RFC 1122, 3.2.2.1; RFC 8200, 4),
    /// at a limited rate. `frame` is the argument of [`Interface::ingress`].
    pub fn unreachable_reply(&mut self, now: Instant, frame: &RxFrame<'_>) {
        let Ok(FrameContent::Ip(packet)) = self.open(frame) else {
            return;
        };
        match (packet.net.version, packet.net.protocol) {
            // An ICMP message is never reported (RFC 1122, 3.2.2).
            (4, icmp::PROTOCOL_V4) | (6, icmp::PROTOCOL_V6) => {}
            (4, _) => self.report_protocol(now, &packet),
            (_, _) => {
                let pointer = packet.protocol_at;
                self.report_problem(
                    now,
                    &packet,
                    Problem { code: Problem::UNKNOWN_NEXT_HEADER, pointer },
                );
            }
        }
    }

    /// Counts a trimmed packet that no program takes.
    pub fn refuse_trimmed(&mut self) {
        self.counters.count(DropReason::Truncated);
    }

    /// Answers a packet that its program refused, or a datagram for a port that the program does not have,
    /// with "port unreachable" (RFC 1122, 3.2.2.1 and 4.1.3.1; RFC 4443, 3.1). The rate is limited. `frame`
    /// is the argument of [`Interface::ingress`].
    pub fn refused_reply(&mut self, now: Instant, frame: &RxFrame<'_>) {
        if let Ok(FrameContent::Ip(packet)) = self.open(frame) {
            self.report_port(now, &packet);
        }
    }

    /// Passes over a datagram's UDP header by [`udp::open`] and returns its content; `None` if the datagram
    /// is dropped and counted.
    pub fn open_udp<'a>(
        &mut self,
        net: &mut Net,
        pieces: (&'a [u8], &'a [u8]),
        csum: Csum,
    ) -> Option<(&'a [u8], &'a [u8])> {
        let opened = udp::open(net, pieces, csum);
        opened.map_err(|reason| self.counters.count(reason)).ok()
    }

    /// Reads link and network headers. If an IPv6 packet's extension headers are at fault, the packet is
    /// returned with the refusal, for a report to its sender.
    #[inline(always)] // Into `ingress`: the result is large.
    fn open<'a>(&self, frame: &RxFrame<'a>) -> Result<FrameContent<'a>, (Refusal, Option<Packet<'a>>)> {
        let alone = |reason: DropReason| (Refusal::from(reason), None);
        let (kind, offset) = match self.medium {
            Medium::Ethernet(own) => (ethernet::read(frame.head, own).map_err(alone)?, ethernet::HEADER),
            Medium::Ip | Medium::Socket => match frame.head.first().map(|first| first >> 4) {
                Some(4) => (EtherType::Ipv4, 0),
                Some(6) => (EtherType::Ipv6, 0),
                Some(_) => return Err(alone(DropReason::Malformed)),
                None => return Err(alone(DropReason::Truncated)),
            },
        };
        match kind {
            EtherType::Arp => Ok(FrameContent::Arp(&frame.head[offset..])),
            EtherType::Ipv4 => self.open_v4(frame, offset).map(FrameContent::Ip).map_err(alone),
            EtherType::Ipv6 => {
                let packet = self.open_v6(frame, offset).map_err(alone)?;
                walk(packet)
                    .map(FrameContent::Ip)
                    .map_err(|refusal| (refusal, Some(packet)))
            }
        }
    }

    #[inline(always)]
    fn open_v4<'a>(&self, frame: &RxFrame<'a>, offset: usize) -> Result<Packet<'a>, DropReason> {
        let bytes = &frame.head[offset..];
        let header = ipv4::read(bytes)?;
        if !ipv4::is_intact(bytes, &header) {
            return Err(DropReason::Checksum);
        }
        //= RFC9293 3.9.2.3
        //# An incoming SYN with an invalid source address MUST be ignored either by TCP or by the IP layer
        //# [(MUST-63)
        if !self.is_a_peers(&header.net.src_ip) {
            return Err(DropReason::Source);
        }
        //= RFC9293 3.9.2.3
        //# A TCP implementation MUST silently discard an incoming SYN segment that is addressed to a
        //# broadcast or multicast address [(MUST-57)
        if !self.is_ours(&header.net.dst_ip) {
            return Err(DropReason::NotForUs);
        }
        if header.is_fragment {
            return Err(DropReason::Fragment);
        }
        trim(frame, header.net, offset)
    }

    fn open_v6<'a>(&self, frame: &RxFrame<'a>, offset: usize) -> Result<Packet<'a>, DropReason> {
        let net = ipv6::read(&frame.head[offset..])?;
        // Only a host that checks whether its address is free sends without a source address (RFC 4862,
        // 5.4.2).
        let is_nameless = net.src_ip == UNSPECIFIED && net.protocol == icmp::PROTOCOL_V6;
        if !self.is_a_peers(&net.src_ip) && !is_nameless {
            return Err(DropReason::Source);
        }
        if !self.is_ours(&net.dst_ip) && !self.listens_to(&net.dst_ip) {
            return Err(DropReason::NotForUs);
        }
        trim(frame, net, offset)
    }

    /// Returns true if an address can be a peer's: that of another host or, behind a socket, of another
    /// program on this host.
    #[inline]
    pub(super) fn is_a_peers(&self, ip: &[u8; 16]) -> bool {
        match self.medium {
            Medium::Socket => is_of_a_host(ip),
            Medium::Ip | Medium::Ethernet(_) => is_unicast(ip) && (self.overhears || !self.owns(ip)),
        }
    }

    /// Returns true if the wire gives us a single port of the host, of any number.
    pub fn has_one_port(&self) -> bool {
        self.medium == Medium::Socket
    }

    /// Returns true if neighbour discovery listens to `group`.
    fn listens_to(&self, group: &[u8; 16]) -> bool {
        *group == ndisc::ALL_NODES
            || self
                .subnets
                .iter()
                .any(|s| *group == ndisc::solicited_node(&s.own))
    }
}

/// Cuts off the padding of an Ethernet frame behind the packet.
#[inline(always)]
fn trim<'a>(frame: &RxFrame<'a>, net: Net, offset: usize) -> Result<Packet<'a>, DropReason> {
    let len = net.tot_len as usize;
    let whole = &frame.head[offset..];
    let whole = &whole[..whole.len().min(len)];
    let whole_tail = frame.tail.get(..len - whole.len());
    if whole_tail.is_none() && whole.len() < usize::from(net.hdr_len) {
        return Err(DropReason::Truncated);
    }
    Ok(Packet {
        net,
        whole,
        tail: whole_tail.unwrap_or(frame.tail),
        offset: offset as u32,
        protocol_at: 9,
    })
}

/// Passes over an IPv6 packet's extension headers.
fn walk(packet: Packet<'_>) -> Result<Packet<'_>, Refusal> {
    let mut net = packet.net;
    let protocol_at = ipv6::walk(packet.whole, &mut net)? as u32;
    Ok(Packet { net, protocol_at, ..packet })
}

/// Hands a packet to the engine.
#[inline(always)]
fn deliver<'a>(frame: &RxFrame<'a>, packet: &Packet<'a>) -> Ingress<'a> {
    let head = packet.transport();
    let mut net = packet.net;
    (net.segs, net.seg_size) = segments(frame.seg_size, net.protocol, head, packet.tail.len());
    Ingress::Packet {
        net,
        head,
        tail: packet.tail,
        head_offset: packet.transport_offset(),
        csum: frame.csum,
    }
}

/// Returns the number of packets in a super-segment, and the payload bytes of each.
///
/// Their common transport header is not payload. Devices merge only two protocols, 6 and 17, so these
/// constants describe devices.
#[inline]
fn segments(seg_size: u16, protocol: u8, head: &[u8], tail: usize) -> (u16, u16) {
    if seg_size == 0 {
        return (1, 0);
    }
    let header = match protocol {
        6 => head.get(12).map_or(0, |words| usize::from(words >> 4) * 4),
        17 => 8,
        _ => 0,
    };
    let payload = (head.len() + tail).saturating_sub(header);
    if payload <= usize::from(seg_size) {
        return (1, 0);
    }
    let segs = payload.div_ceil(usize::from(seg_size));
    (u16::try_from(segs).unwrap_or(u16::MAX), seg_size)
}
