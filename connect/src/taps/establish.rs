//! Establishment: from a plan to a stream (RFC 9622, 7.1; RFC 9623, 4).
//!
//! Invariants: a contradictory plan fails before any packet is sent. Candidates that race at the same time
//! are equally secure. A stream is established only with its security.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::candidates::{RankedTransport, fulfilling, is_secure_enough, paths, unknown};
use super::plan::ConnectionPlan;
use super::property::Property;
use super::security::Mode;
use super::{EstablishmentError, LocalEndpoint, RemoteEndpoint, log};
use crate::transports::{Selection, transports_for};
use crate::{ConnectError, Destination, Duplex, Profile, Racer, Request, Transport};
use hawser_race::resolve::{Config, Lookup, Resolver};
use hawser_race::{Failure, Security};
use hawser_session::Network;

/// The maximum number of remote endpoints of one Preconnection that are tried.
const MAX_REMOTES: usize = 16;
/// The time that one remote endpoint has before the next is tried as well (RFC 8305, 5).
const NEXT: Duration = Duration::from_millis(250);
/// The time limit of one round of candidates.
const DEADLINE: Duration = Duration::from_secs(30);

/// Fails if the plan cannot be fulfilled, whatever the peer does.
pub(super) fn check(plan: &ConnectionPlan) -> Result<(), EstablishmentError> {
    unknown(plan)?;
    if plan.remotes.is_empty() {
        return Err(EstablishmentError::Endpoint(
            "a Connection needs a remote endpoint".into(),
        ));
    }
    for remote in plan.remotes.iter().take(MAX_REMOTES) {
        let destination = destination(remote)?;
        // A round with more protection is skipped if it has no candidates.
        if let Some(min_security) = rounds(plan).last() {
            secured(plan, &selection(plan, remote, &destination)?, *min_security)?;
        }
    }
    for local in &plan.locals {
        if local.port.is_some_and(|port| port != 0) || local.service.is_some() {
            let why = "an initiated Connection cannot choose its local port: leave it to the system";
            return Err(EstablishmentError::Endpoint(why.into()));
        }
    }
    Ok(())
}

/// Connects a stream, by the candidate that wins.
pub(super) async fn connect(plan: &Arc<ConnectionPlan>) -> Result<Box<dyn Duplex>, EstablishmentError> {
    let racer = plan.racer.get_or_try_init(Racer::open).await;
    let racer = racer
        .map_err(|error| EstablishmentError::System(error.to_string()))?
        .clone();
    let interfaces = interfaces(plan).await?;
    let rounds = rounds(plan);
    let last = rounds.len().saturating_sub(1);
    let mut remotes: Vec<RemoteEndpoint> = plan.remotes.iter().take(MAX_REMOTES).cloned().collect();
    let mut result = Err(EstablishmentError::Endpoint(
        "the remote endpoint is missing".into(),
    ));
    for (place, min_security) in rounds.into_iter().enumerate() {
        let deadline = if place < last { DEADLINE / 3 } else { DEADLINE };
        let one = Round { min_security, deadline };
        match round(plan, &racer, &interfaces, &remotes, one).await {
            Ok(stream) => return Ok(stream),
            Err(failed) => {
                // An endpoint that speaks TLS, whatever its fault, is never connected to without protection.
                remotes.retain(|remote| !failed.secure.contains(remote));
                result = Err(failed.error);
            }
        }
        if remotes.is_empty() {
            break;
        }
        if let Err(error) = &result
            && place < last
        {
            log::unprotected(error);
        }
    }
    result
}

/// The result of a round without a winner.
struct Failed {
    /// The first error.
    error: EstablishmentError,
    /// The endpoints at which a candidate failed because of its security.
    secure: Vec<RemoteEndpoint>,
}

/// A round of equally secure candidates.
#[derive(Clone, Copy)]
struct Round {
    /// The minimum protection of each candidate.
    min_security: Security,
    /// The time limit of each remote endpoint.
    deadline: Duration,
}

/// Tries all remote endpoints, starting one after the other and running them concurrently.
async fn round(
    plan: &Arc<ConnectionPlan>,
    racer: &Racer,
    interfaces: &Interfaces,
    remotes: &[RemoteEndpoint],
    round: Round,
) -> Result<Box<dyn Duplex>, Failed> {
    let mut tasks: JoinSet<Result<Box<dyn Duplex>, Failed>> = JoinSet::new();
    let mut left = remotes.iter();
    let (mut first_error, mut secure) = (None, Vec::new());
    loop {
        if let Some(remote) = left.next() {
            let (plan, racer, remote) = (Arc::clone(plan), racer.clone(), remote.clone());
            let interfaces = interfaces.clone();
            tasks.spawn(async move { to_remote(&plan, &racer, &remote, &interfaces, round).await });
        }
        // The next endpoint is tried after a failure, or after some time.
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(failed))) => {
                    secure.extend(failed.secure);
                    _ = first_error.get_or_insert(failed.error);
                }
                Some(Err(error)) => {
                    _ = first_error.get_or_insert(EstablishmentError::System(error.to_string()));
                }
                None => {
                    let none = || EstablishmentError::Endpoint("the remote endpoint is missing".into());
                    return Err(Failed {
                        error: first_error.unwrap_or_else(none),
                        secure,
                    });
                }
            },
            () = tokio::time::sleep(NEXT), if left.len() > 0 => {}
        }
    }
}

