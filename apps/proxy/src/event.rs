//! What happens in a proxy, for logs; one JSON object each.

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
