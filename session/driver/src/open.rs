//! Opens the session of a document: names, interfaces, certificates, the path manager.

use std::panic::resume_unwind;
use std::sync::Arc;

use hawser_session_machine::Config;
use hawser_session_machine::scheduler::by_name;
use tokio::sync::Notify;

use super::client::{ClientConfig, begin};
use super::document::{Document, MeteredPath, PlanFacts, Stack, StatePlace, Tls, Transport, Warning};
use super::handle::Session;
use super::names::{ConfigReader, NameQueries};
use super::network::{Network, speaks_mptcp};
use super::open_error::OpenError;
use super::plain::Connection;
use super::quota_reservation::QuotaReservation;
use super::shared::{EndWatcher, Fallback, Quotas};
use super::state::{StateError, StateFile};
use super::trust::Trust;
use crate::network_identity;

/// Begins the session that the document asks for, and accepts nothing less. It is usable at once. Properties
/// that this machine cannot provide are reported.
///
/// # Errors
/// The server's name has no address, no candidate is left, the certificates cannot be read, or the state file
/// is damaged.
pub async fn open(document: &Document) -> Result<(Session, Vec<Warning>), OpenError> {
    let mut begun = begin_by(document, &[]).await?;
    if !document.fallback.is_empty() {
        let message = "a session was requested; a plain connection is not accepted".into();
        begun.warnings.push(Warning { path: "fallback".into(), message });
    }
    Ok((begun.session, begun.warnings))
}

/// Begins the session that the document asks for. If its `fallback` names a protocol that the server chooses
/// instead (ALPN), returns the one carrier on which it did. Waits until one carrier is up, because that
/// decides.
///
/// If a server was seen to speak Hawser in the last thirty days, only Hawser is offered, regardless of
/// `fallback`.
///
/// # Errors
/// As [`open`], or no carrier came up.
pub async fn open_any(document: &Document) -> Result<(Connection, Vec<Warning>), OpenError> {
    if document.fallback.is_empty() {
        let OpenedSession { session, warnings, .. } = begin_by(document, &[]).await?;
        return Ok((Connection::Session(session), warnings));
    }
    let peer = format!("{}:{}", document.host.to_ascii_lowercase(), document.port);
    let memory = state_of(document);
    let is_known = memory
        .as_ref()
        .map_or(Ok(false), |memory| memory.speaks_hawser(&peer))?;
    let offered: &[String] = if is_known { &[] } else { &document.fallback };
    let OpenedSession { session, mut warnings, has_meters } = begin_by(document, offered).await?;
    if let (true, Some(memory)) = (is_known, &memory) {
        session.shared.lock().hint = Some(format!(
            "{peer} spoke Hawser before, so a plain connection is not accepted; {} records it",
            memory.path().display()
        ));
    }
    let mut warn = |message: String| warnings.push(Warning { path: "fallback".into(), message });
    let connection = match session.decided().await? {
        None => {
            if let Some(memory) = memory {
                let seen = peer.clone();
                if let Err(error) = apart(move || memory.saw(&seen)).await {
                    warn(format!("cannot record that {peer} speaks Hawser: {error}"));
                }
            }
            Connection::Session(session)
        }
        Some(stream) => {
            let (protocol, transport) = (stream.protocol(), stream.description().transport);
            let uncounted = if has_meters { ", and no quota" } else { "" };
            warn(format!(
                "{peer} speaks {protocol}, not Hawser: one {transport} connection is used, with no other \
                 path{uncounted}"
            ));
            Connection::Plain(stream)
        }
    };
    Ok((connection, warnings))
}

struct OpenedSession {
    session: Session,
    warnings: Vec<Warning>,
    has_meters: bool,
}

/// `offered` holds the protocols under which a server that does not speak Hawser is accepted.
async fn begin_by(document: &Document, offered: &[String]) -> Result<OpenedSession, OpenError> {
    begin_with(document, offered, hawser_race::resolve::Config::system).await
}

