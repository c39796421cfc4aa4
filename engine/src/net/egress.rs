//! A packet's way out: route, headers, checksum, the neighbour's address.

use hawser_ir::abi::Net;

use crate::wire::{Medium, Nanos, TxFrame};

use super::address::{Ip, UNSPECIFIED, is_ipv4, is_unicast};
use super::ethernet::{self, EtherType};
use super::neighbour::{Resolved, Solicit};
use super::verdict::{DropReason, Unreachable};
use super::{Interface, checksum, ipv4, ipv6};

/// The hop limit where the program gives none (RFC 1700's recommended default).
pub(super) const HOP_LIMIT: u8 = 64;

/// The most bytes that the length fields of IPv4 (whole packet) and IPv6 (behind the fixed
/// header) can state.
const MAX_LENGTH: usize = 65_535;

impl Interface {
    /// Fills what is unset in the header of a packet to be sent (source, version, header length,
    /// hop limit) and returns the path's MTU in bytes.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn route(&mut self, net: &mut Net) -> Result<u32, Unreachable> {
        let hop = self.next_hop(&net.dst_ip)?;
        if net.src_ip == UNSPECIFIED {
            net.src_ip = self.source_for(&net.dst_ip, &hop).ok_or(Unreachable::Family)?;
        } else if !self.owns(&net.src_ip) || is_ipv4(&net.src_ip) != is_ipv4(&net.dst_ip) {
            return Err(Unreachable::Source);
        }
        (net.version, net.hdr_len) =
            if is_ipv4(&net.dst_ip) { (4, ipv4::HEADER as u16) } else { (6, ipv6::HEADER as u16) };
        if net.ttl == 0 {
            net.ttl = HOP_LIMIT;
        }
        Ok(self.path_mtu(net.dst_ip))
    }

    /// How many bytes to leave free at the front of [`TxFrame::head`] for the link and network
    /// headers.
    #[must_use]
    pub fn header_room(&self, net: &Net) -> usize {
        self.link_len() + if is_ipv4(&net.dst_ip) { ipv4::HEADER } else { ipv6::HEADER }
    }

    /// Sends a packet: writes its link and network headers, completes its checksum where the wire
    /// does not, and finds its neighbour. What cannot be sent is dropped and counted.
    ///
    /// `net` has been through [`Interface::route`]; `frame.head` starts with
    /// [`Interface::header_room`] free bytes, and `frame.csum` counts from the start of `head`.
    pub fn send(&mut self, now: Nanos, net: &Net, frame: TxFrame) {
        self.send_nth(now, net, frame, 0);
    }

    /// The same for one of several packets made together, or for a super-segment: `number` is the
    /// (first) one's, counted from 0. It is IPv4's identification, as a device counts it that cuts
    /// super-segments.
    pub fn send_nth(&mut self, now: Nanos, net: &Net, frame: TxFrame, number: u16) {
        let mut frame = frame;
        frame.prio = net.prio;
        if let Err(reason) = self.write_headers(net, &mut frame, number) {
            self.counters.count(reason);
            return;
        }
        match self.medium {
            Medium::Ip => self.outgoing.push(frame),
            Medium::Ethernet(own) => self.send_to_neighbour(now, own, net, frame),
        }
    }

    fn send_to_neighbour(&mut self, now: Nanos, own: [u8; 6], net: &Net, frame: TxFrame) {
        let mut frame = frame;
        let Ok(hop) = self.next_hop(&net.dst_ip) else {
            self.counters.count(DropReason::Unresolved);
            return;
        };
        let kind = if is_ipv4(&hop) { EtherType::Ipv4 } else { EtherType::Ipv6 };
        let resolved = self.neighbours.resolve(now, hop);
        let mac = match resolved {
            Resolved::Known(mac) => mac,
            Resolved::Pending | Resolved::Unknown | Resolved::Full => [0; 6],
        };
        ethernet::write(&mut frame.head, mac, own, kind);
        match resolved {
            Resolved::Known(_) => self.outgoing.push(frame),
            Resolved::Pending => self.hold(&hop, frame),
            Resolved::Unknown => {
                self.hold(&hop, frame);
                self.solicit(Solicit { ip: hop, mac: None });
            }
            Resolved::Full => self.counters.count(DropReason::Unresolved),
        }
    }

    fn hold(&mut self, hop: &Ip, frame: TxFrame) {
        for _ in 0..self.neighbours.hold(hop, frame) {
            self.counters.count(DropReason::Unresolved);
        }
    }

    /// Writes the network header, and completes the checksum if the wire does not.
    fn write_headers(&self, net: &Net, frame: &mut TxFrame, number: u16) -> Result<(), DropReason> {
        let link = self.link_len();
        let room = self.header_room(net);
        if frame.head.len() < room {
            return Err(DropReason::Malformed);
        }
        let payload: usize = frame.payload.iter().map(|p| p.len()).sum();
        let len = frame.head.len() - link + payload;
        // A super-segment's packets are as long as its headers and one piece of payload.
        let packet = match frame.gso_size {
            0 => len,
            size => len.min(frame.head.len() - link + usize::from(size)),
        };
        let behind = len + link - room;
        let stated = if is_ipv4(&net.dst_ip) { len } else { behind };
        if packet > self.mtu as usize || stated > MAX_LENGTH || (packet < len && len > self.gso_max as usize)
        {
            return Err(DropReason::TooLong);
        }
        let header = &mut frame.head[link..room];
        if is_ipv4(&net.dst_ip) {
            ipv4::write(header, net, stated as u16, number);
        } else {
            ipv6::write(header, net, stated as u16);
        }
        if !self.tx_csum && !checksum::complete(frame) {
            return Err(DropReason::Malformed);
        }
        Ok(())
    }

    fn link_len(&self) -> usize {
        match self.medium {
            Medium::Ip => 0,
            Medium::Ethernet(_) => ethernet::HEADER,
        }
    }

    /// To whom on the link a packet for `dst` goes. On a wire of bare IP everything goes to its
    /// other end.
    fn next_hop(&self, dst: &Ip) -> Result<Ip, Unreachable> {
        if !is_unicast(dst) || self.owns(dst) || self.subnets.iter().any(|s| s.is_broadcast(dst)) {
            return Err(Unreachable::Destination);
        }
        let family = is_ipv4(dst);
        if !self.subnets.iter().any(|s| is_ipv4(&s.own) == family) {
            return Err(Unreachable::Family);
        }
        match self.medium {
            Medium::Ip => Ok(*dst),
            Medium::Ethernet(_) if self.is_neighbour(dst) => Ok(*dst),
            Medium::Ethernet(_) => {
                let gateway = self.gateways.iter().find(|g| is_ipv4(g) == family);
                gateway.copied().ok_or(Unreachable::NoRoute)
            }
        }
    }

    /// The own address to write to `dst` from, by way of the neighbour `hop`: of its family, as
    /// far-reaching as it (RFC 6724, 5, rule 2), on the subnet of `hop` if one is; else the first.
    pub(super) fn source_for(&self, dst: &Ip, hop: &Ip) -> Option<Ip> {
        let suits = |own: &Ip| is_ipv4(own) == is_ipv4(dst);
        let rank = |s: &super::Subnet| (is_link_local(&s.own) == is_link_local(dst), s.holds(hop));
        let mut best = None;
        for subnet in self.subnets.iter().filter(|s| suits(&s.own)) {
            if best.is_none_or(|b| rank(subnet) > rank(b)) {
                best = Some(subnet);
            }
        }
        best.map(|s| s.own)
    }

    /// Whether `ip` is one host's address on one of our subnets, and not our own.
    pub(super) fn is_neighbour(&self, ip: &Ip) -> bool {
        is_unicast(ip)
            && !self.owns(ip)
            && self.subnets.iter().any(|s| s.holds(ip))
            && !self.subnets.iter().any(|s| s.is_broadcast(ip))
    }

    /// Whether `ip` is one of our addresses.
    pub(super) fn owns(&self, ip: &Ip) -> bool {
        self.subnets.iter().any(|s| s.own == *ip)
    }
}

/// fe80::/10 (RFC 4291, 2.4).
fn is_link_local(ip: &Ip) -> bool {
    ip[0] == 0xfe && ip[1] & 0xc0 == 0x80
}
