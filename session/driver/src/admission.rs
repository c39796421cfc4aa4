//! Places of peers, shared fairly among the networks that they come from. All listeners use this mechanism.
//!
//! A listener does not know a peer before it has authenticated, and must limit the state that it keeps until
//! then. A listener that serves any peer must limit it permanently. If the limit had no shares, one address
//! could lock out all others. Here a newcomer takes the place of an idle peer. If its network's share is
//! taken, that is the network's longest idle peer. If all places are taken, it is the longest idle peer of
//! the network with the most places.
//!
//! * Unauthenticated peers make room at once ([`AdmissionGate::enter`]). A peer that authenticates promptly
//!   has left its place before.
//! * Served peers make room once they have been idle for some time ([`AdmissionGate::enter_if_idle`]). Until
//!   then, the newcomer is refused.
//!
//! [`Places`] is pure. [`AdmissionGate`] is the same behind a mutex; its places are free again when they are
//! dropped.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time;

/// The time without progress after which a served peer makes room for a newcomer. It is longer than the
/// retransmission of a lost packet takes on a slow path.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The total number of places; at least one.
    pub total: usize,
    /// The number of places for the peers of one network ([`Prefix`]); at least one.
    pub per_prefix: usize,
}

impl Shares {
    /// Returns shares of `total` places, of which one network may have a quarter.
    #[must_use]
    pub const fn new(total: usize) -> Self {
        Self { total, per_prefix: total.div_ceil(4) }
    }

    /// Returns shares of `total` places, all of which one network may have, for listeners whose peers all
    /// come from the same one.
    #[must_use]
    pub const fn unshared(total: usize) -> Self {
        Self { total, per_prefix: total }
    }

    /// Returns shares of `total` places for a listener at this address. They are unshared on loopback, where
    /// there is only one network.
    #[must_use]
    pub fn at(address: SocketAddr, total: usize) -> Self {
        match address.ip().to_canonical().is_loopback() {
            true => Self::unshared(total),
            false => Self::new(total),
        }
    }
}

/// The network that a peer is counted with: its address in IPv4, the first 64 bits in IPv6. One host may have
/// all IPv6 addresses of such a prefix (RFC 4291, 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(u64);

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            // This is above all IPv6 prefixes in use, because ff00::/8 is multicast (RFC 4291, 2.7).
            IpAddr::V4(address) => u64::MAX << 32 | u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        })
    }
}

/// The taken places, in the order in which they were taken, with a value for each holder.
#[derive(Debug)]
pub struct Places<T> {
    shares: Shares,
    next: u64,
    taken: BTreeMap<u64, OccupiedPlace<T>>,
    by_prefix: HashMap<Prefix, usize>,
    evicted: u64,
    /// A network in which no peer will have been idle for long enough before this time. It avoids repeated
    /// searches during a flood of newcomers.
    busy_until: Option<(Prefix, Instant)>,
}

#[derive(Debug)]
struct OccupiedPlace<T> {
    prefix: Prefix,
    /// The time of the holder's last progress. `None` for a peer that gives way.
    moved_at: Option<Instant>,
    holder: T,
}

