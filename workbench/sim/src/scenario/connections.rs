//! The ends of a scenario's flows: the hosts, addresses and ports of each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use super::{FlowSpec, HostSelector as Names, Opening, Pairs, Scenario, ScenarioError};

/// The first port of a client whose server's port is shared. It is below the ports that stacks choose by
/// themselves.
const FIRST_CLIENT_PORT: u16 = 20_001;

/// The ends of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowHosts {
    /// Connections, in the order of clients, then of servers.
    Connections(Vec<Connection>),
    /// Hosts that call one another.
    Calls(CallHosts),
}

impl FlowHosts {
    /// Returns its connections; calls have none.
    pub(crate) fn connections(&self) -> &[Connection] {
        match self {
            FlowHosts::Connections(connections) => connections,
            FlowHosts::Calls(_) => &[],
        }
    }
}

/// The hosts of a flow of calls, each with the address of its endpoint. Its size grows with the number of
/// hosts, not of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallHosts {
    /// The calling hosts, each with the address of its endpoint.
    pub callers: Vec<(usize, SocketAddr)>,
    /// The called hosts, each with the address of its endpoint.
    pub servers: Vec<(usize, SocketAddr)>,
    pairs: Pairs,
    /// By caller: its own index among the servers, if it would otherwise call itself.
    own: Vec<Option<usize>>,
}

/// A connection, and those that reopen it from the same port to the same port (`again`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The index of the scenario's flow, counted from 0.
    pub flow: usize,
    /// Its index among the connections of the flow.
    pub number: usize,
    /// The number of earlier connections of the flow between the same two hosts.
    pub place: u64,
    /// The numbers of the client's host and the server's.
    pub hosts: [usize; 2],
    /// The client's address. The port is 0 if the client's stack chooses one.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// The number of connections to the server's address, which share its listener.
    pub sharing: usize,
}

/// The hosts of a scenario by the names that its flows use.
struct HostTable<'a> {
    numbers: BTreeMap<&'a str, usize>,
    addresses: Vec<Vec<IpAddr>>,
}

impl HostTable<'_> {
    fn number(&self, name: &str) -> usize {
        self.numbers.get(name).copied().unwrap_or(0)
    }
}

impl Scenario {
    /// Returns the ends of all flows, in their order.
    ///
    /// # Errors
    /// Returns an error if the hosts of a flow have no addresses of a common family, or if ports run out.
    pub fn ends(&self) -> Result<Vec<FlowHosts>, ScenarioError> {
        let addresses = self.host.iter().enumerate().map(|(number, host)| {
            let addresses = host.parsed_addresses(number)?;
            Ok(addresses.into_iter().map(|(address, _)| address).collect())
        });
        let hosts = HostTable {
            numbers: self.host_numbers(),
            addresses: addresses.collect::<Result<_, ScenarioError>>()?,
        };
        let flows = self.flow.iter().enumerate().zip(self.ports());
        let ends = flows.map(|((flow, of), ports)| {
            let path = format!("flow[{flow}]");
            let none = || ScenarioError::new(format!("{path}.port"), "no port is left");
            let ports = ports.ok_or_else(none)?;
            match of.needs_connections() {
                true => connections((flow, of), &hosts, &ports, &path).map(FlowHosts::Connections),
                false => CallHosts::new(of, &hosts, *ports.start(), &path).map(FlowHosts::Calls),
            }
        });
        let mut ends = ends.collect::<Result<Vec<FlowHosts>, ScenarioError>>()?;
        self.share(&mut ends);
        Ok(ends)
    }

    /// Counts the connections to each address and port, and assigns distinct client ports to those that share
    /// one.
    fn share(&self, ends: &mut [FlowHosts]) {
        let mut sharing = BTreeMap::<SocketAddr, usize>::new();
        for connection in ends.iter().flat_map(FlowHosts::connections) {
            *sharing.entry(connection.server).or_default() += 1;
        }
        let all = ends.iter_mut().flat_map(|ends| match ends {
            FlowHosts::Connections(connections) => connections.iter_mut(),
            FlowHosts::Calls(_) => [].iter_mut(),
        });
        for (index, connection) in all.enumerate() {
            connection.sharing = sharing[&connection.server];
            // Clients of a shared listener are identified by their own addresses.
            let chooses = self.flow[connection.flow].client_port.is_none();
            if connection.sharing > 1 && chooses {
                connection.client.set_port(FIRST_CLIENT_PORT + index as u16);
            }
        }
    }
}

/// Returns the families of addresses that a flow may use, the preferred one first.
fn families(family: Option<u8>) -> &'static [u8] {
    match family {
        Some(6) => &[6],
        Some(_) => &[4],
        None => &[4, 6],
    }
}

/// Returns the client's and the server's address of a flow between two hosts, or `None` if they have no
/// family in common.
fn addresses_of([from, to]: [&[IpAddr]; 2], family: Option<u8>) -> Option<(IpAddr, IpAddr)> {
    let of = |all: &[IpAddr], family: u8| all.iter().copied().find(|a| a.is_ipv4() == (family == 4));
    let mut both = families(family)
        .iter()
        .map(|family| Some((of(from, *family)?, of(to, *family)?)));
    both.find_map(|both| both)
}