/// The interfaces of this host, as far as the plan depends on them.
#[derive(Clone, Debug, Default)]
struct Interfaces {
    /// The interfaces that are up, with the name of their type.
    up: Vec<(String, &'static str)>,
    /// The interfaces that several paths may use.
    several: Vec<String>,
    /// The interface that a local address belongs to.
    bound: Option<String>,
}

async fn interfaces(plan: &ConnectionPlan) -> Result<Interfaces, EstablishmentError> {
    let is_multipath = plan.properties.word(Property::Multipath, plan.action) != "Disabled";
    let local = plan.locals.iter().find_map(|local| local.address);
    let chooses = !plan.properties.preferences(Property::Interface).is_empty();
    if !is_multipath && local.is_none() && !chooses {
        return Ok(Interfaces::default());
    }
    let network = Network::open()
        .await
        .map_err(|error| EstablishmentError::System(error.to_string()))?;
    let up: Vec<_> = network
        .interfaces()
        .into_iter()
        .filter(|interface| interface.is_up)
        .collect();
    let bound = match local {
        None => None,
        Some(local) => Some(network.holder(local).map(str::to_owned).ok_or_else(|| {
            EstablishmentError::Endpoint(format!("no interface of this host has the address {local}"))
        })?),
    };
    let several = up
        .iter()
        .map(|interface| interface.name.clone())
        .filter(|name| name != "lo")
        .collect();
    let up = up
        .into_iter()
        .map(|interface| (interface.name, type_of(interface.kind)))
        .collect();
    Ok(Interfaces { up, several, bound })
}

/// Returns the name of an interface's type (RFC 9622, 6.2.11).
fn type_of(kind: hawser_session::document::LinkKind) -> &'static str {
    use hawser_session::document::LinkKind as Of;
    match kind {
        Of::Ethernet => "Wired Ethernet",
        Of::Wifi => "Wi-Fi",
        Of::Cellular => "Cellular",
        Of::Loopback => "Loopback",
        Of::Other => "Other",
    }
}

async fn to_remote(
    plan: &ConnectionPlan,
    racer: &Racer,
    remote: &RemoteEndpoint,
    interfaces: &Interfaces,
    round: Round,
) -> Result<Box<dyn Duplex>, Failed> {
    let destination = destination(remote)?;
    let paths = match &interfaces.bound {
        Some(bound) => vec![Some(bound.clone())],
        None => paths(plan, &interfaces.up)?,
    };
    let selection = Selection {
        interfaces: interfaces.several.clone(),
        ..selection(plan, remote, &destination)?
    };
    let transports = ranked(plan, &selection, round.min_security, &paths, remote)?;
    let request = Request {
        transports: transports.into(),
        profile: Profile::RFC8305,
        security: round.min_security,
        deadline: round.deadline,
        ..Request::to(destination)
    };
    racer
        .connect(request)
        .await
        .map(|connected| connected.stream)
        .map_err(|error| {
            let mut failures = error.candidates.iter().map(|(_, error)| error.failure);
            let speaks_tls = failures.any(|failure| failure == Failure::Security);
            Failed {
                error: unreachable(&error),
                secure: speaks_tls.then(|| remote.clone()).into_iter().collect(),
            }
        })
}

impl From<EstablishmentError> for Failed {
    fn from(error: EstablishmentError) -> Self {
        Failed { error, secure: Vec::new() }
    }
}

/// Combines every path with every transport, paths first.
fn ranked(
    plan: &ConnectionPlan,
    selection: &Selection,
    min_security: Security,
    paths: &[Option<String>],
    remote: &RemoteEndpoint,
) -> Result<Vec<Arc<dyn Transport>>, EstablishmentError> {
    let mut all: Vec<Arc<dyn Transport>> = Vec::new();
    for path in paths {
        let selection = Selection { interface: path.clone(), ..selection.clone() };
        for transport in secured(plan, &selection, min_security)? {
            let priority = u16::try_from(all.len()).unwrap_or(u16::MAX);
            all.push(Arc::new(RankedTransport {
                transport,
                priority,
                protocol: remote.protocol.clone(),
            }));
        }
    }
    Ok(all)
}

/// Returns the minimum protection of each round: one round, or for opportunistic security one with protection
/// and one without. The unprotected round begins only after the protected one has failed.
fn rounds(plan: &ConnectionPlan) -> Vec<Security> {
    let min_security = plan.security.min_security();
    match plan.security.mode {
        Mode::Required | Mode::Disabled => vec![min_security],
        Mode::Opportunistic => vec![min_security, Security::None],
    }
}

