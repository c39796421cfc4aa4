//! Sessions that come to this side.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hawser_carrier::{Carrier, Description, send};
use hawser_carrier_mtp::{MtpListener, MtpOptions, MtpStack};
use hawser_carrier_quic::{QuicDoor, QuicGuest, QuicOptions};
use hawser_carrier_sctp::{ENCAPSULATION_PORT, SctpDoor, SctpOptions, Stack};
use hawser_carrier_tcp::{Door, TcpOptions};
use hawser_carrier_tls::TlsServer;
use hawser_session::scheduler::Scheduler;
use hawser_session::{Acceptor, AcceptorConfig, SessionId, Verdict};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::driver::{Arrival, Driver};
use super::handle::Session;
use super::plain::{Connection, PlainStream};
use super::shared::{Handle, Shared};
use super::trust::ALPN;
use super::unaccepted::Unaccepted;
use crate::places::{Gate, Place, Shares};

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
    addresses: Vec<(&'static str, SocketAddr)>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    is_insecure: bool,
    tls: Option<TlsServer>,
}

/// What the tasks of a server share.
struct House {
    door: Mutex<DoorState>,
    scheduler: SchedulerMaker,
    /// What the application has not accepted yet.
    new: Arc<Unaccepted>,
    epoch: Instant,
    gates: Gates,
    /// How long a handshake may take, and how long a proof after it.
    patience: Duration,
}

/// Places for carriers that have not proved anything, from before their handshakes on: those of each
/// transport, so that a flood of one leaves the others alone.
struct Gates {
    tcp: Gate,
    quic: Gate,
    sctp: Gate,
    /// Those of all transports written in MTP.
    mtp: Gate,
}

impl Gates {
    fn new(shares: Shares) -> Self {
        Self {
            tcp: Gate::new(shares),
            quic: Gate::new(shares),
            sctp: Gate::new(shares),
            mtp: Gate::new(shares),
        }
    }

    fn of(&self, transport: &str) -> &Gate {
        match transport {
            "quic" => &self.quic,
            "sctp" => &self.sctp,
            name if name.starts_with("mtp-") => &self.mtp,
            _ => &self.tcp,
        }
    }

    fn evicted(&self) -> u64 {
        self.tcp.evicted() + self.quic.evicted() + self.sctp.evicted() + self.mtp.evicted()
    }
}

struct DoorState {
    acceptor: Acceptor<u64>,
    next: u64,
    sessions: HashMap<SessionId, (mpsc::UnboundedSender<Arrival>, Weak<Shared>)>,
}

/// Transports that have places of their own: [`Gates`].
const TRANSPORTS: usize = 4;

impl Server {
    /// Listens. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// An address cannot be listened on; QUIC was asked for without a certificate.
    pub fn open(config: ServerConfig) -> io::Result<Self> {
        let gates = Gates::new(Shares::new(config.acceptor.strangers));
        let new = Arc::new(Unaccepted::new(&config.acceptor));
        let patience = config.acceptor.patience;
        let is_insecure = config.acceptor.insecure && config.tls.is_none();
        let strangers = config.acceptor.strangers.saturating_mul(TRANSPORTS);
        let acceptor = Acceptor::new(AcceptorConfig {
            strangers,
            ..config.acceptor
        });
        let door = DoorState {
            acceptor,
            next: 0,
            sessions: HashMap::new(),
        };
        let house = Arc::new(House {
            door: Mutex::new(door),
            scheduler: config.scheduler,
            new,
            epoch: Instant::now(),
            gates,
            patience,
        });
        let (addresses, tasks) = (Vec::new(), Vec::new());
        let tls = config.tls.clone().map(|config| TlsServer { config });
        let mut server = Self {
            house,
            addresses,
            tasks,
            is_insecure,
            tls,
        };
        for (address, options) in config.tcp {
            let door = Door::open(address, options, server.tls.clone())?;
            server.addresses.push(("tcp", door.local()?));
            server
                .tasks
                .push(tokio::spawn(take_tcp(server.house.clone(), door)));
        }
        for (address, options) in config.quic {
            server.listen_quic(address, options, |house, peer, guest| {
                house.receive("quic", peer, guest.welcome());
            })?;
        }
        server.tasks.push(tokio::spawn(sweep(server.house.clone())));
        Ok(server)
    }