/// `source` reads the resolver's configuration.
async fn begin_with(
    document: &Document,
    offered: &[String],
    source: ConfigReader,
) -> Result<OpenedSession, OpenError> {
    // This comes first, because a device that is created here is one of the interfaces.
    let stacks = document
        .stacks
        .iter()
        .map(Stack::start)
        .collect::<Result<Vec<_>, _>>()?;
    let network = Network::open().await.map_err(OpenError::Interfaces)?;
    let machine = PlanFacts {
        interfaces: network.interfaces(),
        mptcp: speaks_mptcp(),
        mptcp_lacks: lacks_of_mptcp(document),
        stacks,
        ..PlanFacts::default()
    };
    let mut names = NameQueries::ask(document, machine, source)?;
    let mut plan = names.plan().await?;
    let mut warnings = std::mem::take(&mut plan.warnings);
    let tls = match document.is_secure() {
        true => Some((trust(document).client(offered)?, name(document))),
        false => None,
    };
    let scheduler =
        by_name(&document.scheduler).ok_or_else(|| OpenError::Scheduler(document.scheduler.clone()))?;
    let has_meters = !plan.meters.is_empty();
    let mut ledger = ledger(document, std::mem::take(&mut plan.meters), &mut warnings).await?;
    let limits = ledger
        .as_mut()
        .map_or_else(Quotas::new, |ledger| ledger.limits(&mut warnings));
    plan.limit(&limits);
    let candidates = plan.candidates;
    if candidates.iter().all(|(_, candidate)| candidate.quota == Some(0)) {
        return Err(OpenError::QuotaSpent { warnings });
    }
    let place = network_identity::name(&network);
    let known = known_small(document, &place, &mut warnings)
        .await
        .then_some(place);
    let session = Config { small_packets: known.is_some(), ..document.session.clone() };
    let config = ClientConfig { session, name: document.session_id, scheduler, candidates, tls };
    let fallback = if offered.is_empty() {
        Fallback::Refused
    } else {
        Fallback::Open
    };
    let session = begin(config, fallback, names.is_asking())?;
    let mut inner = session.shared.lock();
    let weak = || Arc::downgrade(&session.shared);
    tokio::spawn(super::manager::watch(weak(), inner.end(), network));
    tokio::spawn(names.follow(weak(), inner.end(), inner.is_stalled.subscribe(), limits));
    inner.trusts_authorities = document.is_secure() && document.tls == Tls::default();
    if let Some(memory) = state_of(document) {
        tokio::spawn(remember_small(
            inner.kept_small.clone(),
            inner.end(),
            memory,
            known,
        ));
    }
    if let Some(mut ledger) = ledger {
        inner.settled = Some(ledger.serve(weak(), inner.end()));
        tokio::spawn(super::quota_reservation::keep(ledger, weak(), inner.end()));
    }
    drop(inner);
    Ok(OpenedSession { session, warnings, has_meters })
}

/// Returns the TCP options that the document sets and MPTCP sockets do not take.
fn lacks_of_mptcp(document: &Document) -> Vec<&'static str> {
    let mut connections = document.connections.iter();
    match connections.any(|connection| connection.transport == Transport::Mptcp) {
        true => hawser_carriers::tcp::lacks_of_mptcp(&document.tcp),
        false => Vec::new(),
    }
}

/// Returns the file for state that outlives the session.
fn state_of(document: &Document) -> Option<StateFile> {
    match &document.state {
        StatePlace::Usual => StateFile::usual(),
        StatePlace::File(path) => Some(StateFile::at(path.clone())),
        StatePlace::Nowhere => None,
    }
}

/// Returns true if long packets are known to be lost on this network.
async fn known_small(document: &Document, network: &Arc<str>, warnings: &mut Vec<Warning>) -> bool {
    let Some(memory) = state_of(document) else {
        return false;
    };
    let network = network.clone();
    apart(move || memory.loses_long_packets(&network))
        .await
        .unwrap_or_else(|error| {
            let message = format!("the knowledge of this network is not used: {error}");
            warnings.push(Warning { path: "state".into(), message });
            false
        })
}

