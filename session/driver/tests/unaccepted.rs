//! The memory cost of sessions that the application has not accepted, however much their clients send. The
//! test runs in a process of its own, because it measures the memory of the whole process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use bytes::Bytes;
use hawser_session::document::{ConnectionPriority as Wanted, Document, StatePlace, Transport};
use hawser_session::open;
use hawser_session::{Identity, QuicOptions, Server, ServerConfig, TcpOptions};
use tokio::task::JoinSet;

/// The number of sessions; one address may have at most a quarter of 256 places.
const SESSIONS: usize = 50;
/// The data that clients send. It is never copied on their side, so the memory held is the server's.
static CHUNK: [u8; 1 << 20] = [7; 1 << 20];

/// Returns the resident memory of this process in KiB (proc_pid_status(5)).
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    number.expect("a process has a resident set")
}

/// Returns an address of this machine whose port is free for TCP and UDP.
fn free() -> SocketAddr {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = tcp.local_addr().expect("its address");
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// Opens a session, writes until no more is taken, and stays open.
async fn fill(document: Document) -> u64 {
    let Ok((session, _)) = open(&document).await else {
        return 0;
    };
    let mut taken = 0;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let Ok(mut stream) = session.open() else { break };
        let mut write = async || stream.write_bytes(Bytes::from_static(&CHUNK)).await;
        while let Ok(Ok(())) = tokio::time::timeout(Duration::from_millis(300), write()).await {
            taken += CHUNK.len() as u64;
        }
        streams.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_anonymous_sessions_stay_within_the_stated_memory() {
    let identity = Identity::generate(vec!["localhost".into()]).expect("a certificate");
    for transport in [Transport::Tcp, Transport::Quic] {
        let address = free();
        let _server = Server::open(ServerConfig {
            tcp: vec![(address, TcpOptions::default())],
            quic: vec![(address, QuicOptions::default())],
            tls: Some(identity.server(&[]).expect("a configuration")),
            ..ServerConfig::default()
        })
        .expect("a server");
        let mut document = Document::new(&address.to_string()).expect("an address");
        document.tls.pin = Some(identity.digest());
        document.state = StatePlace::Nowhere;
        document.connections = vec![Wanted::new(transport.clone())];
        let before = resident();
        let mut clients = JoinSet::new();
        for _ in 0..SESSIONS {
            clients.spawn(fill(document.clone()));
        }
        let mut peak = before;
        let mut taken = 0;
        let mut clock = tokio::time::interval(Duration::from_millis(50));
        while !clients.is_empty() {
            tokio::select! {
                Some(one) = clients.join_next() => taken += one.expect("no panic"),
                _ = clock.tick() => peak = peak.max(resident()),
            }
        }
        let grown = (peak - before) >> 10;
        println!(
            "{transport:?}: {SESSIONS} sessions took {} MiB, the process grew by {grown} MiB",
            taken >> 20
        );
        // 16 MiB of data from clients (`AcceptorConfig`), and each session's own state on both sides.
        assert!(grown < 16 + SESSIONS as u64, "{grown} MiB");
    }
}
