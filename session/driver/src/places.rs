//! Places of unauthenticated peers, shared fairly among the networks that they come from.
//!
//! A listener cannot know whom it serves before a peer has authenticated, and has to bound what it keeps
//! until then. A bound without shares lets one address lock out everybody else. Here a newcomer always
//! gets a place: when the share of its network is taken, the oldest peer of that network makes room, and
//! when all places are taken, the oldest peer of the network with the most places does. Whoever
//! authenticates promptly is gone from here before that.
//!
//! [`Places`] is pure; [`Gate`] is the same behind a mutex, with a place that is free again when it is
//! dropped.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// How many places there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// In all; at least one.
    pub total: usize,
    /// For the peers of one network ([`Prefix`]); at least one.
    pub per_prefix: usize,
}

impl Shares {
    /// `total` places, of which one network may have a quarter.
    #[must_use]
    pub const fn new(total: usize) -> Self {
        Self {
            total,
            per_prefix: total.div_ceil(4),
        }
    }

    /// `total` places, and all of them for one network: where all peers come from the same one.
    #[must_use]
    pub const fn unshared(total: usize) -> Self {
        Self {
            total,
            per_prefix: total,
        }
    }
}

/// The network that a peer is counted with: its address in IPv4, the first 64 bits in IPv6, which one
/// host may have all addresses of (RFC 4291, 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(u64);

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            // Above all prefixes of IPv6 that are in use: ff00::/8 is multicast (RFC 4291, 2.7).
            IpAddr::V4(address) => u64::MAX << 32 | u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        })
    }
}

/// Places that are taken, oldest first, with what is done for each holder that has to make room.
#[derive(Debug)]
pub struct Places<T> {
    shares: Shares,
    next: u64,
    taken: BTreeMap<u64, (Prefix, T)>,
    by_prefix: HashMap<Prefix, usize>,
    evicted: u64,
}

impl<T> Places<T> {
    /// Places that nobody has taken.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self {
            shares,
            next: 0,
            taken: BTreeMap::new(),
            by_prefix: HashMap::new(),
            evicted: 0,
        }
    }

    /// Takes a place; its number, and the holder that made room for it, if one had to.
    pub fn take(&mut self, peer: IpAddr, holder: T) -> (u64, Option<T>) {
        let prefix = Prefix::from(peer);
        let oldest = self
            .crowded(peer)
            .and_then(|crowded| Some(self.of(crowded).next()?.0));
        let evicted = oldest.and_then(|number| self.leave(number));
        self.evicted += u64::from(evicted.is_some());
        let number = self.next;
        self.next += 1;
        self.taken.insert(number, (prefix, holder));
        *self.by_prefix.entry(prefix).or_default() += 1;
        (number, evicted)
    }

    /// The network of which one has to make room before this peer takes a place; none if there is room.
    #[must_use]
    pub fn crowded(&self, peer: IpAddr) -> Option<Prefix> {
        let prefix = Prefix::from(peer);
        if self.count(prefix) >= self.shares.per_prefix.max(1) {
            Some(prefix)
        } else if self.taken.len() >= self.shares.total.max(1) {
            // Of several networks with the most places, the one with the oldest peer.
            let largest = self.by_prefix.values().copied().max().unwrap_or_default();
            self.taken
                .values()
                .map(|(prefix, _)| *prefix)
                .find(|prefix| self.count(*prefix) == largest)
        } else {
            None
        }
    }

    /// The places of a network by their numbers, oldest first, and who has them.
    pub fn of(&self, network: Prefix) -> impl Iterator<Item = (u64, &T)> {
        let own = self
            .taken
            .iter()
            .filter(move |(_, (prefix, _))| *prefix == network);
        own.map(|(&number, (_, holder))| (number, holder))
    }

    /// The place is free again; who had it, unless that one had made room before.
    pub fn leave(&mut self, number: u64) -> Option<T> {
        let (prefix, holder) = self.taken.remove(&number)?;
        if let Some(count) = self.by_prefix.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.by_prefix.remove(&prefix);
            }
        }
        Some(holder)
    }

    /// Whether half of all places are taken, or half of those for this peer's network.
    #[must_use]
    pub fn is_crowded(&self, peer: IpAddr) -> bool {
        2 * self.taken.len() >= self.shares.total || 2 * self.count(peer.into()) >= self.shares.per_prefix
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// How many holders had to make room.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn count(&self, prefix: Prefix) -> usize {
        self.by_prefix.get(&prefix).copied().unwrap_or_default()
    }
}

/// Places for the tasks of a server. Clones are the same places.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Mutex<Places<oneshot::Sender<()>>>>);

/// A place; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    gate: Gate,
    number: u64,
    made_room: oneshot::Receiver<()>,
}

