//! Below the transport: Ethernet or bare IP, ARP and neighbour discovery, IPv4 and IPv6, ICMP,
//! path MTU.
//!
//! [`Interface`] is the whole of it, for one wire. It is a machine like all others: frames and the
//! time come in, packets for the engine and frames for the wire come out.
//!
//! * `address`, `checksum`: arithmetic
//! * `ethernet`, `ipv4`, `ipv6`, `arp`, `icmp`: one format each, read and written
//! * `neighbour`, `path_mtu`, `rate`: state, bounded
//! * `ingress`, `control`, `egress`: what is done with a frame, on its way in and on its way out
//!
//! Invariants: no clock, no socket, no randomness; no input panics; every table and queue has a
//! stated limit; a packet costs no allocation unless a reply to it is made here.

mod address;
mod checksum;
mod config;
mod verdict;

use hawser_ir::abi::Net;

use crate::wire::{Caps, Medium, Nanos, RxFrame, TxFrame};

pub use address::{from_bytes, is_ipv4, to_bytes};
pub use config::{ConfigError, InterfaceConfig, MAX_ADDRESSES};
pub use verdict::{Counters, DropReason, Ingress, Unreachable};

use address::Subnet;

/// The network layer on one wire.
///
/// Call order: [`Interface::ingress`] for each received frame and [`Interface::poll`] once
/// [`Interface::next_deadline`] has come; to send, [`Interface::route`], then build the packet
/// behind [`Interface::header_room`] free bytes, then [`Interface::send`]. After any of `ingress`,
/// `poll`, `send` and `unreachable_reply`, [`Interface::outgoing`] may hold frames for the wire.
#[derive(Debug)]
pub struct Interface {
    medium: Medium,
    subnets: Vec<Subnet>,
    mtu: u32,
    outgoing: Vec<TxFrame>,
    counters: Counters,
}

impl Interface {
    /// Sets an interface up on a wire with these capabilities.
    ///
    /// # Errors
    /// When the configuration contradicts itself or the wire.
    pub fn new(config: InterfaceConfig, caps: &Caps) -> Result<Interface, ConfigError> {
        let subnets = config
            .addresses
            .iter()
            .map(|(ip, bits)| Subnet::new(*ip, *bits).ok_or(ConfigError::PrefixLength(*ip, *bits)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Interface {
            medium: caps.medium,
            subnets,
            mtu: config.mtu.min(caps.mtu),
            outgoing: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Takes a received frame apart.
    pub fn ingress<'a>(&mut self, _now: Nanos, _frame: &RxFrame<'a>) -> Ingress<'a> {
        self.counters.count(DropReason::Malformed);
        Ingress::Drop(DropReason::Malformed)
    }

    /// Fills what is unset in the header of a packet to be sent (source, version, hop limit) and
    /// returns the path's MTU in bytes.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn route(&mut self, net: &mut Net) -> Result<u32, Unreachable> {
        let source = self.subnets.iter().find(|s| is_ipv4(&s.own) == is_ipv4(&net.dst_ip));
        let source = source.ok_or(Unreachable::Family)?;
        net.src_ip = source.own;
        net.ttl = 64;
        Ok(self.path_mtu(net.dst_ip))
    }

    /// How many bytes to leave free at the front of [`TxFrame::head`] for the link and network
    /// headers.
    #[must_use]
    pub fn header_room(&self, net: &Net) -> usize {
        let link = match self.medium {
            Medium::Ip => 0,
            Medium::Ethernet(_) => 14,
        };
        link + if is_ipv4(&net.dst_ip) { 20 } else { 40 }
    }

    /// Sends a packet. `frame.head` starts with [`Interface::header_room`] free bytes, and
    /// `frame.csum` counts from the start of `head`.
    pub fn send(&mut self, _now: Nanos, _net: &Net, frame: TxFrame) {
        self.outgoing.push(frame);
    }

    /// Frames for the wire, in order; the caller takes them out.
    pub fn outgoing(&mut self) -> &mut Vec<TxFrame> {
        &mut self.outgoing
    }

    /// The largest packet in bytes that is known to reach `dst`.
    #[must_use]
    pub fn path_mtu(&self, _dst: [u8; 16]) -> u32 {
        self.mtu
    }

    /// When [`Interface::poll`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    /// Repeats and gives up address resolution, and forgets what is too old.
    pub fn poll(&mut self, _now: Nanos) {}

    /// Answers a packet whose protocol no program takes with an ICMP error (RFC 1122, 3.2.2.1;
    /// RFC 8200, 4), within a limited rate. `frame` is what [`Interface::ingress`] was given.
    pub fn unreachable_reply(&mut self, _now: Nanos, _frame: &RxFrame<'_>) {}

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
