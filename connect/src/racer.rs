//! The racer: the resolver, the memory of outcomes, and the network, shared by all requests.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use hawser_race::resolve::{Config, ConfigError, Lookup, Resolver, Stamp};
use hawser_race::{
    AttemptOutcome, Cache, CacheKey, CacheLimits, Connectionless, Profile, Security, Snapshot,
};
use hawser_session::{InterfaceChange, Network, network_identity};
use hawser_socket::process_bus;

use super::drive::RaceDriver;
use super::interact::RaceProvider;
use super::transports::Tcp;
use super::{ConnectError, Description, Destination, Duplex, ReportCallback, Transport};

/// A request for a connection.
#[derive(Clone)]
pub struct Request {
    /// The destination of the connection.
    pub destination: Destination,
    /// The transports to race; by default only the kernel's TCP.
    pub transports: Arc<[Arc<dyn Transport>]>,
    /// The rules of the race; by default those of RFC 8305.
    pub profile: Profile,
    /// The minimum protection; candidates with less are not tried.
    pub security: Security,
    /// True if candidates without a handshake may be tried; by default they may not.
    pub connectionless: Connectionless,
    /// The total time limit, including name resolution; by default 30 s.
    pub deadline: Duration,
    /// The callback that receives reports of the race.
    pub watcher: Option<ReportCallback>,
}

impl Request {
    /// Requests a stream to this destination, by the kernel's TCP.
    #[must_use]
    pub fn to(destination: Destination) -> Request {
        Request {
            destination,
            transports: Arc::new([Arc::new(Tcp::default()) as Arc<dyn Transport>]),
            profile: Profile::RFC8305,
            security: Security::None,
            connectionless: Connectionless::Never,
            deadline: Duration::from_secs(30),
            watcher: None,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { destination, transports, profile, .. } = self;
        f.debug_struct("Request")
            .field("destination", destination)
            .field("transports", transports)
            .field("profile", &profile.name)
            .finish_non_exhaustive()
    }
}

/// The result of a race.
pub struct Connected {
    /// The stream. It is watched until its first byte. A stream that delivers no data is remembered as a
    /// failure, and reported to the request's watcher.
    pub stream: Box<dyn Duplex>,
    /// The candidate that won.
    pub candidate: Description,
    /// The time since the beginning of the race.
    pub took: Duration,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("candidate", &self.candidate)
            .finish_non_exhaustive()
    }
}

/// The reasons for which a racer cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RacerError {
    /// The system's configuration of name resolution cannot be used.
    #[error(transparent)]
    Names(#[from] ConfigError),
}

/// Races for connections. Clones are the same racer. It must be made and used within a tokio runtime with
/// time and I/O.
#[derive(Clone)]
pub struct Racer {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<SharedRacer>,
    /// The task that follows changes of the network.
    watching: Option<AbortHandle>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = &self.watching {
            task.abort();
        }
    }
}

impl fmt::Debug for Racer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Racer").finish_non_exhaustive()
    }
}

impl Racer {
    /// Opens a racer that resolves names as the system is configured, and follows changes of the network. If
    /// the kernel does not report interfaces, there is one network that never changes.
    ///
    /// # Errors
    /// When the system's configuration of names cannot be read or parsed.
    pub async fn open() -> Result<Racer, RacerError> {
        let names = Config::stamp();
        let resolver = Resolver::new(&Config::system()?)?;
        let network = Network::open().await.ok();
        let name = network
            .as_ref()
            .map_or_else(|| network_identity::UNKNOWN.into(), network_identity::name);
        let shared = Arc::new(SharedRacer {
            state: Mutex::new(RacerState {
                resolver,
                names,
                cache: Cache::new(CacheLimits::default()),
                network: name,
            }),
            changes: broadcast::channel(MAX_CHANGES).0,
            epoch: Instant::after(
                SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or_default(),
            ),
            opened: std::time::Instant::now(),
            provider: process_bus().map(|bus| RaceProvider::new(&bus)),
        });
        let watching = network.map(|network| {
            let shared = Arc::clone(&shared);
            tokio::spawn(follow(network, shared)).abort_handle()
        });
        Ok(Racer { inner: Arc::new(Inner { shared, watching }) })
    }

