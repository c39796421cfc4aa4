//! Documents that state what a session is to be: MULTI's Figure 2, as JSON or TOML.
//!
//! [`Document::parse`] reads one and checks it against the published schema
//! (`docs/schemas/session.schema.json`); [`Document::plan`] turns it into candidates on this
//! machine, with a warning for each property that the machine cannot provide.

mod interfaces;
mod plan;
mod read;
mod stack;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hawser_carrier_mtp::MtpOptions;
use hawser_carrier_quic::QuicOptions;
use hawser_carrier_sctp::SctpOptions;
use hawser_carrier_tcp::TcpOptions;
use hawser_session::{Config, Security};

pub use hawser_policy::document::{Diagnostic as DocumentError, Format};
pub use interfaces::{Interface, Kind};
pub use plan::{Machine, Meter, Plan, Warning};
pub use stack::{Stack, StackError, StartError};
pub use values::hex;

/// The port of a server whose document names none.
pub const PORT: u16 = 4_433;

/// The word for every interface over which a route leads to the server. Linux lets no interface have this name.
pub const EVERY_INTERFACE: &str = "all";

/// The schema, as published.
pub const SCHEMA: &str = include_str!("../../../../docs/schemas/session.schema.json");

/// A session as a document asks for it, before anything is known of this machine.
#[derive(Clone, Debug)]
pub struct Document {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The client's own name of the session.
    pub session_id: Option<[u8; 16]>,
    /// The carriers, best first.
    pub connections: Vec<Connection>,
    /// What words for interfaces mean.
    pub interfaces: BTreeMap<String, String>,
    /// The scheduler's name.
    pub scheduler: String,
    /// The session, without candidates.
    pub session: Config,
    /// What TCP and MPTCP carriers are asked for.
    pub tcp: TcpOptions,
    /// What QUIC carriers are asked for.
    pub quic: QuicOptions,
    /// What SCTP carriers are asked for.
    pub sctp: SctpOptions,
    /// What carriers over transports written in MTP are asked for.
    pub mtp: MtpOptions,
    /// Where such transports run.
    pub stacks: Vec<Stack>,
    /// Where the certificates are.
    pub tls: Tls,
    /// What the document asks for and nothing here can provide, with its path.
    pub unfulfilled: Vec<Warning>,
    /// Application protocols of a server that does not speak Hawser.
    pub fallback: Vec<String>,
    /// Where what outlives the session is kept.
    pub state: StatePlace,
}

/// Where quotas that were used, and servers that were seen to speak Hawser, are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatePlace {
    /// `hawser/state.json` in `$XDG_STATE_HOME` or `~/.local/state`.
    #[default]
    Usual,
    /// This file.
    File(PathBuf),
    /// Nowhere: each session begins with its whole quota and remembers nobody.
    Nowhere,
}

/// The time for which a quota is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// A day, in UTC.
    Day,
    /// A month of the calendar, in UTC.
    Month,
    /// For ever.
    #[default]
    Ever,
}

/// Where the certificates are, and what they must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM certificates: trusted ones (client), one's own (server).
    pub certificate: Option<PathBuf>,
    /// The PEM key of one's own.
    pub key: Option<PathBuf>,
    /// The name that the server's must have.
    pub name: Option<String>,
    /// The SHA-256 of the only one that is trusted.
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
    /// SCTP in UDP, over several paths by itself, and without security.
    Sctp,
    /// A transport written in MTP with TLS 1.3, by the name of its program: `tcp` in `mtp-tcp`.
    Mtp(String),
}

impl Transport {
    /// The transports that come by name; others are written in MTP.
    pub const NAMES: &str = "tcp, quic, mptcp, sctp, or mtp- and the name of a program, such as mtp-tcp";

    /// The transport of this name.
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
    /// Either; IPv6 first (RFC 8305 4).
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One entry of `connection_priority`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The transport.
    pub transport: Transport,
    /// The IP version.
    pub family: Family,
    /// Words for interfaces; none: whichever the system takes.
    pub interfaces: Vec<String>,
    /// Another address of the server.
    pub address: Option<String>,
    /// The path that it is an alternative of.
    pub path: Option<u32>,
    /// Used when no other path is left.
    pub backup: bool,
    /// Its share under `weighted`.
    pub weight: u32,
    /// What a byte costs.
    pub cost: u32,
    /// Bytes that may go over its path.
    pub quota: Option<u64>,
    /// After what time it has its whole quota again.
    pub period: Period,
}

impl Connection {
    /// Connections by `transport` over every interface that leads to the server.
    pub fn over_all(transport: Transport) -> Self {
        Self { interfaces: vec![EVERY_INTERFACE.to_owned()], ..Self::new(transport) }
    }

    /// A connection by `transport` over whichever interface and IP version the system takes.
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
    /// The default session with `server`, given as in `remote_host`, over one TCP carrier.
    ///
    /// # Errors
    /// `server` is neither a name nor an address, or its port is no number.
    pub fn new(server: &str) -> Result<Self, DocumentError> {
        let (host, port) = read::host(server, "remote_host")?;
        Ok(Self {
            host,
            port,
            session_id: None,
            connections: vec![Connection::new(Transport::Tcp)],
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
        })
    }

    /// Goes without TLS.
    ///
    /// # Errors
    /// A connection is QUIC, which has it always.
    pub fn without_tls(&mut self) -> Result<(), DocumentError> {
        if let Some(index) = self
            .connections
            .iter()
            .position(|one| one.transport == Transport::Quic)
        {
            let path = format!("connection_priority[{index}]");
            return Err(DocumentError { path, message: "QUIC has TLS always".into(), hint: None });
        }
        self.session.security = Security::None;
        self.tls = Tls::default();
        Ok(())
    }

    /// Whether carriers have TLS.
    pub fn is_secure(&self) -> bool {
        self.session.security == Security::Tls
    }
}
