//! Peers that come to a server's door and prove nothing: what they may cost.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser::session::{AcceptorConfig, Identity, QuicOptions, Server, Trust};
use hawser_carrier::Carrier;
use hawser_carrier_quic::{QuicDoor, QuicEndpoint};
use quinn::crypto::rustls::QuicClientConfig;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::{Folder, certificate, free, serve};

fn server(folder: &Folder, acceptor: AcceptorConfig) -> (Server, SocketAddr, rustls::ClientConfig) {
    let (cert, key) = certificate(folder);
    let address = free();
    let server = serve(address, Identity::read(&cert, &key).unwrap().server(&[]).unwrap(), acceptor);
    let client = Trust::File(cert).client(&[]).unwrap();
    (server, address, Arc::unwrap_or_clone(client))
}

/// A QUIC client that keeps its connection alive.
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
async fn a_client_that_opens_no_stream_is_sent_away() {
    let folder = Folder::new().expect("a folder");
    let patience = Duration::from_millis(200);
    let (_server, address, tls) = server(&folder, AcceptorConfig { patience, ..AcceptorConfig::default() });
    let connection = dial(address, tls).await.unwrap();
    assert_eq!(connection.max_datagram_size(), None, "no buffer is filled by datagrams");
    let closed = tokio::time::timeout(Duration::from_secs(3), connection.closed()).await;
    closed.expect("a connection without a stream is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_counted_from_before_their_handshakes() {
    let folder = Folder::new().expect("a folder");
    let (server, address, tls) =
        server(&folder, AcceptorConfig { strangers: 2, ..AcceptorConfig::default() });
    let silent = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
    let began = Instant::now();
    let mut third = TcpStream::connect(address).await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(2), third.read(&mut [0; 1])).await;
    assert!(matches!(read.expect("it is closed at once"), Ok(0) | Err(_)));
    assert!(dial(address, tls.clone()).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(server.counts(), (2, 0));
    drop(silent);
    tokio::time::sleep(Duration::from_millis(100)).await;
    dial(address, tls).await.expect("there is a place again");
}

/// RFC 9000, 8.1.2: with a Retry the client's first flight goes twice, and nothing of it is kept until
/// its address is known to be its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_it_is_crowded_a_client_has_to_show_its_address_first() {
    let folder = Folder::new().expect("a folder");
    let (_server, address, tls) =
        server(&folder, AcceptorConfig { strangers: 4, ..AcceptorConfig::default() });
    let flights = |connection: &quinn::Connection| connection.stats().frame_tx.crypto;
    let calm = dial(address, tls.clone()).await.expect("a place");
    let without = flights(&calm);
    let _silent = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
    tokio::time::sleep(Duration::from_millis(100)).await;
    let crowded = dial(address, tls).await.expect("the last place");
    assert!(flights(&crowded) > without, "{} and {without}", flights(&crowded));
}

/// Bytes that the transport takes until it takes no more.
async fn fill(carrier: &mut impl Carrier) -> usize {
    let mut queue = VecDeque::from([bytes::Bytes::from(vec![7; 1 << 20])]);
    let mut taken = 0;
    while let Ok(Ok(more)) =
        tokio::time::timeout(Duration::from_millis(300), poll_fn(|cx| carrier.poll_write(cx, &mut queue)))
            .await
        && more > 0
    {
        taken += more;
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_may_send_little_ahead() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let tls = Identity::read(&cert, &key).unwrap().server(&[]).unwrap();
    let door = QuicDoor::open("127.0.0.1:0".parse().unwrap(), QuicOptions::default(), tls).unwrap();
    let address = door.local().unwrap();
    let endpoint = QuicEndpoint::open(address, None, QuicOptions::default()).unwrap();
    let tls = Trust::File(cert).client(&[]).unwrap();
    // The stream is there for the server when something is written to it.
    let work = async {
        let mut client = endpoint.connect(address, "localhost", tls).await.unwrap();
        let taken = fill(&mut client).await;
        (client, taken)
    };
    let welcome = async { door.accept().await.unwrap().welcome().await };
    let (server, (mut client, taken)) = tokio::join!(welcome, work);
    let mut server = server.unwrap();
    assert!((1..=64 << 10).contains(&taken), "{taken} bytes, and nobody reads");
    server.admit();
    let taken = fill(&mut client).await;
    assert_eq!(taken, 1 << 20, "bytes, once it belongs to a session");
}

/// A plain client's carrier belongs to whoever took it: it is no stranger any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_has_the_whole_window() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let address = free();
    let tls = Identity::read(&cert, &key).unwrap().server(&["h3".to_owned()]).unwrap();
    let server = serve(address, tls, AcceptorConfig::default());
    let mut offer = Arc::unwrap_or_clone(Trust::File(cert).client(&[]).unwrap());
    offer.alpn_protocols = vec!["h3".into()];
    let endpoint = QuicEndpoint::open(address, None, QuicOptions::default()).unwrap();
    let mut client = endpoint.connect(address, "localhost", Arc::new(offer)).await.unwrap();
    fill(&mut client).await;
    let taken = server.accept_any().await.unwrap();
    assert!(taken.is_plain());
    assert_eq!(fill(&mut client).await, 1 << 20, "bytes, once somebody took it");
}
