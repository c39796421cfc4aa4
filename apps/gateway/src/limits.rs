//! What a gateway gives at most, to one client and to all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hawser::places::{Gate, Shares};
use hawser::session::{AcceptorConfig, Config};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// What a gateway gives at most. The default suits a handful of people's browsers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions in all.
    pub sessions: usize,
    /// Sessions that have not authenticated; of one network at most a quarter of them, and the oldest
    /// makes room for another.
    pub unauthenticated: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Streams with a request, connecting or connected, in all.
    pub streams: usize,
    /// The same of one client, over all its sessions.
    pub streams_per_client: usize,
    /// Streams of a session that may wait until it is accepted.
    pub waiting: usize,
    /// How long a greeting, and how long a request may take.
    pub request_timeout: Duration,
    /// How long looking a destination's address up and connecting to it may take.
    pub connect: Duration,
    /// The time without a byte in either direction after which a connection is given up. RFC 5382 (5, REQ-5)
    /// lets a translator give up none that has been idle for less than 2 h 4 min.
    pub idle: Duration,
    /// The time without a stream after which a session is given up.
    pub session_idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 1_024,
            unauthenticated: 64,
            sessions_per_client: 16,
            streams: 4_096,
            streams_per_client: 512,
            waiting: 16,
            request_timeout: Duration::from_secs(5),
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(7_440),
            session_idle: Duration::from_secs(300),
        }
    }
}

/// Streams of one session at once.
const STREAMS: u32 = 512;
/// Bytes that a peer may send before any of them is read: of all that an unauthenticated peer can make a gateway keep.
const FIRST_CREDIT: u64 = 128 << 10;
/// Bytes to which that grows for one that reads as fast.
const MAX_CREDIT: u64 = 8 << 20;

impl Limits {
    /// The acceptor and the sessions of a server that is a gateway, bounded accordingly.
    #[must_use]
    pub fn acceptor(&self) -> AcceptorConfig {
        let session = Config {
            streams: STREAMS,
            session_credit: FIRST_CREDIT,
            stream_credit: FIRST_CREDIT,
            max_credit: MAX_CREDIT,
            send_buffer: 2 << 20,
            send_memory: 16 << 20,
            ..Config::default()
        };
        AcceptorConfig { session, sessions: self.sessions, ..AcceptorConfig::default() }
    }
}

/// What is taken of the limits.
pub(crate) struct Counts {
    /// Places of sessions that have not authenticated.
    pub(crate) unauthenticated: Gate,
    streams: Arc<Semaphore>,
    clients: Arc<Mutex<HashMap<Arc<str>, Client>>>,
    sessions_per_client: usize,
    streams_per_client: usize,
}

/// What one client has.
struct Client {
    /// Oldest first.
    sessions: Vec<Arc<Seat>>,
    streams: Arc<Semaphore>,
}

/// One session of a client.
struct Seat {
    /// Whether no path to the client is live any more.
    is_gone: Box<dyn Fn() -> bool + Send + Sync>,
    /// Another session of the same client has its place now.
    is_taken: Notify,
}

/// A session's place; it is free again when this is dropped.
pub(crate) struct Place {
    clients: Arc<Mutex<HashMap<Arc<str>, Client>>>,
    name: Arc<str>,
    seat: Arc<Seat>,
    streams: Arc<Semaphore>,
}

impl Place {
    /// Waits until a newer session of the same client has the place.
    pub(crate) async fn taken(&self) {
        self.seat.is_taken.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get_mut(&self.name) {
            client.sessions.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        }
    }
}

/// A stream's, of its client's and of all.
pub(crate) struct StreamPlace {
    _places: [OwnedSemaphorePermit; 2],
}

impl Counts {
    pub(crate) fn new(limits: &Limits) -> Counts {
        Counts {
            unauthenticated: Gate::new(Shares::new(limits.unauthenticated)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            clients: Arc::default(),
            sessions_per_client: limits.sessions_per_client,
            streams_per_client: limits.streams_per_client,
        }
    }

    /// A place for a session of this client. Names are those of the file: their number is bounded. At the
    /// limit the oldest session to which no path is live makes room: its client has most likely gone.
    pub(crate) fn session(
        &self,
        name: &Arc<str>,
        is_gone: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<Place> {
        let mut clients = self.clients.lock();
        let client = clients.entry(name.clone()).or_insert_with(|| Client {
            sessions: Vec::new(),
            streams: Arc::new(Semaphore::new(self.streams_per_client)),
        });
        if client.sessions.len() >= self.sessions_per_client {
            let gone = client.sessions.iter().position(|seat| (seat.is_gone)())?;
            client.sessions.remove(gone).is_taken.notify_one();
        }
        let seat = Arc::new(Seat { is_gone: Box::new(is_gone), is_taken: Notify::new() });
        client.sessions.push(seat.clone());
        Some(Place {
            clients: self.clients.clone(),
            name: name.clone(),
            seat,
            streams: client.streams.clone(),
        })
    }

    /// A place for a stream of the client with this place.
    pub(crate) fn stream(&self, place: &Place) -> Option<StreamPlace> {
        let own = place.streams.clone().try_acquire_owned().ok()?;
        let of_all = self.streams.clone().try_acquire_owned().ok()?;
        Some(StreamPlace { _places: [own, of_all] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_free_again_when_they_are_left() {
        let limits = Limits {
            sessions_per_client: 1,
            streams: 3,
            streams_per_client: 2,
            ..Limits::default()
        };
        let counts = Counts::new(&limits);
        let (alice, bob) = (Arc::from("alice"), Arc::from("bob"));
        let at_alice = counts.session(&alice, || false).expect("a place");
        assert!(counts.session(&alice, || false).is_none(), "one each");
        let at_bob = counts.session(&bob, || false).expect("a place");
        let mut streams: Vec<StreamPlace> = (0..2).filter_map(|_| counts.stream(&at_alice)).collect();
        assert!(
            streams.len() == 2 && counts.stream(&at_alice).is_none(),
            "two each"
        );
        streams.extend(counts.stream(&at_bob));
        assert!(
            streams.len() == 3 && counts.stream(&at_bob).is_none(),
            "three in all"
        );
        streams.clear();
        assert!(counts.stream(&at_bob).is_some());
        drop(at_alice);
        assert!(counts.session(&alice, || false).is_some());
    }

    #[tokio::test]
    async fn a_session_whose_client_is_gone_makes_room_at_the_limit() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let counts = Counts::new(&Limits { sessions_per_client: 2, ..Limits::default() });
        let alice = Arc::from("alice");
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = gone.clone();
        let _here = counts.session(&alice, || false).expect("a place");
        let left = counts
            .session(&alice, move || is_gone.load(Ordering::Relaxed))
            .expect("a place");
        assert!(counts.session(&alice, || false).is_none(), "both are there");
        gone.store(true, Ordering::Relaxed);
        let new = counts
            .session(&alice, || false)
            .expect("the place of the one that is gone");
        left.taken().await;
        drop(left);
        assert!(
            counts.session(&alice, || false).is_none(),
            "a place is given once"
        );
        drop(new);
        assert!(counts.session(&alice, || false).is_some());
    }
}
