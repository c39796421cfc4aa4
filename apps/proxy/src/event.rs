//! What happens in a proxy, for logs; one JSON object each.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use hawser::select::{Description, Ranked, Report};
use serde::Serialize;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The number of the request that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum What {
    /// In the race for it.
    Race(Report),
    /// In the proxy.
    Own(Own),
}

/// What happened in the proxy itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Own {
    /// It listens here.
    Listening {
        /// The address that it is bound to.
        address: SocketAddr,
    },
    /// A client asked for a destination.
    Asked {
        /// The client's address.
        client: SocketAddr,
        /// How.
        protocol: Protocol,
        /// For what.
        destination: String,
    },
    /// A policy chose candidates for the destination.
    Ranked {
        /// They, best first.
        candidates: Vec<Ranked>,
    },
    /// A client was turned away before a race.
    Rejected {
        /// The client's address.
        client: SocketAddr,
        /// The reason in words, for people.
        why: String,
    },
    /// A client has a relay for its datagrams.
    Associated {
        /// The client's address.
        client: SocketAddr,
        /// Where it takes them.
        address: SocketAddr,
    },
    /// A client's relay for datagrams has come to its end.
    Dissociated {
        /// The client's address.
        client: SocketAddr,
        /// Datagrams from the client.
        sent: u64,
        /// Datagrams to the client.
        received: u64,
        /// Datagrams that went nowhere: of others, fragments, to where nothing may go, without a name's
        /// address, or more than the system took.
        dropped: u64,
        /// From its beginning.
        seconds: f64,
    },
    /// A connection has come to its end.
    Closed {
        /// The candidate that it went over.
        #[serde(flatten)]
        candidate: Description,
        /// Bytes from the client.
        sent: u64,
        /// Bytes to the client.
        received: u64,
        /// From the client's request.
        seconds: f64,
        /// What ended it, unless both sides did in order.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A plain HTTP request was answered by its origin.
    Served {
        /// The candidate that it went over.
        #[serde(flatten)]
        candidate: Description,
        /// The answer's code.
        status: u16,
    },
    /// There are no more places: new clients wait. It is reported at most once a minute.
    Full {
        /// The clients that have one.
        connections: usize,
    },
    /// It was asked to stop, with so many connections open.
    Stopping {
        /// Connections that were open when the stop began.
        connections: usize,
    },
}

/// How a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// SOCKS5, CONNECT.
    Socks5,
    /// HTTP, CONNECT.
    Connect,
    /// HTTP, any other method.
    Http,
}

/// The event in words, which may hold text of peers.
impl Display for Own {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = match self {
            Own::Listening { address } => format!("listening on {address}"),
            Own::Asked { client, protocol, destination } => {
                format!("{client} asks for {destination} by {protocol:?}")
            }
            Own::Ranked { candidates } => {
                let words: Vec<String> = candidates.iter().map(ranked).collect();
                format!("the policy: {}", words.join(", "))
            }
            Own::Rejected { client, why } => format!("{client} is turned away: {why}"),
            Own::Closed { candidate, sent, received, seconds, error } => {
                let error = error
                    .as_ref()
                    .map_or_else(String::new, |error| format!(": {error}"));
                format!(
                    "{candidate}: closed after {seconds:.2} s, {sent} bytes sent, {received} received{error}"
                )
            }
            Own::Associated { client, address } => format!("{client} sends datagrams to {address}"),
            Own::Dissociated { client, sent, received, dropped, seconds } => format!(
                "{client} has sent {sent} datagrams and received {received} in {seconds:.2} s; {dropped} were dropped"
            ),
            Own::Served { candidate, status } => format!("{candidate}: answered with {status}"),
            Own::Full { connections } => format!(
                "{connections} clients are connected, and there are no more places (--max-connections): \
                 further ones wait"
            ),
            Own::Stopping { connections } => format!("stopping; {connections} connections are open"),
        };
        f.write_str(&words)
    }
}

fn ranked(candidate: &Ranked) -> String {
    let Ranked { transport, interface, family, score, .. } = candidate;
    let over = if interface.is_empty() {
        String::new()
    } else {
        format!(" over {interface}")
    };
    let family = family.map_or_else(String::new, |family| format!(" by {family:?}"));
    format!("{transport}{over}{family} ({} | {})", score.0, score.1)
}
