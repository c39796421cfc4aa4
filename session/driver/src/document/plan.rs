//! Turns a document's requests into candidates on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use hawser_carriers::mtp::MtpStack;
use hawser_session_machine::Candidate;

use super::{
    ConnectionPriority, Document, DocumentError, EVERY_INTERFACE, Family, Interface, LinkKind, Period,
    Transport,
};
use crate::client::PathCandidate;

/// A property that a document asks for and that is not provided, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Warning {
    /// The property's path in the document.
    pub path: String,
    /// The reason, for people.
    pub message: String,
}

/// The known facts about this machine and the server.
#[derive(Clone, Debug, Default)]
pub struct PlanFacts {
    /// The machine's interfaces.
    pub interfaces: Vec<Interface>,
    /// True if the kernel supports MPTCP.
    pub mptcp: bool,
    /// The options in `tcp_config` that MPTCP sockets do not take.
    pub mptcp_lacks: Vec<&'static str>,
    /// Addresses of the names in the document, in the order in which to try them.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
    /// The interfaces with a route to each address.
    pub routes: BTreeMap<IpAddr, Vec<String>>,
    /// Names of which more addresses may become known. A missing address of such a name causes no warning
    /// yet.
    pub awaited: BTreeSet<String>,
    /// The document's stacks, running.
    pub stacks: Vec<MtpStack>,
}

/// Candidates, best first.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPlan {
    /// Each candidate with its properties for the session.
    pub candidates: Vec<(PathCandidate, Candidate)>,
    /// Properties that are not provided.
    pub warnings: Vec<Warning>,
    /// Paths with a quota.
    pub meters: Vec<MeteredPath>,
}

impl ConnectionPlan {
    fn warn(&mut self, place: &str, message: impl Into<String>) {
        self.warnings
            .push(Warning { path: place.to_owned(), message: message.into() });
    }

    /// Records the quota of a path, as the first of its connections gives it.
    fn meter(&mut self, path: u32, connection: &ConnectionPriority, interface: Option<&str>, place: &str) {
        let is_known = self.meters.iter().any(|meter| meter.path == path);
        if let Some(quota) = connection.quota.filter(|_| !is_known) {
            self.meters.push(MeteredPath {
                path,
                key: interface.unwrap_or("any").to_owned(),
                quota,
                period: connection.period,
                place: format!("{place}.quota"),
            });
        }
    }

    /// Limits the quotas of its paths to these values.
    pub(crate) fn limit(&mut self, limits: &BTreeMap<u32, u64>) {
        for (_, candidate) in &mut self.candidates {
            candidate.quota = limits.get(&candidate.path).copied().or(candidate.quota);
        }
    }
}

/// A path with a quota, and the name under which its use is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeteredPath {
    /// The path's number in the session.
    pub path: u32,
    /// Its interface, or `any` if it is not bound to one.
    pub key: String,
    /// The quota, in bytes for each period.
    pub quota: u64,
    /// The period of the quota.
    pub period: Period,
    /// The position of the quota in the document.
    pub place: String,
}

impl Document {
    /// Returns the candidates on `machine`. A candidate on a named interface that is absent is kept, because
    /// the interface may appear and is tried then.
    ///
    /// # Errors
    /// No candidate is left.
    pub fn plan(&self, machine: &PlanFacts) -> Result<ConnectionPlan, DocumentError> {
        let mut plan = ConnectionPlan { warnings: self.unfulfilled.clone(), ..ConnectionPlan::default() };
        let mut paths = Paths::default();
        for (index, connection) in self.connections.iter().enumerate() {
            let place = format!("connection_priority[{index}]");
            self.plan_connection(connection, &place, machine, &mut paths, &mut plan);
        }
        if plan.candidates.is_empty() {
            let why: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
            let message = format!("{} has no candidate left: {}", self.host, why.join("; "));
            return Err(DocumentError { path: "connection_priority".into(), message, hint: None });
        }
        Ok(plan)
    }

