//! The layers below the transport: Ethernet or bare IP, ARP and neighbour discovery, IPv4 and IPv6, ICMP,
//! path MTU.
//!
//! [`Interface`] contains all of them for one wire. It is a machine like all others: frames and the time come
//! in, packets for the engine and frames for the wire come out.
//!
//! * `address`, `checksum`, `crc`: arithmetic
//! * `ethernet`, `ipv4`, `ipv6`, `arp`, `icmp`: one format each, read and written
//! * `neighbour`, `path_mtu`, `rate`, `outgoing`: state, bounded
//! * `steering`: the choice of the stack that a packet is for
//! * `ingress`, `control`, `egress`: the processing of received and sent frames
//! * `probe`: the check that addresses are free on a link, before an interface exists
//! * `merge`: received packets that are merged into one
//!
//! Invariants: no clock, no socket, no randomness. No input panics. Every table and queue has a stated limit.
//! A packet costs no allocation unless the interface replies to it.

mod address;
mod arp;
mod checksum;
mod config;
mod control;
pub mod crc;
mod egress;
mod ethernet;
mod icmp;
mod ingress;
mod ipv4;
mod ipv6;
pub(crate) mod merge;
mod ndisc;
mod neighbour;
mod outgoing;
mod path_mtu;
pub mod probe;
mod rate;
mod steering;
#[cfg(test)]
mod tests;
pub mod udp;
mod verdict;

use std::net::IpAddr;
use std::time::Duration;

use crate::wire::{Caps, Medium, TxFrame};

pub use address::{from_bytes, is_ipv4, to_bytes};
pub use checksum::Sum;
pub use config::{InterfaceConfig, InterfaceConfigError, MAX_ADDRESSES};
pub(crate) use egress::network_len;
pub use steering::{Recipient, Steering};
pub use verdict::{DropReason, Ingress, InterfaceCounters, Unreachable};

use address::{Ip, Subnet, is_of_a_host, is_unicast};
use hawser_time::Instant;
use neighbour::Neighbours;
use outgoing::FrameQueue;
use path_mtu::{MIN_MTU_IPV4, MIN_MTU_IPV6, PathMtus};
use rate::TokenBucket;

/// The maximum number of ICMP errors sent at once.
const ERROR_BURST: u32 = 20;
/// The interval after which one more ICMP error may be sent.
const ERROR_INTERVAL: Duration = Duration::from_millis(100);

/// The network layer on one wire.
///
/// Call [`Interface::ingress`] for each received frame, and [`Interface::poll`] once
/// [`Interface::next_deadline`] has come. To send, call [`Interface::route`], build the packet behind
/// [`Interface::header_room`] free bytes, then call [`Interface::send`]. To reuse the memory of frames, build
/// the packet in [`Interface::blank`] and call [`Interface::finish`] instead. After any of `ingress`, `poll`,
/// `send`, `finish` and `unreachable_reply`, [`Interface::outgoing`] may hold frames for the wire.
/// [`Interface::sent`] reports the frames that the wire has taken.
///
/// On Ethernet an interface with an IPv6 address also has the link-local address derived from its Ethernet
/// address (RFC 4291, 2.1).
#[derive(Debug)]
pub struct Interface {
    medium: Medium,
    subnets: Vec<Subnet>,
    gateways: Vec<Ip>,
    /// The last destination and its next hop; both are derived from the fields above.
    last_hop: Option<(Ip, Ip)>,
    mtu: u32,
    gso_max: u32,
    tx_csum: bool,
    neighbours: Neighbours,
    paths: PathMtus,
    errors: TokenBucket,
    outgoing: FrameQueue,
    counters: InterfaceCounters,
    /// True if packets are accepted whatever their source and destination.
    overhears: bool,
}

