//! A lab with a client and a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use hawser::lab::{HostHandle, Lab, Spec};
use hawser::session::document::{ConnectionPriority, Document, StatePlace, Transport};
use hawser::session::{AcceptorConfig, Identity, Server, ServerConfig, TcpOptions, scheduler};
use tokio::runtime::Runtime;

use crate::Error;

/// The port of the server's first listener.
const PORT: u16 = 4_433;

/// A lab whose hosts `client` and `server` have runtimes of their own.
pub struct Testbed {
    pub lab: Lab,
    /// True if the server accepts MPTCP if a document asks for it.
    pub mptcp: bool,
    pub(crate) client: Runtime,
    pub(crate) server: Runtime,
    pub(crate) identity: Arc<Identity>,
    /// The address of the server, as the client sees it.
    pub(crate) address: IpAddr,
    /// The next port. A QUIC socket outlives its connections by some time, so each transfer has a port of its
    /// own.
    port: AtomicU16,
}

impl Testbed {
    /// Builds the lab and the runtimes of its two hosts.
    ///
    /// # Errors
    /// The lab could not be built, or lacks one of the two hosts.
    pub fn up(spec: &Spec) -> Result<Self, Error> {
        let lab = Lab::up(spec)?;
        let (client, server) = (lab.host("client")?.handle(), lab.host("server")?.handle());
        let address = lab
            .host("server")?
            .ipv4()
            .ok_or("the server has no IPv4 address")?;
        Ok(Self {
            client: runtime(client)?,
            server: runtime(server)?,
            lab,
            mptcp: true,
            identity: Arc::new(Identity::generate(vec!["server".into()])?),
            address,
            port: AtomicU16::new(PORT),
        })
    }

    /// Builds a stage from the text of a lab file.
    ///
    /// # Errors
    /// The errors of [`Testbed::up`], or the text is not a lab.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        Self::up(&Spec::parse(text)?)
    }

    /// Returns a session document with the server over these carriers, such as `quic:wlan0`.
    ///
    /// # Errors
    /// A text is not a carrier.
    pub fn document(&self, carriers: &[&str]) -> Result<Document, Error> {
        let mut text = format!(
            "remote_host = \"{}\"\n[ssl_config]\npin = \"{}\"\n",
            self.address,
            self.identity.fingerprint()
        );
        for carrier in carriers {
            let (transport, interface) = carrier
                .split_once(':')
                .ok_or("a carrier is TRANSPORT:INTERFACE")?;
            text += &format!(
                "[[connection_priority]]\ntransport = \"{transport}\"\ninterfaces = \"{interface}\"\n"
            );
        }
        let document = Document::parse(&text, hawser::session::document::Format::Toml);
        let mut document = document.map_err(|errors| {
            errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        })?;
        document.state = StatePlace::Nowhere;
        Ok(document)
    }

    /// Gives the server a certificate for this many names, from now on.
    ///
    /// # Errors
    /// The certificate could not be made.
    pub fn certify(&mut self, names: u32) -> Result<(), Error> {
        let names = (0..names).map(|number| format!("server-{number}")).collect();
        self.identity = Arc::new(Identity::generate(names)?);
        Ok(())
    }

    /// Returns a port that no transfer has used.
    pub(crate) fn next_port(&self) -> u16 {
        self.port.fetch_add(1, Ordering::Relaxed)
    }

    /// Opens the server's listeners for the sessions of `document`, and writes their port into it.
    pub(crate) fn listen(&self, document: &mut Document) -> Result<Server, Error> {
        document.port = self.next_port();
        let everywhere: [SocketAddr; 2] = [
            (Ipv4Addr::UNSPECIFIED, document.port).into(),
            (Ipv6Addr::UNSPECIFIED, document.port).into(),
        ];
        let scheduler = document.scheduler.clone();
        let tls = document
            .is_secure()
            .then(|| self.identity.server(&[]))
            .transpose()?;
        let is_quic = |connection: &ConnectionPriority| connection.transport == Transport::Quic;
        let quic = document.connections.iter().any(is_quic);
        let is_mptcp = |connection: &ConnectionPriority| connection.transport == Transport::Mptcp;
        let mptcp = self.mptcp && document.connections.iter().any(is_mptcp);
        let tcp = TcpOptions { mptcp, ..document.tcp.clone() };
        let config = ServerConfig {
            acceptor: AcceptorConfig {
                session: document.session.clone(),
                insecure: !document.is_secure(),
                ..AcceptorConfig::default()
            },
            scheduler: Arc::new(move || scheduler::by_name(&scheduler).expect("a known scheduler")),
            tcp: everywhere.iter().map(|at| (*at, tcp.clone())).collect(),
            quic: everywhere
                .iter()
                .filter(|_| quic)
                .map(|at| (*at, document.quic.clone()))
                .collect(),
            tls,
        };
        // A socket belongs to the host whose thread opens it.
        let opening = self.server.spawn(async { Server::open(config) });
        Ok(self.server.block_on(opening)??)
    }
}

fn runtime(host: HostHandle) -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(move || host.enter().expect("a host of a lab that is up"))
        .enable_all()
        .build()
}