    /// Adds the candidates of one connection, which is at `place` in the document, to a plan.
    fn plan_connection(
        &self,
        connection: &ConnectionPriority,
        place: &str,
        machine: &PlanFacts,
        paths: &mut Paths,
        plan: &mut ConnectionPlan,
    ) {
        if connection.transport == Transport::Mptcp && !machine.mptcp {
            plan.warn(place, "this kernel has no MPTCP; TCP is used");
        }
        if connection.transport == Transport::Mptcp && machine.mptcp {
            for option in &machine.mptcp_lacks {
                let message = format!(
                    "MPTCP in this kernel does not support `tcp_config.{option}`; the \
                                       option is not set"
                );
                plan.warn(place, message);
            }
        }
        if connection.transport == Transport::Sctp && self.is_secure() {
            return plan.warn(place, "SCTP has no security, but the session requires it");
        }
        if connection.transport == Transport::Sctp && !connection.interfaces.is_empty() {
            let message = "SCTP uses every interface that leads to an address of the server";
            plan.warn(place, message);
        }
        let interfaces = self.interfaces_of(connection, place, machine, plan);
        let peers = self.peers_of(connection, place, machine, plan);
        // MPTCP and SCTP use one connection over all interfaces, and choose among them.
        let is_one = matches!(connection.transport, Transport::Mptcp | Transport::Sctp);
        let each = if is_one { interfaces.len() } else { 1 };
        for used in interfaces.chunks(each.max(1)) {
            let path = paths.number(connection.path, used);
            plan.meter(path, connection, used[0].as_deref(), place);
            let candidate = Candidate {
                path,
                backup: connection.backup,
                weight: connection.weight,
                cost: connection.cost,
                quota: connection.quota,
            };
            let bound = match connection.transport {
                Transport::Mptcp if used.len() > 1 => None,
                _ => used[0].clone(),
            };
            // One association uses all addresses of the server.
            let each = match connection.transport {
                Transport::Sctp => peers.len(),
                _ => 1,
            };
            let leads = |peer: &SocketAddr| !is_every(connection) || machine.leads(peer, bound.as_deref());
            for peers in peers.chunks(each.max(1)).filter(|peers| peers.iter().any(leads)) {
                let path_candidate = self.candidate(connection, peers, bound.clone(), machine);
                plan.candidates
                    .extend(path_candidate.map(|path_candidate| (path_candidate, candidate.clone())));
            }
        }
    }

    /// Returns the interfaces that a connection may use: all that it names, or those of them on which a stack
    /// runs its program.
    fn interfaces_of(
        &self,
        connection: &ConnectionPriority,
        place: &str,
        machine: &PlanFacts,
        plan: &mut ConnectionPlan,
    ) -> Vec<Option<String>> {
        let (interfaces, missing) = self.resolve(connection, machine);
        for message in missing {
            plan.warn(place, message);
        }
        let Transport::Mtp(program) = &connection.transport else {
            return interfaces;
        };
        let interfaces = stacks(program, &interfaces, machine);
        if interfaces.is_empty() {
            let message = format!(
                "no stack runs {program:?} on this interface; give its device and address in \
                 `mtp_config.stacks`"
            );
            plan.warn(place, message);
        }
        interfaces
    }

    /// Returns the addresses that a connection may use.
    fn peers_of(
        &self,
        connection: &ConnectionPriority,
        place: &str,
        machine: &PlanFacts,
        plan: &mut ConnectionPlan,
    ) -> Vec<SocketAddr> {
        let (host, port) = self.place(connection);
        let peers = peers(&host, port, connection.family, machine);
        if peers.is_empty() && !machine.awaited.contains(&host) {
            let family = match connection.family {
                Family::Any => "",
                Family::V4 => "IPv4 ",
                Family::V6 => "IPv6 ",
            };
            plan.warn(place, format!("{host} has no {family}address"));
        }
        peers
    }

    /// Returns the interfaces that a connection names, and the words that match none. `None` stands for the
    /// system's choice.
    fn resolve(
        &self,
        connection: &ConnectionPriority,
        machine: &PlanFacts,
    ) -> (Vec<Option<String>>, Vec<String>) {
        if connection.interfaces.is_empty() {
            return (vec![None], Vec::new());
        }
        if is_every(connection) {
            let leads = |name: &str| machine.routes.values().flatten().any(|other| other == name);
            let names = machine.interfaces.iter().map(|interface| interface.name.clone());
            let names: Vec<_> = names.filter(|name| leads(name)).map(Some).collect();
            return match names.len() {
                0 | 1 => (vec![None], Vec::new()),
                _ => (names, Vec::new()),
            };
        }
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for word in &connection.interfaces {
            let known = |name: &str| machine.interfaces.iter().any(|interface| interface.name == name);
            let names: Vec<String> = match (self.interfaces.get(word), LinkKind::of_word(word)) {
                (Some(name), _) => vec![name.clone()],
                (None, _) if known(word) => vec![word.clone()],
                (None, Some(kind)) => {
                    let of_kind = machine
                        .interfaces
                        .iter()
                        .filter(|interface| interface.kind == kind);
                    of_kind.map(|interface| interface.name.clone()).collect()
                }
                (None, None) => vec![word.clone()],
            };
            if names.is_empty() {
                missing.push(format!(
                    "no interface is of the kind {word:?}; name one in `interfaces`"
                ));
            }
            for name in names {
                if !known(&name) {
                    missing.push(format!(
                        "the interface {name:?} does not exist now; it is tried when it appears"
                    ));
                }
                if !found.contains(&Some(name.clone())) {
                    found.push(Some(name));
                }
            }
        }
        (found, missing)
    }

