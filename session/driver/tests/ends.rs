//! The end of sessions without handles, and the limits on the state that a remaining peer can keep alive.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hawser_session::document::{Document, StatePlace};
use hawser_session::{
    AcceptorConfig, Candidate, ClientConfig, Config, Loss, Notice, PathCandidate, PathStatus, Security,
    Server, ServerConfig, Session, TcpOptions, connect, open, scheduler,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn server() -> (Server, SocketAddr) {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
        tcp: vec![(any, TcpOptions::default())],
        ..ServerConfig::default()
    })
    .unwrap();
    let address = server.addresses()[0].1;
    (server, address)
}

fn call(address: SocketAddr) -> Session {
    let candidate = PathCandidate::Tcp { peer: address, local: None, options: TcpOptions::default() };
    connect(ClientConfig {
        session: Config { security: Security::None, ..Config::default() },
        name: None,
        scheduler: scheduler::by_name("ecf").unwrap(),
        candidates: vec![(candidate, Candidate::new(0))],
        tls: None,
    })
    .unwrap()
}

/// Returns HELLO of an insecure session without resuming (docs/session-protocol.md, "HELLO").
fn hello(name: u8) -> Vec<u8> {
    let mut hello = vec![1, 52, 0, 0, 0, 0, 0, 52, 1, 1, 1, 8];
    hello.extend_from_slice(&1024u32.to_be_bytes());
    hello.extend_from_slice(&[name; 16]);
    hello.extend_from_slice(&[0; 8]);
    hello.extend_from_slice(&(1u64 << 30).to_be_bytes());
    hello.extend_from_slice(&0u32.to_be_bytes());
    hello
}

/// Waits until `is_so` holds, for at most `seconds`.
async fn becomes(what: &str, seconds: u64, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not so after {seconds} s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(Duration::from_secs(5), work).await;
    result.unwrap_or_else(|_| panic!("{what} takes over 5 s"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_with_its_last_handle() {
    let (listener, address) = server();
    let client = call(address);
    client.opened().await.unwrap();
    let server = listener.accept().await.unwrap();
    let stream = client.open().unwrap();
    drop((client.clone(), client));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!server.is_closed(), "a stream is a handle, too");
    drop(stream);
    becomes("the server's session has ended", 5, || server.is_closed()).await;
    server.accept().await.expect("the stream is there still");
    assert!(server.accept().await.is_err(), "whoever waits is notified");
    drop(server);
    becomes("no session is left", 5, || listener.counts().1 == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_drops_a_session_ends_it() {
    let (listener, address) = server();
    let client = call(address);
    client.opened().await.unwrap();
    drop(listener.accept().await.unwrap());
    assert!(soon("the client is notified", client.accept()).await.is_err());
    becomes("its place is free", 5, || listener.counts().1 == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_written_before_the_last_handle_is_dropped_arrives() {
    let (listener, address) = server();
    let client = call(address);
    let mut stream = client.open().unwrap();
    // No carrier is up yet, and the peer does not read yet.
    stream.write_all(&vec![7; 3_000_000]).await.unwrap();
    drop((stream, client));
    let server = listener.accept().await.unwrap();
    let mut stream = soon("the stream", server.accept()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut all = Vec::new();
    soon("the rest", stream.read_to_end(&mut all)).await.unwrap();
    assert!(all == vec![7; 3_000_000], "{} bytes", all.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unaccepted_sessions_end_with_the_server() {
    let (listener, address) = server();
    let client = call(address);
    client.opened().await.unwrap();
    drop(listener);
    assert!(soon("the client is notified", client.accept()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carriers_join_an_accepted_session_after_the_server_is_gone() {
    let (listener, address) = server();
    let client = call(address);
    client.opened().await.unwrap();
    let server = listener.accept().await.unwrap();
    drop(listener);
    let live = |session: &Session| {
        let paths = session.paths();
        paths.iter().filter(|(_, info)| info.lost.is_none()).count()
    };
    let first = client.paths()[0].0;
    client.set_status(first, PathStatus::Closing);
    becomes("the carrier is replaced", 15, || {
        client.paths().len() == 2 && live(&client) == 1
    })
    .await;
    let newcomer = call(address);
    let refused = soon("a new session is refused", newcomer.next_event()).await;
    assert!(
        matches!(&refused, Some(Notice::PathLost { reason: Loss::Refused(_), .. })),
        "{refused:?}"
    );
    drop(newcomer);
    server.close(0).await.unwrap();
    becomes("the listener closes with the last session", 5, || {
        std::net::TcpListener::bind(address).is_ok()
    })
    .await;
    drop(client);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_cannot_hold_an_ended_session() {
    let (listener, address) = server();
    let mut peer = std::net::TcpStream::connect(address).unwrap();
    peer.write_all(&hello(9)).unwrap();
    let server = listener.accept().await.unwrap();
    let mut stream = server.open().unwrap();
    let data = vec![1; 72 << 20];
    let stuck = tokio::time::timeout(Duration::from_secs(1), stream.write_all(&data)).await;
    assert!(stuck.is_err(), "the peer does not read");
    drop(stream);
    let _ = soon("closing with a code", server.close(300)).await;
    becomes("its place is free as soon as it has ended", 1, || {
        listener.counts().1 == 0
    })
    .await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    drop(server);
    // The remaining tasks listen on the server's socket, and sweep.
    becomes("its task is over, too", 5, || alive() <= 2).await;
    drop(peer);
}

/// Each session of a document has a netlink socket and tasks, which must end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_document_releases_its_tasks() {
    let (listener, address) = server();
    let mut document = Document::new(&address.to_string()).unwrap();
    document.without_tls().unwrap();
    document.state = StatePlace::Nowhere;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for _ in 0..3 {
        let (client, _) = open(&document).await.unwrap();
        let server = listener.accept().await.unwrap();
        client.close(0).await.unwrap();
        drop((client, server));
    }
    becomes("all tasks are over", 5, || alive() <= before).await;
}