/// Records networks on which a carrier had to keep to small packets. The network that was already known is
/// left out, so that its record expires and long packets are tried again.
async fn remember_small(
    kept_small: Arc<Notify>,
    mut end: EndWatcher,
    memory: StateFile,
    known: Option<Arc<str>>,
) {
    loop {
        tokio::select! {
            () = end.come() => return,
            () = kept_small.notified() => {}
        }
        let Ok(network) = Network::open().await else {
            continue;
        };
        let (place, memory) = (network_identity::name(&network), memory.clone());
        if known.as_ref() != Some(&place) {
            // If the record cannot be written, the loss is discovered again.
            let _ = apart(move || memory.lost_long_packets(&place)).await;
        }
    }
}

/// Runs work that may block on a thread where it holds up no other task.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, StateError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(StateError::Interrupted),
    }
}

/// Opens the accounts of metered paths. If the default place cannot be written, this is a warning; if the
/// document names the place, it is an error. A damaged file is always an error.
async fn ledger(
    document: &Document,
    meters: Vec<MeteredPath>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<QuotaReservation>, StateError> {
    if meters.is_empty() || document.state == StatePlace::Nowhere {
        return Ok(None);
    }
    let opened = match state_of(document) {
        Some(file) => apart(move || QuotaReservation::open(file, meters)).await,
        None => Err(StateError::NoPlace),
    };
    match opened {
        Ok(ledger) => Ok(Some(ledger)),
        Err(error @ StateError::Damaged { .. }) => Err(error),
        Err(error) if document.state == StatePlace::Usual => {
            let message = format!("cannot save the use of quotas: {error}");
            warnings.push(Warning { path: "state".into(), message });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn trust(document: &Document) -> Trust {
    match (&document.tls.pin, &document.tls.certificate) {
        (Some(pin), _) => Trust::Pin(*pin),
        (None, Some(path)) => Trust::File(path.clone()),
        (None, None) => Trust::System,
    }
}

fn name(document: &Document) -> String {
    document.tls.name.clone().unwrap_or_else(|| document.host.clone())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    use hawser_carriers::tcp::TcpOptions;
    use hawser_session_machine::AcceptorConfig;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::{Server, ServerConfig};

    static HAS_MOVED: AtomicBool = AtomicBool::new(false);

    fn hosts() -> Result<hawser_race::resolve::Config, hawser_race::resolve::ConfigError> {
        let address = if HAS_MOVED.load(Relaxed) {
            "127.0.0.2"
        } else {
            "127.0.0.1"
        };
        hawser_race::resolve::Config::parse("nameserver 127.0.0.9", &format!("{address} moves.example"))
    }

    /// Forwards connections to the server until it is aborted.
    async fn forward(listener: TcpListener, to: SocketAddr) {
        let mut passing = tokio::task::JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            passing.spawn(async move {
                let mut far = TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_name_is_resolved_again_when_no_path_leads_to_the_server() {
        let server = Server::open(ServerConfig {
            acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
            tcp: vec![("127.0.0.2:0".parse().unwrap(), TcpOptions::default())],
            ..ServerConfig::default()
        })
        .unwrap();
        let there = server.addresses()[0].1;
        let here = TcpListener::bind(("127.0.0.1", there.port())).await.unwrap();
        let forwarder = tokio::spawn(forward(here, there));
        let mut document = Document::new(&format!("moves.example:{}", there.port())).unwrap();
        document.without_tls().unwrap();
        document.state = StatePlace::Nowhere;
        let session = begin_with(&document, &[], hosts).await.unwrap().session;
        session.opened().await.unwrap();
        let accepted = server.accept().await.unwrap();
        HAS_MOVED.store(true, Relaxed);
        forwarder.abort();
        let mut stream = session.open().unwrap();
        stream
            .write_bytes(bytes::Bytes::from_static(b"still there"))
            .await
            .unwrap();
        let came = async { accepted.accept().await.unwrap().read_bytes().await.unwrap() };
        let came = tokio::time::timeout(Duration::from_secs(15), came).await;
        assert_eq!(came.expect("the server's new address is found"), "still there");
    }
}