    /// Returns the name or address that a connection goes to, and the port.
    fn place(&self, connection: &ConnectionPriority) -> (String, u16) {
        match &connection.address {
            Some(text) => super::read::host(text, "address").unwrap_or((text.clone(), self.port)),
            None => (self.host.clone(), self.port),
        }
    }

    /// Returns the names whose addresses [`PlanFacts::addresses`] should hold.
    pub fn names(&self) -> BTreeSet<String> {
        self.connections
            .iter()
            .map(|connection| self.place(connection).0)
            .collect()
    }

    /// Returns the candidate for `peers`, which holds one address, or several for SCTP. `None` if there is no
    /// such stack.
    fn candidate(
        &self,
        connection: &ConnectionPriority,
        peers: &[SocketAddr],
        interface: Option<String>,
        machine: &PlanFacts,
    ) -> Option<PathCandidate> {
        let peer = peers[0];
        Some(match &connection.transport {
            Transport::Sctp => PathCandidate::Sctp { peers: peers.into(), options: self.sctp.clone() },
            Transport::Quic => {
                let options = hawser_carriers::quic::QuicOptions { interface, ..self.quic.clone() };
                PathCandidate::Quic { peer, local: None, options }
            }
            Transport::Mtp(program) => {
                let fits = |stack: &&MtpStack| {
                    runs(stack, program) && Some(stack.interface()) == interface.as_deref()
                };
                let stack = machine.stacks.iter().find(fits)?.clone();
                PathCandidate::Mtp { peer, stack, options: self.mtp.clone() }
            }
            transport @ (Transport::Tcp | Transport::Mptcp) => {
                let mptcp = *transport == Transport::Mptcp;
                let options = hawser_carriers::tcp::TcpOptions { interface, mptcp, ..self.tcp.clone() };
                PathCandidate::Tcp { peer, local: None, options }
            }
        })
    }
}

impl PlanFacts {
    /// Returns true if a route leads to the peer over this interface. `None` stands for the system's choice.
    fn leads(&self, peer: &SocketAddr, interface: Option<&str>) -> bool {
        interface.is_none_or(|name| {
            let routes = self.routes.get(&peer.ip());
            routes.is_some_and(|names| names.iter().any(|other| other == name))
        })
    }
}

/// Returns true if the connection uses every interface that has a route to the server.
fn is_every(connection: &ConnectionPriority) -> bool {
    connection.interfaces.iter().any(|word| word == EVERY_INTERFACE)
}

fn runs(stack: &MtpStack, program: &str) -> bool {
    stack.transport().strip_prefix("mtp-") == Some(program)
}

/// Returns those of the wanted interfaces on which a stack runs the program. `None` stands for any.
fn stacks(program: &str, wanted: &[Option<String>], machine: &PlanFacts) -> Vec<Option<String>> {
    let names = machine
        .stacks
        .iter()
        .filter(|stack| runs(stack, program))
        .map(|stack| stack.interface().to_owned());
    names
        .map(Some)
        .filter(|name| wanted.contains(&None) || wanted.contains(name))
        .collect()
}

fn peers(host: &str, port: u16, family: Family, machine: &PlanFacts) -> Vec<SocketAddr> {
    let fits = |address: &&IpAddr| match family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let known = machine.addresses.get(host).into_iter().flatten();
    known
        .filter(fits)
        .map(|address| SocketAddr::new(*address, port))
        .collect()
}

/// Groups connections that are alternatives: those with the same number, otherwise those that share an
/// interface.
#[derive(Default)]
struct Paths {
    known: Vec<(u32, Option<u32>, Vec<Option<String>>)>,
}

impl Paths {
    fn number(&mut self, given: Option<u32>, interfaces: &[Option<String>]) -> u32 {
        let alike = |(_, number, used): &&mut (u32, Option<u32>, Vec<Option<String>>)| match (given, *number)
        {
            (None, None) => interfaces.iter().any(|interface| used.contains(interface)),
            (given, number) => given == number,
        };
        if let Some((path, _, used)) = self.known.iter_mut().find(alike) {
            used.extend_from_slice(interfaces);
            return *path;
        }
        let path = self.known.len() as u32;
        self.known.push((path, given, interfaces.to_vec()));
        path
    }
}
