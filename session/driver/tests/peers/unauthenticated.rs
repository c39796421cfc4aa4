//! The cost of peers that connect to a server's listener and never authenticate.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_carriers::Carrier;
use hawser_carriers::quic::{QuicEndpoint, QuicListener};
use hawser_session::document::{ConnectionPriority, Transport};
use hawser_session::{AcceptorConfig, Identity, QuicOptions, Server, Trust, open};
use quinn::crypto::rustls::QuicClientConfig;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};

use crate::{Folder, certificate, document, free, serve};

fn server(folder: &Folder, acceptor: AcceptorConfig) -> (Server, SocketAddr, rustls::ClientConfig) {
    let (cert, key) = certificate(folder);
    let address = free();
    let server = serve(
        address,
        Identity::read(&cert, &key).unwrap().server(&[]).unwrap(),
        acceptor,
    );
    let client = Trust::File(cert).client(&[]).unwrap();
    (server, address, Arc::unwrap_or_clone(client))
}

/// Connects a QUIC client that keeps its connection alive.
async fn dial(address: SocketAddr, tls: rustls::ClientConfig) -> Result<quinn::Connection, String> {
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut transport = quinn::TransportConfig::default();
    transport.keep_alive_interval(Some(Duration::from_millis(50)));
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
    connecting.await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_opens_no_stream_is_closed() {
    let folder = Folder::new().expect("a folder");
    let timeout = Duration::from_millis(200);
    let (_server, address, tls) = server(&folder, AcceptorConfig { timeout, ..AcceptorConfig::default() });
    let connection = dial(address, tls).await.unwrap();
    assert_eq!(
        connection.max_datagram_size(),
        None,
        "no buffer is filled by datagrams"
    );
    let closed = tokio::time::timeout(Duration::from_secs(3), connection.closed()).await;
    closed.expect("a connection without a stream is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_unauthenticated_peer_is_evicted() {
    let folder = Folder::new().expect("a folder");
    // One address may have two of the eight places of each transport.
    let (server, address, tls) = server(
        &folder,
        AcceptorConfig { unauthenticated: 8, ..AcceptorConfig::default() },
    );
    let mut first = TcpStream::connect(address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _more = [
        TcpStream::connect(address).await.unwrap(),
        TcpStream::connect(address).await.unwrap(),
    ];
    let read = tokio::time::timeout(Duration::from_secs(2), first.read(&mut [0; 1])).await;
    assert!(matches!(read.expect("it is closed at once"), Ok(0) | Err(_)));
    assert_eq!(server.counts(), (1, 0));
    dial(address, tls).await.expect("QUIC has places of its own");
}

/// 1,100 connections are idle, and one client speaks Hawser.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_one_address_do_not_lock_out_clients() {
    let folder = Folder::new().expect("a folder");
    let (server, address, _) = server(&folder, AcceptorConfig::default());
    let mut idle = Vec::new();
    for _ in 0..1_100 {
        let connecting = TcpStream::connect(address);
        idle.push(
            tokio::time::timeout(Duration::from_secs(5), connecting)
                .await
                .unwrap()
                .unwrap(),
        );
    }
    for transport in [Transport::Tcp, Transport::Quic] {
        let mut document = document(address, &folder.join("cert.pem"), folder.join("state"));
        document.connections = vec![ConnectionPriority::new(transport.clone())];
        let opened = async {
            let (session, _) = open(&document).await?;
            Ok::<_, std::io::Error>(session.opened().await?)
        };
        let opened = tokio::time::timeout(Duration::from_secs(5), opened).await;
        opened
            .expect("in time")
            .unwrap_or_else(|error| panic!("by {transport:?}: {error}"));
    }
    assert!(server.counts().0 > 900, "{:?}", server.counts());
}

/// Connects through a relay that watches the server's datagrams, and also returns true if one was a Retry
/// packet. The long header of a Retry has type 3 unencrypted (RFC 9000, 17.2.5). A loss under load repeats
/// frames, but causes no Retry.
async fn dial_watched(server: SocketAddr, tls: rustls::ClientConfig) -> (quinn::Connection, bool) {
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = relay.local_addr().unwrap();
    let retried = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&retried);
    tokio::spawn(async move {
        let (mut client, mut datagram) = (None, [0; 2048]);
        while let Ok((length, from)) = relay.recv_from(&mut datagram).await {
            let to = if from == server {
                seen.fetch_or(datagram[0] & 0xf0 == 0xf0, Ordering::Relaxed);
                client
            } else {
                client = Some(from);
                Some(server)
            };
            if let Some(to) = to {
                let _ = relay.send_to(&datagram[..length], to).await;
            }
        }
    });
    let connection = dial(address, tls).await.expect("a place");
    (connection, retried.load(Ordering::Relaxed))
}

/// RFC 9000, 8.1.2: the server keeps no state for a client until its address is validated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowded_server_validates_client_addresses_first() {
    let folder = Folder::new().expect("a folder");
    // One address may have four QUIC places; they are crowded when two are taken.
    let (_server, address, tls) = server(
        &folder,
        AcceptorConfig { unauthenticated: 16, ..AcceptorConfig::default() },
    );
    let mut connections = Vec::new();
    for is_crowded in [false, false, true] {
        let (connection, is_retried) = dial_watched(address, tls.clone()).await;
        assert_eq!(is_retried, is_crowded, "with {} connections", connections.len());
        connections.push(connection);
    }
}

