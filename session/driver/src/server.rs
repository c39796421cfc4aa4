//! Sessions that peers begin with this side.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_carriers::mtp::{MtpListener, MtpOptions, MtpStack};
use hawser_carriers::quic::{ConnectionBroken, QuicIncoming, QuicListener, QuicOptions};
use hawser_carriers::sctp::{ENCAPSULATION_PORT, SctpListener, SctpOptions, SctpStack};
use hawser_carriers::tcp::{TcpIncoming, TcpListener, TcpOptions};
use hawser_carriers::tls::TlsServer;
use hawser_carriers::{Carrier, Description, OpenError, send};
use hawser_session_machine::scheduler::{self, Scheduler};
use hawser_session_machine::{Acceptor, AcceptorConfig, CarrierDecision, SessionId};
use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::driver::{ArrivedCarrier, Driver};
use super::error::ListenError;
use super::handle::Session;
use super::plain::{Connection, PlainStream};
use super::shared::{Handle, Shared};
use super::trust::ALPN;
use super::unaccepted::Unaccepted;
use crate::admission::{AdmissionGate, AdmissionPermit, Shares};

/// A function that makes a scheduler for each new session.
pub type SchedulerMaker = Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>;

/// The configuration of a server.
pub struct ServerConfig {
    /// The acceptor, and the sessions that it admits.
    pub acceptor: AcceptorConfig,
    /// Makes a scheduler for each new session.
    pub scheduler: SchedulerMaker,
    /// The addresses and options of TCP listeners (MPTCP, if the options say so).
    pub tcp: Vec<(SocketAddr, TcpOptions)>,
    /// The addresses and options of QUIC listeners.
    pub quic: Vec<(SocketAddr, QuicOptions)>,
    /// The TLS configuration with the certificate. `None`: only insecure sessions.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// A configuration without listeners and certificate, with earliest completion first (`ecf`) as the
/// scheduler.
impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            acceptor: AcceptorConfig::default(),
            scheduler: Arc::new(|| scheduler::by_name("ecf").expect("it comes with Hawser")),
            tcp: Vec::new(),
            quic: Vec::new(),
            tls: None,
        }
    }
}

/// A server, which accepts sessions and carriers for them.
///
/// Accepted sessions outlive the server, and carriers may still join them. Once the server is dropped, its
/// listeners refuse new sessions as beyond the limit, and they close with the last session. Sessions that
/// were not accepted are rejected when the server is dropped.
pub struct Server {
    state: Arc<State>,
    addresses: Vec<(&'static str, SocketAddr)>,
    is_insecure: bool,
    tls: Option<TlsServer>,
}

/// The state that the tasks of a server share.
struct State {
    admission: Mutex<Admission>,
    scheduler: SchedulerMaker,
    /// Connections that the application has not accepted yet.
    new: Arc<Unaccepted>,
    epoch: std::time::Instant,
    gates: Gates,
    /// The time allowed for a handshake, and again for the proof after it.
    timeout: Duration,
    /// The listening and sweeping tasks. Each holds this state until it is aborted.
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

/// Places for unauthenticated carriers, from before their handshakes on. Each transport has its own, so that
/// a flood over one does not affect the others.
struct Gates {
    tcp: AdmissionGate,
    quic: AdmissionGate,
    sctp: AdmissionGate,
    /// The places of all transports written in MTP.
    mtp: AdmissionGate,
}

impl Gates {
    fn new(shares: Shares) -> Self {
        Self {
            tcp: AdmissionGate::new(shares),
            quic: AdmissionGate::new(shares),
            sctp: AdmissionGate::new(shares),
            mtp: AdmissionGate::new(shares),
        }
    }

