//! Two servers behind one TCP and UDP balancer that does not know of sessions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_session::{
    AcceptorConfig, Candidate, ClientConfig, Config, Identity, Opening, PathCandidate, PathState,
    QuicOptions, TcpOptions, Trust, connect, scheduler,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::{Folder, certificate, free, serve};

/// Directs the first TCP connection to the first server, and all others and UDP to the second.
async fn balance(at: SocketAddr, servers: [SocketAddr; 2]) {
    let tcp = TcpListener::bind(at).await.unwrap();
    let udp = Arc::new(UdpSocket::bind(at).await.unwrap());
    tokio::spawn(async move {
        for count in 0.. {
            let (mut client, _) = tcp.accept().await.unwrap();
            let server = servers[usize::from(count > 0)];
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    tokio::spawn(async move {
        let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, client) = udp.recv_from(&mut buffer).await.unwrap();
            if let std::collections::hash_map::Entry::Vacant(e) = clients.entry(client) {
                let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                socket.connect(servers[1]).await.unwrap();
                e.insert(socket.clone());
                let udp = udp.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 65_536];
                    while let Ok(length) = socket.recv(&mut buffer).await {
                        let _ = udp.send_to(&buffer[..length], client).await;
                    }
                });
            }
            let _ = clients[&client].send(&buffer[..length]).await;
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misdirected_joins_reach_the_right_server() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let tls = Identity::read(&cert, &key).unwrap().server(&[]).unwrap();
    let (balancer, one, two) = (free(), free(), free());
    let config = |server, address| AcceptorConfig {
        server,
        addresses: vec![address],
        name: "localhost".into(),
        ..AcceptorConfig::default()
    };
    let first = serve(one, tls.clone(), config(1, one));
    let second = serve(two, tls, config(2, two));
    balance(balancer, [one, two]).await;
    let tcp = || PathCandidate::Tcp { peer: balancer, local: None, options: TcpOptions::default() };
    let quic = PathCandidate::Quic { peer: balancer, local: None, options: QuicOptions::default() };
    let client = connect(ClientConfig {
        session: Config { opening: Opening::Sequential, ..Config::default() },
        name: None,
        scheduler: scheduler::by_name("rr").unwrap(),
        candidates: vec![
            (tcp(), Candidate::new(0)),
            (tcp(), Candidate::new(1)),
            (quic, Candidate::new(2)),
        ],
        tls: Some((Trust::File(cert).client(&[]).unwrap(), "localhost".into())),
    })
    .unwrap();
    let server = first.accept().await.unwrap();
    let live = || {
        let paths = client.paths();
        let is_live = |state| state == PathState::Live;
        let live = paths
            .iter()
            .filter(|(_, info)| info.report.is_some_and(|report| is_live(report.state)));
        live.map(|(_, info)| (info.description.transport, info.description.peer))
            .collect::<Vec<_>>()
    };
    for _ in 0..500 {
        if live().len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(live(), [("tcp", balancer), ("tcp", one), ("quic", one)]);
    assert_eq!(client.counters().astray, 2);
    assert_eq!(
        second.counts(),
        (2, 0),
        "refused and counted, and no session was made"
    );
    assert_eq!(first.counts(), (0, 1));

    let data = vec![7; 4 << 20];
    let mut stream = client.open().unwrap();
    let sent = data.clone();
    tokio::spawn(async move {
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let mut back = Vec::new();
    server
        .accept()
        .await
        .unwrap()
        .read_to_end(&mut back)
        .await
        .unwrap();
    assert!(back == data, "{} bytes", back.len());
}
