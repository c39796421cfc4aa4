//! Detection of addresses that other hosts on a link already use, before a stack uses them (RFC 5227, 2.1;
//! RFC 4862, 5.4).
//!
//! It is a machine: the caller sends its questions and passes it the received frames. If no other host has
//! claimed an address, the caller sends the announcements.

use std::net::IpAddr;

use hawser_ir::abi::Net;
use hawser_ir::buf::NET_ZERO;

use super::address::{Ip, UNSPECIFIED, from_bytes, is_ipv4, to_bytes};
use super::arp::{self, Arp, ArpOperation};
use super::control::{NO_SENDER, icmp_head};
use super::ethernet::{self, EtherType, Mac};
use super::{icmp, ipv6, ndisc};
use crate::wire::{Caps, Medium, TxFrame};

/// The addresses that a stack is about to use on an Ethernet link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressProbe {
    own: Mac,
    addresses: Vec<Ip>,
}

impl AddressProbe {
    /// Creates a probe for these addresses, and for the link-local address that a stack with an IPv6 address
    /// also has. Returns `None` on a wire on which no other host can have them.
    #[must_use]
    pub fn new(addresses: &[IpAddr], caps: &Caps) -> Option<AddressProbe> {
        let Medium::Ethernet(own) = caps.medium else {
            return None;
        };
        let mut addresses: Vec<Ip> = addresses.iter().copied().map(to_bytes).collect();
        if addresses.iter().any(|ip| !is_ipv4(ip)) {
            addresses.push(ndisc::link_local(own));
        }
        Some(AddressProbe { own, addresses })
    }

    /// Returns the frames that ask whether another host has the addresses: ARP probes, and neighbour
    /// solicitations from the unspecified address.
    #[must_use]
    pub fn questions(&self) -> Vec<TxFrame> {
        let question = |ip: &Ip| match is_ipv4(ip) {
            true => self.arp(NO_SENDER, *ip),
            false => self.solicitation(ip),
        };
        self.addresses.iter().map(question).collect()
    }

    /// Returns the frames that announce to the link the new owner of the IPv4 addresses (RFC 5227, 2.3).
    #[must_use]
    pub fn announcements(&self) -> Vec<TxFrame> {
        let of_ipv4 = self.addresses.iter().filter(|ip| is_ipv4(ip));
        of_ipv4.map(|ip| self.arp(*ip, *ip)).collect()
    }

    /// Returns the probed address that the sender of a frame has or is about to use.
    #[must_use]
    pub fn conflict(&self, frame: &[u8]) -> Option<IpAddr> {
        let from: &[u8; 6] = frame.get(6..12)?.first_chunk()?;
        if *from == self.own {
            return None;
        }
        let claimed = match ethernet::read(frame, self.own).ok()? {
            EtherType::Arp => claimed_by_arp(&frame[ethernet::HEADER..], self.own),
            EtherType::Ipv6 => claimed_by_neighbour(&frame[ethernet::HEADER..]),
            EtherType::Ipv4 => None,
        }?;
        self.addresses.contains(&claimed).then(|| from_bytes(claimed))
    }

    fn arp(&self, sender_ip: Ip, target_ip: Ip) -> TxFrame {
        let mut head = vec![0; ethernet::HEADER];
        ethernet::write(&mut head, ethernet::BROADCAST, self.own, EtherType::Arp);
        let packet = Arp {
            operation: ArpOperation::Request,
            sender_mac: self.own,
            sender_ip,
            target_mac: [0; 6],
            target_ip,
        };
        arp::write(&mut head, &packet);
        TxFrame { head, ..TxFrame::default() }
    }

    fn solicitation(&self, target: &Ip) -> TxFrame {
        let group = ndisc::solicited_node(target);
        let net = Net {
            src_ip: UNSPECIFIED,
            dst_ip: group,
            protocol: icmp::PROTOCOL_V6,
            ttl: ndisc::HOP_LIMIT,
            version: 6,
            ..NET_ZERO
        };
        let mut head = icmp_head(&net, ethernet::HEADER + ipv6::HEADER, |out| {
            ndisc::write_probe(out, target);
        });
        let payload_len = (head.len() - ethernet::HEADER - ipv6::HEADER) as u16;
        ethernet::write(&mut head, ndisc::group_mac(&group), self.own, EtherType::Ipv6);
        ipv6::write(&mut head[ethernet::HEADER..], &net, payload_len);
        TxFrame { head, ..TxFrame::default() }
    }
}

/// RFC 5227, 2.1.1: the sender of any packet has its address. The sender of a probe is about to use the
/// address that it asks for.
fn claimed_by_arp(packet: &[u8], own: Mac) -> Option<Ip> {
    let packet = arp::read(packet).ok().filter(|packet| packet.sender_mac != own)?;
    match packet.sender_ip == NO_SENDER {
        true => (packet.operation == ArpOperation::Request).then_some(packet.target_ip),
        false => Some(packet.sender_ip),
    }
}

/// RFC 4862, 5.4.3 and 5.4.4: the target of an advertisement is in use. A solicitation from the unspecified
/// address is another host's question of the same kind.
fn claimed_by_neighbour(packet: &[u8]) -> Option<Ip> {
    let mut net = ipv6::read(packet).ok()?;
    ipv6::walk(packet, &mut net).ok()?;
    if net.protocol != icmp::PROTOCOL_V6 || net.ttl != ndisc::HOP_LIMIT {
        return None;
    }
    let message = packet.get(usize::from(net.hdr_len)..net.tot_len as usize)?;
    let header = icmp::read(message)?;
    let counts = match header.kind {
        icmp::v6::NEIGHBOUR_ADVERTISEMENT => true,
        icmp::v6::NEIGHBOUR_SOLICITATION => net.src_ip == UNSPECIFIED,
        _ => false,
    };
    let message = ndisc::read(message).ok().filter(|_| counts)?;
    Some(message.target)
}