    /// Races for a connection. Dropping the future cancels the race.
    ///
    /// # Errors
    /// When no candidate has won.
    pub async fn connect(&self, request: Request) -> Result<Connected, Box<ConnectError>> {
        let destination = request.destination.clone();
        let (reply, reported) = oneshot::channel();
        // The race is a separate task, because probes continue after the race is won.
        tokio::spawn(RaceDriver::new(Arc::clone(&self.inner.shared), request, reply).run());
        match reported.await {
            Ok(result) => result,
            Err(_) => Err(Box::new(ConnectError::cancelled(destination))),
        }
    }

    /// Returns the addresses of a destination, in the order of RFC 6724. The result is empty if it has no
    /// address, or if no server answers within `limit`. Meant for callers without a race.
    pub async fn addresses(&self, destination: &Destination, limit: Duration) -> Vec<SocketAddr> {
        let Ok(lookup) = Lookup::addresses(destination.host()) else {
            return Vec::new();
        };
        let mut answers = self.inner.shared.resolver().lookup(&lookup);
        let mut found = Vec::new();
        let all = async {
            while let Some(answer) = answers.next().await {
                found.extend(answer.result.into_iter().flat_map(|records| records.addresses));
            }
        };
        // Addresses found until then are used.
        let _ = tokio::time::timeout(limit, all).await;
        let port = destination.port();
        network_identity::ordered(found)
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect()
    }

    /// Returns the remembered outcomes, to be kept across restarts.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now = self.inner.shared.now();
        self.inner.shared.lock().cache.snapshot(now)
    }

    /// Replaces the remembered outcomes by those of a snapshot that are still valid.
    pub fn restore(&self, snapshot: Snapshot) {
        let now = self.inner.shared.now();
        self.inner.shared.lock().cache = Cache::restore(CacheLimits::default(), snapshot, now);
    }

    /// Forgets all outcomes.
    pub fn forget(&self) {
        self.inner.shared.lock().cache.clear();
    }
}

/// The maximum number of changes that a race may lag behind.
const MAX_CHANGES: usize = 64;

/// The state that all races share.
pub(super) struct SharedRacer {
    state: Mutex<RacerState>,
    changes: broadcast::Sender<InterfaceChange>,
    /// The wall clock time at the opening, and the same moment of the monotonic clock. The cache's time is
    /// computed from both, so that it never goes back when the clock is set.
    epoch: Instant,
    opened: std::time::Instant,
    /// The provider of races on the bus, if there is one.
    pub(super) provider: Option<Arc<RaceProvider>>,
}

pub(super) struct RacerState {
    pub(super) resolver: Resolver,
    /// The state of the system's files when the resolver was made.
    names: Stamp,
    pub(super) cache: Cache,
    /// The network's name.
    pub(super) network: Arc<str>,
}

impl SharedRacer {
    pub(super) fn lock(&self) -> MutexGuard<'_, RacerState> {
        self.state.lock()
    }

    pub(super) fn now(&self) -> Instant {
        self.epoch + self.opened.elapsed()
    }

    /// Returns the resolver: the same as before, unless the system's files have changed.
    pub(super) fn resolver(&self) -> Resolver {
        let names = Config::stamp();
        if self.lock().names != names {
            // The files are small and local; an unusable configuration leaves the last one in force.
            let resolver = Config::system().and_then(|config| Resolver::new(&config));
            let mut state = self.lock();
            state.names = names;
            if let Ok(resolver) = resolver {
                state.resolver = resolver;
            }
        }
        self.lock().resolver.clone()
    }

    pub(super) fn record(&self, key: CacheKey, outcome: AttemptOutcome) {
        let now = self.now();
        self.lock().cache.record(key, outcome, now);
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<InterfaceChange> {
        self.changes.subscribe()
    }

    /// Handles a change of the network: failures there are forgotten, and names are resolved again with the
    /// system's present configuration.
    fn changed(&self, name: Arc<str>) {
        let names = Config::stamp();
        let resolver = Config::system().and_then(|config| Resolver::new(&config));
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.network, Arc::clone(&name));
        for network in [&before, &name] {
            state.cache.network_changed(network);
        }
        if let Ok(resolver) = resolver {
            (state.resolver, state.names) = (resolver, names);
        }
    }
}

async fn follow(mut network: Network, shared: Arc<SharedRacer>) {
    while let Some(change) = network.next().await {
        shared.changed(network_identity::name(&network));
        // The channel has no receiver while no race runs.
        let _ = shared.changes.send(change);
    }
}
