//! Selects the wanted events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// The conditions that an event must meet, all of them. The default accepts all events.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The event happened on this host.
    pub host: Option<String>,
    /// The event's context is a connection of this flow, or a listener of only this flow.
    pub flow: Option<usize>,
    /// The event happened at or after this time since the start of the run.
    pub from: Option<Duration>,
    /// The event happened at or before this time since the start of the run.
    pub to: Option<Duration>,
    /// The event changed this field of a context: `cc.cwnd`, or `tcp_conn.cc.cwnd`.
    pub field: Option<String>,
    /// The event sent this packet.
    pub packet: Option<Packet>,
}

/// A packet of a run, by number and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The packet's number in a capture of the run, from 1.
    pub number: u64,
    /// The host that sent it.
    pub host: String,
    /// The number of the instruction that sent it, among those of the host.
    pub cause: u32,
}

/// A connection of a flow, by its ends, the client's first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The number of the flow.
    pub flow: usize,
    /// The hosts at its ends.
    pub hosts: [String; 2],
    /// The client's address. Its port is 0 if unknown.
    pub client: SocketAddr,
    /// The server's address. Ends with the same port are peers at that port, such as queue pairs at RoCEv2's
    /// port. Each sees its peer at that port, and may itself have any port. They are found by their
    /// addresses.
    pub server: SocketAddr,
}

/// The connections of a run, found by their ends.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// The connections by the server's port and the client's.
    by_ports: BTreeMap<(u16, u16), Vec<Connection>>,
}

impl Flows {
    /// Builds the index of these connections.
    #[must_use]
    pub fn new(connections: impl IntoIterator<Item = Connection>) -> Flows {
        let mut flows = Flows::default();
        for connection in connections {
            let ports = (connection.server.port(), connection.client.port());
            flows.by_ports.entry(ports).or_default().push(connection);
        }
        flows
    }

    /// Returns the connection of a flow between these hosts with these ports, the client's and the server's,
    /// or else one of peers at one port.
    #[must_use]
    pub fn between(&self, flow: usize, hosts: [&str; 2], [client, server]: [u16; 2]) -> Option<Connection> {
        let is_it = |of: &&Connection| of.flow == flow && of.hosts == hosts;
        let given = self.by_ports.get(&(server, client)).into_iter().flatten();
        let peers = self
            .by_ports
            .iter()
            .filter(|((server, client), _)| server == client);
        let peers = peers.flat_map(|(_, connections)| connections);
        given.chain(peers).find(is_it).cloned()
    }

    /// Returns the flow of a host's context with these ends. The context is one of the flow's connections, or
    /// its listener, if no other flow shares it. The same holds for peers at one port. A context without a
    /// remote port is a listener. Unknown addresses do not count.
    pub(crate) fn find(&self, host: &str, local: SocketAddr, remote: SocketAddr) -> Option<usize> {
        if local.port() == 0 {
            return None;
        }
        if remote.port() == 0 {
            return self.of_listener(host, local);
        }
        let same = |known: SocketAddr, end: SocketAddr| {
            end.ip().is_unspecified() || end.ip().to_canonical() == known.ip()
        };
        // The host is the server or the client.
        let mut found =
            [(1, local, remote), (0, remote, local)]
                .into_iter()
                .flat_map(|(end, server, client)| {
                    [client.port(), 0].map(move |port| (end, server, client, port))
                });
        let found = found.find_map(|(end, server, client, port)| {
            let connections = self.by_ports.get(&(server.port(), port))?;
            let is_it = |of: &&Connection| {
                of.hosts[end] == host && same(of.server, server) && same(of.client, client)
            };
            connections.iter().find(is_it).map(|of| of.flow)
        });
        found.or_else(|| {
            let at_port = self.by_ports.get(&(remote.port(), remote.port()))?;
            let is_it = |of: &&Connection| {
                let ends = [
                    (&of.hosts[0], of.client, of.server),
                    (&of.hosts[1], of.server, of.client),
                ];
                ends.into_iter()
                    .any(|(name, own, peer)| name == host && same(own, local) && same(peer, remote))
            };
            only(at_port.iter().filter(is_it))
        })
    }

    fn of_listener(&self, host: &str, local: SocketAddr) -> Option<usize> {
        let at_port = self.by_ports.range((local.port(), 0)..=(local.port(), u16::MAX));
        let of_host = at_port.flat_map(|(_, connections)| connections).filter(|of| {
            let address = local.ip().is_unspecified() || local.ip().to_canonical() == of.server.ip();
            of.hosts[1] == host && address
        });
        only(of_host)
    }
}

/// Returns the flow of all these connections, if there is only one.
fn only<'a>(connections: impl Iterator<Item = &'a Connection>) -> Option<usize> {
    let mut flows = connections.map(|of| of.flow);
    let first = flows.next()?;
    flows.all(|flow| flow == first).then_some(first)
}

