//! Sessions that this side begins.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_carriers::Carrier;
use hawser_carriers::mtp::{MtpOptions, MtpStack};
use hawser_carriers::quic::{QuicEndpoint, QuicOptions};
use hawser_carriers::sctp::{SctpOptions, SctpStack};
use hawser_carriers::tcp::{SMALL_SEGMENT, TcpOptions};
use hawser_carriers::tls::TlsClient;
use hawser_session_machine::scheduler::Scheduler;
use hawser_session_machine::{Candidate, Config, Security};
use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};
use rustls::pki_types::ServerName;

use super::driver::{CarrierRequest, Connector, Driver};
use super::error::{CandidateError, CandidateFault, ConnectError};
use super::handle::Session;
use super::shared::{Fallback, Handle, Shared};

/// A way to reach the server: a transport, an address, an interface.
#[derive(Clone, Debug)]
pub enum PathCandidate {
    /// TCP, with TLS unless the session is insecure; MPTCP if its options say so.
    Tcp {
        /// The server's address.
        peer: SocketAddr,
        /// This side's address, if it is fixed.
        local: Option<SocketAddr>,
        /// The options of the socket.
        options: TcpOptions,
    },
    /// QUIC.
    Quic {
        /// The server's address.
        peer: SocketAddr,
        /// This side's address, if it is fixed.
        local: Option<SocketAddr>,
        /// The options of the connection.
        options: QuicOptions,
    },
    /// A transport written in MTP, with TLS unless the session is insecure.
    Mtp {
        /// The server's address.
        peer: SocketAddr,
        /// The program on its device.
        stack: MtpStack,
        /// The options of the connection.
        options: MtpOptions,
    },
    /// SCTP over all paths at once; only for insecure sessions.
    Sctp {
        /// All addresses of the server, with the same port.
        peers: Vec<SocketAddr>,
        /// The options of the association.
        options: SctpOptions,
    },
}

/// The configuration of a client's session.
#[derive(Debug)]
pub struct ClientConfig {
    /// The session's configuration. Its candidates are taken from `candidates`.
    pub session: Config,
    /// The client's own id of the session until the server assigns one. If `None`, 128 random bits.
    pub name: Option<[u8; 16]>,
    /// The scheduler, which chooses the carrier of each segment.
    pub scheduler: Box<dyn Scheduler>,
    /// Path candidates, best first, each with its properties for the session.
    pub candidates: Vec<(PathCandidate, Candidate)>,
    /// The TLS configuration, and the name that the server's certificate must have.
    pub tls: Option<(Arc<rustls::ClientConfig>, String)>,
}

/// Begins a session. It is usable at once: data written to it is sent when the first carrier is up.
///
/// # Errors
/// No candidate was given, or a secure session has no TLS configuration.
pub fn connect(config: ClientConfig) -> Result<Session, ConnectError> {
    begin(config, Fallback::Refused, false)
}

/// Begins a session, or a plain connection if `fallback` allows it. `awaits` is true if more candidates may
/// be found.
pub(super) fn begin(config: ClientConfig, fallback: Fallback, awaits: bool) -> Result<Session, ConnectError> {
    let ClientConfig { mut session, name, scheduler, candidates, tls } = config;
    if candidates.is_empty() {
        return Err(ConnectError::NoCandidate);
    }
    if session.security == Security::Tls && tls.is_none() {
        return Err(ConnectError::NoTls);
    }
    let tls = match tls {
        Some((config, name)) => {
            let server =
                ServerName::try_from(name.clone()).map_err(|_| ConnectError::ServerName(name.clone()))?;
            Some((TlsClient { config, name: server }, name))
        }
        None => None,
    };
    let (path_candidates, candidates): (Vec<PathCandidate>, Vec<Candidate>) = candidates.into_iter().unzip();
    session.candidates = candidates;
    let epoch = std::time::Instant::now();
    let name = match name {
        Some(name) => name,
        None => {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(ConnectError::Random)?;
            random
        }
    };
    let machine =
        hawser_session_machine::Session::client(session, scheduler, name, Instant::after(epoch.elapsed()));
    let shared = Shared::new(machine, epoch);
    shared.await_candidates(awaits);
    {
        let mut inner = shared.lock();
        inner.candidates = path_candidates;
        inner.fallback = fallback;
        inner.offers = tls
            .as_ref()
            .is_some_and(|(tls, _)| !tls.config.alpn_protocols.is_empty());
    }
    tokio::spawn(Driver::new(shared.clone(), Some(connector(tls)), None));
    Ok(Session { shared: Handle::new(shared) })
}

