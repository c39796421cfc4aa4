//! Sending a packet: route, headers, checksum, the neighbour's address.

use hawser_ir::abi::Net;
use hawser_time::Instant;

use crate::wire::{Medium, TxFrame};

use super::address::{Ip, UNSPECIFIED, is_ipv4, is_unicast};
use super::crc::Crc;
use super::ethernet::{self, EtherType};
use super::neighbour::{Resolved, Solicit};
use super::verdict::{DropReason, Unreachable};
use super::{Interface, checksum, ipv4, ipv6, udp};

/// The hop limit of a packet for which the program sets no limit (RFC 1700's recommended default).
pub(super) const HOP_LIMIT: u8 = 64;

/// The maximum value of the length fields of IPv4 (whole packet) and IPv6 (behind the fixed header), in
/// bytes.
const MAX_LENGTH: usize = 65_535;

impl Interface {
    /// Fills the unset fields in the header of a packet to be sent: source, version, header length and hop
    /// limit. Returns the path's MTU in bytes.
    ///
    /// # Errors
    /// Returns the reason why the packet cannot be sent.
    pub fn route(&mut self, net: &mut Net) -> Result<u32, Unreachable> {
        let hop = self.next_hop(&net.dst_ip)?;
        if net.src_ip == UNSPECIFIED {
            let source = self.source_for(&net.dst_ip, &hop).ok_or(Unreachable::Family)?;
            // On a socket the kernel chooses the source by its routes at the time of sending.
            if self.medium != Medium::Socket {
                net.src_ip = source;
            }
        } else if !self.is_ours(&net.src_ip) || is_ipv4(&net.src_ip) != is_ipv4(&net.dst_ip) {
            return Err(Unreachable::Source);
        }
        (net.version, net.hdr_len) = if is_ipv4(&net.dst_ip) {
            (4, ipv4::HEADER as u16)
        } else {
            (6, ipv6::HEADER as u16)
        };
        if net.ttl == 0 {
            net.ttl = HOP_LIMIT;
        }
        Ok(self.path_mtu(net.dst_ip))
    }

    /// Returns this host's source address towards a destination.
    ///
    /// # Errors
    /// As [`Interface::route`].
    //= RFC9293 3.9.1.1
    //# If an application on a multihomed host does not specify the local IP address when actively opening a
    //# TCP connection, then the TCP implementation MUST ask the IP layer to select a local IP address before
    //# sending the (first) SYN (MUST-44)
    pub fn source_towards(&mut self, destination: &[u8; 16]) -> Result<[u8; 16], Unreachable> {
        let hop = self.next_hop(destination)?;
        self.source_for(destination, &hop).ok_or(Unreachable::Family)
    }

    /// Returns the number of bytes to leave free at the front of [`TxFrame::head`] for the link and network
    /// headers.
    #[must_use]
    pub fn header_room(&self, net: &Net) -> usize {
        self.link_len() + network_len(net)
    }

    /// Returns an empty frame, in reused memory, behind the frames that wait for the wire. Once a packet is
    /// built in it, the caller either sends it by [`Interface::finish`] or removes it by
    /// [`Interface::withdraw`].
    pub fn blank(&mut self) -> &mut TxFrame {
        self.outgoing.blank()
    }

    /// Removes the last waiting frame.
    pub fn withdraw(&mut self) {
        self.outgoing.withdraw();
    }

    /// Sends a packet: writes its link and network headers, completes its checksum unless the wire does, and
    /// resolves its neighbour. A packet that cannot be sent is dropped and counted.
    ///
    /// `net` has been through [`Interface::route`]. `frame.head` starts with [`Interface::header_room`] free
    /// bytes, and `frame.csum` counts from the start of `head`.
    pub fn send(&mut self, now: Instant, net: &Net, frame: TxFrame) {
        self.outgoing.waiting.push(frame);
        self.finish(now, net, 0, None);
    }