impl Gate {
    /// Places that nobody has taken.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self(Arc::new(Mutex::new(Places::new(shares))))
    }

    /// A place for this peer. Another one may have to make room for it.
    #[must_use]
    pub fn enter(&self, peer: IpAddr) -> Place {
        let (sender, made_room) = oneshot::channel();
        let (number, evicted) = self.places().take(peer, sender);
        // A holder that is about to leave does not wait for this any more.
        evicted.map(|holder| holder.send(()));
        Place {
            gate: self.clone(),
            number,
            made_room,
        }
    }

    /// As [`Places::is_crowded`].
    #[must_use]
    pub fn is_crowded(&self, peer: IpAddr) -> bool {
        self.places().is_crowded(peer)
    }

    /// As [`Places::taken`].
    #[must_use]
    pub fn taken(&self) -> usize {
        self.places().taken()
    }

    /// As [`Places::evicted`].
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.places().evicted()
    }

    fn places(&self) -> MutexGuard<'_, Places<oneshot::Sender<()>>> {
        self.0.lock()
    }
}

impl Place {
    /// Waits until this peer has to make room for another one: it is to be closed.
    pub async fn evicted(&mut self) {
        if (&mut self.made_room).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Does `work` until it is done, or until this peer has to make room; none then.
    pub async fn hold<R>(&mut self, work: impl Future<Output = R>) -> Option<R> {
        tokio::select! {
            biased;
            () = self.evicted() => None,
            done = work => Some(done),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.places().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_that_exceeds_its_share_pushes_out_its_own_oldest_peer() {
        let mut places = Places::new(Shares {
            total: 8,
            per_prefix: 2,
        });
        let (honest, none) = places.take(ip("192.0.2.1"), "honest");
        assert_eq!(none, None);
        let evicted: Vec<_> = (0..1_100)
            .filter_map(|_| places.take(ip("198.51.100.7"), "flood").1)
            .collect();
        assert_eq!(
            (evicted.len(), evicted.contains(&"honest"), places.taken()),
            (1_098, false, 3)
        );
        assert_eq!(places.evicted(), 1_098);
        assert_eq!(places.leave(honest), Some("honest"), "it kept its place");
    }

    #[test]
    fn the_network_with_the_most_places_makes_room_when_all_are_taken() {
        let mut places = Places::new(Shares {
            total: 4,
            per_prefix: 3,
        });
        for (peer, name) in [
            ("192.0.2.1", "lone"),
            ("192.0.2.2", "first"),
            ("192.0.2.2", "second"),
            ("192.0.2.3", "third"),
        ] {
            places.take(ip(peer), name);
        }
        assert_eq!(places.take(ip("192.0.2.4"), "new").1, Some("first"));
        // Now everybody has one: the oldest goes.
        assert_eq!(places.take(ip("192.0.2.5"), "newer").1, Some("lone"));
        assert_eq!(places.taken(), 4);
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_and_mapped_ones_are_ipv4() {
        assert_eq!(
            Prefix::from(ip("2001:db8:1:2::1")),
            Prefix::from(ip("2001:db8:1:2:ffff::9"))
        );
        assert_ne!(
            Prefix::from(ip("2001:db8:1:2::1")),
            Prefix::from(ip("2001:db8:1:3::1"))
        );
        assert_eq!(
            Prefix::from(ip("::ffff:192.0.2.1")),
            Prefix::from(ip("192.0.2.1"))
        );
        assert_ne!(Prefix::from(ip("192.0.2.1")), Prefix::from(ip("192.0.2.2")));
    }

    #[test]
    fn a_place_that_was_left_is_free_again() {
        let mut places = Places::new(Shares::new(1));
        let (number, _) = places.take(ip("192.0.2.1"), 1);
        assert_eq!((places.leave(number), places.leave(number)), (Some(1), None));
        assert_eq!(places.take(ip("192.0.2.1"), 2).1, None);
        assert_eq!(places.by_prefix.len(), 1);
    }

    #[tokio::test]
    async fn a_holder_that_has_to_make_room_is_notified() {
        let gate = Gate::new(Shares::unshared(1));
        let mut first = gate.enter(ip("192.0.2.1"));
        assert_eq!(first.hold(std::future::ready(7)).await, Some(7));
        let mut second = gate.enter(ip("192.0.2.1"));
        assert_eq!(first.hold(std::future::pending::<()>()).await, None);
        drop(first);
        assert_eq!(gate.taken(), 1, "the place belongs to the second peer now");
        assert_eq!(second.hold(std::future::ready(8)).await, Some(8));
        drop(second);
        assert_eq!((gate.taken(), gate.evicted()), (0, 1));
    }
}