    /// Accepts QUIC as well, from peers that may open several streams if they do not speak Hawser: they
    /// come as [`Connection::Streams`] when they have shaken hands, and not with their first stream.
    ///
    /// # Errors
    /// The address cannot be listened on; there is no certificate.
    pub fn listen_quic_streams(&mut self, address: SocketAddr, options: QuicOptions) -> io::Result<()> {
        self.listen_quic(address, options, House::receive_streams)
    }

    fn listen_quic(
        &mut self,
        address: SocketAddr,
        options: QuicOptions,
        receive: fn(&Arc<House>, IpAddr, QuicGuest),
    ) -> io::Result<()> {
        let Some(TlsServer { config }) = self.tls.clone() else {
            let message = "QUIC needs a certificate";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let door = QuicDoor::open(address, options, config)?;
        self.addresses.push(("quic", door.local()?));
        self.tasks
            .push(tokio::spawn(take_quic(self.house.clone(), door, receive)));
        Ok(())
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
        self.addresses
            .extend(door.local().into_iter().map(|address| ("sctp", address)));
        self.tasks.push(tokio::spawn(take_sctp(self.house.clone(), door)));
        Ok(())
    }

    /// Accepts carriers over a transport written in MTP as well, at an address of the stack.
    ///
    /// # Errors
    /// The stack cannot listen on the address.
    pub fn listen_mtp(
        &mut self,
        stack: &MtpStack,
        address: SocketAddr,
        options: MtpOptions,
    ) -> io::Result<()> {
        let listener = stack.listen(address, options, self.tls.clone())?;
        self.addresses.push((stack.transport(), address));
        self.tasks.push(tokio::spawn(accept_mtp(
            self.house.clone(),
            stack.transport(),
            listener,
        )));
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
        Ok(self.house.new.next().await)
    }

    /// Carriers and connections that were refused or had to make room for others, and sessions that there
    /// are.
    pub fn counts(&self) -> (u64, usize) {
        let evicted = self.house.gates.evicted() + self.house.new.evicted();
        let door = self.house.door();
        (door.acceptor.refused() + evicted, door.acceptor.sessions())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        self.house.new.close();
    }
}

impl House {
    fn door(&self) -> MutexGuard<'_, DoorState> {
        self.door.lock()
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
            Ok(guest) => house.receive("tcp", guest.peer().ip(), guest.welcome()),
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}

async fn accept_mtp(house: Arc<House>, transport: &'static str, listener: MtpListener) {
    // One that fails has no device any more.
    while let Ok(incoming) = listener.accept().await {
        house.receive(transport, incoming.peer().ip(), incoming.accept());
    }
}

async fn take_quic(house: Arc<House>, door: QuicDoor, receive: fn(&Arc<House>, IpAddr, QuicGuest)) {
    while let Some(guest) = door.accept().await {
        // Forged addresses must not take the places of those who are there.
        let peer = guest.peer().ip();
        if house.gates.quic.is_crowded(peer) && !guest.is_validated() {
            guest.retry();
        } else {
            receive(&house, peer, guest);
        }
    }
}

impl House {
    /// Receives an unauthenticated peer: from its handshakes to its proof, all that it may do is bounded in
    /// number and in time. The connection is closed if it has to make room for another one.
    fn receive<C: Carrier + 'static>(
        self: &Arc<Self>,
        transport: &str,
        peer: IpAddr,
        welcome: impl Future<Output = io::Result<C>> + Send + 'static,
    ) {
        let mut place = self.gates.of(transport).enter(peer);
        let house = self.clone();
        tokio::spawn(async move {
            let met = async { meet(&house, Box::new(welcome.await.ok()?)).await };
            // Whoever is late is closed with the future.
            let met = tokio::time::timeout(2 * house.patience, place.hold(met)).await;
            if let Ok(Some(Some((carrier, verdict)))) = met {
                let_in(&house, carrier, verdict, place).await;
            }
        });
    }

