//! The transports that there are, a file each.
//!
//! [`Transports`] makes one from a word of a command, or from a policy's name for a transport; another
//! transport adds its row there, and nothing above changes.

mod gateway;
mod mtp;
mod quic;
mod sctp;
mod selection;
mod session;
mod tcp;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_carrier_mtp::MtpStack;

use hawser_race::Family;
use hawser_relay::Gateway;
use hawser_resolve::Service;
use hawser_session_driver::TrustError;

use super::{Candidate, Destination, Transport};

pub use gateway::Via;
pub use mtp::Mtp;
pub use quic::Quic;
pub(super) use quic::{QuicDuplex, STREAMS};
pub use sctp::Sctp;
pub use selection::{Selection, transports_for};
pub use session::Session;
pub(super) use session::SessionDuplex;
pub use tcp::Tcp;
pub use tls::Tls;

pub use crate::place::Place;

/// Why a transport cannot be had as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The certificates to be trusted cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No certificate can have the peer's name.
    #[error("{0:?} is no name of a server")]
    Name(String),
    /// QUIC was asked for without an application protocol.
    #[error("QUIC needs an application protocol to agree on (RFC 9001, 8.1)")]
    NoProtocol,
}

/// A word that names no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no transport; write TRANSPORT[:INTERFACE], where the transport is one of {known}")]
pub struct UnknownTransport {
    word: String,
    known: String,
}

/// The transports that a process can go by, each with its word and the name that policies have for it.
#[derive(Clone, Debug, Default)]
pub struct Transports {
    gateway: Option<Gateway>,
    stacks: Vec<MtpStack>,
}

/// What of a [`Place`] a transport can be kept to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// An interface, and a family.
    Interface,
    /// A family: it runs over all interfaces that there are.
    Family,
    /// Nothing.
    Nothing,
}

/// The word of commands, the name of policies, and what it can be kept to.
const TABLE: &[(&str, &str, Keeps)] = &[
    ("tcp", "TCP", Keeps::Interface),
    ("mptcp", "MPTCP", Keeps::Interface),
    ("sctp", "SCTP/UDP", Keeps::Family),
    ("gateway", "session", Keeps::Nothing),
];

impl Transports {
    /// Those that need nothing further: the kernel's, and SCTP.
    #[must_use]
    pub fn new() -> Transports {
        Transports::default()
    }

    /// The same, and sessions with this gateway.
    #[must_use]
    pub fn with_gateway(self, gateway: Gateway) -> Transports {
        Transports { gateway: Some(gateway), ..self }
    }

    /// The same, and what this stack runs, under the name of its transport: `mtp-tcp`.
    #[must_use]
    pub fn with_stack(mut self, stack: MtpStack) -> Transports {
        self.stacks.push(stack);
        self
    }

