//! Documents that describe a session (MULTI, Figure 2), in JSON or TOML.
//!
//! [`Document::parse`] reads a document; the schema for editors is `docs/schemas/session.schema.json`, and a
//! test holds the two together. [`Document::plan`] turns it into candidates on this machine, with a
//! warning for each property that the machine cannot provide.

mod interfaces;
mod part;
mod plan;
mod read;
mod stack;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hawser_carriers::mtp::MtpOptions;
use hawser_carriers::quic::QuicOptions;
use hawser_carriers::sctp::SctpOptions;
use hawser_carriers::tcp::TcpOptions;
use hawser_session_machine::{Config, Security};

pub use hawser_policy::document::{Diagnostic as DocumentError, Format};
pub use interfaces::{Interface, LinkKind};
pub use plan::{ConnectionPlan, MeteredPath, PlanFacts, Warning};
pub use stack::{Stack, StackError, StartError};
pub use values::hex;

/// The server's port if the document names none.
pub const PORT: u16 = 4_433;

/// The word for every interface that has a route to the server. Linux does not allow an interface of this
/// name.
pub const EVERY_INTERFACE: &str = "all";

/// A session as a document describes it, without knowledge of this machine.
#[derive(Clone, Debug)]
pub struct Document {
    /// The server's name or address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The client's own id of the session.
    pub session_id: Option<[u8; 16]>,
    /// The carriers, best first.
    pub connections: Vec<ConnectionPriority>,
    /// The interfaces that the document's words stand for.
    pub interfaces: BTreeMap<String, String>,
    /// The scheduler's name.
    pub scheduler: String,
    /// The session's configuration, without candidates.
    pub session: Config,
    /// The options of TCP and MPTCP carriers.
    pub tcp: TcpOptions,
    /// The options of QUIC carriers.
    pub quic: QuicOptions,
    /// The options of SCTP carriers.
    pub sctp: SctpOptions,
    /// The options of carriers over transports written in MTP.
    pub mtp: MtpOptions,
    /// The stacks on which such transports run.
    pub stacks: Vec<Stack>,
    /// The certificates.
    pub tls: Tls,
    /// Properties that the document asks for and this implementation cannot provide, with their paths.
    pub unfulfilled: Vec<Warning>,
    /// Application protocols of a server that does not speak Hawser.
    pub fallback: Vec<String>,
    /// The place for state that outlives the session.
    pub state: StatePlace,
}

/// The place where quota use and the servers known to speak Hawser are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatePlace {
    /// `hawser/state.json` in `$XDG_STATE_HOME` or `~/.local/state`.
    #[default]
    Usual,
    /// The given file.
    File(PathBuf),
    /// No file: each session begins with its whole quota and remembers no server.
    Nowhere,
}

/// The period for which a quota applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// A day, in UTC.
    Day,
    /// A calendar month, in UTC.
    Month,
    /// Unlimited.
    #[default]
    Ever,
}

/// The certificates and the requirements on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// A file of PEM certificates: the trusted ones (client), or this side's own (server).
    pub certificate: Option<PathBuf>,
    /// The file of this side's own key, in PEM.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have.
    pub name: Option<String>,
    /// The SHA-256 of the only trusted certificate.
    pub pin: Option<[u8; 32]>,
}

/// The transport of a carrier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP with TLS 1.3.
    Tcp,
    /// QUIC.
    Quic,
    /// Multipath TCP with TLS 1.3.
    Mptcp,
    /// SCTP in UDP, which uses several paths by itself and has no security.
    Sctp,
    /// A transport written in MTP with TLS 1.3, by the name of its program: `tcp` in `mtp-tcp`.
    Mtp(String),
}

impl Transport {
    /// The names of the built-in transports, and the form of the names of transports written in MTP.
    pub const NAMES: &str = "tcp, quic, mptcp, sctp, or mtp- and the name of a program, such as mtp-tcp";

    /// Returns the transport with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "tcp" => Some(Self::Tcp),
            "quic" => Some(Self::Quic),
            "mptcp" => Some(Self::Mptcp),
            "sctp" => Some(Self::Sctp),
            name => {
                let program = name.strip_prefix("mtp-").filter(|program| !program.is_empty())?;
                Some(Self::Mtp(program.to_owned()))
            }
        }
    }
}

/// The IP version of a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Either version, IPv6 first (RFC 8305, 4).
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One entry of `connection_priority`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPriority {
    /// The transport.
    pub transport: Transport,
    /// The IP version.
    pub family: Family,
    /// Words for interfaces. If empty, the system chooses.
    pub interfaces: Vec<String>,
    /// Another address of the server.
    pub address: Option<String>,
    /// The number of the path on which it is an alternative.
    pub path: Option<u32>,
    /// True if it is used only when no other path is left.
    pub backup: bool,
    /// The share of the data under `weighted`.
    pub weight: u32,
    /// The cost of a byte.
    pub cost: u32,
    /// The quota of its path, in bytes.
    pub quota: Option<u64>,
    /// The period after which its quota is full again.
    pub period: Period,
}

impl ConnectionPriority {
    /// Returns connections by `transport` over every interface that has a route to the server.
    pub fn over_all(transport: Transport) -> Self {
        Self { interfaces: vec![EVERY_INTERFACE.to_owned()], ..Self::new(transport) }
    }

    /// Returns a connection by `transport` over the interface and IP version that the system chooses.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            family: Family::Any,
            interfaces: Vec::new(),
            address: None,
            path: None,
            backup: false,
            weight: 1,
            cost: 0,
            quota: None,
            period: Period::Ever,
        }
    }
}

impl Document {
    /// Creates the default session with `server`, given as in `remote_host`, over one TCP carrier.
    ///
    /// # Errors
    /// `server` is neither a name nor an address, or its port is not a number.
    pub fn new(server: &str) -> Result<Self, DocumentError> {
        read::host(server, "remote_host").map(Self::to)
    }

    /// Creates the default session with the server of this name or address, and port.
    fn to((host, port): (String, u16)) -> Self {
        Self {
            host,
            port,
            session_id: None,
            connections: vec![ConnectionPriority::new(Transport::Tcp)],
            interfaces: BTreeMap::new(),
            scheduler: "ecf".into(),
            session: Config::default(),
            tcp: TcpOptions::default(),
            quic: QuicOptions { idle_timeout: Some(Duration::from_secs(30)), ..QuicOptions::default() },
            sctp: SctpOptions::default(),
            mtp: MtpOptions::default(),
            stacks: Vec::new(),
            tls: Tls::default(),
            unfulfilled: Vec::new(),
            fallback: Vec::new(),
            state: StatePlace::Usual,
        }
    }

    /// Disables TLS.
    ///
    /// # Errors
    /// A connection uses QUIC, which always has TLS.
    pub fn without_tls(&mut self) -> Result<(), DocumentError> {
        if let Some(index) = self
            .connections
            .iter()
            .position(|one| one.transport == Transport::Quic)
        {
            let path = format!("connection_priority[{index}]");
            return Err(DocumentError { path, message: "QUIC always has TLS".into(), hint: None });
        }
        self.session.security = Security::None;
        self.tls = Tls::default();
        Ok(())
    }

    /// Returns true if carriers use TLS.
    pub fn is_secure(&self) -> bool {
        self.session.security == Security::Tls
    }
}
