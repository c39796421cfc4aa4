//! How two sides meet: one waits, the other calls.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser::session::document::Warning;
use hawser::session::{
    AcceptorConfig, Connection, Identity, Network, PlainStream, QuicOptions, SctpOptions, Server,
    ServerConfig, Session, TcpOptions, open, open_any, scheduler, speaks_mptcp,
};
use serde_json::json;

use super::args::{Asked, SessionArgs, Wait};
use crate::exit::Exit;

/// A runtime with a thread for the session beside the one for the application.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Exit::environment)
}

/// A place where sessions begin.
pub(crate) enum Meeting {
    /// This side waits.
    Waiting(Server),
    /// This side has called.
    Called(Session),
}

/// What a call may come to.
pub(crate) enum Met {
    Meeting(Meeting),
    /// The server does not speak Hawser.
    Plain(Box<PlainStream>),
}

impl Meeting {
    /// Waits or calls as asked, and tells how to be called: `other` is the command for that.
    pub(crate) async fn arrange(args: &SessionArgs, other: &str, json: bool) -> Result<Meeting, Exit> {
        args.interact.start()?;
        match args.asked()? {
            Asked::Wait(wait) => {
                listen(&wait, AcceptorConfig::default(), other, json).await.map(Meeting::Waiting)
            }
            Asked::Call(document) => {
                let (session, warnings) = open(&document).await.map_err(Exit::network)?;
                warnings.iter().for_each(|warning| warn(warning, json));
                Ok(Meeting::Called(session))
            }
        }
    }

    /// The same; a server that does not speak Hawser is taken too, if the document allows that.
    pub(crate) async fn arrange_any(args: &SessionArgs, other: &str, json: bool) -> Result<Met, Exit> {
        args.interact.start()?;
        match args.asked()? {
            Asked::Wait(wait) => {
                let server = listen(&wait, AcceptorConfig::default(), other, json).await?;
                Ok(Met::Meeting(Meeting::Waiting(server)))
            }
            Asked::Call(document) => {
                let (connection, warnings) = open_any(&document).await.map_err(Exit::network)?;
                warnings.iter().for_each(|warning| warn(warning, json));
                Ok(match connection {
                    Connection::Session(session) => Met::Meeting(Meeting::Called(session)),
                    Connection::Plain(stream) => Met::Plain(Box::new(stream)),
                })
            }
        }
    }

    /// The next session. One that was called is the only one.
    pub(crate) async fn next(&self) -> Result<Session, Exit> {
        match self {
            Meeting::Waiting(server) => server.accept().await.map_err(Exit::environment),
            Meeting::Called(session) => {
                session.opened().await.map_err(|error| Exit::network(format!("the server: {error}")))?;
                Ok(session.clone())
            }
        }
    }
}

fn warn(warning: &Warning, json: bool) {
    if json {
        println!("{}", json!({ "event": "warning", "path": warning.path, "message": warning.message }));
    } else {
        eprintln!("hawser: warning: {warning}");
    }
}

/// Opens a server's doors and tells how to call it: `other` is the command for that.
pub(crate) async fn listen(
    wait: &Wait,
    acceptor: AcceptorConfig,
    other: &str,
    json: bool,
) -> Result<Server, Exit> {
    let identity = match (&wait.certificate, wait.insecure) {
        (_, true) => None,
        (Some((chain, key)), false) => Some(Identity::read(chain, key).map_err(Exit::input)?),
        (None, false) => Some(Identity::generate(vec!["hawser".to_owned()]).map_err(Exit::environment)?),
    };
    let tls = identity.as_ref().map(|identity| identity.server(&[])).transpose().map_err(Exit::input)?;
    let network = Network::open().await.map_err(Exit::environment)?;
    let own: Vec<IpAddr> = network.addresses().into_iter().filter(|address| !address.is_loopback()).collect();
    let everywhere = || {
        let v6 = network.addresses().iter().any(IpAddr::is_ipv6);
        let v6 = v6.then_some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, wait.port)));
        std::iter::once(SocketAddr::from((Ipv4Addr::UNSPECIFIED, wait.port))).chain(v6).collect()
    };
    let addresses: Vec<SocketAddr> =
        if wait.addresses.is_empty() { everywhere() } else { wait.addresses.clone() };
    let options = TcpOptions { mptcp: speaks_mptcp(), ..TcpOptions::default() };
    let name = wait.scheduler.clone();
    let mut server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: wait.insecure, ..acceptor },
        scheduler: Arc::new(move || scheduler::by_name(&name).expect("a name that was checked")),
        tcp: addresses.iter().map(|address| (*address, options.clone())).collect(),
        quic: match tls {
            Some(_) => addresses.iter().map(|address| (*address, QuicOptions::default())).collect(),
            None => Vec::new(),
        },
        tls,
    })
    .map_err(Exit::environment)?;
    if wait.sctp {
        // Its addresses are the paths that a client gets, so those of interfaces, not all there are.
        let given = wait.addresses.iter().map(SocketAddr::ip);
        let paths: Vec<IpAddr> = if wait.addresses.is_empty() { own.clone() } else { given.collect() };
        let port = wait.addresses.first().map_or(wait.port, SocketAddr::port);
        server.listen_sctp(&paths, port, SctpOptions::default()).map_err(Exit::environment)?;
    }
    let pin = identity.map(|identity| identity.fingerprint());
    let reachable = |address: &SocketAddr| match address.ip().is_unspecified() {
        true => own
            .iter()
            .filter(|ip| ip.is_ipv4() == address.is_ipv4())
            .map(|ip| SocketAddr::new(*ip, address.port()))
            .collect(),
        false => vec![*address],
    };
    let reachable: Vec<SocketAddr> = addresses.iter().flat_map(reachable).collect();
    tell(&reachable, wait.port, pin.as_deref(), other, json);
    Ok(server)
}

/// How the other side calls.
fn tell(reachable: &[SocketAddr], port: u16, pin: Option<&str>, other: &str, json: bool) {
    if json {
        let addresses: Vec<String> = reachable.iter().map(ToString::to_string).collect();
        println!("{}", json!({ "event": "listening", "addresses": addresses, "pin": pin }));
        return;
    }
    let trust = pin.map_or_else(|| " --insecure".to_owned(), |pin| format!(" --pin {pin}"));
    eprintln!("waiting; on the other side:");
    if reachable.is_empty() {
        eprintln!("  {other} 127.0.0.1:{port}{trust}");
    }
    for address in reachable {
        eprintln!("  {other} {address}{trust}");
    }
}