impl Interface {
    /// Creates an interface on a wire with these capabilities.
    ///
    /// # Errors
    /// Returns an error if the configuration contradicts itself or the wire.
    pub fn new(config: InterfaceConfig, caps: &Caps) -> Result<Interface, InterfaceConfigError> {
        let mtu = config.mtu.min(caps.mtu);
        let mut subnets = config
            .addresses
            .iter()
            .map(|address| subnet(address, caps.medium))
            .collect::<Result<Vec<_>, _>>()?;
        if let Medium::Ethernet(mac) = caps.medium
            && subnets.iter().any(|s| !is_ipv4(&s.own))
        {
            subnets.push(Subnet { own: ndisc::link_local(mac), bits: 64 });
        }
        if subnets.is_empty() {
            return Err(InterfaceConfigError::NoAddress);
        }
        if subnets.len() > MAX_ADDRESSES {
            return Err(InterfaceConfigError::TooManyAddresses(subnets.len()));
        }
        let min = if subnets.iter().all(|s| is_ipv4(&s.own)) {
            MIN_MTU_IPV4
        } else {
            MIN_MTU_IPV6
        };
        if mtu < min {
            return Err(InterfaceConfigError::Mtu { mtu, min });
        }
        let interface = Interface {
            medium: caps.medium,
            subnets,
            gateways: config.gateways.iter().copied().map(to_bytes).collect(),
            last_hop: None,
            mtu,
            gso_max: caps.gso_max,
            tx_csum: caps.tx_csum,
            neighbours: Neighbours::default(),
            paths: PathMtus::default(),
            errors: TokenBucket::new(ERROR_BURST, ERROR_INTERVAL),
            outgoing: FrameQueue::default(),
            counters: InterfaceCounters::default(),
            overhears: false,
        };
        let needs_neighbours = matches!(caps.medium, Medium::Ethernet(_));
        match interface
            .gateways
            .iter()
            .find(|g| needs_neighbours && !interface.is_neighbour(g))
        {
            Some(gateway) => Err(InterfaceConfigError::Gateway(from_bytes(*gateway))),
            None => Ok(interface),
        }
    }

    /// Returns the frames for the wire, in order; the caller takes them out.
    pub fn outgoing(&mut self) -> &mut Vec<TxFrame> {
        &mut self.outgoing.waiting
    }

    /// Removes the first `count` frames of [`Interface::outgoing`], which the wire has taken.
    pub fn sent(&mut self, count: usize) {
        self.outgoing.sent(count);
    }

    /// Accepts all packets from now on, including those from our own addresses and those to other hosts.
    pub fn overhear(&mut self) {
        self.overhears = true;
    }

    /// Returns the MTU of the path back to the sender of a received packet, in bytes. It is 0 if this host is
    /// the sender, which only an overhearing interface can see.
    pub(crate) fn path_back(&self, src: [u8; 16]) -> u32 {
        match self.overhears && self.owns(&src) {
            true => 0,
            false => self.path_mtu(src),
        }
    }

    /// Returns the largest packet in bytes that is not known to be too big for the path to `dst`.
    #[must_use]
    pub fn path_mtu(&self, dst: [u8; 16]) -> u32 {
        self.paths.find(&dst).map_or(self.mtu, |mtu| mtu.min(self.mtu))
    }

    /// Assumes for ten minutes (RFC 1191, 6.3) that the path to `dst` takes no more than `mtu` bytes, unless
    /// the known MTU is as low. The caller has made sure that the error is no forgery. If `mtu` is less than
    /// [`Interface::heeded_mtu`], routers may fragment packets up to the latter.
    pub fn lower_path(&mut self, now: Instant, dst: [u8; 16], mtu: u32) {
        if mtu < self.path_mtu(dst) {
            self.paths.lower(now, dst, mtu);
            self.counters.paths_lowered += 1;
        }
    }

    /// Returns the MTU that programs learn of a path to `dst` that takes `mtu` bytes.
    pub(crate) fn heeded_mtu(dst: &[u8; 16], mtu: u32) -> u32 {
        path_mtu::heeded(dst, mtu)
    }

    /// Returns true if the path to some destination is known to be narrower than the link.
    pub(crate) fn knows_narrow_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Returns the largest packet in bytes that the link takes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the time of the next work for [`Interface::poll`]; it may be a little early.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.neighbours.next_deadline(), self.paths.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Repeats or gives up address resolutions, and removes expired entries.
    pub fn poll(&mut self, now: Instant) {
        self.paths.poll(now);
        let mut questions = Vec::new();
        for _ in 0..self.neighbours.poll(now, &mut questions) {
            self.counters.count(DropReason::Unresolved);
        }
        for question in questions {
            self.solicit(question);
        }
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn counters(&self) -> &InterfaceCounters {
        &self.counters
    }
}

/// Returns an own address with its subnet, if a host can have the address.
fn subnet((ip, bits): &(IpAddr, u8), medium: Medium) -> Result<Subnet, InterfaceConfigError> {
    let subnet = Subnet::new(*ip, *bits).ok_or(InterfaceConfigError::PrefixLength(*ip, *bits))?;
    let is_one_hosts = match medium {
        Medium::Socket => is_of_a_host(&subnet.own),
        Medium::Ip | Medium::Ethernet(_) => is_unicast(&subnet.own),
    };
    if !is_one_hosts || subnet.is_broadcast(&subnet.own) {
        return Err(InterfaceConfigError::Address(*ip));
    }
    Ok(subnet)
}