    fn for_transport(&self, transport: &str) -> &AdmissionGate {
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

struct Admission {
    acceptor: Acceptor<u64>,
    next: u64,
    sessions: HashMap<SessionId, (mpsc::UnboundedSender<ArrivedCarrier>, Weak<Shared>)>,
}

/// The number of transports with places of their own ([`Gates`]).
const TRANSPORTS: usize = 4;

impl Server {
    /// Opens the listeners. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The server cannot listen on an address, or QUIC was requested without a certificate.
    pub fn open(config: ServerConfig) -> Result<Self, ListenError> {
        let gates = Gates::new(Shares::new(config.acceptor.unauthenticated));
        let new = Arc::new(Unaccepted::new(&config.acceptor));
        let timeout = config.acceptor.timeout;
        let is_insecure = config.acceptor.insecure && config.tls.is_none();
        let unauthenticated = config.acceptor.unauthenticated.saturating_mul(TRANSPORTS);
        let acceptor = Acceptor::new(AcceptorConfig { unauthenticated, ..config.acceptor });
        let admission = Admission { acceptor, next: 0, sessions: HashMap::new() };
        let state = Arc::new(State {
            admission: Mutex::new(admission),
            scheduler: config.scheduler,
            new,
            epoch: std::time::Instant::now(),
            gates,
            timeout,
            tasks: Mutex::default(),
        });
        let tls = config.tls.clone().map(|config| TlsServer { config });
        let mut server = Self { state, addresses: Vec::new(), is_insecure, tls };
        for (address, options) in config.tcp {
            server.listen_tcp(address, options, |state, peer, incoming| {
                state.receive("tcp", peer, async move { incoming.accept().await.map(Some) });
            })?;
        }
        for (mut address, options) in config.quic {
            if address.port() == 0 {
                address.set_port(server.tcp_port(address.ip()));
            }
            server.listen_quic(address, options, |state, peer, incoming| {
                state.receive("quic", peer, async move { incoming.accept().await.map(Some) });
            })?;
        }
        for (transport, address) in &server.addresses {
            info!(transport, %address, "listening for sessions");
        }
        server.keep(sweep(server.state.clone()));
        Ok(server)
    }

    /// Returns the port of the TCP listener at an address, or 0 without such a listener. A server without a
    /// fixed port thus uses the same port for both transports.
    fn tcp_port(&self, ip: IpAddr) -> u16 {
        let mut listeners = self.addresses.iter();
        let found = listeners.find(|(transport, address)| *transport == "tcp" && address.ip() == ip);
        found.map_or(0, |(_, address)| address.port())
    }

    /// Also accepts TCP, from peers that speak Hawser only if ALPN agrees on it. Under TLS, peers that agree
    /// on no protocol come as [`Connection::Plain`].
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub fn listen_tcp_any(&mut self, address: SocketAddr, options: TcpOptions) -> Result<(), ListenError> {
        self.listen_tcp(address, options, State::receive_any)
    }

    fn listen_tcp(
        &mut self,
        address: SocketAddr,
        options: TcpOptions,
        receive: fn(&Arc<State>, IpAddr, TcpIncoming),
    ) -> Result<(), ListenError> {
        let listener = TcpListener::open(address, options, self.tls.clone())?;
        self.addresses.push(("tcp", listener.local()?));
        self.keep(accept_tcp(self.state.clone(), listener, receive));
        Ok(())
    }

    /// Runs a task for as long as the server or a session that it has accepted exists.
    fn keep(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.state.tasks.lock().push(tokio::spawn(task));
    }

    /// Also accepts QUIC, from peers that may open several streams if they do not speak Hawser. These come as
    /// [`Connection::Streams`] after the handshake, without waiting for their first stream.
    ///
    /// # Errors
    /// The server cannot listen on the address, or there is no certificate.
    pub fn listen_quic_streams(
        &mut self,
        address: SocketAddr,
        options: QuicOptions,
    ) -> Result<(), ListenError> {
        self.listen_quic(address, options, State::receive_streams)
    }

    fn listen_quic(
        &mut self,
        address: SocketAddr,
        options: QuicOptions,
        receive: fn(&Arc<State>, IpAddr, QuicIncoming),
    ) -> Result<(), ListenError> {
        let Some(TlsServer { config }) = self.tls.clone() else {
            return Err(ListenError::NoCertificate);
        };
        let listener = QuicListener::open(address, options, config)?;
        self.addresses.push(("quic", listener.local()?));
        self.keep(accept_quic(self.state.clone(), listener, receive));
        Ok(())
    }

    /// Also accepts SCTP, at all of these addresses of this machine at once, in UDP to port 9899. A client
    /// uses as many paths as there are addresses.
    ///
    /// # Errors
    /// The server takes secure sessions, which SCTP cannot carry; the library is not installed; or an address
    /// or the port is unavailable.
    pub fn listen_sctp(
        &mut self,
        addresses: &[IpAddr],
        port: u16,
        options: SctpOptions,
    ) -> Result<(), ListenError> {
        if !self.is_insecure {
            return Err(ListenError::Insecure);
        }
        let stack = SctpStack::bind(addresses, ENCAPSULATION_PORT)?;
        let listener = stack.listen(addresses, port, options)?;
        self.addresses
            .extend(listener.local().into_iter().map(|address| ("sctp", address)));
        self.keep(accept_sctp(self.state.clone(), listener));
        Ok(())
    }

    /// Also accepts carriers over a transport written in MTP, at an address of the stack.
    ///
    /// # Errors
    /// The stack cannot listen on the address.
    pub fn listen_mtp(
        &mut self,
        stack: &MtpStack,
        address: SocketAddr,
        options: MtpOptions,
    ) -> Result<(), ListenError> {
        let listener = stack.listen(address, options, self.tls.clone())?;
        self.addresses.push((stack.transport(), address));
        self.keep(accept_mtp(self.state.clone(), stack.transport(), listener));
        Ok(())
    }

    /// Returns the transports and addresses on which it listens.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// Waits for the next session. Peers that do not speak Hawser are refused, even if the certificate is
    /// offered to them ([`Identity::server`](super::Identity::server)). [`Server::accept_any`] accepts them,
    /// too.
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

    /// Waits for the next session, or the next peer that speaks another of the offered protocols.
    ///
    /// # Errors
    /// The server was closed.
    pub async fn accept_any(&self) -> io::Result<Connection> {
        Ok(self.state.new.next().await)
    }

    /// Returns two counts: carriers and connections that were refused or had to make room for others, and
    /// existing sessions.
    pub fn counts(&self) -> (u64, usize) {
        let evicted = self.state.gates.evicted() + self.state.new.evicted();
        let admission = self.state.admission();
        (
            admission.acceptor.refused() + evicted,
            admission.acceptor.sessions(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.admission().acceptor.retire();
        self.state.new.close();
        self.state.close_if_unused();
    }
}

impl State {
    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock()
    }

    fn now(&self) -> Instant {
        Instant::after(self.epoch.elapsed())
    }

    /// Closes the listeners when the server is gone and no session is left that carriers may join.
    fn close_if_unused(&self) {
        let is_used = {
            let admission = self.admission();
            !admission.acceptor.is_retired() || !admission.sessions.is_empty()
        };
        if !is_used {
            self.tasks.lock().drain(..).for_each(|task| task.abort());
        }
    }
}

/// The pause after an error of a listening socket, which usually means that no file descriptors are left.
const AFTER_ERROR: Duration = Duration::from_millis(50);

async fn accept_tcp(state: Arc<State>, listener: TcpListener, receive: fn(&Arc<State>, IpAddr, TcpIncoming)) {
    loop {
        match listener.accept().await {
            Ok(incoming) => receive(&state, incoming.peer().ip(), incoming),
            Err(error) => {
                warn!(%error, transport = "tcp", "cannot accept a connection");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

async fn accept_mtp(state: Arc<State>, transport: &'static str, listener: MtpListener) {
    // A listener that fails has lost its device.
    loop {
        match listener.accept().await {
            Ok(incoming) => {
                let peer = incoming.peer().ip();
                state.receive(transport, peer, async move { incoming.accept().await.map(Some) });
            }
            Err(error) => return warn!(%error, transport, "the listener failed"),
        }
    }
}

async fn accept_quic(
    state: Arc<State>,
    listener: QuicListener,
    receive: fn(&Arc<State>, IpAddr, QuicIncoming),
) {
    while let Some(incoming) = listener.accept().await {
        // Forged addresses must not take the places of genuine peers.
        let peer = incoming.peer().ip();
        if state.gates.quic.is_crowded(peer) && !incoming.is_validated() {
            debug!(%peer, "a Retry was sent: too many unauthenticated peers");
            incoming.retry();
        } else {
            receive(&state, peer, incoming);
        }
    }
}

impl State {
    /// Receives an unauthenticated peer. From its handshake to its proof, all that it may do is limited in
    /// number and in time. The connection is closed if it has to make room for another one. If `accept`
    /// returns `None`, the connection has been handled elsewhere.
    fn receive<C: Carrier + 'static, E: fmt::Debug + Send>(
        self: &Arc<Self>,
        transport: &str,
        peer: IpAddr,
        accept: impl Future<Output = Result<Option<C>, E>> + Send + 'static,
    ) {
        let mut place = self.gates.for_transport(transport).enter(peer);
        let (state, transport) = (self.clone(), transport.to_owned());
        tokio::spawn(async move {
            let authenticated = async {
                let carrier = accept.await;
                let carrier =
                    carrier.inspect_err(|error| debug!(%peer, transport, ?error, "a handshake failed"));
                authenticate(&state, Box::new(carrier.ok()??)).await
            };
            // A peer that exceeds the time is closed when the future is dropped.
            let authenticated = tokio::time::timeout(2 * state.timeout, place.hold(authenticated)).await;
            if let Ok(Some(Some((carrier, verdict)))) = authenticated {
                admit(&state, carrier, verdict, place).await;
            }
        });
    }

    /// Receives a peer that may open several streams if it does not speak Hawser.
    fn receive_streams(self: &Arc<Self>, peer: IpAddr, incoming: QuicIncoming) {
        let state = self.clone();
        self.receive("quic", peer, async move {
            let connection = incoming.handshake().await?;
            if connection.describe().alpn.is_none_or(|name| name == ALPN) {
                return connection.into_carrier().await.map(Some);
            }
            state.new.push(Connection::Streams(connection), peer);
            Ok::<_, ConnectionBroken>(None)
        });
    }

    /// Receives a peer that speaks Hawser only if ALPN agrees on it (RFC 7301).
    fn receive_any(self: &Arc<Self>, peer: IpAddr, incoming: TcpIncoming) {
        let state = self.clone();
        self.receive("tcp", peer, async move {
            let mut carrier = incoming.accept().await?;
            if carrier.describe().alpn.as_deref() == Some(ALPN) {
                return Ok(Some(carrier));
            }
            carrier.admit();
            let stream = PlainStream::new(Box::new(carrier));
            state.new.push(Connection::Plain(stream), peer);
            Ok::<_, OpenError>(None)
        });
    }

    /// Receives a peer whose handshake is complete.
    fn receive_connected(self: &Arc<Self>, carrier: impl Carrier + 'static) {
        let Description { transport, peer, .. } = carrier.describe();
        self.receive(
            transport,
            peer.ip(),
            std::future::ready(Ok::<_, Infallible>(Some(carrier))),
        );
    }
}

async fn accept_sctp(state: Arc<State>, listener: SctpListener) {
    loop {
        match listener.accept().await {
            Ok(carrier) => state.receive_connected(carrier),
            // The association was lost again, or there is no memory.
            Err(error) => {
                debug!(%error, transport = "sctp", "cannot accept an association");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// A carrier that is registered with the acceptor. The acceptor forgets it however its authentication ends.
struct Unauthenticated<'a> {
    state: &'a State,
    key: u64,
}

impl Drop for Unauthenticated<'_> {
    fn drop(&mut self) {
        self.state.admission().acceptor.left(self.key);
    }
}

/// Reads the first segment of an unauthenticated peer, and asks the acceptor for its verdict. `None` if the
/// peer needs no further handling.
async fn authenticate(
    state: &State,
    mut carrier: Box<dyn Carrier>,
) -> Option<(Box<dyn Carrier>, CarrierDecision)> {
    if carrier.describe().alpn.is_some_and(|name| name != ALPN) {
        // A server that accepts such peers needs no further proof.
        carrier.admit();
        let peer = carrier.describe().peer.ip();
        state.new.push(Connection::Plain(PlainStream::new(carrier)), peer);
        return None;
    }
    let mut random = [0; 28];
    getrandom::fill(&mut random).ok()?;
    let (place, first) = {
        let mut admission = state.admission();
        admission.next += 1;
        let key = admission.next;
        match admission
            .acceptor
            .accepted(key, carrier.exporter(), random, state.now())
        {
            Ok(first) => (Unauthenticated { state, key }, first),
            Err(_) => {
                debug!("a carrier was refused: too many unauthenticated peers");
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
        let now = state.now();
        let make = || (state.scheduler)();
        let verdict = state.admission().acceptor.received(place.key, bytes, make, now);
        if !matches!(verdict, CarrierDecision::More) {
            return Some((carrier, verdict));
        }
    }
}

/// Carries out the acceptor's verdict. The peer keeps `place` until it is authenticated.
async fn admit(
    state: &Arc<State>,
    mut carrier: Box<dyn Carrier>,
    verdict: CarrierDecision,
    mut place: AdmissionPermit,
) {
    match verdict {
        CarrierDecision::More => {}
        CarrierDecision::Refuse { answer, refusal } => {
            debug!(peer = %carrier.describe().peer, %refusal, "a carrier was refused");
            let mut queue = VecDeque::from([answer]);
            let goodbye = async {
                send(&mut *carrier, &mut queue).await?;
                std::future::poll_fn(|cx| carrier.poll_finish(cx)).await
            };
            // If the peer does not take the answer, it goes without one.
            let _ = place
                .hold(tokio::time::timeout(Duration::from_secs(1), goodbye))
                .await;
        }
        CarrierDecision::Begin { session, carrier: id, answer, rest } => {
            drop(place);
            carrier.admit();
            let peer = carrier.describe().peer.ip();
            debug!(session = %session.id(), %peer, "a session started");
            let session = begin(
                state,
                *session,
                ArrivedCarrier { id, backup: false, carrier, answer, rest },
            );
            state.new.push(Connection::Session(session), peer);
        }
        CarrierDecision::Join { session, carrier: id, backup, answer, rest } => {
            carrier.admit();
            debug!(%session, carrier = %id, peer = %carrier.describe().peer, "a carrier joined a session");
            let admission = state.admission();
            if let Some((arrivals, shared)) = admission.sessions.get(&session) {
                if let Some(shared) = shared.upgrade() {
                    admission.acceptor.share_secret(&mut shared.lock().session);
                }
                let _ = arrivals.send(ArrivedCarrier { id, backup, carrier, answer, rest });
            }
        }
    }
}

/// Begins a session, and removes it from the server's tables as soon as it has ended.
fn begin(state: &Arc<State>, session: hawser_session_machine::Session, first: ArrivedCarrier) -> Session {
    let name = session.id();
    let shared = Shared::new(session, state.epoch);
    shared.lock().unaccepted = Some(state.new.share());
    let (sender, arrivals) = mpsc::unbounded_channel();
    let _ = sender.send(first);
    state
        .admission()
        .sessions
        .insert(name, (sender, Arc::downgrade(&shared)));
    let mut end = shared.lock().end();
    tokio::spawn(Driver::new(shared.clone(), None, Some(arrivals)));
    let state = state.clone();
    tokio::spawn(async move {
        end.come().await;
        let now = state.now();
        {
            let mut admission = state.admission();
            admission.sessions.remove(&name);
            admission.acceptor.ended(name, now);
        }
        state.close_if_unused();
    });
    Session { shared: Handle::new(shared) }
}

/// Forgets ended sessions and late unauthenticated peers, once a second.
async fn sweep(state: Arc<State>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        let now = state.now();
        let mut admission = state.admission();
        let is_confirmed = |id: &SessionId| {
            let session = admission
                .sessions
                .get(id)
                .and_then(|(_, session)| session.upgrade());
            session.is_some_and(|session| session.lock().session.is_confirmed())
        };
        let confirmed: Vec<SessionId> = admission.acceptor.unconfirmed().filter(is_confirmed).collect();
        confirmed
            .into_iter()
            .for_each(|id| admission.acceptor.confirmed(id));
        admission.acceptor.sweep(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_places_of_its_own() {
        let gates = Gates::new(Shares::new(8));
        let all = ["tcp", "quic", "sctp", "mtp-tcp"]
            .map(|transport| std::ptr::from_ref(gates.for_transport(transport)));
        assert!((0..all.len()).all(|one| !all[..one].contains(&all[one])));
        assert_eq!(all.len(), TRANSPORTS);
        assert!(
            std::ptr::eq(gates.for_transport("mptcp"), gates.for_transport("tcp"))
                && std::ptr::eq(gates.for_transport("mtp-x"), all[3])
        );
    }
}
