//! Sessions that come to this side.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hawser_carrier::{Carrier, send};
use hawser_carrier_quic::{QuicDoor, QuicOptions};
use hawser_carrier_sctp::{ENCAPSULATION_PORT, SctpDoor, SctpOptions, Stack};
use hawser_carrier_tcp::{Door, TcpOptions, TlsServer};
use hawser_session::scheduler::Scheduler;
use hawser_session::{Acceptor, AcceptorConfig, SessionId, Verdict};
use tokio::sync::mpsc;

use super::driver::{Arrival, Driver};
use super::handle::{Session, Shared};
use super::plain::{Connection, PlainStream};
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

/// A server: takes sessions, and carriers for them.
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
}

struct DoorState {
    acceptor: Acceptor<u64>,
    next: u64,
    sessions: HashMap<SessionId, (mpsc::UnboundedSender<Arrival>, Arc<Shared>)>,
    /// Plain peers that came when too many waited to be taken.
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
}

/// A pause after an error of a listening socket (no file descriptors left, as a rule).
const AFTER_ERROR: Duration = Duration::from_millis(50);

async fn take_tcp(house: Arc<House>, door: Door) {
    loop {
        match door.accept().await {
            Ok(guest) => {
                let house = house.clone();
                tokio::spawn(async move {
                    if let Ok(carrier) = guest.welcome().await {
                        meet(house, Box::new(carrier)).await;
                    }
                });
            }
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}

async fn take_quic(house: Arc<House>, door: QuicDoor) {
    while let Some(guest) = door.accept().await {
        let house = house.clone();
        tokio::spawn(async move {
            if let Ok(carrier) = guest.welcome().await {
                meet(house, Box::new(carrier)).await;
            }
        });
    }
}

async fn take_sctp(house: Arc<House>, door: SctpDoor) {
    loop {
        match door.accept().await {
            Ok(carrier) => {
                tokio::spawn(meet(house.clone(), Box::new(carrier)));
            }
            // It was lost again, or there is no memory.
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}

/// Reads a stranger's first segment, and does with it what the door says.
async fn meet(house: Arc<House>, mut carrier: Box<dyn Carrier>) {
    if carrier.describe().alpn.is_some_and(|name| name != ALPN) {
        if house.new.try_send(Connection::Plain(PlainStream::new(carrier))).is_err() {
            house.door().turned_away += 1;
        }
        return;
    }
    let mut random = [0; 28];
    if getrandom::fill(&mut random).is_err() {
        return;
    }
    let (key, first) = {
        let mut door = house.door();
        door.next += 1;
        let key = door.next;
        match door.acceptor.accepted(key, carrier.exporter(), random, house.now()) {
            Ok(first) => (key, first),
            Err(_) => return carrier.abort(),
        }
    };
    let mut queue: VecDeque<bytes::Bytes> = first.into_iter().collect();
    let task = async {
        loop {
            send(&mut *carrier, &mut queue).await?;
            let bytes = std::future::poll_fn(|cx| carrier.poll_read(cx)).await?;
            if bytes.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            let now = house.now();
            let make = || (house.scheduler)();
            let verdict = house.door().acceptor.received(key, bytes, make, now);
            if !matches!(verdict, Verdict::More) {
                return Ok(verdict);
            }
        }
    };
    let verdict = tokio::time::timeout(Duration::from_secs(6), task).await;
    match verdict {
        Ok(Ok(verdict)) => let_in(&house, carrier, verdict).await,
        Ok(Err(_)) | Err(_) => {
            house.door().acceptor.left(key);
            carrier.abort();
        }
    }
}

async fn let_in(house: &Arc<House>, mut carrier: Box<dyn Carrier>, verdict: Verdict) {
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
            let name = session.id();
            let shared = Shared::new(*session, house.epoch);
            let (sender, arrivals) = mpsc::unbounded_channel();
            let _ = sender.send(Arrival { id, backup: false, carrier, answer, rest });
            house.door().sessions.insert(name, (sender, shared.clone()));
            let driver = Driver::new(shared.clone(), None, Some(arrivals));
            let (house, session) = (house.clone(), Session { shared });
            tokio::spawn({
                let house = house.clone();
                async move {
                    driver.await;
                    let now = house.now();
                    let mut door = house.door();
                    door.sessions.remove(&name);
                    door.acceptor.ended(name, now);
                }
            });
            // An application that takes no sessions holds up only those that wait to be taken.
            let _ = house.new.send(Connection::Session(session)).await;
        }
        Verdict::Join { session, carrier: id, backup, answer, rest } => {
            let door = house.door();
            if let Some((arrivals, _)) = door.sessions.get(&session) {
                let _ = arrivals.send(Arrival { id, backup, carrier, answer, rest });
            }
        }
    }
}

/// Forgets ended sessions and late strangers, once a second.
async fn sweep(house: Arc<House>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        let now = house.now();
        let mut door = house.door();
        let is_confirmed = |id: &SessionId| {
            door.sessions.get(id).is_some_and(|(_, shared)| shared.lock().session.is_confirmed())
        };
        let confirmed: Vec<SessionId> = door.acceptor.unconfirmed().filter(is_confirmed).collect();
        confirmed.into_iter().for_each(|id| door.acceptor.confirmed(id));
        door.acceptor.sweep(now);
    }
}
