//! A lab with a client, a gateway that it reaches over two paths, and a server behind the gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser::race::resolve::{Config, Resolver};
use hawser::session::document::{Document, Format, StatePlace};
use hawser::session::relay::{Gateway, Token};
use hawser::session::{Identity, QuicOptions, Server, ServerConfig, TcpOptions};
use hawser_gateway::{AllowList, Clients, GatewayConfig, GatewayEvent, GatewayLimits, serve};
use hawser_lab::{HostHandle, Lab, Spec};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::TestResult;

/// The gateway's port.
const PORT: u16 = 4_433;
/// The server's address, a public one for all hosts of the lab.
pub(crate) const SERVER: &str = "93.184.216.34";

const FILE: &str = r#"
    seed = 5
    host = [{ name = "client" }, { name = "gateway" }, { name = "server" }]
    [[link]]
    name = "wifi"
    between = ["client", "gateway"]
    interfaces = ["wlan0", "eth0"]
    through = "cell"
    both = { rate = "30Mbit/s", queue = 100000, delay = "5ms" }
    [[link]]
    name = "mobile"
    between = ["client", "gateway"]
    interfaces = ["wwan0", "eth1"]
    through = "cell"
    both = { rate = "20Mbit/s", queue = 100000, delay = "15ms" }
    [[link]]
    name = "backbone"
    between = ["gateway", "server"]
    addresses = [["93.184.216.1/24", "2606:2800::1/64"], ["93.184.216.34/24", "2606:2800::34/64"]]
"#;

/// A lab with runtimes on its hosts.
pub(crate) struct Testbed {
    pub(crate) lab: Lab,
    pub(crate) client: Runtime,
    pub(crate) gateway: Runtime,
    pub(crate) server: Runtime,
    /// The token of the client that the gateway knows.
    pub(crate) token: Token,
    pub(crate) events: Arc<Mutex<Vec<String>>>,
    identity: Identity,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

/// Short limits for tests.
pub(crate) fn limits() -> GatewayLimits {
    GatewayLimits {
        request_timeout: Duration::from_millis(700),
        connect: Duration::from_secs(3),
        ..GatewayLimits::default()
    }
}

impl Testbed {
    /// Builds a lab with these names and addresses, in addition to the server's own.
    pub(crate) fn up(names: &[(&str, &str)]) -> TestResult<Testbed> {
        let mut text = String::new();
        for (name, addresses) in [("web.example", SERVER)].iter().chain(names) {
            let addresses: Vec<String> = addresses.split(' ').map(|one| format!("{one:?}")).collect();
            text += &format!(
                "[[dns]]\nname = {name:?}\naddresses = [{}]\n",
                addresses.join(", ")
            );
        }
        Self::with_names(&text)
    }

    /// Builds a lab with these tables of names.
    pub(crate) fn with_names(names: &str) -> TestResult<Testbed> {
        let lab = Lab::up(&Spec::parse(&format!("{FILE}{names}"))?)?;
        let on = |host: &str| -> TestResult<Runtime> { Ok(runtime(lab.host(host)?.handle())?) };
        Ok(Testbed {
            client: on("client")?,
            gateway: on("gateway")?,
            server: on("server")?,
            token: Token::generate()?,
            events: Arc::default(),
            identity: Identity::generate(vec!["gateway".into()])?,
            serving: None,
            lab,
        })
    }

    /// Opens the gateway with these rules.
    pub(crate) fn serve(&mut self, allow: &[&str], limits: GatewayLimits) -> TestResult {
        // The resolver is created on the gateway's host, where the system's configuration files are that
        // host's own.
        let resolver = self.gateway.spawn(async { Resolver::new(&Config::system()?) });
        let resolver = self.gateway.block_on(resolver)??;
        self.serve_by(allow, limits, resolver)
    }

    /// Opens the gateway with these rules and this resolver.
    pub(crate) fn serve_by(
        &mut self,
        allow: &[&str],
        limits: GatewayLimits,
        resolver: Resolver,
    ) -> TestResult {
        let config = GatewayConfig {
            clients: Clients::parse(&Clients::line("client", &self.token))?,
            allow: AllowList::parse(allow.iter().copied())?,
            resolver,
            limits: limits.clone(),
        };
        let at: SocketAddr = (Ipv4Addr::UNSPECIFIED, PORT).into();
        let listeners = ServerConfig {
            acceptor: limits.acceptor(),
            tcp: vec![(at, TcpOptions::default())],
            quic: vec![(at, QuicOptions::default())],
            tls: Some(self.identity.server(&[])?),
            ..ServerConfig::default()
        };
        // A socket belongs to the host of the thread that opens it.
        let server = self
            .gateway
            .block_on(self.gateway.spawn(async { Server::open(listeners) }))??;
        let events = self.events.clone();
        let report = move |event: GatewayEvent| {
            events.lock().push(format!("{event:?}"));
        };
        self.serving = Some(
            self.gateway
                .spawn(serve(server, config, report, std::future::pending())),
        );
        Ok(())
    }

    /// Returns the document of a session with the gateway over both paths.
    pub(crate) fn document(&self) -> TestResult<Document> {
        let address = self
            .lab
            .host("gateway")?
            .ipv4()
            .ok_or("the gateway has an IPv4 address")?;
        let text = format!(
            "remote_host = \"{address}:{PORT}\"\n[ssl_config]\npin = \"{}\"\n\
             [[connection_priority]]\ntransport = \"tcp\"\ninterfaces = \"wlan0\"\n\
             [[connection_priority]]\ntransport = \"quic\"\ninterfaces = \"wwan0\"\n",
            self.identity.fingerprint()
        );
        let mut document = Document::parse(&text, Format::Toml).map_err(|errors| format!("{errors:?}"))?;
        document.state = StatePlace::Nowhere;
        Ok(document)
    }

    /// Simulates another process of the client, which dies with its runtime.
    pub(crate) fn another_client(&self) -> TestResult<Runtime> {
        Ok(runtime(self.lab.host("client")?.handle())?)
    }

    /// Returns the near end of the gateway for the client.
    pub(crate) fn near(&self) -> TestResult<Gateway> {
        Ok(Gateway::new(self.document()?, self.token.clone()))
    }

    /// Runs `act` on the client for at most 20 s.
    pub(crate) fn as_client<T: Send + 'static>(
        &self,
        work: impl Future<Output = TestResult<T>> + Send + 'static,
    ) -> TestResult<T> {
        let work = self
            .client
            .spawn(async { tokio::time::timeout(Duration::from_secs(20), work).await });
        let done = self.client.block_on(work)?;
        done.map_err(|_| format!("not done after 20 s; the gateway: {:?}", self.events()))?
    }

    /// Returns the gateway's events.
    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }

    /// Waits for an event of the gateway.
    ///
    /// # Errors
    /// Fails if the gateway reports no such event within 2 s.
    pub(crate) fn expect_event(&self, what: &str) -> TestResult {
        for _ in 0..100 {
            if self.events().iter().any(|event| event.contains(what)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("the gateway did not report {what:?}: {:?}", self.events()).into())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

fn runtime(host: HostHandle) -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(move || host.enter().expect("a host of a lab that is up"))
        .enable_all()
        .build()
}