/// Returns the transports that fulfil the required properties with exactly this protection.
fn secured(
    plan: &ConnectionPlan,
    selection: &Selection,
    min_security: Security,
) -> Result<Vec<Arc<dyn Transport>>, EstablishmentError> {
    let trust = if min_security == Security::None {
        None
    } else {
        Some(plan.security.trust.clone())
    };
    let selection = Selection { trust, ..selection.clone() };
    let transports =
        transports_for(&selection).map_err(|error| EstablishmentError::Security(error.to_string()))?;
    let is_alike = |transport: &Arc<dyn Transport>| is_secure_enough(&transport.features(), min_security);
    let transports: Vec<_> = transports.into_iter().filter(is_alike).collect();
    if transports.is_empty() {
        return Err(EstablishmentError::Security(
            "no transport provides the requested protection".into(),
        ));
    }
    fulfilling(transports, plan)
}

fn selection(
    plan: &ConnectionPlan,
    remote: &RemoteEndpoint,
    destination: &Destination,
) -> Result<Selection, EstablishmentError> {
    let named = plan.security.server_name.clone();
    let host = remote
        .host_name
        .clone()
        .unwrap_or_else(|| destination.host().to_owned());
    let multipath = plan.properties.word(Property::Multipath, plan.action);
    Ok(Selection {
        name: named.unwrap_or(host),
        trust: (plan.security.mode != Mode::Disabled).then(|| plan.security.trust.clone()),
        protocols: plan.security.alpn.clone(),
        is_multipath: multipath != "Disabled",
        is_multistreamed: plan.properties.preference(Property::Multistreaming, plan.action)
            == super::Preference::Require,
        policy: plan.properties.word(Property::MultipathPolicy, plan.action),
        interface: None,
        interfaces: Vec::new(),
        stacks: plan.stacks.clone(),
    })
}

fn destination(remote: &RemoteEndpoint) -> Result<Destination, EstablishmentError> {
    let endpoint = |why: String| EstablishmentError::Endpoint(why);
    let host = remote
        .host()
        .ok_or_else(|| endpoint("a remote endpoint needs a host name or an address".into()))?;
    if remote.address.is_some_and(|address| address.is_multicast()) {
        let why = "multicast is not supported: no transport here sends datagrams";
        return Err(endpoint(why.into()));
    }
    if remote.interface.is_some() {
        let why = "the interface of a remote endpoint is not supported: set it at the local endpoint";
        return Err(endpoint(why.into()));
    }
    Destination::new(&host, remote.port()?).map_err(|error| endpoint(error.to_string()))
}

fn unreachable(error: &ConnectError) -> EstablishmentError {
    EstablishmentError::Unreachable { failure: error.failure, why: error.to_string() }
}

/// Resolves a name to its addresses.
pub(super) async fn addresses(name: &str) -> Result<Vec<IpAddr>, EstablishmentError> {
    let failed = |why: String| EstablishmentError::Endpoint(why);
    let config = Config::system().map_err(|error| failed(error.to_string()))?;
    let resolver = Resolver::new(&config).map_err(|error| failed(error.to_string()))?;
    let lookup = Lookup::addresses(name).map_err(|error| failed(error.to_string()))?;
    let mut answers = resolver.lookup(&lookup);
    let (mut found, mut why) = (Vec::new(), None);
    while let Some(answer) = answers.next().await {
        match answer.result {
            Ok(records) => found.extend(records.addresses),
            Err(error) => _ = why.get_or_insert(error.to_string()),
        }
    }
    match (found.is_empty(), why) {
        (false, _) => Ok(found),
        (true, why) => Err(failed(why.unwrap_or_else(|| format!("{name} has no address")))),
    }
}

/// Resolves endpoints to endpoints with addresses.
pub(super) async fn resolve(
    plan: &ConnectionPlan,
) -> Result<(Vec<LocalEndpoint>, Vec<RemoteEndpoint>), EstablishmentError> {
    let mut remotes = Vec::new();
    for remote in plan.remotes.iter().take(MAX_REMOTES) {
        let port = remote.port()?;
        let all = match (remote.address, &remote.host_name) {
            (Some(address), _) => vec![address],
            (None, Some(name)) => addresses(name).await?,
            (None, None) => {
                let why = "a remote endpoint needs a host name or an address";
                return Err(EstablishmentError::Endpoint(why.into()));
            }
        };
        let with = |address| RemoteEndpoint { port: Some(port), ..remote.clone() }.with_ip_address(address);
        remotes.extend(all.into_iter().map(with));
    }
    let network = Network::open()
        .await
        .map_err(|error| EstablishmentError::System(error.to_string()))?;
    let port = plan.locals.iter().find_map(|local| local.port().ok());
    let is_meant = |address: &IpAddr| {
        plan.locals.is_empty()
            || plan.locals.iter().any(|local| {
                local.address.is_none_or(|one| one == *address)
                    && local
                        .interface
                        .as_deref()
                        .is_none_or(|name| network.holder(*address) == Some(name))
            })
    };
    let locals = network
        .addresses()
        .into_iter()
        .filter(is_meant)
        .map(|address| LocalEndpoint {
            port,
            service: None,
            address: Some(address),
            interface: network.holder(address).map(str::to_owned),
        });
    Ok((locals.collect(), remotes))
}