/// Returns a connector that opens carriers. QUIC connections of one candidate share a socket.
fn connector(tls: Option<(TlsClient, String)>) -> Connector {
    let endpoints: Arc<Endpoints> = Arc::default();
    Box::new(
        move |CarrierRequest { candidate, mut path_candidate, elsewhere, small }| {
            let (mut tls, endpoints) = (tls.clone(), endpoints.clone());
            Box::pin(async move {
                if let Some(elsewhere) = elsewhere {
                    path_candidate = path_candidate.led_to(elsewhere.address);
                    let renamed = tls.map(|tls| named(tls, elsewhere.name)).transpose();
                    tls = renamed.map_err(|error| path_candidate.failed(error.into()))?;
                }
                match &mut path_candidate {
                    PathCandidate::Tcp { options, .. } if small => {
                        options.max_segment.get_or_insert(SMALL_SEGMENT);
                    }
                    PathCandidate::Mtp { options, .. } if small => {
                        options.max_segment.get_or_insert(SMALL_SEGMENT as u16);
                    }
                    _ => {}
                }
                let opened = open_by(&path_candidate, candidate, tls.as_ref(), &endpoints).await;
                opened.map_err(|fault| path_candidate.failed(fault))
            })
        },
    )
}

impl PathCandidate {
    /// Returns the same candidate with another address of the server.
    fn led_to(self, to: SocketAddr) -> Self {
        let fits = |local: &SocketAddr| local.is_ipv4() == to.is_ipv4();
        match self {
            Self::Tcp { local, options, .. } => Self::Tcp { peer: to, local: local.filter(fits), options },
            Self::Quic { local, options, .. } => Self::Quic { peer: to, local: local.filter(fits), options },
            Self::Mtp { stack, options, .. } => Self::Mtp { peer: to, stack, options },
            Self::Sctp { options, .. } => Self::Sctp { peers: vec![to], options },
        }
    }

    /// Wraps a failure with the transport and the interface. The carriers' errors already name the peer.
    fn failed(&self, fault: CandidateFault) -> CandidateError {
        let (transport, interface) = match self {
            Self::Tcp { options, .. } => (
                if options.mptcp { "mptcp" } else { "tcp" },
                options.interface.as_deref(),
            ),
            Self::Quic { options, .. } => ("quic", options.interface.as_deref()),
            Self::Mtp { stack, .. } => (stack.transport(), Some(stack.interface())),
            Self::Sctp { .. } => ("sctp", None),
        };
        CandidateError {
            transport: transport.to_owned(),
            interface: interface.map(str::to_owned),
            fault,
        }
    }
}

/// Returns the same TLS configuration for a server of another name.
fn named((tls, usual): (TlsClient, String), name: String) -> Result<(TlsClient, String), ConnectError> {
    if name.is_empty() {
        return Ok((tls, usual));
    }
    let server = ServerName::try_from(name.clone()).map_err(|_| ConnectError::ServerName(name.clone()))?;
    Ok((TlsClient { name: server, ..tls }, name))
}

/// QUIC sockets, by candidate and by whether they are IPv4.
#[derive(Default)]
struct Endpoints(Mutex<HashMap<(usize, bool), QuicEndpoint>>);

impl Endpoints {
    fn lock(&self) -> MutexGuard<'_, HashMap<(usize, bool), QuicEndpoint>> {
        self.0.lock()
    }

    /// Takes the socket of a candidate for an attempt. If the attempt fails, or the socket's interface has
    /// gone, the socket is not put back and the next attempt gets a new one. Existing connections keep their
    /// sockets.
    fn take(&self, key: (usize, bool)) -> Option<QuicEndpoint> {
        self.lock().remove(&key).filter(|endpoint| !endpoint.is_stale())
    }

    fn put_back(&self, key: (usize, bool), endpoint: QuicEndpoint) {
        self.lock().insert(key, endpoint);
    }
}

async fn open_by(
    path_candidate: &PathCandidate,
    index: usize,
    tls: Option<&(TlsClient, String)>,
    endpoints: &Endpoints,
) -> Result<Box<dyn Carrier>, CandidateFault> {
    let carrier: Box<dyn Carrier> = match path_candidate {
        PathCandidate::Tcp { peer, local, options } => {
            let tls = tls.map(|(tls, _)| tls);
            Box::new(hawser_carriers::tcp::connect(*peer, *local, options, tls).await?)
        }
        PathCandidate::Quic { peer, local, options } => {
            let Some((tls, name)) = tls else {
                return Err(CandidateFault::NoTls);
            };
            let key = (index, peer.is_ipv4());
            let endpoint = match endpoints.take(key) {
                Some(endpoint) => endpoint,
                None => QuicEndpoint::open(*peer, *local, options.clone())?,
            };
            let carrier = endpoint.connect(*peer, name, tls.config.clone()).await?;
            endpoints.put_back(key, endpoint);
            Box::new(carrier)
        }
        PathCandidate::Mtp { peer, stack, options } => {
            Box::new(stack.connect(*peer, options, tls.map(|(tls, _)| tls)).await?)
        }
        PathCandidate::Sctp { peers, options } => {
            if tls.is_some() {
                return Err(CandidateFault::Insecure);
            }
            Box::new(SctpStack::shared().await?.connect(peers, &[], options).await?)
        }
    };
    Ok(carrier)
}
