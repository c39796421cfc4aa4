//! The network layer's own messages: ARP, neighbour discovery, echo, errors.

use std::borrow::Cow;
use std::collections::VecDeque;

use hawser_ir::abi::{Csum, ICMP_TOO_BIG, Icmp, Net};
use hawser_ir::buf::NET_ZERO;
use hawser_time::Instant;

use crate::wire::{Medium, RxFrame, TxFrame};

use super::address::{Ip, UNSPECIFIED, is_ipv4};
use super::arp::{self, Arp, ArpOperation};
use super::checksum::Sum;
use super::ethernet::{self, EtherType, Mac};
use super::ingress::Packet;
use super::ipv6::Problem;
use super::neighbour::{NeighbourAdvertisement, Solicit};
use super::path_mtu;
use super::verdict::{DropReason, Ingress};
use super::{Interface, icmp, ipv4, ipv6, ndisc};

/// The maximum number of the network layer's own frames in [`Interface::outgoing`].
const MAX_REPLIES: usize = 256;
/// The sender of an ARP probe: 0.0.0.0.
pub(super) const NO_SENDER: Ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];

impl Interface {
    /// Handles an ARP packet (RFC 826, Packet Reception).
    pub(super) fn arp(&mut self, now: Instant, bytes: &[u8]) -> Result<Ingress<'static>, DropReason> {
        let Medium::Ethernet(own) = self.medium else {
            return Err(DropReason::Ignored);
        };
        let packet = arp::read(bytes)?;
        if packet.sender_ip == NO_SENDER && packet.operation == ArpOperation::Request {
            return self.defend(own, &packet);
        }
        if !self.is_neighbour(&packet.sender_ip) || packet.sender_mac[0] & 1 != 0 {
            return Err(DropReason::Source);
        }
        if !self.owns(&packet.target_ip) {
            return Err(DropReason::NotForUs);
        }
        match packet.operation {
            ArpOperation::Request => {
                let released = self.neighbours.learn(now, packet.sender_ip, packet.sender_mac);
                self.send_released(released);
                let reply = Arp {
                    operation: ArpOperation::Reply,
                    sender_mac: own,
                    sender_ip: packet.target_ip,
                    target_mac: packet.sender_mac,
                    target_ip: packet.sender_ip,
                };
                self.send_arp(own, packet.sender_mac, &reply);
            }
            ArpOperation::Reply => {
                let answer =
                    NeighbourAdvertisement { mac: Some(packet.sender_mac), solicited: true, overrides: true };
                let released = self.neighbours.answered(now, packet.sender_ip, answer);
                self.send_released(released);
            }
        }
        Ok(Ingress::Done)
    }

    /// Answers a host that asks whether one of our addresses is free (RFC 5227, 2.1.1): the address is in
    /// use.
    fn defend(&mut self, own: Mac, probe: &Arp) -> Result<Ingress<'static>, DropReason> {
        if !self.owns(&probe.target_ip) {
            return Err(DropReason::NotForUs);
        }
        if probe.sender_mac[0] & 1 != 0 {
            return Err(DropReason::Source);
        }
        let reply = Arp {
            operation: ArpOperation::Reply,
            sender_mac: own,
            sender_ip: probe.target_ip,
            target_mac: probe.sender_mac,
            target_ip: probe.sender_ip,
        };
        self.send_arp(own, probe.sender_mac, &reply);
        Ok(Ingress::Done)
    }

    /// Handles ICMP to one of our addresses.
    pub(super) fn icmp_v4<'a>(
        &mut self,
        now: Instant,
        frame: &RxFrame<'a>,
        packet: &Packet<'a>,
    ) -> Result<Ingress<'a>, DropReason> {
        let message = packet.transport();
        let header = icmp::read(message).ok_or(DropReason::Truncated)?;
        if frame.csum == Csum::Unverified && !Sum::default().with(message).with(packet.tail).is_valid() {
            return Err(DropReason::Checksum);
        }
        if header.kind == icmp::v4::ECHO_REQUEST && header.code == 0 {
            self.echo(now, packet, icmp::v4::ECHO_REPLY);
            return Ok(Ingress::Done);
        }
        //= RFC9293 3.9.2.2
        //# TCP implementations MUST silently discard any received ICMP Source Quench messages (MUST-55)
        let error = icmp::error_v4(header).ok_or(DropReason::Ignored)?;
        let quote = ipv4::read(&message[icmp::HEADER..]).map_err(|_| DropReason::Quote)?;
        if quote.is_fragment || (error.kind == ICMP_TOO_BIG && !quote.dont_fragment) {
            return Err(DropReason::Quote);
        }
        self.error(packet, quote.net, error)
    }

    /// Handles ICMPv6 to one of our addresses or groups.
    pub(super) fn icmp_v6<'a>(
        &mut self,
        now: Instant,
        frame: &RxFrame<'a>,
        packet: &Packet<'a>,
    ) -> Result<Ingress<'a>, DropReason> {
        let message = packet.transport();
        let header = icmp::read(message).ok_or(DropReason::Truncated)?;
        if frame.csum == Csum::Unverified && !is_intact_v6(packet) {
            return Err(DropReason::Checksum);
        }
        let to_us = self.is_ours(&packet.net.dst_ip) && packet.net.src_ip != UNSPECIFIED;
        match header.kind {
            icmp::v6::NEIGHBOUR_SOLICITATION => self.solicitation(now, packet),
            icmp::v6::NEIGHBOUR_ADVERTISEMENT => self.advertisement(now, packet),
            icmp::v6::ECHO_REQUEST if to_us && header.code == 0 => {
                self.echo(now, packet, icmp::v6::ECHO_REPLY);
                Ok(Ingress::Done)
            }
            _ if to_us => {
                let error = icmp::error_v6(header).ok_or(DropReason::Ignored)?;
                let quoted = &message[icmp::HEADER..];
                let mut quote = ipv6::read(quoted).map_err(|_| DropReason::Quote)?;
                ipv6::walk(quoted, &mut quote).map_err(|_| DropReason::Quote)?;
                self.error(packet, quote, error)
            }
            _ => Err(DropReason::Ignored),
        }
    }

    /// Handles an error about a packet with the header `quote`. The error counts only if this host can have
    /// sent that packet, and a lower MTU only if the packet exceeded it (RFC 5927, 7; RFC 8201, 4).
    fn error<'a>(&mut self, packet: &Packet<'a>, quote: Net, error: Icmp) -> Result<Ingress<'a>, DropReason> {
        let mut error = error;
        if !self.is_ours(&quote.src_ip) || !self.is_a_peers(&quote.dst_ip) {
            return Err(DropReason::Quote);
        }
        if error.kind == ICMP_TOO_BIG {
            error.mtu = plausible_mtu(&quote, error.mtu).ok_or(DropReason::Quote)?;
        }
        let quote_at = icmp::HEADER + usize::from(quote.hdr_len);
        Ok(Ingress::IcmpError {
            net: quote,
            quoted: &packet.transport()[quote_at..],
            quoted_offset: packet.transport_offset() + quote_at as u32,
            icmp: error,
        })
    }

    /// Answers an echo request with the request's bytes.
    fn echo(&mut self, now: Instant, packet: &Packet<'_>, kind: u8) {
        let message = packet.transport();
        let sent = self.send_icmp(now, packet.net.dst_ip, packet.net.src_ip, |out| {
            icmp::write(out, kind, 0, [message[4], message[5], message[6], message[7]]);
            out.extend(&message[icmp::HEADER..]);
            out.extend(packet.tail);
        });
        self.counters.echo_replies += u64::from(sent);
    }

    /// Handles a neighbour solicitation (RFC 4861, 7.2.3 and 7.2.4).
    fn solicitation(&mut self, now: Instant, packet: &Packet<'_>) -> Result<Ingress<'static>, DropReason> {
        let own = self.discovers(packet)?;
        let message = ndisc::read(&message_bytes(packet))?;
        if !self.owns(&message.target) {
            return Err(DropReason::NotForUs);
        }
        if packet.net.src_ip == UNSPECIFIED {
            // The solicitation asks whether the address is free: notify all nodes that it is in use.
            if message.mac.is_some() || packet.net.dst_ip != ndisc::solicited_node(&message.target) {
                return Err(DropReason::Malformed);
            }
            self.advertise(
                own,
                ndisc::group_mac(&ndisc::ALL_NODES),
                message.target,
                ndisc::ALL_NODES,
                false,
            );
            return Ok(Ingress::Done);
        }
        if !self.is_neighbour(&packet.net.src_ip) {
            return Err(DropReason::Source);
        }
        match message.mac {
            Some(mac) => {
                let released = self.neighbours.learn(now, packet.net.src_ip, mac);
                self.send_released(released);
                self.advertise(own, mac, message.target, packet.net.src_ip, true);
            }
            None => {
                self.send_icmp_with(now, message.target, packet.net.src_ip, ndisc::HOP_LIMIT, |out| {
                    ndisc::write_advertisement(out, &message.target, own, true);
                });
            }
        }
        Ok(Ingress::Done)
    }

    /// Handles a neighbour advertisement (RFC 4861, 7.2.5).
    fn advertisement(&mut self, now: Instant, packet: &Packet<'_>) -> Result<Ingress<'static>, DropReason> {
        self.discovers(packet)?;
        let message = ndisc::read(&message_bytes(packet))?;
        if message.solicited && !self.owns(&packet.net.dst_ip) {
            return Err(DropReason::Malformed);
        }
        if !self.is_neighbour(&message.target) {
            return Err(DropReason::Source);
        }
        let answer = NeighbourAdvertisement {
            mac: message.mac,
            solicited: message.solicited,
            overrides: message.overrides,
        };
        let released = self.neighbours.answered(now, message.target, answer);
        self.send_released(released);
        Ok(Ingress::Done)
    }

    /// Checks that a message of neighbour discovery comes from this link (RFC 4861, 7.1), and returns our own
    /// address on it.
    fn discovers(&self, packet: &Packet<'_>) -> Result<Mac, DropReason> {
        match self.medium {
            Medium::Ip | Medium::Socket => Err(DropReason::Ignored),
            Medium::Ethernet(_) if packet.net.ttl != ndisc::HOP_LIMIT => Err(DropReason::Malformed),
            Medium::Ethernet(own) => Ok(own),
        }
    }

    /// Sends a request for a neighbour's address.
    pub(super) fn solicit(&mut self, question: Solicit) {
        let Medium::Ethernet(own) = self.medium else {
            return;
        };
        let Some(source) = self.source_for(&question.ip, &question.ip) else {
            return;
        };
        if is_ipv4(&question.ip) {
            let request = Arp {
                operation: ArpOperation::Request,
                sender_mac: own,
                sender_ip: source,
                target_mac: [0; 6],
                target_ip: question.ip,
            };
            self.send_arp(own, question.mac.unwrap_or(ethernet::BROADCAST), &request);
            return;
        }
        let group = ndisc::solicited_node(&question.ip);
        let (to, mac) = match question.mac {
            Some(mac) => (question.ip, mac),
            None => (group, ndisc::group_mac(&group)),
        };
        self.send_discovery(own, mac, source, to, |out| {
            ndisc::write_solicitation(out, &question.ip, own);
        });
    }

    fn advertise(&mut self, own: Mac, mac: Mac, target: Ip, to: Ip, solicited: bool) {
        self.send_discovery(own, mac, target, to, |out| {
            ndisc::write_advertisement(out, &target, own, solicited);
        });
    }

    /// Reports that no program takes the packet's protocol (RFC 1122, 3.2.2.1).
    pub(super) fn report_protocol(&mut self, now: Instant, packet: &Packet<'_>) {
        let max_quote = icmp::ERROR_LEN_V4 - ipv4::HEADER - icmp::HEADER;
        let quote = &packet.whole[..packet.whole.len().min(max_quote)];
        self.send_error(now, packet, |out| {
            icmp::write(out, icmp::v4::UNREACHABLE, icmp::v4::PROTOCOL_UNREACHABLE, [0; 4]);
            out.extend(quote);
        });
    }

    /// Reports that no program listens at a port.
    pub(super) fn report_port(&mut self, now: Instant, packet: &Packet<'_>) {
        let is_v4 = packet.net.version == 4;
        let (kind, code, max_quote) = if is_v4 {
            let room = icmp::ERROR_LEN_V4 - ipv4::HEADER - icmp::HEADER;
            (icmp::v4::UNREACHABLE, icmp::v4::PORT_UNREACHABLE, room)
        } else {
            let room = icmp::ERROR_LEN_V6 - ipv6::HEADER - icmp::HEADER;
            (icmp::v6::UNREACHABLE, icmp::v6::PORT_UNREACHABLE, room)
        };
        let quote = &packet.whole[..packet.whole.len().min(max_quote)];
        self.send_error(now, packet, |out| {
            icmp::write(out, kind, code, [0; 4]);
            out.extend(quote);
        });
    }

    /// Reports a parameter problem (RFC 4443, 3.4).
    pub(super) fn report_problem(&mut self, now: Instant, packet: &Packet<'_>, problem: Problem) {
        let max_quote = icmp::ERROR_LEN_V6 - ipv6::HEADER - icmp::HEADER;
        let quote = &packet.whole[..packet.whole.len().min(max_quote)];
        self.send_error(now, packet, |out| {
            icmp::write(
                out,
                icmp::v6::PARAMETER_PROBLEM,
                problem.code,
                problem.pointer.to_be_bytes(),
            );
            out.extend(quote);
        });
    }

    /// Sends an ICMP error to the packet's source, if it was sent to us alone and the rate allows.
    fn send_error(&mut self, now: Instant, packet: &Packet<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.owns(&packet.net.dst_ip) || packet.net.src_ip == UNSPECIFIED {
            return;
        }
        if !self.errors.take(now) {
            self.counters.count(DropReason::RateLimited);
            return;
        }
        let sent = self.send_icmp(now, packet.net.dst_ip, packet.net.src_ip, write);
        self.counters.errors_sent += u64::from(sent);
    }

    /// Sends the ICMP message that `write` appends; returns false if it cannot be sent.
    fn send_icmp(&mut self, now: Instant, from: Ip, to: Ip, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.send_icmp_with(now, from, to, super::egress::HOP_LIMIT, write)
    }

    fn send_icmp_with(
        &mut self,
        now: Instant,
        from: Ip,
        to: Ip,
        hop_limit: u8,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.may_reply() {
            return false;
        }
        let mut net = Net { src_ip: from, dst_ip: to, ttl: hop_limit, ..NET_ZERO };
        net.protocol = if is_ipv4(&to) {
            icmp::PROTOCOL_V4
        } else {
            icmp::PROTOCOL_V6
        };
        if self.route(&mut net).is_err() {
            return false;
        }
        let head = icmp_head(&net, self.header_room(&net), write);
        self.send(now, &net, TxFrame { head, ..TxFrame::default() });
        true
    }

    /// Sends a message of neighbour discovery, which needs no address resolution itself.
    fn send_discovery(&mut self, own: Mac, mac: Mac, from: Ip, to: Ip, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.may_reply() {
            return;
        }
        let net = Net {
            src_ip: from,
            dst_ip: to,
            protocol: icmp::PROTOCOL_V6,
            ttl: ndisc::HOP_LIMIT,
            version: 6,
            ..NET_ZERO
        };
        let mut head = icmp_head(&net, ethernet::HEADER + ipv6::HEADER, write);
        let payload_len = (head.len() - ethernet::HEADER - ipv6::HEADER) as u16;
        ethernet::write(&mut head, mac, own, EtherType::Ipv6);
        ipv6::write(&mut head[ethernet::HEADER..], &net, payload_len);
        self.outgoing.waiting.push(TxFrame { head, ..TxFrame::default() });
    }

    fn send_arp(&mut self, own: Mac, to: Mac, packet: &Arp) {
        if !self.may_reply() {
            return;
        }
        let mut head = vec![0; ethernet::HEADER];
        ethernet::write(&mut head, to, own, EtherType::Arp);
        arp::write(&mut head, packet);
        self.outgoing.waiting.push(TxFrame { head, ..TxFrame::default() });
    }

    /// Sends the frames that waited for a neighbour.
    fn send_released(&mut self, (mac, frames): (Mac, VecDeque<TxFrame>)) {
        self.outgoing.waiting.extend(frames.into_iter().map(|mut frame| {
            frame.head[..6].copy_from_slice(&mac);
            frame
        }));
    }

    /// Returns true if one more frame of our own may wait for the wire.
    fn may_reply(&mut self) -> bool {
        if self.medium == Medium::Socket {
            return false; // The kernel answers for the host.
        }
        let may = self.outgoing.waiting.len() < MAX_REPLIES;
        if !may {
            self.counters.count(DropReason::RateLimited);
        }
        may
    }
}

/// Returns the MTU that a "too big" message can mean for the quoted packet; `None` if the message contradicts
/// itself.
fn plausible_mtu(quote: &Net, stated: u32) -> Option<u32> {
    let min = path_mtu::min_mtu(&quote.dst_ip);
    let mtu = match (quote.version, stated) {
        (4, 0) => path_mtu::plateau_below(quote.tot_len),
        (4, stated) => stated.max(min),
        (_, stated) => stated,
    };
    // IPv6 discards an MTU below the minimum (RFC 8201, 4).
    (mtu >= min && mtu < quote.tot_len).then_some(mtu)
}

/// Returns a message of neighbour discovery in one piece.
fn message_bytes<'a>(packet: &Packet<'a>) -> Cow<'a, [u8]> {
    match packet.tail {
        [] => Cow::Borrowed(packet.transport()),
        tail => Cow::Owned([packet.transport(), tail].concat()),
    }
}

fn is_intact_v6(packet: &Packet<'_>) -> bool {
    let net = &packet.net;
    let len = net.tot_len - u32::from(net.hdr_len);
    Sum::of_pseudo(&net.src_ip, &net.dst_ip, icmp::PROTOCOL_V6, len)
        .with(packet.transport())
        .with(packet.tail)
        .is_valid()
}

/// Returns the message that `write` appends, behind `room` free bytes and with its checksum.
pub(super) fn icmp_head(net: &Net, room: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut head = vec![0; room];
    write(&mut head);
    let len = (head.len() - room) as u32;
    let sum = match net.protocol {
        icmp::PROTOCOL_V6 => Sum::of_pseudo(&net.src_ip, &net.dst_ip, icmp::PROTOCOL_V6, len),
        _ => Sum::default(),
    };
    let checksum = sum.with(&head[room..]).complement();
    head[room + 2..room + 4].copy_from_slice(&checksum);
    head
}
