//! The connections that a scenario's flows make: from which host to which, between which addresses and ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::check::addresses_of;
use super::{Flow, Opening, Pairs, Scenario, ScenarioError};

/// The first port that a client has whose server's port is shared: below those that stacks give out by themselves.
const FIRST_CLIENT_PORT: u16 = 20_001;

/// A connection, and those that follow it from the same port to the same port (`again`); or a host and another one that
/// it calls, both at the same port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The scenario's flow, counted from 0.
    pub flow: usize,
    /// Its number among those of the flow.
    pub number: usize,
    /// How many of the flow between the same two hosts come before it.
    pub place: u64,
    /// The numbers of the client's host and the server's.
    pub hosts: [usize; 2],
    /// The client's address. The port is 0 where its stack chooses one.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// How many connections go there: they share its listener.
    pub sharing: usize,
}

impl Scenario {
    /// All connections, in the order of the flows; in a flow by clients, then by servers.
    ///
    /// # Errors
    /// When two hosts have no addresses of one family, or ports run out.
    pub fn connections(&self) -> Result<Vec<Connection>, ScenarioError> {
        let numbers = self.host_numbers();
        let addresses: Vec<Vec<IpAddr>> = self
            .host
            .iter()
            .enumerate()
            .map(|(number, host)| {
                let addresses = host.parsed_addresses(number)?;
                Ok(addresses.into_iter().map(|(address, _)| address).collect())
            })
            .collect::<Result<_, ScenarioError>>()?;
        let mut all: Vec<Connection> = Vec::new();
        let mut sharing = BTreeMap::<SocketAddr, usize>::new();
        for ((flow, of), ports) in self.flow.iter().enumerate().zip(self.ports()) {
            let path = format!("flow[{flow}]");
            let none = || ScenarioError::new(format!("{path}.port"), "there are no more ports");
            let ports = ports.ok_or_else(none)?;
            let mut number = 0;
            for (from, to) in of.pairs() {
                let hosts = [from, to].map(|name| numbers.get(name.as_str()).copied().unwrap_or(0));
                let ends = hosts.map(|host| &addresses[host][..]);
                let (client, server) = addresses_of(ends, of.family).ok_or_else(|| {
                    let message = format!("`{from}` and `{to}` have no addresses of one family");
                    ScenarioError::new(&*path, message)
                })?;
                for place in 0..of.count {
                    let port = if of.one_port {
                        *ports.start()
                    } else {
                        *ports.start() + place as u16
                    };
                    let client_port = if let Some(first) = of.client_port {
                        let port = u64::from(first) + place;
                        u16::try_from(port).map_err(|_| {
                            ScenarioError::new(format!("{path}.client_port"), "there are no more ports")
                        })?
                    } else if of.calls.is_some() || of.open == Opening::Both || of.again > 0 {
                        port
                    } else {
                        0
                    };
                    let server = SocketAddr::new(server, port);
                    if of.calls.is_none() {
                        *sharing.entry(server).or_default() += 1;
                    }
                    all.push(Connection {
                        flow,
                        number,
                        place,
                        hosts,
                        client: SocketAddr::new(client, client_port),
                        server,
                        sharing: 1,
                    });
                    number += 1;
                }
            }
        }
        let connect = all
            .iter_mut()
            .filter(|connection| self.flow[connection.flow].calls.is_none());
        for (index, connection) in connect.enumerate() {
            connection.sharing = sharing[&connection.server];
            // Who shares a listener is known by its own address.
            let chooses = self.flow[connection.flow].client_port.is_none();
            if connection.sharing > 1 && chooses {
                connection.client.set_port(FIRST_CLIENT_PORT + index as u16);
            }
        }
        Ok(all)
    }
}

impl Flow {
    /// Which host connects to which, by clients, then by servers.
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

    /// How many connections it makes, one after the other included; of calls, how many hosts make some.
    #[must_use]
    pub fn connections(&self) -> Option<u64> {
        let (from, to) = (self.from.names(), self.to.names());
        if self.calls.is_some() {
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