impl<T> Places<T> {
    /// Creates places that are all free.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self {
            shares,
            next: 0,
            taken: BTreeMap::new(),
            by_prefix: HashMap::new(),
            evicted: 0,
            busy_until: None,
        }
    }

    /// Takes a place. Returns its number, and the holder that made room for it, if any. `None` if all places
    /// that the peer could have are taken by peers that have been idle for less than `timeout`.
    pub fn take(
        &mut self,
        peer: IpAddr,
        holder: T,
        now: Instant,
        timeout: Duration,
    ) -> Option<(u64, Option<T>)> {
        let evicted = match self.crowded(peer) {
            Some(network) => {
                let number = self.idle(network, now, timeout)?;
                self.evicted += 1;
                self.leave(number)
            }
            None => None,
        };
        let (number, prefix) = (self.next, Prefix::from(peer));
        self.next += 1;
        let taken = OccupiedPlace { prefix, moved_at: Some(now), holder };
        self.taken.insert(number, taken);
        *self.by_prefix.entry(prefix).or_default() += 1;
        Some((number, evicted))
    }

    /// Returns true if [`Places::take`] has a place for this peer.
    pub fn has_room(&mut self, peer: IpAddr, now: Instant, timeout: Duration) -> bool {
        let crowded = self.crowded(peer);
        crowded.is_none_or(|network| self.idle(network, now, timeout).is_some())
    }

    /// Returns the place of a network that has been idle for longest, if that is long enough.
    fn idle(&mut self, network: Prefix, now: Instant, timeout: Duration) -> Option<u64> {
        let is_busy = |(known, until): (Prefix, Instant)| known == network && now < until;
        if !timeout.is_zero() && self.busy_until.is_some_and(is_busy) {
            return None;
        }
        let own = self.taken.iter().filter(|(_, taken)| taken.prefix == network);
        let (&number, taken) = own.min_by_key(|(_, taken)| taken.moved_at)?;
        let idle_at = taken.moved_at.map_or(Instant::ORIGIN, |at| at + timeout);
        if now < idle_at {
            self.busy_until = Some((network, idle_at));
            return None;
        }
        Some(number)
    }

    /// Records progress of the holder of this place.
    pub fn moved(&mut self, number: u64, now: Instant) {
        if let Some(taken) = self.taken.get_mut(&number) {
            taken.moved_at = Some(now);
        }
    }

    /// Makes the holder of this place the first to make room, without a timeout, until it makes progress.
    pub fn give_way(&mut self, number: u64) {
        if let Some(taken) = self.taken.get_mut(&number) {
            taken.moved_at = None;
            self.busy_until = None;
        }
    }

    /// Returns the network of which one peer has to make room before this peer takes a place. `None` if there
    /// is room.
    fn crowded(&self, peer: IpAddr) -> Option<Prefix> {
        let prefix = Prefix::from(peer);
        if self.count(prefix) >= self.shares.per_prefix.max(1) {
            Some(prefix)
        } else if self.taken.len() >= self.shares.total.max(1) {
            // If several networks have the most places, this is the one with the oldest peer.
            let largest = self.by_prefix.values().copied().max().unwrap_or_default();
            self.taken
                .values()
                .map(|taken| taken.prefix)
                .find(|prefix| self.count(*prefix) == largest)
        } else {
            None
        }
    }

    /// Returns all holders with the numbers of their places, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.taken
            .iter_mut()
            .map(|(&number, taken)| (number, &mut taken.holder))
    }

    /// Frees the place. Returns its holder, unless that had made room before.
    pub fn leave(&mut self, number: u64) -> Option<T> {
        let OccupiedPlace { prefix, holder, .. } = self.taken.remove(&number)?;
        if let Some(count) = self.by_prefix.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.by_prefix.remove(&prefix);
            }
        }
        self.busy_until = None;
        Some(holder)
    }

    /// Returns true if half of all places are taken, or half of those for this peer's network.
    #[must_use]
    pub fn is_crowded(&self, peer: IpAddr) -> bool {
        2 * self.taken.len() >= self.shares.total || 2 * self.count(peer.into()) >= self.shares.per_prefix
    }

    /// Returns the number of taken places.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Returns the number of holders that had to make room.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn count(&self, prefix: Prefix) -> usize {
        self.by_prefix.get(&prefix).copied().unwrap_or_default()
    }
}

/// Places for the tasks of a server. Clones share the same places.
#[derive(Clone, Debug)]
pub struct AdmissionGate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    places: Mutex<Places<oneshot::Sender<()>>>,
    epoch: time::Instant,
}

/// A place, which is free again when it is dropped.
#[derive(Debug)]
pub struct AdmissionPermit {
    progress: ProgressReporter,
    made_room: oneshot::Receiver<()>,
}

/// The reason why a peer no longer holds its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictionReason<R> {
    /// The peer's work is done.
    Done(R),
    /// The peer has proved what it had to.
    Proved,
    /// The peer had to make room.
    Evicted,
}

/// Records a peer's progress. It does not hold the place, and has no effect once the place is free.
#[derive(Clone, Debug)]
pub struct ProgressReporter(Arc<Number>);

#[derive(Debug)]
struct Number {
    gate: AdmissionGate,
    number: u64,
}

impl AdmissionGate {
    /// Creates places that are all free.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self(Arc::new(Inner {
            places: Mutex::new(Places::new(shares)),
            epoch: time::Instant::now(),
        }))
    }

    /// Takes a place for this peer. The longest idle peer of a crowded network makes room for it.
    #[must_use]
    pub fn enter(&self, peer: IpAddr) -> AdmissionPermit {
        self.enter_if_idle(peer, Duration::ZERO)
            .expect("with a timeout of 0 a holder makes room at once")
    }

    /// Takes a place for this peer. `None` if all places that it could have belong to peers that have been
    /// idle for less than `timeout`.
    #[must_use]
    pub fn enter_if_idle(&self, peer: IpAddr, timeout: Duration) -> Option<AdmissionPermit> {
        let (sender, made_room) = oneshot::channel();
        let (number, evicted) = {
            let mut places = self.places();
            let now = self.now();
            places.take(peer, sender, now, timeout)?
        };
        // A holder that is about to leave no longer waits for this.
        evicted.map(|holder| holder.send(()));
        let number = Number { gate: self.clone(), number };
        Some(AdmissionPermit { progress: ProgressReporter(Arc::new(number)), made_room })
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
        self.0.places.lock()
    }

    fn now(&self) -> Instant {
        Instant::after(self.0.epoch.elapsed())
    }
}

