//! Receiving a frame: link header, network header, and then to a program or to [`super::control`].

use hawser_ir::abi::{Csum, Net};
use hawser_time::Instant;

use crate::wire::{Medium, RxFrame};

use super::address::{UNSPECIFIED, is_of_a_host, is_unicast};
use super::ethernet::{self, EtherType};
use super::ipv6::{Problem, Refusal};
use super::verdict::{DropReason, Ingress};
use super::{Interface, icmp, ipv4, ipv6, ndisc, udp};

/// An IP packet inside a received frame, its padding cut off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) net: Net,
    /// The packet from its network header on, as far as the frame's head has it.
    pub(super) whole: &'a [u8],
    /// The rest.
    pub(super) tail: &'a [u8],
    /// Where the packet starts in the frame.
    pub(super) offset: u32,
    /// Where the packet names its transport protocol.
    pub(super) protocol_at: u32,
}

impl<'a> Packet<'a> {
    /// From the transport header on, as far as the frame's head has it.
    pub(super) fn transport(&self) -> &'a [u8] {
        &self.whole[usize::from(self.net.hdr_len)..]
    }

    /// Whether there is less of it than its header states.
    fn is_trimmed(&self) -> bool {
        self.whole.len() + self.tail.len() < self.net.tot_len as usize
    }

    /// Where the transport header starts in the frame.
    pub(super) fn transport_offset(&self) -> u32 {
        self.offset + u32::from(self.net.hdr_len)
    }
}

/// What a frame is, once its headers are read.
#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    Arp(&'a [u8]),
    Ip(Packet<'a>),
}

impl Interface {
    /// Takes a received frame apart.
    pub fn ingress<'a>(&mut self, now: Instant, frame: &RxFrame<'a>) -> Ingress<'a> {
        match self.open(frame) {
            Ok(Content::Arp(bytes)) => self.arp(now, bytes),
            Ok(Content::Ip(packet)) => match (packet.net.version, packet.net.protocol) {
                (4, icmp::PROTOCOL_V4) | (6, icmp::PROTOCOL_V6) if packet.is_trimmed() => {
                    Err(DropReason::Truncated)
                }
                (4, icmp::PROTOCOL_V4) => self.icmp_v4(now, frame, &packet),
                (6, icmp::PROTOCOL_V6) => self.icmp_v6(now, frame, &packet),
                // Of IPv4 that is settled: nothing is taken that is not for an own address.
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

    /// Answers a packet whose protocol no program takes with an ICMP error (RFC 1122, 3.2.2.1;
    /// RFC 8200, 4), within a limited rate. `frame` is what [`Interface::ingress`] was given.
    pub fn unreachable_reply(&mut self, now: Instant, frame: &RxFrame<'_>) {
        let Ok(Content::Ip(packet)) = self.open(frame) else {
            return;
        };
        match (packet.net.version, packet.net.protocol) {
            // Never about an ICMP message (RFC 1122, 3.2.2).
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

    /// Counts a packet that was cut, and that no program takes so.
    pub fn refuse_trimmed(&mut self) {
        self.counters.count(DropReason::Truncated);
    }

    /// Answers a packet that its program refused, or a datagram for a port that it does not have: nobody is at the port
    /// that it is for (RFC 1122, 3.2.2.1 and 4.1.3.1; RFC 4443, 3.1), within a limited rate. `frame` is what [`Interface::ingress`] was given.
    pub fn refused_reply(&mut self, now: Instant, frame: &RxFrame<'_>) {
        if let Ok(Content::Ip(packet)) = self.open(frame) {
            self.report_port(now, &packet);
        }
    }

    /// What a datagram holds, whose UDP header [`udp::open`] passes over; nothing when it is dropped and counted.
    pub fn open_udp<'a>(
        &mut self,
        net: &mut Net,
        pieces: (&'a [u8], &'a [u8]),
        csum: Csum,
    ) -> Option<(&'a [u8], &'a [u8])> {
        let opened = udp::open(net, pieces, csum);
        opened.map_err(|reason| self.counters.count(reason)).ok()
    }

    /// Reads link and network headers. An IPv6 packet whose extension headers are at fault comes
    /// with the refusal, for a report to its sender.
    #[inline(always)] // Into `ingress`: what it gives is large.
    fn open<'a>(&self, frame: &RxFrame<'a>) -> Result<Content<'a>, (Refusal, Option<Packet<'a>>)> {
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
            EtherType::Arp => Ok(Content::Arp(&frame.head[offset..])),
            EtherType::Ipv4 => self.open_v4(frame, offset).map(Content::Ip).map_err(alone),
            EtherType::Ipv6 => {
                let packet = self.open_v6(frame, offset).map_err(alone)?;
                walk(packet)
                    .map(Content::Ip)
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
        if !self.is_a_peers(&header.net.src_ip) {
            return Err(DropReason::Source);
        }
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
        // Only a host that checks whether its address is free writes without one (RFC 4862, 5.4.2).
        let is_nameless = net.src_ip == UNSPECIFIED && net.protocol == icmp::PROTOCOL_V6;
        if !self.is_a_peers(&net.src_ip) && !is_nameless {
            return Err(DropReason::Source);
        }
        if !self.is_ours(&net.dst_ip) && !self.listens_to(&net.dst_ip) {
            return Err(DropReason::NotForUs);
        }
        trim(frame, net, offset)
    }

    /// Whether an address can be a peer's: another host's, and behind a socket that of other programs on this host.
    #[inline]
    pub(super) fn is_a_peers(&self, ip: &[u8; 16]) -> bool {
        match self.medium {
            Medium::Socket => is_of_a_host(ip),
            Medium::Ip | Medium::Ethernet(_) => is_unicast(ip) && (self.overhears || !self.owns(ip)),
        }
    }

    /// Whether the wire gives us one port of the host, whichever that is.
    pub fn has_one_port(&self) -> bool {
        self.medium == Medium::Socket
    }

    /// Whether `group` is one that neighbour discovery listens to.
    fn listens_to(&self, group: &[u8; 16]) -> bool {
        *group == ndisc::ALL_NODES
            || self
                .subnets
                .iter()
                .any(|s| *group == ndisc::solicited_node(&s.own))
    }
}

/// Cuts off what an Ethernet frame has behind the packet.
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

/// How many packets a super-segment stands for, and their payload bytes.
///
/// What is common to them, their transport header, is not payload. Devices merge two protocols
/// alone, 6 and 17, so that these constants belong to the devices.
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