impl Filter {
    /// Returns whether an event of a host with instructions of these numbers may be wanted. It is checked
    /// before the event is analysed.
    pub(crate) fn admits(&self, host: &str, at: Duration, causes: &Range<u32>) -> bool {
        self.host.as_deref().is_none_or(|wanted| wanted == host)
            && self
                .packet
                .as_ref()
                .is_none_or(|packet| packet.host == host && causes.contains(&packet.cause))
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at <= to)
    }
}

/// Returns whether `wanted` names a field of a context of this type: `cc.cwnd`, or `tcp_conn.cc.cwnd`.
pub(crate) fn is_field(wanted: &str, context: &str, field: &str) -> bool {
    let of_context = |rest: &str| rest.strip_prefix('.') == Some(field);
    wanted == field || wanted.strip_prefix(context).is_some_and(of_context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Like queue pairs: each end has its own port, and its peer does not see it.
    #[test]
    fn flows_of_peers_at_one_port_are_found_by_their_hosts() {
        let connection = |flow, hosts: [&str; 2], client, server| Connection {
            flow,
            hosts: hosts.map(str::to_owned),
            client: address(client),
            server: address(server),
        };
        let flows = Flows::new([
            connection(0, ["a", "c"], "10.0.0.1:4791", "10.0.0.3:4791"),
            connection(0, ["a", "c"], "10.0.0.1:4791", "10.0.0.3:4791"),
            connection(1, ["b", "c"], "10.0.0.2:4791", "10.0.0.3:4791"),
            connection(2, ["b", "d"], "10.0.0.2:4791", "10.0.0.4:4791"),
            connection(3, ["d", "b"], "10.0.0.4:4791", "10.0.0.2:4791"),
        ]);
        let of = |host, local, remote| flows.find(host, address(local), address(remote));
        assert_eq!(of("a", "10.0.0.1:50000", "10.0.0.3:4791"), Some(0));
        assert_eq!(of("c", "10.0.0.3:60000", "10.0.0.1:4791"), Some(0));
        assert_eq!(of("c", "10.0.0.3:60000", "10.0.0.2:4791"), Some(1));
        assert_eq!(of("c", "10.0.0.3:60000", "10.0.0.4:4791"), None, "nobody's");
        assert_eq!(of("a", "10.0.0.1:50000", "10.0.0.3:80"), None, "another port");
        assert_eq!(
            of("b", "10.0.0.2:50000", "10.0.0.4:4791"),
            None,
            "one of two flows"
        );
        let found = flows.between(1, ["b", "c"], [0, 7001]).expect("it is known");
        assert_eq!(found.server, address("10.0.0.3:4791"));
        assert_eq!(flows.between(2, ["b", "c"], [0, 7001]), None);
    }

    #[test]
    fn flows_at_one_port_are_distinguished_by_their_clients() {
        let connection = |flow, from: &str, client, server| Connection {
            flow,
            hosts: [from.to_owned(), "c".to_owned()],
            client: address(client),
            server: address(server),
        };
        let flows = Flows::new([
            connection(0, "a", "10.0.0.1:20001", "10.0.0.3:80"),
            connection(1, "a", "10.0.0.1:20002", "10.0.0.3:80"),
            connection(2, "b", "10.0.0.2:20001", "10.0.0.3:80"),
            connection(3, "b", "10.0.0.2:0", "10.0.0.3:81"),
            connection(4, "b", "[fd00::2]:0", "[fd00::3]:81"),
        ]);
        let of = |host, local, remote| flows.find(host, address(local), address(remote));
        for (flow, from, client) in [
            (0, "a", "10.0.0.1:20001"),
            (1, "a", "10.0.0.1:20002"),
            (2, "b", "10.0.0.2:20001"),
        ] {
            assert_eq!(of(from, client, "10.0.0.3:80"), Some(flow));
            assert_eq!(of("c", "10.0.0.3:80", client), Some(flow));
            assert_eq!(of("d", client, "10.0.0.3:80"), None, "another host");
        }
        assert_eq!(of("c", "10.0.0.3:80", "10.0.0.2:20002"), None, "nobody's");
        // A port that belongs to one flow matches whatever port its client has.
        assert_eq!(of("c", "10.0.0.3:81", "10.0.0.2:50000"), Some(3));
        assert_eq!(of("b", "[fd00::2]:50000", "[fd00::3]:81"), Some(4));
        assert_eq!(of("c", "10.0.0.3:81", "10.0.0.1:50000"), None);
        // A listener of several flows belongs to none of them.
        assert_eq!(of("c", "10.0.0.3:80", "0.0.0.0:0"), None);
        assert_eq!(of("c", "10.0.0.3:81", "0.0.0.0:0"), Some(3));
        assert_eq!(of("c", "[fd00::3]:81", "[::]:0"), Some(4));
        // A program may store no addresses.
        assert_eq!(of("c", "0.0.0.0:80", "0.0.0.0:20002"), Some(1));
    }
}