impl AdmissionPermit {
    /// Waits until this peer has to make room for another one. It must then be closed.
    pub async fn evicted(&mut self) {
        if (&mut self.made_room).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Does `work` until it is done, or until this peer has to make room. Returns `None` in that case.
    pub async fn hold<R>(&mut self, work: impl Future<Output = R>) -> Option<R> {
        match self.hold_until(std::future::pending(), work).await {
            EvictionReason::Done(done) => Some(done),
            EvictionReason::Proved | EvictionReason::Evicted => None,
        }
    }

    /// Does `work` until one of three events. The work is done, `proved` reports that the peer no longer
    /// needs this place, or the peer has to make room. A peer that has proved itself stays, even if a
    /// newcomer took its place before this task ran again.
    pub async fn hold_until<R>(
        &mut self,
        proved: impl Future<Output = ()>,
        work: impl Future<Output = R>,
    ) -> EvictionReason<R> {
        tokio::select! {
            biased;
            () = proved => EvictionReason::Proved,
            () = self.evicted() => EvictionReason::Evicted,
            done = work => EvictionReason::Done(done),
        }
    }

    /// Returns a record of the peer's progress.
    #[must_use]
    pub fn progress(&self) -> ProgressReporter {
        self.progress.clone()
    }

    /// Wraps the stream so that its bytes count as progress.
    pub fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched { stream, progress: self.progress() }
    }
}

impl ProgressReporter {
    /// Records that the peer has made progress and is not idle.
    pub fn moved(&self) {
        let mut places = self.0.gate.places();
        places.moved(self.0.number, self.0.gate.now());
    }

    /// Makes this peer the first of its network to make room, because it cannot be served at present.
    pub fn give_way(&self) {
        self.0.gate.places().give_way(self.0.number);
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        self.progress.0.gate.places().leave(self.progress.0.number);
    }
}