    /// The words that there are.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.rows()
            .map(|row| row.0)
            .chain(self.stacks.iter().map(MtpStack::transport))
    }

    /// The rows of the table that this process can go by.
    fn rows(&self) -> impl Iterator<Item = &'static (&'static str, &'static str, Keeps)> {
        let has_gateway = self.gateway.is_some();
        TABLE.iter().filter(move |row| has_gateway || row.0 != "gateway")
    }

    /// The transport that `TRANSPORT[:INTERFACE]` names, in this class: 0 is the best.
    ///
    /// # Errors
    /// No such transport, one that takes no interface, or an interface that can have no such name.
    pub fn parse(&self, text: &str, priority: u16) -> Result<Arc<dyn Transport>, UnknownTransport> {
        let (word, interface) = match text.split_once(':') {
            None => (text, None),
            Some((transport, interface)) => (transport, Some(interface)),
        };
        // IFNAMSIZ, and what the kernel refuses in a name.
        let is_name = |name: &str| {
            (1..16).contains(&name.len()) && !name.contains(|c: char| c == '/' || c.is_whitespace())
        };
        let place = Place { interface: interface.map(str::to_owned), family: None };
        let named = if interface.is_none_or(is_name) {
            self.make(word, &place, priority)
        } else {
            None
        };
        named.ok_or_else(|| UnknownTransport {
            word: text.chars().take(100).collect(),
            known: self.words().collect::<Vec<_>>().join(", "),
        })
    }

    /// What policies call those that there are.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.rows()
            .map(|row| row.1)
            .chain(self.stacks.iter().map(MtpStack::transport))
    }

    /// What of a place a policy's `transport` can be kept to; none if there is no such transport.
    #[must_use]
    pub fn place(&self, transport: &str, place: Place) -> Option<Place> {
        let row = TABLE.iter().find(|(_, name, _)| *name == transport);
        let runs = |stack: &MtpStack| stack.transport() == transport;
        let keeps = row
            .map(|row| row.2)
            .or(self.stacks.iter().any(runs).then_some(Keeps::Interface))?;
        Some(match keeps {
            Keeps::Interface => place,
            Keeps::Family => Place { interface: None, ..place },
            Keeps::Nothing => Place::default(),
        })
    }

    /// The transport of a policy's `transport`, if this process can go by it there.
    #[must_use]
    pub fn named(&self, transport: &str, place: &Place, priority: u16) -> Option<Arc<dyn Transport>> {
        let word = TABLE
            .iter()
            .find(|(_, name, _)| *name == transport)
            .map_or(transport, |row| row.0);
        self.make(word, &self.place(transport, place.clone())?, priority)
    }

    fn make(&self, word: &str, place: &Place, priority: u16) -> Option<Arc<dyn Transport>> {
        let interface = place.interface.clone();
        let transport: Arc<dyn Transport> = match (word, &interface) {
            ("tcp" | "mptcp", _) => Arc::new(Tcp { is_multipath: word == "mptcp", interface, priority }),
            ("sctp", None) => Arc::new(Sctp { priority, ..Sctp::default() }),
            ("gateway", None) => Arc::new(Via::new(self.gateway.clone()?, priority)),
            (word, interface) => {
                let is_there = |stack: &&MtpStack| {
                    stack.transport() == word
                        && interface.as_deref().is_none_or(|name| name == stack.interface())
                };
                Arc::new(Mtp::new(self.stacks.iter().find(is_there)?.clone(), priority))
            }
        };
        Some(match place.family {
            Some(family) => Arc::new(Only { transport, family }),
            None => transport,
        })
    }
}

/// Whether one of these application protocols is HTTP over TLS or QUIC.
fn has_https(protocols: &[Vec<u8>]) -> bool {
    protocols
        .iter()
        .any(|name| matches!(&name[..], b"http/1.1" | b"h2" | b"h3"))
}

/// The candidates of a transport to addresses of one family.
#[derive(Debug)]
struct Only {
    transport: Arc<dyn Transport>,
    family: Family,
}

impl Transport for Only {
    fn to_address(&self, address: SocketAddr, service: Option<&Service>) -> Vec<Candidate> {
        match address.is_ipv6() == (self.family == Family::Ipv6) {
            true => self.transport.to_address(address, service),
            false => Vec::new(),
        }
    }

    fn to_destination(&self, destination: &Destination) -> Vec<Candidate> {
        self.transport.to_destination(destination)
    }

    fn datagrams(&self) -> Option<Place> {
        Some(Place { family: Some(self.family), ..self.transport.datagrams()? })
    }

    fn is_https(&self) -> bool {
        self.transport.is_https()
    }

    fn needs_addresses(&self) -> bool {
        self.transport.needs_addresses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_resolve::Service;

    fn describe(transport: &dyn Transport, address: &str, service: Option<&Service>) -> Vec<String> {
        let candidates = transport.to_address(address.parse().expect("an address"), service);
        candidates
            .into_iter()
            .map(|candidate| candidate.description.to_string())
            .collect()
    }

    #[test]
    fn words_name_kinds() {
        let transport = Transports::new().parse("mptcp:wlan0", 3).expect("a transport");
        assert_eq!(
            describe(&*transport, "[2001:db8::1]:443", None),
            ["mptcp to [2001:db8::1]:443 over wlan0"]
        );
        let transport = Transports::new().parse("tcp", 0).expect("a transport");
        assert_eq!(
            describe(&*transport, "192.0.2.1:80", None),
            ["tcp to 192.0.2.1:80"]
        );
        for wrong in [
            "",
            "gateway",
            "sctp:eth0",
            "TCP",
            "udp",
            "tcp:",
            "tcp:a/b",
            "tcp:abcdefghijklmnop",
            "tcp:a b",
        ] {
            assert!(Transports::new().parse(wrong, 0).is_err(), "{wrong}");
        }
    }
}
