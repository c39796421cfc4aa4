//! Lab files: TOML with which hosts there are, what lies between them, which names they know
//! and what happens when. `docs/lab.md` is the reference.
//!
//! The vocabulary is the scenarios' of the simulator, and so are the rules of links.
//!
//! * `check`: what serde cannot see: names that refer to nothing, addresses that cannot be
//! * `rules`: what a direction of a link does
//! * [`selector`]: protocols and ports, as filters name them

mod check;
mod rules;
pub mod selector;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use hawser_sim::scenario::State;
use hawser_sim::scenario::units::Span;
use serde::{Deserialize, Serialize};

pub(crate) use check::{check, known_host};
pub use hawser_sim::ScenarioError as SpecError;
pub use rules::Rules;
pub use selector::Selector;

/// Why a lab file was not taken.
#[derive(Debug)]
pub enum ReadError {
    /// It cannot be read.
    System(PathBuf, io::Error),
    /// Its text is wrong: the line, the key, and what was expected.
    Text(PathBuf, SpecError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::System(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            ReadError::Text(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ReadError {}

/// A network. Read it with [`Spec::parse`]; what that returns is consistent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it shows.
    #[serde(default)]
    pub name: String,
    /// Decides everything that is left to chance.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// When `hawser lab run` ends at the latest; 0: when the commands have ended.
    #[serde(default)]
    pub duration: Span,
    /// The hosts.
    pub host: Vec<Host>,
    /// The links between them.
    #[serde(default)]
    pub link: Vec<Link>,
    /// The names that the hosts' resolver knows.
    #[serde(default, rename = "dns")]
    pub names: Vec<Name>,
    /// What changes when.
    #[serde(default)]
    pub at: Vec<At>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Whether it forwards packets between its links.
    #[serde(default)]
    pub router: bool,
    /// What runs on it for as long as the lab is up, by `sh -c`.
    #[serde(default)]
    pub serve: Option<String>,
    /// What `hawser lab run` runs on it, to its end, by `sh -c`.
    #[serde(default)]
    pub run: Option<String>,
    /// When that starts.
    #[serde(default)]
    pub after: Span,
}

/// A link between two hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name; by default both hosts' names with a hyphen.
    #[serde(default)]
    pub name: String,
    /// The two hosts.
    pub between: [String; 2],
    /// The interfaces' names; by default `eth0` and so on, in the order of each host's links.
    #[serde(default)]
    pub interfaces: Option<[String; 2]>,
    /// The addresses of both ends with prefix lengths; by default, for the n-th link counted from
    /// 0, `10.77.n.1/24` and `fd77:0:0:n::1/64`, and the same with 2.
    #[serde(default)]
    pub addresses: Option<[Vec<String>; 2]>,
    /// The length of an IP packet, at most, in bytes.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// What carries the packets.
    #[serde(default)]
    pub through: Through,
    /// Whether it is there from the beginning; by default it is.
    #[serde(default)]
    pub state: Option<State>,
    /// Rules for both directions.
    #[serde(default)]
    pub both: Rules,
    /// Rules from the first host to the second, before those for both.
    #[serde(default)]
    pub forward: Rules,
    /// Rules from the second host to the first.
    #[serde(default)]
    pub backward: Rules,
    /// A network address translator at one end.
    #[serde(default)]
    pub nat: Option<Nat>,
}

/// What carries the packets of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// The kernel where it can do what the file asks for, else a cell.
    #[default]
    Auto,
    /// The kernel alone: rate and queue.
    Kernel,
    /// A cell, which does everything.
    Cell,
}

/// A network address translator (RFC 4787, 5382), for IPv4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// The host behind it. Its addresses on this link are private; the other end sees the
    /// translator's.
    pub inside: String,
    /// The translator's outside address, on the other end's subnet.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Which remote addresses share an outside port.
    #[serde(default)]
    pub mapping: Dependence,
    /// From which remote addresses packets come in.
    #[serde(default)]
    pub filtering: Dependence,
    /// How long a mapping lives without a packet from inside.
    #[serde(default)]
    pub timeout: Option<Span>,
    /// The first and the last outside port.
    #[serde(default)]
    pub ports: Option<[u16; 2]>,
}

/// What a translator's behaviour depends on (RFC 4787, sections 4.1 and 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependence {
    /// Not on the remote endpoint.
    Independent,
    /// On the remote address.
    Address,
    /// On the remote address and port.
    #[default]
    Endpoint,
}

/// What the resolver answers about a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Its addresses, or hosts of the lab whose addresses it has.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The services that its HTTPS records offer.
    #[serde(default)]
    pub services: Vec<Service>,
    /// How questions of all kinds are answered.
    #[serde(default)]
    pub both: Reply,
    /// How questions for IPv4 addresses are, before that.
    #[serde(default)]
    pub ipv4: Reply,
    /// How questions for IPv6 addresses are.
    #[serde(default)]
    pub ipv6: Reply,
    /// How questions for HTTPS records are.
    #[serde(default)]
    pub https: Reply,
}

/// An HTTPS record (RFC 9460).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Lower is preferred; 0 makes the name an alias of the target.
    #[serde(default = "one")]
    pub priority: u16,
    /// Whose service it is; `.` is the name itself.
    #[serde(default = "root")]
    pub target: String,
    /// The port, where it is not the usual one.
    #[serde(default)]
    pub port: Option<u16>,
    /// The protocols that it speaks.
    #[serde(default)]
    pub alpn: Vec<String>,
    /// Addresses of the target, or hosts of the lab whose addresses it has.
    #[serde(default)]
    pub hints: Vec<String>,
    /// The number of a parameter, above 6, that clients must understand to use the record.
    #[serde(default)]
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

/// How a question is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// After how long.
    #[serde(default)]
    pub delay: Option<Span>,
    /// With what.
    #[serde(default)]
    pub answer: Option<Answer>,
}

/// What a question is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The addresses, or the services.
    #[default]
    Addresses,
    /// There is no such name (NXDOMAIN).
    Missing,
    /// The server fails (SERVFAIL).
    Failure,
    /// The server refuses (REFUSED).
    Refused,
    /// Nothing at all.
    Silence,
}

/// A change of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// When, from the start.
    pub time: Span,
    /// Which link.
    pub link: String,
    /// Whether it is cut or mended: both interfaces lose their carrier, or get it back.
    #[serde(default)]
    pub state: Option<State>,
    /// New rules for both directions.
    #[serde(default)]
    pub both: Rules,
    /// New rules from the first host to the second.
    #[serde(default)]
    pub forward: Rules,
    /// New rules from the second host to the first.
    #[serde(default)]
    pub backward: Rules,
    /// Whether the translator forgets its mappings and takes other ports.
    #[serde(default)]
    pub rebind: bool,
}

fn first_seed() -> u64 {
    1
}

impl Host {
    /// A host of this name that does nothing.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Host {
        Host { name: name.into(), ..Host::default() }
    }
}

impl Link {
    /// A perfect link between two hosts.
    #[must_use]
    pub fn between(first: impl Into<String>, second: impl Into<String>) -> Link {
        Link { between: [first.into(), second.into()], ..Link::default() }
    }

    /// Its name, the default included.
    #[must_use]
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            self.between.join("-")
        } else {
            self.name.clone()
        }
    }

    /// What each direction does, the first host's first.
    #[must_use]
    pub fn directions(&self) -> [Rules; 2] {
        [
            self.both.overridden_by(&self.forward),
            self.both.overridden_by(&self.backward),
        ]
    }
}