/// A stream of a peer that has a place.
#[derive(Debug)]
pub struct Watched<S> {
    stream: S,
    progress: ProgressReporter,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, out);
        if out.filled().len() > before {
            self.progress.moved();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if matches!(result, Poll::Ready(Ok(1..))) {
            self.progress.moved();
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Takes a place at once.
    fn take<T>(places: &mut Places<T>, peer: &str, holder: T) -> (u64, Option<T>) {
        let taken = places.take(ip(peer), holder, Instant::ORIGIN, Duration::ZERO);
        taken.expect("a holder makes room at once")
    }

    #[test]
    fn a_network_over_its_share_evicts_its_own_oldest_peer() {
        let mut places = Places::new(Shares { total: 8, per_prefix: 2 });
        let (honest, none) = take(&mut places, "192.0.2.1", "honest");
        assert_eq!(none, None);
        let evicted: Vec<_> = (0..1_100)
            .filter_map(|_| take(&mut places, "198.51.100.7", "flood").1)
            .collect();
        assert_eq!(
            (evicted.len(), evicted.contains(&"honest"), places.taken()),
            (1_098, false, 3)
        );
        assert_eq!(places.evicted(), 1_098);
        assert_eq!(places.leave(honest), Some("honest"), "it kept its place");
    }

    #[test]
    fn the_largest_network_makes_room_when_all_slots_are_taken() {
        let mut places = Places::new(Shares { total: 4, per_prefix: 3 });
        for (peer, name) in [
            ("192.0.2.1", "lone"),
            ("192.0.2.2", "first"),
            ("192.0.2.2", "second"),
            ("192.0.2.3", "third"),
        ] {
            take(&mut places, peer, name);
        }
        assert_eq!(take(&mut places, "192.0.2.4", "new").1, Some("first"));
        // Every network now has one place, so the oldest peer goes.
        assert_eq!(take(&mut places, "192.0.2.5", "newer").1, Some("lone"));
        assert_eq!(places.taken(), 4);
    }

    #[test]
    fn an_ipv6_prefix_is_one_network_and_mapped_addresses_are_ipv4() {
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
    fn a_released_slot_is_free_again() {
        let mut places = Places::new(Shares::new(1));
        let (number, _) = take(&mut places, "192.0.2.1", 1);
        assert_eq!((places.leave(number), places.leave(number)), (Some(1), None));
        assert_eq!(take(&mut places, "192.0.2.1", 2).1, None);
        assert_eq!(places.by_prefix.len(), 1);
    }

    #[tokio::test]
    async fn a_holder_that_has_to_make_room_is_notified() {
        let gate = AdmissionGate::new(Shares::unshared(1));
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

    #[tokio::test]
    async fn a_peer_that_authenticated_before_its_eviction_stays() {
        let gate = AdmissionGate::new(Shares::unshared(1));
        let (mut place, proved) = (gate.enter(ip(ONE)), Notify::new());
        // The work reports the proof, and another peer enters before the task runs again.
        let mut newcomer = None;
        let work = std::future::poll_fn(|_| {
            proved.notify_one();
            newcomer.get_or_insert_with(|| gate.enter(ip(ONE)));
            Poll::<()>::Pending
        });
        assert_eq!(
            place.hold_until(proved.notified(), work).await,
            EvictionReason::Proved
        );
        assert!(is_evicted(&mut place).await);
    }

    const ONE: &str = "192.0.2.1";

    async fn is_evicted(place: &mut AdmissionPermit) -> bool {
        time::timeout(Duration::ZERO, place.evicted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_longest_idle_peer_is_replaced() {
        let gate = AdmissionGate::new(Shares::unshared(3));
        let enter = || gate.enter_if_idle(ip(ONE), IDLE_TIMEOUT);
        let (mut busy, mut idle, mut last) = (enter().unwrap(), enter().unwrap(), enter().unwrap());
        assert!(enter().is_none(), "no peer is idle yet");
        let (mut client, ours) = tokio::io::duplex(64);
        let mut stream = busy.watch(ours);
        time::advance(Duration::from_secs(3)).await;
        stream.write_all(b"answer").await.unwrap();
        client.write_all(b"request").await.unwrap();
        last.progress().moved();
        time::advance(Duration::from_secs(2)).await;
        let newcomer = enter().expect("one has been idle for 5 s");
        assert!(is_evicted(&mut idle).await);
        assert!(!is_evicted(&mut busy).await && !is_evicted(&mut last).await);
        assert!(enter().is_none(), "the others moved 2 s ago");
        stream.read_exact(&mut [0; 7]).await.unwrap();
        time::advance(Duration::from_secs(3)).await;
        let second = enter().expect("one has been idle for 5 s");
        assert!(is_evicted(&mut last).await, "bytes that were read count as well");
        assert!(!is_evicted(&mut busy).await);
        drop((idle, last, newcomer));
        assert!(enter().is_some(), "a place that was left is free");
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_at_its_share_takes_no_place_of_another() {
        let gate = AdmissionGate::new(Shares { total: 4, per_prefix: 3 });
        let enter = |peer: &str| gate.enter_if_idle(ip(peer), IDLE_TIMEOUT);
        let mut other = enter("192.0.2.2").unwrap();
        let mut held: Vec<AdmissionPermit> = (0..3).map(|_| enter(ONE).unwrap()).collect();
        time::advance(Duration::from_secs(3)).await;
        held.iter().for_each(|place| place.progress().moved());
        time::advance(Duration::from_secs(3)).await;
        assert!(enter(ONE).is_none(), "each of its own moved 3 s ago");
        assert!(!is_evicted(&mut other).await, "it has been idle for 6 s");
        time::advance(Duration::from_secs(2)).await;
        let newcomer = enter("192.0.2.3").expect("the network with the most places makes room");
        let mut left = 0;
        for place in &mut held {
            left += usize::from(is_evicted(place).await);
        }
        assert_eq!((left, is_evicted(&mut other).await), (1, false));
        drop(newcomer);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_yields_is_replaced_before_its_timeout() {
        let gate = AdmissionGate::new(Shares::unshared(2));
        let enter = || gate.enter_if_idle(ip(ONE), IDLE_TIMEOUT);
        let (mut first, mut second) = (enter().unwrap(), enter().unwrap());
        assert!(enter().is_none());
        second.progress().give_way();
        let third = enter().expect("one gives way");
        assert!(is_evicted(&mut second).await && !is_evicted(&mut first).await);
        drop(third);
    }
}