    /// Sends the packet that was built in [`Interface::blank`] in the same way: a super-segment, or one of
    /// several packets built together. `number` is the number of the (first) packet, counted from 0. Unless
    /// routers may fragment the packet, it is IPv4's identification, counted on by a device that cuts
    /// super-segments. `crc` is the packet's CRC-32, if it has one.
    pub(crate) fn finish(&mut self, now: Instant, net: &Net, number: u16, crc: Option<&Crc>) {
        let link = self.link_len();
        let (mtu, gso_max, tx_csum) = (self.mtu, self.gso_max, self.tx_csum);
        let Some(frame) = self.outgoing.waiting.last_mut() else {
            return;
        };
        frame.prio = net.prio;
        let own = match self.paths.is_empty() {
            true => None,
            false => self.paths.identify(&net.dst_ip, packets_in(frame)),
        };
        let identity = (own.unwrap_or(number), own.is_some());
        let written = write_network(net, frame, link, identity, mtu, gso_max);
        let covered = written.is_ok() && crc.is_none_or(|crc| cover(net, frame, link, crc));
        let complete = covered && (tx_csum || checksum::complete(frame));
        if let Err(reason) = written.and(complete.then_some(()).ok_or(DropReason::Malformed)) {
            self.withdraw();
            self.counters.count(reason);
        } else if let Medium::Ethernet(own) = self.medium {
            self.address(now, own, net);
        }
    }

    /// Writes the last frame's link header. If its neighbour is not yet known, the frame is moved out of the
    /// waiting ones.
    fn address(&mut self, now: Instant, own: [u8; 6], net: &Net) {
        let Ok(hop) = self.next_hop(&net.dst_ip) else {
            self.withdraw();
            self.counters.count(DropReason::Unresolved);
            return;
        };
        let kind = if is_ipv4(&hop) {
            EtherType::Ipv4
        } else {
            EtherType::Ipv6
        };
        let resolved = self.neighbours.resolve(now, hop);
        let mac = match resolved {
            Resolved::Known(mac) => mac,
            Resolved::Pending | Resolved::Unknown | Resolved::Full => [0; 6],
        };
        if let Some(frame) = self.outgoing.waiting.last_mut() {
            ethernet::write(&mut frame.head, mac, own, kind);
        }
        match resolved {
            Resolved::Known(_) => {}
            Resolved::Pending => self.hold(&hop),
            Resolved::Unknown => {
                self.hold(&hop);
                self.solicit(Solicit { ip: hop, mac: None });
            }
            Resolved::Full => {
                self.withdraw();
                self.counters.count(DropReason::Unresolved);
            }
        }
    }

    /// Moves the last frame to the queue of its unresolved neighbour.
    fn hold(&mut self, hop: &Ip) {
        let Some(frame) = self.outgoing.waiting.pop() else {
            return;
        };
        for _ in 0..self.neighbours.hold(hop, frame) {
            self.counters.count(DropReason::Unresolved);
        }
    }

    fn link_len(&self) -> usize {
        match self.medium {
            Medium::Ip | Medium::Socket => 0,
            Medium::Ethernet(_) => ethernet::HEADER,
        }
    }

    /// Returns the next hop of a packet for `dst`; consecutive packets to the same destination reuse the
    /// result.
    fn next_hop(&mut self, dst: &Ip) -> Result<Ip, Unreachable> {
        match self.last_hop {
            Some((last, hop)) if last == *dst => Ok(hop),
            _ => {
                let hop = self.find_hop(dst)?;
                self.last_hop = Some((*dst, hop));
                Ok(hop)
            }
        }
    }

    /// Finds the next hop. On a wire of bare IP every packet goes to the other end, and on a socket the
    /// host's kernel has the routes.
    fn find_hop(&self, dst: &Ip) -> Result<Ip, Unreachable> {
        //= RFC9293 3.9.1.1
        //# A TCP implementation MUST reject as an error a local OPEN call for an invalid remote IP address
        //# (e.g., a broadcast or multicast address) (MUST-46)
        if !self.is_a_peers(dst) || self.subnets.iter().any(|s| s.is_broadcast(dst)) {
            return Err(Unreachable::Destination);
        }
        let family = is_ipv4(dst);
        if !self.subnets.iter().any(|s| is_ipv4(&s.own) == family) {
            return Err(Unreachable::Family);
        }
        match self.medium {
            Medium::Ip | Medium::Socket => Ok(*dst),
            Medium::Ethernet(_) if self.is_neighbour(dst) => Ok(*dst),
            Medium::Ethernet(_) => {
                let gateway = self.gateways.iter().find(|g| is_ipv4(g) == family);
                gateway.copied().ok_or(Unreachable::NoRoute)
            }
        }
    }

