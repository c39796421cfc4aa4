//! Below the transport: Ethernet or bare IP, ARP and neighbour discovery, IPv4 and IPv6, ICMP,
//! path MTU.
//!
//! [`Interface`] is the whole of it, for one wire. It is a machine like all others: frames and the
//! time come in, packets for the engine and frames for the wire come out.
//!
//! * `address`, `checksum`, `crc`: arithmetic
//! * `ethernet`, `ipv4`, `ipv6`, `arp`, `icmp`: one format each, read and written
//! * `neighbour`, `path_mtu`, `rate`, `outgoing`: state, bounded
//! * `steering`: which of several stacks a packet is for
//! * `ingress`, `control`, `egress`: what is done with a frame that is received, and with one that is sent
//! * `probe`: whether addresses are free on a link, before there is an interface
//! * `merge`: received packets that are taken in as one
//!
//! Invariants: no clock, no socket, no randomness; no input panics; every table and queue has a
//! stated limit; a packet costs no allocation unless a reply to it is made here.

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
pub use config::{ConfigError, InterfaceConfig, MAX_ADDRESSES};
pub(crate) use egress::network_len;
pub use steering::{Recipient, Steering};
pub use verdict::{Counters, DropReason, Ingress, Unreachable};

use address::{Ip, Subnet, is_of_a_host, is_unicast};
use hawser_time::Instant;
use neighbour::Neighbours;
use outgoing::Outgoing;
use path_mtu::{MIN_MTU_IPV4, MIN_MTU_IPV6, PathMtus};
use rate::TokenBucket;

/// ICMP errors sent: at most this many at once,
const ERROR_BURST: u32 = 20;
/// and one more each 100 ms.
const ERROR_INTERVAL: Duration = Duration::from_millis(100);

/// The network layer on one wire.
///
/// Call order: [`Interface::ingress`] for each received frame and [`Interface::poll`] once
/// [`Interface::next_deadline`] has come; to send, [`Interface::route`], then build the packet
/// behind [`Interface::header_room`] free bytes, then [`Interface::send`]; or, where the memory of
/// frames shall be used again, build it in [`Interface::blank`] and [`Interface::finish`] it. After
/// any of `ingress`, `poll`, `send`, `finish` and `unreachable_reply`, [`Interface::outgoing`] may
/// hold frames for the wire; [`Interface::sent`] reports which the wire has taken.
///
/// On Ethernet an interface with an IPv6 address has the link-local one that its Ethernet address
/// stands for as well (RFC 4291, 2.1).
#[derive(Debug)]
pub struct Interface {
    medium: Medium,
    subnets: Vec<Subnet>,
    gateways: Vec<Ip>,
    /// The last destination, and to whom on the link its packets go: both follow from what is above.
    last_hop: Option<(Ip, Ip)>,
    mtu: u32,
    gso_max: u32,
    tx_csum: bool,
    neighbours: Neighbours,
    paths: PathMtus,
    errors: TokenBucket,
    outgoing: Outgoing,
    counters: Counters,
    /// Whether packets are taken whoever sent them to whomever.
    overhears: bool,
}

impl Interface {
    /// Sets an interface up on a wire with these capabilities.
    ///
    /// # Errors
    /// When the configuration contradicts itself or the wire.
    pub fn new(config: InterfaceConfig, caps: &Caps) -> Result<Interface, ConfigError> {
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
            return Err(ConfigError::NoAddress);
        }
        if subnets.len() > MAX_ADDRESSES {
            return Err(ConfigError::TooManyAddresses(subnets.len()));
        }
        let min = if subnets.iter().all(|s| is_ipv4(&s.own)) {
            MIN_MTU_IPV4
        } else {
            MIN_MTU_IPV6
        };
        if mtu < min {
            return Err(ConfigError::Mtu { mtu, min });
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
            outgoing: Outgoing::default(),
            counters: Counters::default(),
            overhears: false,
        };
        let needs_neighbours = matches!(caps.medium, Medium::Ethernet(_));
        match interface
            .gateways
            .iter()
            .find(|g| needs_neighbours && !interface.is_neighbour(g))
        {
            Some(gateway) => Err(ConfigError::Gateway(from_bytes(*gateway))),
            None => Ok(interface),
        }
    }

    /// Frames for the wire, in order; the caller takes them out.
    pub fn outgoing(&mut self) -> &mut Vec<TxFrame> {
        &mut self.outgoing.waiting
    }

    /// The wire has taken the first `count` of [`Interface::outgoing`].
    pub fn sent(&mut self, count: usize) {
        self.outgoing.sent(count);
    }

    /// Takes all packets from now on, also those that an own address sends and those to other hosts.
    pub fn overhear(&mut self) {
        self.overhears = true;
    }

    /// The MTU of the path back to the sender of a received packet, in bytes; 0 where this host is its sender, which an
    /// interface sees alone that overhears.
    pub(crate) fn path_back(&self, src: [u8; 16]) -> u32 {
        match self.overhears && self.owns(&src) {
            true => 0,
            false => self.path_mtu(src),
        }
    }

    /// The largest packet in bytes that is not known to be too big for the path to `dst`.
    #[must_use]
    pub fn path_mtu(&self, dst: [u8; 16]) -> u32 {
        self.paths.find(&dst).map_or(self.mtu, |mtu| mtu.min(self.mtu))
    }

    /// Believes that the path to `dst` takes no more than `mtu` bytes, for ten minutes (RFC 1191, 6.3),
    /// unless it was known to be that narrow. The caller has made sure that this is no forgery. Packets of
    /// [`Interface::heeded_mtu`] bytes may be fragmented where that is more.
    pub fn lower_path(&mut self, now: Instant, dst: [u8; 16], mtu: u32) {
        if mtu < self.path_mtu(dst) {
            self.paths.lower(now, dst, mtu);
            self.counters.paths_lowered += 1;
        }
    }

    /// The MTU that programs learn of a path to `dst` that takes `mtu` bytes.
    pub(crate) fn heeded_mtu(dst: &[u8; 16], mtu: u32) -> u32 {
        path_mtu::heeded(dst, mtu)
    }

    /// Whether some destination's path is narrower than the link, as far as known.
    pub(crate) fn knows_narrow_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// The largest packet in bytes that the link takes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// When [`Interface::poll`] has something to do; now and then a little early.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.neighbours.next_deadline(), self.paths.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Repeats and gives up address resolution, and forgets what is too old.
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

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// An own address and its subnet, if it can be one.
fn subnet((ip, bits): &(IpAddr, u8), medium: Medium) -> Result<Subnet, ConfigError> {
    let subnet = Subnet::new(*ip, *bits).ok_or(ConfigError::PrefixLength(*ip, *bits))?;
    let is_one_hosts = match medium {
        Medium::Socket => is_of_a_host(&subnet.own),
        Medium::Ip | Medium::Ethernet(_) => is_unicast(&subnet.own),
    };
    if !is_one_hosts || subnet.is_broadcast(&subnet.own) {
        return Err(ConfigError::Address(*ip));
    }
    Ok(subnet)
}