    /// The same for one that may open several streams, if it does not speak Hawser.
    fn receive_streams(self: &Arc<Self>, peer: IpAddr, guest: QuicGuest) {
        let house = self.clone();
        self.receive("quic", peer, async move {
            let connection = guest.shake().await?;
            if connection.describe().alpn.is_none_or(|name| name == ALPN) {
                return connection.into_carrier().await;
            }
            house.new.push(Connection::Streams(connection), peer);
            // It is no carrier of a session, and there is nothing more to wait for.
            Err(io::ErrorKind::Unsupported.into())
        });
    }

    /// The same for one that has shaken hands.
    fn receive_connected(self: &Arc<Self>, carrier: impl Carrier + 'static) {
        let Description { transport, peer, .. } = carrier.describe();
        self.receive(transport, peer.ip(), std::future::ready(Ok(carrier)));
    }
}

async fn take_sctp(house: Arc<House>, door: SctpDoor) {
    loop {
        match door.accept().await {
            Ok(carrier) => house.receive_connected(carrier),
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
        let peer = carrier.describe().peer.ip();
        house.new.push(Connection::Plain(PlainStream::new(carrier)), peer);
        return None;
    }
    let mut random = [0; 28];
    getrandom::fill(&mut random).ok()?;
    let (place, first) = {
        let mut door = house.door();
        door.next += 1;
        let key = door.next;
        match door
            .acceptor
            .accepted(key, carrier.exporter(), random, house.now())
        {
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
async fn let_in(house: &Arc<House>, mut carrier: Box<dyn Carrier>, verdict: Verdict, mut place: Place) {
    match verdict {
        Verdict::More => {}
        Verdict::Refuse { answer, .. } => {
            let mut queue = VecDeque::from([answer]);
            let goodbye = async {
                send(&mut *carrier, &mut queue).await?;
                std::future::poll_fn(|cx| carrier.poll_finish(cx)).await
            };
            // Whoever does not take the answer does without it.
            let _ = place
                .hold(tokio::time::timeout(Duration::from_secs(1), goodbye))
                .await;
        }
        Verdict::Begin {
            session,
            carrier: id,
            answer,
            rest,
        } => {
            drop(place);
            carrier.admit();
            let peer = carrier.describe().peer.ip();
            let session = begin(
                house,
                *session,
                Arrival {
                    id,
                    backup: false,
                    carrier,
                    answer,
                    rest,
                },
            );
            house.new.push(Connection::Session(session), peer);
        }
        Verdict::Join {
            session,
            carrier: id,
            backup,
            answer,
            rest,
        } => {
            carrier.admit();
            let door = house.door();
            if let Some((arrivals, shared)) = door.sessions.get(&session) {
                if let Some(shared) = shared.upgrade() {
                    door.acceptor.share_secret(&mut shared.lock().session);
                }
                let _ = arrivals.send(Arrival {
                    id,
                    backup,
                    carrier,
                    answer,
                    rest,
                });
            }
        }
    }
}

/// Begins a session, and has its place given up as soon as it has ended.
fn begin(house: &Arc<House>, session: hawser_session::Session, first: Arrival) -> Session {
    let name = session.id();
    let shared = Shared::new(session, house.epoch);
    shared.lock().unaccepted = Some(house.new.share());
    let (sender, arrivals) = mpsc::unbounded_channel();
    let _ = sender.send(first);
    house
        .door()
        .sessions
        .insert(name, (sender, Arc::downgrade(&shared)));
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
    Session {
        shared: Handle::new(shared),
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
            let session = door.sessions.get(id).and_then(|(_, session)| session.upgrade());
            session.is_some_and(|session| session.lock().session.is_confirmed())
        };
        let confirmed: Vec<SessionId> = door.acceptor.unconfirmed().filter(is_confirmed).collect();
        confirmed.into_iter().for_each(|id| door.acceptor.confirmed(id));
        door.acceptor.sweep(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_places_of_its_own() {
        let gates = Gates::new(Shares::new(8));
        let all = ["tcp", "quic", "sctp", "mtp-tcp"].map(|transport| std::ptr::from_ref(gates.of(transport)));
        assert!((0..all.len()).all(|one| !all[..one].contains(&all[one])));
        assert_eq!(all.len(), TRANSPORTS);
        assert!(std::ptr::eq(gates.of("mptcp"), gates.of("tcp")) && std::ptr::eq(gates.of("mtp-x"), all[3]));
    }
}