    /// Returns the own address for packets to `dst` through the neighbour `hop`. It has the family and the
    /// scope of `dst` (RFC 6724, 5, rule 2) and is on the subnet of `hop`, if such an address exists.
    /// Otherwise it is the first of the family.
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

    /// Returns true if `ip` is a host address on one of our subnets and not our own.
    pub(super) fn is_neighbour(&self, ip: &Ip) -> bool {
        is_unicast(ip)
            && !self.owns(ip)
            && self.subnets.iter().any(|s| s.holds(ip))
            && !self.subnets.iter().any(|s| s.is_broadcast(ip))
    }

    /// Returns true if a packet to `ip` that the wire delivers is for us, and a packet from `ip` may leave.
    /// Behind a socket the kernel has the host's addresses, which come and go.
    #[inline]
    pub(super) fn is_ours(&self, ip: &Ip) -> bool {
        self.medium == Medium::Socket || self.overhears || self.owns(ip)
    }

    /// Returns true if `ip` is one of our addresses.
    pub(super) fn owns(&self, ip: &Ip) -> bool {
        self.subnets.iter().any(|s| s.own == *ip)
    }
}

/// Returns the size of the headers in front of a program's packet in bytes, from the network header on.
pub(crate) fn network_len(net: &Net) -> usize {
    let header = if is_ipv4(&net.dst_ip) {
        ipv4::HEADER
    } else {
        ipv6::HEADER
    };
    header + if net.dst_port != 0 { udp::HEADER } else { 0 }
}

/// Computes a packet's CRC-32. Over IPv4 an invariant CRC makes UDP's checksum unnecessary; its field is then
/// zero, which means "none".
fn cover(net: &Net, frame: &mut TxFrame, link: usize, crc: &Crc) -> bool {
    let network = network_len(net);
    if net.dst_port == 0 && !checksum::complete(frame) || !crc.fill(frame, link, network) {
        return false;
    }
    if crc.invariant && net.dst_port != 0 && is_ipv4(&net.dst_ip) {
        frame.csum = None;
        let field = link + network - udp::HEADER + udp::CHECKSUM;
        frame.head[field..field + 2].fill(0);
    }
    true
}

/// Returns the number of packets that a frame stands for.
fn packets_in(frame: &TxFrame) -> u16 {
    let payload: usize = frame.payload.iter().map(|piece| piece.len()).sum();
    match usize::from(frame.gso_size) {
        0 => 1,
        size => payload.div_ceil(size).clamp(1, usize::from(u16::MAX)) as u16,
    }
}

/// Writes a packet's network header behind `link` bytes, unless the packet is too long.
#[inline(always)] // Into `finish`, which already has every argument.
fn write_network(
    net: &Net,
    frame: &mut TxFrame,
    link: usize,
    identity: (u16, bool),
    mtu: u32,
    gso_max: u32,
) -> Result<(), DropReason> {
    let v4 = is_ipv4(&net.dst_ip);
    let room = link + if v4 { ipv4::HEADER } else { ipv6::HEADER };
    let is_datagram = net.dst_port != 0;
    if frame.head.len() < link + network_len(net) {
        return Err(DropReason::Malformed);
    }
    let payload: usize = frame.payload.iter().map(|p| p.len()).sum();
    let len = frame.head.len() - link + payload;
    // A packet of a super-segment is as long as its headers and one piece of payload.
    let packet = match frame.gso_size {
        0 => len,
        size => len.min(frame.head.len() - link + usize::from(size)),
    };
    let stated = if v4 { len } else { len + link - room };
    if packet > mtu as usize || stated > MAX_LENGTH || (packet < len && len > gso_max as usize) {
        return Err(DropReason::TooLong);
    }
    if is_datagram {
        // The device completes only one checksum: the outer one.
        if !checksum::complete(frame) {
            return Err(DropReason::Malformed);
        }
        udp::write(&mut frame.head[room..], net, (len + link - room) as u16);
        frame.csum = Some((room as u16, room as u16 + 6));
    }
    let header = &mut frame.head[link..room];
    if v4 {
        ipv4::write(header, net, stated as u16, identity);
    } else {
        ipv6::write(header, net, stated as u16);
    }
    Ok(())
}

/// Returns true for an address in fe80::/10 (RFC 4291, 2.4).
fn is_link_local(ip: &Ip) -> bool {
    ip[0] == 0xfe && ip[1] & 0xc0 == 0x80
}
