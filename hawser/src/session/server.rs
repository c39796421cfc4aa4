//! Sessions that come to this side.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hawser_carrier::{Carrier, send};
use hawser_carrier_quic::{QuicDoor, QuicOptions};
use hawser_carrier_sctp::{ENCAPSULATION_PORT, SctpDoor, SctpOptions, Stack};
use hawser_carrier_tcp::{Door, TcpOptions, TlsServer};
use hawser_session::scheduler::Scheduler;
use hawser_session::{Acceptor, AcceptorConfig, SessionId, Verdict};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::driver::{Arrival, Driver};
use super::handle::Session;
use super::plain::{Connection, PlainStream};
use super::shared::{Handle, Shared};
use super::trust::ALPN;

/// Makes a scheduler for each new session.
pub type SchedulerMaker = Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>;

/// What a server offers.
pub struct ServerConfig {
    /// The door, and the sessions behind it.
    pub acceptor: AcceptorConfig,
    /// Makes a scheduler for each new session.
    pub scheduler: SchedulerMaker,
    /// Where TCP (and MPTCP, if the options say so) is taken.
    pub tcp: Vec<(SocketAddr, TcpOptions)>,
    /// Where QUIC is taken.
    pub quic: Vec<(SocketAddr, QuicOptions)>,
    /// The certificate. None: insecure sessions alone.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// A server: takes sessions, and carriers for them. With it go the sessions that nobody has taken;
/// those that were taken go on, without new carriers.
pub struct Server {
    house: Arc<House>,
    new: tokio::sync::Mutex<mpsc::Receiver<Connection>>,
    addresses: Vec<(&'static str, SocketAddr)>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    is_insecure: bool,
}

/// What the tasks of a server share.
struct House {
    door: Mutex<DoorState>,
    scheduler: SchedulerMaker,
    new: mpsc::Sender<Connection>,
    epoch: Instant,
    /// Places for carriers that have not proved anything, from before their handshakes on.
    strangers: Arc<Semaphore>,
    /// How many places for strangers there are.
    places: usize,
    /// How long a handshake may take, and how long a proof after it.
    patience: Duration,
}

struct DoorState {
    acceptor: Acceptor<u64>,
    next: u64,
    sessions: HashMap<SessionId, (mpsc::UnboundedSender<Arrival>, Weak<Shared>)>,
    /// Strangers for whom there was no place, and plain peers that came when too many waited to be
    /// taken.
    turned_away: u64,
}

/// Sessions that were accepted and not taken by the application.
const BACKLOG: usize = 256;

impl Server {
    /// Listens. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// An address cannot be listened on; QUIC was asked for without a certificate.
    pub fn open(config: ServerConfig) -> io::Result<Self> {
        let (sender, new) = mpsc::channel(BACKLOG);
        let places = config.acceptor.strangers.min(Semaphore::MAX_PERMITS);
        let strangers = Arc::new(Semaphore::new(places));
        let patience = config.acceptor.patience;
        let is_insecure = config.acceptor.insecure && config.tls.is_none();
        let door = DoorState {
            acceptor: Acceptor::new(config.acceptor),
            next: 0,
            sessions: HashMap::new(),
            turned_away: 0,
        };
        let house = Arc::new(House {
            door: Mutex::new(door),
            scheduler: config.scheduler,
            new: sender,
            epoch: Instant::now(),
            strangers,
            places,
            patience,
        });
        let (addresses, tasks) = (Vec::new(), Vec::new());
        let mut server = Self { house, new: new.into(), addresses, tasks, is_insecure };
        for (address, options) in config.tcp {
            let tls = config.tls.clone().map(|config| TlsServer { config });
            let door = Door::open(address, options, tls)?;
            server.addresses.push(("tcp", door.local()?));
            server.tasks.push(tokio::spawn(take_tcp(server.house.clone(), door)));
        }
        for (address, options) in config.quic {
            let Some(tls) = config.tls.clone() else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "QUIC needs a certificate"));
            };
            let door = QuicDoor::open(address, options, tls)?;
            server.addresses.push(("quic", door.local()?));
            server.tasks.push(tokio::spawn(take_quic(server.house.clone(), door)));
        }
        server.tasks.push(tokio::spawn(sweep(server.house.clone())));
        Ok(server)
    }

    /// Takes SCTP as well, at all of these addresses of this machine at once, in UDP to port 9899. A
    /// client uses as many paths as there are addresses.
    ///
    /// # Errors
    /// The server takes secure sessions, which SCTP cannot carry; the library is not installed; an address
    /// or the port cannot be had.
    pub fn listen_sctp(&mut self, addresses: &[IpAddr], port: u16, options: SctpOptions) -> io::Result<()> {
        if !self.is_insecure {
            let message = "SCTP has no security: it is for insecure sessions alone";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let stack = Stack::open(Some(ENCAPSULATION_PORT))?;
        let door = stack.listen(addresses, port, options)?;
        self.addresses.extend(door.local().into_iter().map(|address| ("sctp", address)));
        self.tasks.push(tokio::spawn(take_sctp(self.house.clone(), door)));
        Ok(())
    }

    /// Takes a carrier that came in by a door of somebody else's, as one of this server's own.
    pub fn receive(&self, carrier: impl Carrier + 'static) {
        self.house.receive(std::future::ready(Ok(carrier)));
    }

    /// Where it listens: transport and address.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// The next session. Peers that do not speak Hawser, if the certificate is offered to any
    /// ([`Identity::server`](super::Identity::server)), are sent away; [`Server::accept_any`] takes
    /// them too.
    ///
    /// # Errors
    /// The server was closed.
    pub async fn accept(&self) -> io::Result<Session> {
        loop {
            if let Connection::Session(session) = self.accept_any().await? {
                return Ok(session);
            }
        }
    }

    /// The next session, or the next peer that speaks another of the protocols that were offered.
    ///
    /// # Errors
    /// The server was closed.
    pub async fn accept_any(&self) -> io::Result<Connection> {
        let ended = || io::Error::new(io::ErrorKind::NotConnected, "the server was closed");
        self.new.lock().await.recv().await.ok_or_else(ended)
    }

    /// Carriers that were turned down, and sessions that there are.
    pub fn counts(&self) -> (u64, usize) {
        let door = self.house.door();
        (door.acceptor.refused() + door.turned_away, door.acceptor.sessions())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl House {
    fn door(&self) -> MutexGuard<'_, DoorState> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Whether half of the places for strangers are taken.
    fn is_crowded(&self) -> bool {
        self.strangers.available_permits() < self.places / 2
    }
}

/// A pause after an error of a listening socket (no file descriptors left, as a rule).
const AFTER_ERROR: Duration = Duration::from_millis(50);

async fn take_tcp(house: Arc<House>, door: Door) {
    loop {
        match door.accept().await {
            Ok(guest) => house.receive(guest.welcome()),
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}

async fn take_quic(house: Arc<House>, door: QuicDoor) {
    while let Some(guest) = door.accept().await {
        // Forged addresses must not take the places of those who are there.
        if house.is_crowded() && !guest.is_validated() {
            guest.retry();
        } else {
            house.receive(guest.welcome());
        }
    }
}

impl House {
    /// Receives a stranger if there is a place for one: from its handshakes to its proof, all that it
    /// may do is bounded in number and in time. For others the connection is closed.
    fn receive<C: Carrier + 'static>(
        self: &Arc<Self>,
        welcome: impl Future<Output = io::Result<C>> + Send + 'static,
    ) {
        let Ok(place) = self.strangers.clone().try_acquire_owned() else {
            self.door().turned_away += 1;
            return;
        };
        let house = self.clone();
        tokio::spawn(async move {
            let met = async { meet(&house, Box::new(welcome.await.ok()?)).await };
            // Whoever is late is closed with the future.
            if let Ok(Some((carrier, verdict))) = tokio::time::timeout(2 * house.patience, met).await {
                let_in(&house, carrier, verdict, place).await;
            }
        });
    }
}

async fn take_sctp(house: Arc<House>, door: SctpDoor) {
    loop {
        match door.accept().await {
            Ok(carrier) => house.receive(std::future::ready(Ok(carrier))),
            // It was lost again, or there is no memory.
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}

/// A carrier at the door; forgotten there however its meeting ends.
struct AtTheDoor<'a> {
    house: &'a House,
    key: u64,
}

impl Drop for AtTheDoor<'_> {
    fn drop(&mut self) {
        self.house.door().acceptor.left(self.key);
    }
}

/// Reads a stranger's first segment, and asks the door what to do. None: nothing is left to do.
async fn meet(house: &House, mut carrier: Box<dyn Carrier>) -> Option<(Box<dyn Carrier>, Verdict)> {
    if carrier.describe().alpn.is_some_and(|name| name != ALPN) {
        // Whoever serves such peers has nothing more to wait for.
        carrier.admit();
        if house.new.try_send(Connection::Plain(PlainStream::new(carrier))).is_err() {
            house.door().turned_away += 1;
        }
        return None;
    }
    let mut random = [0; 28];
    getrandom::fill(&mut random).ok()?;
    let (place, first) = {
        let mut door = house.door();
        door.next += 1;
        let key = door.next;
        match door.acceptor.accepted(key, carrier.exporter(), random, house.now()) {
            Ok(first) => (AtTheDoor { house, key }, first),
            Err(_) => {
                carrier.abort();
                return None;
            }
        }
    };
    let mut queue: VecDeque<bytes::Bytes> = first.into_iter().collect();
    loop {
        send(&mut *carrier, &mut queue).await.ok()?;
        let bytes = std::future::poll_fn(|cx| carrier.poll_read(cx)).await.ok()?;
        if bytes.is_empty() {
            return None;
        }
        let now = house.now();
        let make = || (house.scheduler)();
        let verdict = house.door().acceptor.received(place.key, bytes, make, now);
        if !matches!(verdict, Verdict::More) {
            return Some((carrier, verdict));
        }
    }
}

/// Does what the door says. `place`: the stranger's, which it keeps until it is none any more.
async fn let_in(
    house: &Arc<House>,
    mut carrier: Box<dyn Carrier>,
    verdict: Verdict,
    place: OwnedSemaphorePermit,
) {
    match verdict {
        Verdict::More => {}
        Verdict::Refuse { answer, .. } => {
            let mut queue = VecDeque::from([answer]);
            let goodbye = async {
                send(&mut *carrier, &mut queue).await?;
                std::future::poll_fn(|cx| carrier.poll_finish(cx)).await
            };
            // Whoever does not take the answer does without it.
            let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
        }
        Verdict::Begin { session, carrier: id, answer, rest } => {
            drop(place);
            carrier.admit();
            let session = begin(house, *session, Arrival { id, backup: false, carrier, answer, rest });
            // An application that takes no sessions holds up only those that wait to be taken. One
            // that is gone has dropped them.
            let _ = house.new.send(Connection::Session(session)).await;
        }
        Verdict::Join { session, carrier: id, backup, answer, rest } => {
            carrier.admit();
            let door = house.door();
            if let Some((arrivals, shared)) = door.sessions.get(&session) {
                if let Some(shared) = shared.upgrade() {
                    door.acceptor.share_secret(&mut shared.lock().session);
                }
                let _ = arrivals.send(Arrival { id, backup, carrier, answer, rest });
            }
        }
    }
}

/// Begins a session, and has its place given up as soon as it has ended.
fn begin(house: &Arc<House>, session: hawser_session::Session, first: Arrival) -> Session {
    let name = session.id();
    let shared = Shared::new(session, house.epoch);
    let (sender, arrivals) = mpsc::unbounded_channel();
    let _ = sender.send(first);
    house.door().sessions.insert(name, (sender, Arc::downgrade(&shared)));
    let mut end = shared.lock().end();
    tokio::spawn(Driver::new(shared.clone(), None, Some(arrivals)));
    let house = house.clone();
    tokio::spawn(async move {
        end.come().await;
        let now = house.now();
        let mut door = house.door();
        door.sessions.remove(&name);
        door.acceptor.ended(name, now);
    });
    Session { shared: Handle::new(shared) }
}

/// Forgets ended sessions and late strangers, once a second.
async fn sweep(house: Arc<House>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        let now = house.now();
        let mut door = house.door();
        let is_confirmed = |id: &SessionId| {
            let session = door.sessions.get(id).and_then(|(_, session)| session.upgrade());
            session.is_some_and(|session| session.lock().session.is_confirmed())
        };
        let confirmed: Vec<SessionId> = door.acceptor.unconfirmed().filter(is_confirmed).collect();
        confirmed.into_iter().for_each(|id| door.acceptor.confirmed(id));
        door.acceptor.sweep(now);
    }
}
