//! Lab files: TOML that describes the hosts, the links between them, the names they know and the changes over
//! time. `docs/lab.md` is the reference.
//!
//! The vocabulary is that of the simulator's scenarios, and so are the rules of links.
//!
//! * `check`: checks that serde cannot express: unknown names, impossible addresses
//! * `rules`: the rules of a direction of a link
//! * [`selector`]: protocols and ports, as filters name them

mod check;
mod rules;
pub mod selector;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use hawser_sim::scenario::OperationalState;
use hawser_sim::scenario::units::TimeSpan;
use serde::{Deserialize, Serialize};

pub(crate) use check::{check, known_host};
pub use hawser_sim::ScenarioError as SpecError;
pub use rules::Rules;
pub use selector::Selector;

/// A lab file was rejected.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    System(PathBuf, io::Error),
    /// The text is invalid: the error has the line, the key, and the expected value.
    #[error("{}: {}", .0.display(), .1)]
    Text(PathBuf, SpecError),
}

/// A network. The result of [`Spec::parse`] is consistent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// A title of the network.
    #[serde(default)]
    pub name: String,
    /// The seed of all random choices.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// The time after which `hawser lab run` ends. With 0, it ends when the commands have ended.
    #[serde(default)]
    pub duration: TimeSpan,
    /// The hosts of the network.
    pub host: Vec<HostSpec>,
    /// The links between the hosts.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// The names that the hosts' resolver knows.
    #[serde(default, rename = "dns")]
    pub names: Vec<Name>,
    /// The changes of links over time.
    #[serde(default)]
    pub at: Vec<ScheduledChange>,
}

/// A host of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The name of the host.
    pub name: String,
    /// True if it forwards packets between its links.
    #[serde(default)]
    pub router: bool,
    /// A command that runs on it while the lab is up, by `sh -c`.
    pub serve: Option<String>,
    /// A command that `hawser lab run` runs on it to its end, by `sh -c`.
    pub run: Option<String>,
    /// The time at which that command starts.
    #[serde(default)]
    pub after: TimeSpan,
}

/// A link between two hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The name of the link; by default, both hosts' names with a hyphen.
    #[serde(default)]
    pub name: String,
    /// The names of the two hosts.
    pub between: [String; 2],
    /// The interfaces' names; by default, `eth0` and so on, in the order of each host's links.
    pub interfaces: Option<[String; 2]>,
    /// The addresses of both ends with prefix lengths. By default, the n-th link counted from 0 has
    /// `10.77.n.1/24` and `fd77:0:0:n::1/64`, and the same with 2.
    pub addresses: Option<[Vec<String>; 2]>,
    /// The largest IP packet, in bytes.
    pub mtu: Option<u32>,
    /// The carrier of the packets.
    #[serde(default)]
    pub through: LinkForwarding,
    /// The initial state; by default, the link is up.
    pub state: Option<OperationalState>,
    /// Rules for both directions.
    #[serde(default)]
    pub both: Rules,
    /// Rules from the first host to the second, which override those for both.
    #[serde(default)]
    pub forward: Rules,
    /// Rules from the second host to the first, which override those for both.
    #[serde(default)]
    pub backward: Rules,
    /// A network address translator at one end.
    pub nat: Option<Nat>,
}

/// The carrier of a link's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkForwarding {
    /// The kernel if it supports all rules in the file, otherwise a cell.
    #[default]
    Auto,
    /// The kernel alone, which supports only rate and queue.
    Kernel,
    /// A cell, which supports all rules.
    Cell,
}

/// A network address translator (RFC 4787, 5382), for IPv4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// The name of the host behind it. The host's addresses on this link are private; the other end sees the
    /// translator's.
    pub inside: String,
    /// The translator's outside address, on the other end's subnet.
    pub address: Option<IpAddr>,
    /// The part of the remote endpoint on which the choice of an outside port depends.
    #[serde(default)]
    pub mapping: Dependence,
    /// The part of the remote endpoint that must match for packets to come in.
    #[serde(default)]
    pub filtering: Dependence,
    /// The lifetime of a mapping without a packet from inside.
    pub timeout: Option<TimeSpan>,
    /// The first and the last outside port.
    pub ports: Option<[u16; 2]>,
}