/// Returns the number of bytes that the transport takes until it blocks.
async fn fill(carrier: &mut impl Carrier) -> usize {
    let mut queue = VecDeque::from([bytes::Bytes::from(vec![7; 1 << 20])]);
    let mut taken = 0;
    while let Ok(Ok(more)) = tokio::time::timeout(
        Duration::from_millis(300),
        poll_fn(|cx| carrier.poll_write(cx, &mut queue)),
    )
    .await
        && more > 0
    {
        taken += more;
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unauthenticated_client_may_send_little_ahead() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let tls = Identity::read(&cert, &key).unwrap().server(&[]).unwrap();
    let listener = QuicListener::open("127.0.0.1:0".parse().unwrap(), QuicOptions::default(), tls).unwrap();
    let address = listener.local().unwrap();
    let endpoint = QuicEndpoint::open(address, None, QuicOptions::default()).unwrap();
    let tls = Trust::File(cert).client(&[]).unwrap();
    // The server sees the stream once the client has written to it.
    let work = async {
        let mut client = endpoint.connect(address, "localhost", tls).await.unwrap();
        let taken = fill(&mut client).await;
        (client, taken)
    };
    let accepting = async { listener.accept().await.unwrap().accept().await };
    let (server, (mut client, taken)) = tokio::join!(accepting, work);
    let mut server = server.unwrap();
    assert!((1..=64 << 10).contains(&taken), "{taken} bytes, and nobody reads");
    server.admit();
    let taken = fill(&mut client).await;
    assert_eq!(taken, 1 << 20, "bytes, once it belongs to a session");
}

/// A plain client's carrier belongs to the application that accepted it, so it counts as authenticated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_has_the_whole_window() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let address = free();
    let tls = Identity::read(&cert, &key)
        .unwrap()
        .server(&["h3".to_owned()])
        .unwrap();
    let server = serve(address, tls, AcceptorConfig::default());
    let mut offer = Arc::unwrap_or_clone(Trust::File(cert).client(&[]).unwrap());
    offer.alpn_protocols = vec!["h3".into()];
    let endpoint = QuicEndpoint::open(address, None, QuicOptions::default()).unwrap();
    let mut client = endpoint
        .connect(address, "localhost", Arc::new(offer))
        .await
        .unwrap();
    fill(&mut client).await;
    let taken = server.accept_any().await.unwrap();
    assert!(taken.is_plain());
    assert_eq!(fill(&mut client).await, 1 << 20, "bytes, once somebody took it");
}
