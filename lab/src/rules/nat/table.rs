//! The mappings between outside ports and inside endpoints.
//!
//! Invariants: there are at most [`MAPPINGS`] mappings, and [`CONTACTS`] remote endpoints for each; both maps
//! contain the same mappings. A mapping expires when no packet has come from inside for the timeout.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use hawser_sim::rng::Rng;
use hawser_time::Instant;

use crate::plan::NatPlan;
use crate::spec::Dependence;

/// The largest number of concurrent mappings. Packets that need a further one are dropped.
pub(super) const MAPPINGS: usize = 4096;
/// The largest number of remote endpoints that a mapping remembers. A new one replaces the one idle longest.
const CONTACTS: usize = 64;

/// An address, a port (or the identifier of an ICMP echo), and its IP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Endpoint {
    pub(super) protocol: u8,
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
}

/// The relevant parts of a remote endpoint.
type Remote = (Option<Ipv4Addr>, Option<u16>);

/// An inside endpoint, and the parts of the remote one on which mappings depend.
type Key = (Endpoint, Remote);

/// The protocol and the outside port.
type Outside = (u8, u16);

struct Mapping {
    key: Key,
    /// The remote endpoints to which packets were sent, as far as filtering depends on them, each with the
    /// time of the last packet.
    contacts: Vec<(Remote, Instant)>,
    used: Instant,
}

pub(super) struct Table {
    address: Ipv4Addr,
    mapping: Dependence,
    filtering: Dependence,
    timeout: Duration,
    ports: [u16; 2],
    /// The port at which the search for a free one begins.
    next: u16,
    by_key: BTreeMap<Key, Outside>,
    by_port: BTreeMap<Outside, Mapping>,
}

impl Table {
    pub(super) fn new(plan: &NatPlan, rng: &mut Rng) -> Table {
        let [first, last] = plan.ports;
        Table {
            address: plan.address,
            mapping: plan.mapping,
            filtering: plan.filtering,
            timeout: plan.timeout,
            ports: plan.ports,
            next: rng.between(u64::from(first), u64::from(last)) as u16,
            by_key: BTreeMap::new(),
            by_port: BTreeMap::new(),
        }
    }

    /// Returns the outside endpoint for an outgoing packet, or `None` if there is no room for another
    /// mapping.
    pub(super) fn outward(&mut self, now: Instant, from: Endpoint, to: Endpoint) -> Option<Endpoint> {
        let key = (from, remote(self.mapping, to));
        self.expire(now, &key);
        let outside = match self.by_key.get(&key) {
            Some(outside) => *outside,
            None => self.open(now, key)?,
        };
        let contact = remote(self.filtering, to);
        let mapping = self.by_port.get_mut(&outside)?;
        mapping.used = now;
        mapping.record(now, contact);
        Some(Endpoint { address: self.address, port: outside.1, ..from })
    }

    /// Returns the inside endpoint for an incoming packet, or `None` if no mapping admits it.
    pub(super) fn inward(&mut self, now: Instant, from: Endpoint, to: Endpoint) -> Option<Endpoint> {
        let contact = remote(self.filtering, from);
        let inside = self.of_outside(now, to)?;
        let mapping = self.by_port.get(&(to.protocol, to.port))?;
        mapping
            .contacts
            .iter()
            .any(|(known, _)| *known == contact)
            .then_some(inside)
    }

    /// Returns the inside endpoint of an outside endpoint.
    pub(super) fn of_outside(&self, now: Instant, outside: Endpoint) -> Option<Endpoint> {
        let mapping = self.by_port.get(&(outside.protocol, outside.port))?;
        (outside.address == self.address && now < mapping.used + self.timeout).then_some(mapping.key.0)
    }

    /// Returns an outside endpoint of an inside endpoint, for any remote endpoint.
    pub(super) fn of_inside(&self, now: Instant, inside: Endpoint) -> Option<Endpoint> {
        let lowest = (inside, (None, None));
        let (key, outside) = self.by_key.range(lowest..).next()?;
        let mapping = self.by_port.get(outside)?;
        (key.0 == inside && now < mapping.used + self.timeout).then_some(Endpoint {
            address: self.address,
            port: outside.1,
            ..inside
        })
    }

    /// Drops all mappings. The next mappings get other ports, until all ports have been used.
    pub(super) fn rebind(&mut self) {
        self.by_key.clear();
        self.by_port.clear();
    }

    fn open(&mut self, now: Instant, key: Key) -> Option<Outside> {
        if self.by_port.len() >= MAPPINGS {
            let timeout = self.timeout;
            self.by_port.retain(|_, mapping| now < mapping.used + timeout);
            let alive = &self.by_port;
            self.by_key.retain(|_, outside| alive.contains_key(outside));
        }
        if self.by_port.len() >= MAPPINGS {
            return None;
        }
        let [first, last] = self.ports;
        let count = u32::from(last - first) + 1;
        let start = u32::from(self.next - first);
        let free = (0..count)
            .map(|i| first + ((start + i) % count) as u16)
            .map(|port| (key.0.protocol, port))
            .find(|outside| !self.by_port.contains_key(outside))?;
        self.next = if free.1 == last { first } else { free.1 + 1 };
        self.by_key.insert(key, free);
        self.by_port
            .insert(free, Mapping { key, contacts: Vec::new(), used: now });
        Some(free)
    }

    /// Removes a mapping that has expired.
    fn expire(&mut self, now: Instant, key: &Key) {
        let Some(outside) = self.by_key.get(key) else {
            return;
        };
        let is_over = self
            .by_port
            .get(outside)
            .is_none_or(|m| now >= m.used + self.timeout);
        if is_over {
            self.by_port.remove(outside);
            self.by_key.remove(key);
        }
    }
}

impl Mapping {
    fn record(&mut self, now: Instant, contact: Remote) {
        if let Some(known) = self.contacts.iter_mut().find(|(known, _)| *known == contact) {
            known.1 = now;
            return;
        }
        if self.contacts.len() >= CONTACTS
            && let Some(oldest) = (0..self.contacts.len()).min_by_key(|i| self.contacts[*i].1)
        {
            self.contacts.swap_remove(oldest);
        }
        self.contacts.push((contact, now));
    }
}

/// Returns the relevant parts of a remote endpoint. An ICMP echo has one identifier for both ends, so its
/// remote end is an address alone.
fn remote(dependence: Dependence, endpoint: Endpoint) -> Remote {
    let port = (endpoint.protocol != crate::rules::packet::ICMP).then_some(endpoint.port);
    match dependence {
        Dependence::Independent => (None, None),
        Dependence::Address => (Some(endpoint.address), None),
        Dependence::Endpoint => (Some(endpoint.address), port),
    }
}