/// The part of the remote endpoint on which a translator's behaviour depends (RFC 4787, sections 4.1 and 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependence {
    /// No part.
    Independent,
    /// The address.
    Address,
    /// The address and the port.
    #[default]
    Endpoint,
}

/// The resolver's answers for a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Name {
    /// The name to answer for.
    pub name: String,
    /// Its addresses, or hosts of the lab whose addresses it has.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The services that its HTTPS records offer.
    #[serde(default)]
    pub services: Vec<Service>,
    /// The reply to questions of all kinds.
    #[serde(default)]
    pub both: Reply,
    /// The reply to questions for IPv4 addresses, which overrides that.
    #[serde(default)]
    pub ipv4: Reply,
    /// The reply to questions for IPv6 addresses.
    #[serde(default)]
    pub ipv6: Reply,
    /// The reply to questions for HTTPS records.
    #[serde(default)]
    pub https: Reply,
}

/// An HTTPS record (RFC 9460).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The priority, where lower is preferred. With 0, the name is an alias of the target.
    #[serde(default = "one")]
    pub priority: u16,
    /// The name of the host that offers the service; `.` is the name itself.
    #[serde(default = "root")]
    pub target: String,
    /// The port, if it is not the default.
    pub port: Option<u16>,
    /// The protocols of the service.
    #[serde(default)]
    pub alpn: Vec<String>,
    /// Addresses of the target, or hosts of the lab whose addresses it has.
    #[serde(default)]
    pub hints: Vec<String>,
    /// The number of a parameter, above 6, that clients must understand to use the record.
    pub mandatory: Option<u16>,
}

impl Default for Service {
    fn default() -> Service {
        Service {
            priority: one(),
            target: root(),
            port: None,
            alpn: Vec::new(),
            hints: Vec::new(),
            mandatory: None,
        }
    }
}

fn one() -> u16 {
    1
}

fn root() -> String {
    ".".to_owned()
}

/// The reply to a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The time before the reply.
    pub delay: Option<TimeSpan>,
    /// The content of the reply.
    pub answer: Option<ReplySpec>,
}

/// The content of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplySpec {
    /// The addresses, or the services.
    #[default]
    Addresses,
    /// The name does not exist (NXDOMAIN).
    Missing,
    /// The server fails (SERVFAIL).
    Failure,
    /// The server refuses to answer (REFUSED).
    Refused,
    /// The server sends no reply.
    Silence,
}

/// A change of a link at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduledChange {
    /// The time from the start.
    pub time: TimeSpan,
    /// The name of the link.
    pub link: String,
    /// The new state: both interfaces lose their carrier, or get it back.
    pub state: Option<OperationalState>,
    /// New rules for both directions.
    #[serde(default)]
    pub both: Rules,
    /// New rules from the first host to the second.
    #[serde(default)]
    pub forward: Rules,
    /// New rules from the second host to the first.
    #[serde(default)]
    pub backward: Rules,
    /// True if the translator drops its mappings and uses other ports.
    #[serde(default)]
    pub rebind: bool,
}

fn first_seed() -> u64 {
    1
}

impl HostSpec {
    /// Returns a host of this name without commands.
    #[must_use]
    pub fn named(name: impl Into<String>) -> HostSpec {
        HostSpec { name: name.into(), ..HostSpec::default() }
    }
}

impl LinkSpec {
    /// Returns a link between two hosts without any rules.
    #[must_use]
    pub fn between(first: impl Into<String>, second: impl Into<String>) -> LinkSpec {
        LinkSpec { between: [first.into(), second.into()], ..LinkSpec::default() }
    }

    /// Returns the name of the link, or its default.
    #[must_use]
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            self.between.join("-")
        } else {
            self.name.clone()
        }
    }

    /// Returns the rules of each direction, the first host's first.
    #[must_use]
    pub fn directions(&self) -> [Rules; 2] {
        [
            self.both.overridden_by(&self.forward),
            self.both.overridden_by(&self.backward),
        ]
    }
}
