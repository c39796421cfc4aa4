//! The events of a proxy, for logs. Each is one JSON object.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use hawser::connect::{ChosenCandidate, Description, RaceReport};
use serde::Serialize;

/// An event of a proxy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProxyEvent {
    /// The number of the request that the event concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// The event itself.
    #[serde(flatten)]
    pub what: ProxyEventContent,
}

/// The source and content of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ProxyEventContent {
    /// An event of the request's race.
    Race(RaceReport),
    /// An event of the proxy itself.
    Own(ServerEvent),
}

/// An event of the proxy itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServerEvent {
    /// The proxy listens.
    Listening {
        /// The bound address.
        address: SocketAddr,
    },
    /// A client asked for a destination.
    Asked {
        /// The client's address.
        client: SocketAddr,
        /// The protocol of the request.
        protocol: Protocol,
        /// The requested destination.
        destination: String,
    },
    /// A policy chose candidates for the destination.
    Ranked {
        /// The candidates, best first.
        candidates: Vec<ChosenCandidate>,
    },
    /// A client was rejected before a race.
    Rejected {
        /// The client's address.
        client: SocketAddr,
        /// The reason as text.
        why: String,
    },
    /// A client has got a relay for datagrams.
    Associated {
        /// The client's address.
        client: SocketAddr,
        /// The address at which the relay receives them.
        address: SocketAddr,
    },
    /// A client's relay for datagrams has ended.
    Dissociated {
        /// The client's address.
        client: SocketAddr,
        /// The number of datagrams from the client.
        sent: u64,
        /// The number of datagrams to the client.
        received: u64,
        /// The number of dropped datagrams: from other senders, fragments, for forbidden destinations, for
        /// unresolved names, or beyond the system's capacity.
        dropped: u64,
        /// The time since the relay began, in seconds.
        seconds: f64,
    },
    /// A connection has ended.
    Closed {
        /// The candidate that carried it.
        #[serde(flatten)]
        candidate: Description,
        /// The number of bytes from the client.
        sent: u64,
        /// The number of bytes to the client.
        received: u64,
        /// The time since the client's request, in seconds.
        seconds: f64,
        /// The error that ended it, unless both sides closed regularly.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The origin answered a plain HTTP request.
    Served {
        /// The candidate that carried it.
        #[serde(flatten)]
        candidate: Description,
        /// The status code of the answer.
        status: u16,
    },
    /// All places are taken, and new clients wait. This is reported at most once a minute.
    Full {
        /// The number of connected clients.
        connections: usize,
    },
    /// The proxy was asked to stop.
    Stopping {
        /// The number of connections that were open at that time.
        connections: usize,
    },
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// SOCKS5 with the command CONNECT.
    Socks5,
    /// HTTP with the method CONNECT.
    Connect,
    /// HTTP with any other method.
    Http,
}

/// The event as text, which may contain text from peers.
impl Display for ServerEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = match self {
            ServerEvent::Listening { address } => format!("listening on {address}"),
            ServerEvent::Asked { client, protocol, destination } => {
                format!("{client} requests {destination} by {protocol:?}")
            }
            ServerEvent::Ranked { candidates } => {
                let words: Vec<String> = candidates.iter().map(ranked).collect();
                format!("the policy: {}", words.join(", "))
            }
            ServerEvent::Rejected { client, why } => format!("{client} was refused: {why}"),
            ServerEvent::Closed { candidate, sent, received, seconds, error } => {
                let error = error
                    .as_ref()
                    .map_or_else(String::new, |error| format!(": {error}"));
                format!(
                    "{candidate}: closed after {seconds:.2} s, {sent} bytes sent, {received} received{error}"
                )
            }
            ServerEvent::Associated { client, address } => format!("{client} sends datagrams to {address}"),
            ServerEvent::Dissociated { client, sent, received, dropped, seconds } => format!(
                "{client} has sent {sent} datagrams and received {received} in {seconds:.2} s; {dropped} were dropped"
            ),
            ServerEvent::Served { candidate, status } => format!("{candidate}: answered with {status}"),
            ServerEvent::Full { connections } => format!(
                "{connections} clients are connected, the limit (--max-connections): further ones wait"
            ),
            ServerEvent::Stopping { connections } => format!("stopping; {connections} connections are open"),
        };
        f.write_str(&words)
    }
}

fn ranked(candidate: &ChosenCandidate) -> String {
    let ChosenCandidate { transport, interface, family, score, .. } = candidate;
    let over = if interface.is_empty() {
        String::new()
    } else {
        format!(" over {interface}")
    };
    let family = family.map_or_else(String::new, |family| format!(" by {family:?}"));
    format!("{transport}{over}{family} ({} | {})", score.0, score.1)
}
