//! The transports, each in a file of its own.
//!
//! [`Transports`] makes a transport from a keyword of a command, or from the name that policies use. Another
//! transport adds its row there, and no other code changes.

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

use hawser_carriers::mtp::MtpStack;

use hawser_race::Family;
use hawser_race::resolve::ServiceRecord;
use hawser_session::TrustError;
use hawser_session::relay::Gateway;

use super::{Candidate, Destination, Transport};

pub use gateway::Via;
pub use mtp::Mtp;
pub use quic::Quic;
pub(super) use quic::{QuicDuplex, STREAMS};
pub use sctp::Sctp;
pub use selection::{Selection, transports_for};
pub use session::Session;
pub(super) use session::SessionDuplex;
pub use session::session_stream;
pub use tcp::Tcp;
pub use tls::Tls;

pub use crate::local_constraint::LocalConstraint;

/// The reasons for which a transport is not available as requested.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The certificates to be trusted cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The peer's name is not valid in a certificate.
    #[error("{0:?} is not a server name")]
    Name(String),
    /// QUIC was requested without an application protocol.
    #[error("QUIC needs an application protocol (RFC 9001, 8.1)")]
    NoProtocol,
}

/// A keyword is not the name of a transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a transport; write TRANSPORT[:INTERFACE], where the transport is one of {known}")]
pub struct UnknownTransport {
    word: String,
    known: String,
}

/// The transports that a process can use, each with its keyword and its name in policies.
#[derive(Clone, Debug, Default)]
pub struct Transports {
    gateway: Option<Gateway>,
    stacks: Vec<MtpStack>,
}

/// The restrictions of a [`LocalConstraint`] that a transport supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// An interface, and a family.
    Interface,
    /// Only a family: the transport runs over all present interfaces.
    Family,
    /// No restriction.
    Nothing,
}

/// The keyword of commands, the name in policies, and the supported restrictions.
const TABLE: &[(&str, &str, Keeps)] = &[
    ("tcp", "TCP", Keeps::Interface),
    ("mptcp", "MPTCP", Keeps::Interface),
    ("sctp", "SCTP/UDP", Keeps::Family),
    ("gateway", "session", Keeps::Nothing),
];

impl Transports {
    /// Makes a set of the transports that need no configuration: the kernel's, and SCTP.
    #[must_use]
    pub fn new() -> Transports {
        Transports::default()
    }

    /// Adds sessions with this gateway.
    #[must_use]
    pub fn with_gateway(self, gateway: Gateway) -> Transports {
        Transports { gateway: Some(gateway), ..self }
    }

    /// Adds the transport that this stack runs, under its name: `mtp-tcp`.
    #[must_use]
    pub fn with_stack(mut self, stack: MtpStack) -> Transports {
        self.stacks.push(stack);
        self
    }

    /// Returns the keywords of the available transports.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.rows()
            .map(|row| row.0)
            .chain(self.stacks.iter().map(MtpStack::transport))
    }

    /// Returns the rows of the table that this process can use.
    fn rows(&self) -> impl Iterator<Item = &'static (&'static str, &'static str, Keeps)> {
        let has_gateway = self.gateway.is_some();
        TABLE.iter().filter(move |row| has_gateway || row.0 != "gateway")
    }

    /// Makes the transport that `TRANSPORT[:INTERFACE]` names, in this class: 0 is the best.
    ///
    /// # Errors
    /// When there is no such transport, when it takes no interface, or when the interface's name is not
    /// valid.
    pub fn parse(&self, text: &str, priority: u16) -> Result<Arc<dyn Transport>, UnknownTransport> {
        let (word, interface) = match text.split_once(':') {
            None => (text, None),
            Some((transport, interface)) => (transport, Some(interface)),
        };
        // IFNAMSIZ, and the characters that the kernel refuses in a name.
        let is_name = |name: &str| {
            (1..16).contains(&name.len()) && !name.contains(|c: char| c == '/' || c.is_whitespace())
        };
        let place = LocalConstraint { interface: interface.map(str::to_owned), family: None };
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

    /// Returns the names in policies of the available transports.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.rows()
            .map(|row| row.1)
            .chain(self.stacks.iter().map(MtpStack::transport))
    }

    /// Returns the part of a place that a policy's `transport` supports; `None` if there is no such
    /// transport.
    #[must_use]
    pub fn place(&self, transport: &str, place: LocalConstraint) -> Option<LocalConstraint> {
        let row = TABLE.iter().find(|(_, name, _)| *name == transport);
        let runs = |stack: &MtpStack| stack.transport() == transport;
        let keeps = row
            .map(|row| row.2)
            .or(self.stacks.iter().any(runs).then_some(Keeps::Interface))?;
        Some(match keeps {
            Keeps::Interface => place,
            Keeps::Family => LocalConstraint { interface: None, ..place },
            Keeps::Nothing => LocalConstraint::default(),
        })
    }

    /// Makes the transport of a policy's `transport`, if this process can use it there.
    #[must_use]
    pub fn named(
        &self,
        transport: &str,
        place: &LocalConstraint,
        priority: u16,
    ) -> Option<Arc<dyn Transport>> {
        let word = TABLE
            .iter()
            .find(|(_, name, _)| *name == transport)
            .map_or(transport, |row| row.0);
        self.make(word, &self.place(transport, place.clone())?, priority)
    }

    fn make(&self, word: &str, place: &LocalConstraint, priority: u16) -> Option<Arc<dyn Transport>> {
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

/// Returns whether one of these application protocols is HTTP over TLS or QUIC.
fn has_https(protocols: &[Vec<u8>]) -> bool {
    protocols
        .iter()
        .any(|name| matches!(&name[..], b"http/1.1" | b"h2" | b"h3"))
}

/// Restricts a transport's candidates to addresses of one family.
#[derive(Debug)]
struct Only {
    transport: Arc<dyn Transport>,
    family: Family,
}

impl Transport for Only {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        match address.is_ipv6() == (self.family == Family::Ipv6) {
            true => self.transport.to_address(address, service),
            false => Vec::new(),
        }
    }

    fn to_destination(&self, destination: &Destination) -> Vec<Candidate> {
        self.transport.to_destination(destination)
    }

    fn datagrams(&self) -> Option<LocalConstraint> {
        Some(LocalConstraint { family: Some(self.family), ..self.transport.datagrams()? })
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
    use hawser_race::resolve::ServiceRecord;

    fn describe(transport: &dyn Transport, address: &str, service: Option<&ServiceRecord>) -> Vec<String> {
        let candidates = transport.to_address(address.parse().expect("an address"), service);
        candidates
            .into_iter()
            .map(|candidate| candidate.description.to_string())
            .collect()
    }

    #[test]
    fn transport_texts_parse_to_kinds_and_interfaces() {
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
