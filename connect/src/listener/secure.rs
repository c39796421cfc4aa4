//! Connections under TLS 1.3: sessions, and peers with the application's own protocols, distinguished by the
//! negotiated protocol (RFC 7301). The session's [`Server`] accepts all of them; each connection then waits
//! here for its first stream.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_carriers::quic::QuicOptions;
use hawser_carriers::tcp::TcpOptions;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Incoming, ListenOptions};
use crate::Duplex;
use crate::transports::{QuicDuplex, STREAMS, SessionDuplex};
use hawser_session::admission::{AdmissionGate, Shares};
use hawser_session::{Connection, Identity, Server, ServerConfig};

/// The maximum number of sessions and QUIC connections without a stream. The oldest make room for further
/// ones.
const MAX_WITHOUT_STREAM: usize = 256;
/// The time in which a session, or a QUIC connection, must open its first stream.
const FIRST_STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of ports that are tried if any will do: one must be free for TCP and UDP.
const PORTS: usize = 16;

pub(super) fn open(
    options: &ListenOptions,
    identity: &Identity,
    incoming: mpsc::Sender<Incoming>,
) -> io::Result<(SocketAddr, JoinSet<()>)> {
    let server = listen(options, &identity.server(&options.protocols)?)?;
    let address = server.addresses()[0].1;
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(server, incoming));
    Ok((address, tasks))
}

/// Makes a server at one port of TCP and UDP. Its first address is TCP's.
fn listen(options: &ListenOptions, tls: &Arc<rustls::ServerConfig>) -> io::Result<Server> {
    let tries = if options.address.port() == 0 { PORTS } else { 1 };
    let mut last = None;
    for _ in 0..tries {
        let tcp = TcpOptions {
            mptcp: options.is_multipath,
            interface: options.interface.clone(),
            ..TcpOptions::default()
        };
        let mut server =
            Server::open(ServerConfig { tls: Some(Arc::clone(tls)), ..ServerConfig::default() })?;
        server.listen_tcp_any(options.address, tcp)?;
        let quic = QuicOptions { interface: options.interface.clone(), ..QuicOptions::default() };
        match server.listen_quic_streams(server.addresses()[0].1, quic) {
            Ok(()) => return Ok(server),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| io::ErrorKind::AddrInUse.into(), io::Error::from))
}

/// Accepts connections as the application takes them; others wait in the server, which limits their number.
async fn accept(server: Server, incoming: mpsc::Sender<Incoming>) {
    let gate = AdmissionGate::new(Shares::new(MAX_WITHOUT_STREAM));
    while let Ok(place) = incoming.reserve().await {
        let connection = tokio::select! {
            connection = server.accept_any() => connection,
            () = incoming.closed() => return,
        };
        match connection {
            Ok(Connection::Plain(stream)) => place.send(Incoming { stream: Box::new(stream) }),
            Ok(Connection::Session(session)) => {
                let peer = session
                    .paths()
                    .first()
                    .map(|(_, info)| info.description.peer.ip());
                // A session that has lost its only carrier has no address, and ends soon.
                let peer = peer.unwrap_or(IpAddr::from([0; 4]));
                first_stream(&gate, peer, &incoming, async move {
                    let stream = session.accept().await.ok()?;
                    Some(Box::new(SessionDuplex { stream, session }) as Box<dyn Duplex>)
                });
            }
            Ok(Connection::Streams(connection)) => {
                let peer = connection.describe().peer.ip();
                first_stream(&gate, peer, &incoming, async move {
                    connection.admit(STREAMS);
                    let stream = connection.accept().await.ok()?;
                    Some(Box::new(QuicDuplex { stream }) as Box<dyn Duplex>)
                });
            }
            Err(_) => return,
        }
    }
}

/// Waits for a connection's first stream. The connection's place is free again when the application has the
/// stream.
fn first_stream(
    gate: &AdmissionGate,
    peer: IpAddr,
    incoming: &mpsc::Sender<Incoming>,
    stream: impl Future<Output = Option<Box<dyn Duplex>>> + Send + 'static,
) {
    let (mut place, incoming) = (gate.enter(peer), incoming.clone());
    let work = async move {
        let stream = tokio::select! {
            stream = timeout(FIRST_STREAM_TIMEOUT, stream) => stream,
            () = incoming.closed() => return,
        };
        if let Ok(Some(stream)) = stream {
            // An application that has closed the listener takes no more connections.
            let _ = incoming.send(Incoming { stream }).await;
        }
    };
    tokio::spawn(async move { place.hold(work).await });
}