/// Returns the connections of a flow.
fn connections(
    (flow, of): (usize, &FlowSpec),
    hosts: &HostTable<'_>,
    ports: &RangeInclusive<u16>,
    path: &str,
) -> Result<Vec<Connection>, ScenarioError> {
    let mut all = Vec::new();
    for (from, to) in of.pairs() {
        let numbers = [from, to].map(|name| hosts.number(name));
        let addresses = numbers.map(|host| &hosts.addresses[host][..]);
        let (client, server) = addresses_of(addresses, of.family).ok_or_else(|| {
            let message = format!("`{from}` and `{to}` have no addresses of one family");
            ScenarioError::new(path, message)
        })?;
        for place in 0..of.count {
            let port = if of.one_port {
                *ports.start()
            } else {
                *ports.start() + place as u16
            };
            let client_port = if let Some(first) = of.client_port {
                let port = u64::from(first) + place;
                u16::try_from(port)
                    .map_err(|_| ScenarioError::new(format!("{path}.client_port"), "no port is left"))?
            } else if of.open == Opening::Both || of.again > 0 {
                port
            } else {
                0
            };
            all.push(Connection {
                flow,
                number: all.len(),
                place,
                hosts: numbers,
                client: SocketAddr::new(client, client_port),
                server: SocketAddr::new(server, port),
                sharing: 1,
            });
        }
    }
    Ok(all)
}

impl CallHosts {
    fn new(
        flow: &FlowSpec,
        hosts: &HostTable<'_>,
        port: u16,
        path: &str,
    ) -> Result<CallHosts, ScenarioError> {
        let (from, to) = (flow.from.names(), flow.to.names());
        let address = |name: &String, family: u8| {
            let mut addresses = hosts.addresses[hosts.number(name)].iter();
            addresses
                .find(|address| address.is_ipv4() == (family == 4))
                .copied()
        };
        // All hosts of the flow use the same family.
        let mut lacking = BTreeSet::new();
        let family = families(flow.family).iter().copied().find(|family| {
            let lacks = from
                .iter()
                .chain(to)
                .find(|name| address(name, *family).is_none());
            lacking.extend(lacks);
            lacks.is_none()
        });
        let family = family.ok_or_else(|| {
            let names: Vec<String> = lacking.iter().map(|name| format!("`{name}`")).collect();
            let message = format!("{} have no addresses of one family", names.join(" and "));
            ScenarioError::new(path, message)
        })?;
        let at_port = |name: &String| {
            let address = address(name, family)?;
            Some((hosts.number(name), SocketAddr::new(address, port)))
        };
        let places: BTreeMap<&String, usize> = to.iter().zip(0..).collect();
        let own = |name: &String| match flow.pairs {
            Pairs::Others => places.get(name).copied(),
            Pairs::All | Pairs::InOrder => None,
        };
        let calls = |name: &&String| to.len() > 1 || own(name).is_none();
        let from = || from.iter().filter(calls);
        Ok(CallHosts {
            callers: from().filter_map(at_port).collect(),
            servers: to.iter().filter_map(at_port).collect(),
            pairs: flow.pairs,
            own: from().map(own).collect(),
        })
    }

    /// Returns the number of hosts that a caller calls, at least 1; callers are counted from 0.
    #[must_use]
    pub fn target_count(&self, caller: usize) -> usize {
        match (self.pairs, self.own.get(caller)) {
            (_, None) => 0,
            (Pairs::InOrder, Some(_)) => 1,
            (_, Some(own)) => self.servers.len() - usize::from(own.is_some()),
        }
    }

    /// Returns the server index of a caller's n-th target, in the order of the servers.
    #[must_use]
    pub fn target(&self, caller: usize, number: usize) -> usize {
        match (self.pairs, self.own.get(caller).copied().flatten()) {
            (Pairs::InOrder, _) => caller,
            (_, Some(own)) if number >= own => number + 1,
            _ => number,
        }
    }

    /// Returns all pairs of a caller and a server, by their indices. Their number is up to the product of
    /// both counts.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let targets = move |caller| {
            (0..self.target_count(caller)).map(move |number| (caller, self.target(caller, number)))
        };
        (0..self.callers.len()).flat_map(targets)
    }
}

impl FlowSpec {
    /// Returns the pairs of connecting hosts, in the order of clients, then of servers.
    pub fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        let (from, to) = (self.from.names(), self.to.names());
        let is_one = move |client: usize, server: usize| match self.pairs {
            Pairs::All => true,
            Pairs::Others => from[client] != to[server],
            Pairs::InOrder => client == server,
        };
        let all = (0..from.len()).flat_map(move |client| (0..to.len()).map(move |server| (client, server)));
        all.filter(move |(client, server)| is_one(*client, *server))
            .map(move |(client, server)| (&from[client], &to[server]))
    }

    /// Returns a function that tells whether one host connects to another.
    pub(crate) fn has_pair(&self) -> impl Fn(&String, &String) -> bool {
        let places =
            |hosts: &Names| -> BTreeMap<String, usize> { hosts.names().iter().cloned().zip(0..).collect() };
        let (clients, servers, pairs) = (places(&self.from), places(&self.to), self.pairs);
        move |from, to| match (clients.get(from), servers.get(to), pairs) {
            (Some(_), Some(_), Pairs::All) => true,
            (Some(_), Some(_), Pairs::Others) => from != to,
            (Some(client), Some(server), Pairs::InOrder) => client == server,
            _ => false,
        }
    }

    /// Returns the number of connections that it makes, including reopened ones; for calls, the number of
    /// calling hosts.
    #[must_use]
    pub fn connections(&self) -> Option<u64> {
        let (from, to) = (self.from.names(), self.to.names());
        if !self.needs_connections() {
            return Some(from.len() as u64);
        }
        let product = from.len().checked_mul(to.len())?;
        let pairs = match self.pairs {
            Pairs::All => product,
            Pairs::Others => {
                let from: BTreeSet<&String> = from.iter().collect();
                product - to.iter().filter(|name| from.contains(name)).count()
            }
            Pairs::InOrder => from.len().min(to.len()),
        } as u64;
        self.count
            .checked_mul(pairs)?
            .checked_mul(self.again.checked_add(1)?)
    }
}
