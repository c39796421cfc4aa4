//! Sessions over real carriers on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use hawser_carriers::quic::QuicOptions;
use hawser_carriers::tcp::TcpOptions;
use hawser_session::{
    Candidate, ClientConfig, Config, ListenError, PathCandidate, SctpError, SctpOptions, Security, Server,
    ServerConfig, Session, connect, scheduler,
};
use hawser_session_machine::AcceptorConfig;
use hawser_testing::{Need, skip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn tls() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = vec![b"hawser/1".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"hawser/1".to_vec()];
    (Arc::new(server), Arc::new(client))
}

async fn pair(tcp: usize, quic: usize, security: Security) -> (Session, Session, Server) {
    let (server_tls, client_tls) = tls();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let secure = security == Security::Tls;
    let server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: !secure, ..AcceptorConfig::default() },
        tcp: vec![(any, TcpOptions::default())],
        quic: if quic > 0 {
            vec![(any, QuicOptions::default())]
        } else {
            vec![]
        },
        tls: secure.then_some(server_tls),
        ..ServerConfig::default()
    })
    .unwrap();
    let address = |kind| {
        server
            .addresses()
            .iter()
            .find(|(name, _)| *name == kind)
            .unwrap()
            .1
    };
    let mut candidates = Vec::new();
    for _ in 0..tcp {
        let candidate =
            PathCandidate::Tcp { peer: address("tcp"), local: None, options: TcpOptions::default() };
        candidates.push((candidate, Candidate::new(candidates.len() as u32)));
    }
    for _ in 0..quic {
        let candidate =
            PathCandidate::Quic { peer: address("quic"), local: None, options: QuicOptions::default() };
        candidates.push((candidate, Candidate::new(candidates.len() as u32)));
    }
    let client = connect(ClientConfig {
        session: Config { security, ..Config::default() },
        name: None,
        scheduler: scheduler::by_name("ecf").unwrap(),
        candidates,
        tls: secure.then(|| (client_tls, "localhost".into())),
    })
    .unwrap();
    let accepted = server.accept().await.unwrap();
    (client, accepted, server)
}

/// Returns a pair over one SCTP association, or `None` if its library is not installed.
async fn pair_by_sctp() -> Option<(Session, Session, Server)> {
    let mut server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
        ..ServerConfig::default()
    })
    .unwrap();
    let here = "127.0.0.1".parse().unwrap();
    match server.listen_sctp(&[here], 4_433, SctpOptions::default()) {
        Err(ListenError::Sctp(error @ (SctpError::NoLibrary { .. } | SctpError::Start(_)))) => {
            skip(Need::Usrsctp, "a session over SCTP", error);
            return None;
        }
        result => result.unwrap(),
    }
    let peers = server.addresses().iter().map(|(_, address)| *address).collect();
    let candidate = PathCandidate::Sctp { peers, options: SctpOptions::default() };
    let client = connect(ClientConfig {
        session: Config { security: Security::None, ..Config::default() },
        name: None,
        scheduler: scheduler::by_name("ecf").unwrap(),
        candidates: vec![(candidate, Candidate::new(0))],
        tls: None,
    })
    .unwrap();
    let accepted = server.accept().await.unwrap();
    Some((client, accepted, server))
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u64 / 8)
        .flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
}

async fn both_ways(tcp: usize, quic: usize, security: Security, length: usize) {
    echo_over(pair(tcp, quic, security).await, length).await;
}

async fn echo_over((client, server, _server): (Session, Session, Server), length: usize) {
    let data = content(length);
    let began = Instant::now();
    let mut up = client.open().unwrap();
    let echo = tokio::spawn(async move {
        let mut stream = server.accept().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream.write_all(&all).await.unwrap();
        stream.shutdown().await.unwrap();
        (server, stream)
    });
    up.write_all(&data).await.unwrap();
    up.shutdown().await.unwrap();
    let mut back = Vec::new();
    up.read_to_end(&mut back).await.unwrap();
    assert!(
        back == data,
        "{} of {} bytes came back, or other ones",
        back.len(),
        data.len()
    );
    let took = began.elapsed();
    println!(
        "{:.0} Mbit/s\n{:#?}",
        16.0 * length as f64 / took.as_secs_f64() / 1e6,
        client
            .paths()
            .iter()
            .map(|(id, info)| (
                id.0,
                info.description.transport,
                info.report.map(|report| report.counts)
            ))
            .collect::<Vec<_>>()
    );
    let (server, stream) = echo.await.unwrap();
    drop((stream, up));
    client.close(0).await.unwrap();
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_works_over_one_tcp_carrier() {
    both_ways(1, 0, Security::Tls, 64 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_works_over_one_quic_carrier() {
    both_ways(0, 1, Security::Tls, 16 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_works_over_tcp_and_quic_at_once() {
    both_ways(2, 1, Security::Tls, 32 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_works_without_security() {
    both_ways(2, 0, Security::None, 64 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_works_over_sctp() {
    if let Some(pair) = pair_by_sctp().await {
        echo_over(pair, 16 << 20).await;
    }
}

#[tokio::test]
async fn a_secure_server_takes_no_sctp() {
    let (server_tls, _) = tls();
    let mut server = Server::open(ServerConfig { tls: Some(server_tls), ..ServerConfig::default() }).unwrap();
    let refused = server.listen_sctp(&["127.0.0.1".parse().unwrap()], 4_433, SctpOptions::default());
    assert!(matches!(refused, Err(ListenError::Insecure)), "{refused:?}");
}

/// The network drops UDP, and one address does not answer. The working transport and address are reached
/// after a few delays of 250 ms (RFC 8305, 5), not after a timeout of 10 s for each.
#[tokio::test]
async fn a_dropped_transport_delays_a_session_by_race_delays_only() {
    let (server_tls, client_tls) = tls();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Server::open(ServerConfig {
        tcp: vec![(any, TcpOptions::default())],
        tls: Some(server_tls),
        ..ServerConfig::default()
    })
    .unwrap();
    // Sockets that receive packets and do not answer.
    let udp = std::net::UdpSocket::bind(any).unwrap();
    let tcp = std::net::TcpListener::bind(any).unwrap();
    let path = Candidate::new(0);
    let candidate = |peer| PathCandidate::Tcp { peer, local: None, options: TcpOptions::default() };
    let dropped = PathCandidate::Quic {
        peer: udp.local_addr().unwrap(),
        local: None,
        options: QuicOptions::default(),
    };
    let candidates = vec![
        (dropped, path.clone()),
        (candidate(tcp.local_addr().unwrap()), path.clone()),
        (candidate(server.addresses()[0].1), path),
    ];
    let began = Instant::now();
    let client = connect(ClientConfig {
        session: Config::default(),
        name: None,
        scheduler: scheduler::by_name("ecf").unwrap(),
        candidates,
        tls: Some((client_tls, "localhost".into())),
    })
    .unwrap();
    client.opened().await.unwrap();
    let took = began.elapsed();
    assert!(
        took >= std::time::Duration::from_millis(500),
        "the order counts: {took:?}"
    );
    assert!(took < std::time::Duration::from_secs(9), "{took:?}");
    let paths = client.paths();
    assert_eq!(
        paths.iter().filter(|(_, info)| info.lost.is_none()).count(),
        1,
        "{paths:?}"
    );
}
