//! The limits of a gateway's resources, for one client and for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hawser::session::admission::{AdmissionGate, Shares};
use hawser::session::{AcceptorConfig, Config};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The limits of a gateway's resources. The defaults suit the browsers of a few people.
#[derive(Clone, Debug)]
pub struct GatewayLimits {
    /// The maximum number of sessions.
    pub sessions: usize,
    /// The maximum number of unauthenticated sessions. One network may have a quarter of them, and the oldest
    /// is dropped to admit another.
    pub unauthenticated: usize,
    /// The maximum number of sessions of one client.
    pub sessions_per_client: usize,
    /// The maximum number of streams with a request, connecting or connected.
    pub streams: usize,
    /// The maximum number of such streams of one client, over all its sessions.
    pub streams_per_client: usize,
    /// The maximum number of a session's streams that wait until it is accepted.
    pub waiting: usize,
    /// The maximum time of a greeting, and of a request.
    pub request_timeout: Duration,
    /// The maximum time to resolve a destination and connect to it.
    pub connect: Duration,
    /// The time without a byte in either direction after which a connection is closed. RFC 5382 (5, REQ-5)
    /// forbids translators to drop a connection that has been idle for less than 2 h 4 min.
    pub idle: Duration,
    /// The time without a stream after which a session is closed.
    pub session_idle: Duration,
}

impl Default for GatewayLimits {
    fn default() -> GatewayLimits {
        GatewayLimits {
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

/// The maximum number of concurrent streams of one session.
const STREAMS: u32 = 512;
/// The number of bytes that a peer may send before any are read. This bounds all data that an unauthenticated
/// peer can make a gateway store.
const FIRST_CREDIT: u64 = 128 << 10;
/// The maximum to which this credit grows for a peer whose data is read as fast as it arrives.
const MAX_CREDIT: u64 = 8 << 20;

impl GatewayLimits {
    /// Returns the configuration of a server's acceptor and sessions with these limits.
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

/// The resources in use, against the limits.
pub(crate) struct Counts {
    /// The places of unauthenticated sessions.
    pub(crate) unauthenticated: AdmissionGate,
    streams: Arc<Semaphore>,
    clients: Arc<Mutex<HashMap<Arc<str>, Client>>>,
    sessions_per_client: usize,
    streams_per_client: usize,
}

/// The resources in use by one client.
struct Client {
    /// The sessions, oldest first.
    sessions: Vec<Arc<ClientSession>>,
    streams: Arc<Semaphore>,
}

/// One session of a client.
struct ClientSession {
    /// Returns whether no path to the client is live.
    is_gone: Box<dyn Fn() -> bool + Send + Sync>,
    /// Notified when another session of the same client takes this place.
    is_taken: Notify,
}

/// A session's place, which is released when dropped.
pub(crate) struct SessionPermit {
    clients: Arc<Mutex<HashMap<Arc<str>, Client>>>,
    name: Arc<str>,
    session: Arc<ClientSession>,
    streams: Arc<Semaphore>,
}

impl SessionPermit {
    /// Waits until a newer session of the same client has the place.
    pub(crate) async fn taken(&self) {
        self.session.is_taken.notified().await;
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get_mut(&self.name) {
            client
                .sessions
                .retain(|session| !Arc::ptr_eq(session, &self.session));
        }
    }
}

/// The place of a stream, counted for its client and in total.
pub(crate) struct StreamPlace {
    _places: [OwnedSemaphorePermit; 2],
}

impl Counts {
    pub(crate) fn new(limits: &GatewayLimits) -> Counts {
        Counts {
            unauthenticated: AdmissionGate::new(Shares::new(limits.unauthenticated)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            clients: Arc::default(),
            sessions_per_client: limits.sessions_per_client,
            streams_per_client: limits.streams_per_client,
        }
    }

    /// Takes a place for a session of this client. Names come from the clients' file, so their number is
    /// bounded. At the limit, the oldest session without a live path is closed, because its client has most
    /// likely gone.
    pub(crate) fn session(
        &self,
        name: &Arc<str>,
        is_gone: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<SessionPermit> {
        let mut clients = self.clients.lock();
        let client = clients.entry(name.clone()).or_insert_with(|| Client {
            sessions: Vec::new(),
            streams: Arc::new(Semaphore::new(self.streams_per_client)),
        });
        if client.sessions.len() >= self.sessions_per_client {
            let gone = client.sessions.iter().position(|session| (session.is_gone)())?;
            client.sessions.remove(gone).is_taken.notify_one();
        }
        let session = Arc::new(ClientSession { is_gone: Box::new(is_gone), is_taken: Notify::new() });
        client.sessions.push(session.clone());
        Some(SessionPermit {
            clients: self.clients.clone(),
            name: name.clone(),
            session,
            streams: client.streams.clone(),
        })
    }

    /// Takes a place for a stream of this place's client.
    pub(crate) fn stream(&self, place: &SessionPermit) -> Option<StreamPlace> {
        let own = place.streams.clone().try_acquire_owned().ok()?;
        let of_all = self.streams.clone().try_acquire_owned().ok()?;
        Some(StreamPlace { _places: [own, of_all] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_streams_are_limited_and_released() {
        let limits = GatewayLimits {
            sessions_per_client: 1,
            streams: 3,
            streams_per_client: 2,
            ..GatewayLimits::default()
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
    async fn a_session_of_a_vanished_client_makes_room_at_the_limit() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let counts = Counts::new(&GatewayLimits { sessions_per_client: 2, ..GatewayLimits::default() });
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
