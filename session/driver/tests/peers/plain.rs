//! Peers that do not speak Hawser: TLS of OpenSSL and curl, QUIC of quinn.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hawser_carriers::Carrier;
use hawser_carriers::tcp::TcpListener;
use hawser_carriers::tls::{TlsClient, TlsServer};
use hawser_session::document::{ConnectionPriority as ConnectionEntry, Transport};
use hawser_session::{AcceptorConfig, Connection, Identity, PlainStream, TcpOptions, Trust, open, open_any};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Folder, certificate, document, free, serve};

const HTTP: &str = "http/1.1";

/// A process that is killed at the end of the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `openssl s_server`, which answers every request with a page about the connection.
async fn openssl(folder: &Folder, address: SocketAddr) -> Peer {
    let child = Command::new("openssl")
        .args([
            "s_server",
            "-www",
            "-quiet",
            "-tls1_3",
            "-alpn",
            HTTP,
            "-accept",
            &address.to_string(),
        ])
        .arg("-cert")
        .arg(folder.join("cert.pem"))
        .arg("-key")
        .arg(folder.join("key.pem"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let peer = Peer(child);
    while tokio::net::TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    peer
}

fn plain(connection: Connection) -> PlainStream {
    assert!(connection.is_plain());
    match connection {
        Connection::Plain(stream) => stream,
        Connection::Session(_) | Connection::Streams(_) => unreachable!(),
    }
}

#[tokio::test]
async fn a_plain_tls_server_is_spoken_to_over_one_carrier() {
    let folder = Folder::new().expect("a folder");
    let (cert, _) = certificate(&folder);
    let address = free();
    let _peer = openssl(&folder, address).await;
    let mut asked = document(address, &cert, folder.join("state.json"));
    asked.fallback = vec![HTTP.into()];
    asked.connections = vec![
        ConnectionEntry::new(Transport::Tcp),
        ConnectionEntry { path: Some(7), ..ConnectionEntry::new(Transport::Tcp) },
    ];
    let (connection, warnings) = open_any(&asked).await.unwrap();
    let mut stream = plain(connection);
    assert_eq!(
        (stream.protocol().as_str(), stream.description().transport),
        (HTTP, "tcp")
    );
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!(
            "fallback: {address} speaks http/1.1, not Hawser: one tcp connection is used, with no other path"
        )]
    );
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    assert!(
        page.starts_with("HTTP/1.0 200 ok") && page.contains("TLSv1.3"),
        "{page}"
    );
    // OpenSSL serves the next connection when this one is gone.
    drop(stream);
    // The server is not remembered as one that speaks Hawser.
    assert!(open_any(&asked).await.unwrap().0.is_plain());
    // A caller that asks for a session gets nothing less.
    let (session, warnings) = open(&asked).await.unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let error = session.opened().await.unwrap_err().to_string();
    assert!(error.contains("ALPN") || error.contains("Protocol"), "{error}");
}

/// A server that was seen to speak Hawser is offered nothing less, even if another program answers now.
#[tokio::test]
async fn a_known_hawser_server_is_not_downgraded() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let address = free();
    let mut asked = document(address, &cert, folder.join("state.json"));
    asked.fallback = vec![HTTP.into()];
    let tls = Identity::read(&cert, &key)
        .unwrap()
        .server(&[HTTP.to_owned()])
        .unwrap();
    let server = serve(address, tls, AcceptorConfig::default());
    let (connection, warnings) = open_any(&asked).await.unwrap();
    assert!(!connection.is_plain() && warnings.is_empty(), "{warnings:?}");
    let Connection::Session(session) = connection else {
        return;
    };
    session.opened().await.unwrap();
    session.close(0).await.unwrap();
    drop(server);
    let _peer = loop {
        // The port is free when the server's tasks have ended.
        tokio::time::sleep(Duration::from_millis(20)).await;
        if std::net::TcpListener::bind(address).is_ok() {
            break openssl(&folder, address).await;
        }
    };
    let (connection, _) = open_any(&asked).await.unwrap();
    let Connection::Session(session) = connection else {
        panic!("taken for less")
    };
    let error = session.opened().await.unwrap_err().to_string();
    assert!(error.contains("spoke Hawser before"), "{error}");
}

/// A plain quinn server echoes the bytes that it gets.
#[tokio::test]
async fn a_plain_quic_server_is_spoken_to_over_one_stream() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let mut tls = Arc::unwrap_or_clone(Identity::read(&cert, &key).unwrap().server(&[]).unwrap());
    tls.alpn_protocols = vec![b"echo".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let echo = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let (mut send, mut receive) = connection.accept_bi().await.unwrap();
        let all = receive.read_to_end(1 << 20).await.unwrap();
        send.write_all(&all).await.unwrap();
        send.finish().unwrap();
        connection.closed().await
    });
    let mut asked = document(address, &cert, folder.join("state.json"));
    asked.fallback = vec!["echo".into()];
    asked.connections = vec![ConnectionEntry::new(Transport::Quic)];
    let mut stream = plain(open_any(&asked).await.unwrap().0);
    assert_eq!(
        (stream.protocol().as_str(), stream.description().transport),
        ("echo", "quic")
    );
    let data = vec![7; 300_000];
    stream.write_all(&data).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert!(back == data, "{} bytes", back.len());
    drop(stream);
    echo.await.unwrap();
}

/// On one port, curl speaks HTTP and Hawser has a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_plain_clients_beside_sessions() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let address = free();
    let tls = Identity::read(&cert, &key)
        .unwrap()
        .server(&[HTTP.to_owned()])
        .unwrap();
    let server = serve(address, tls, AcceptorConfig::default());
    let url = format!("https://localhost:{}/", address.port());
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http1.1", "--resolve"])
        .arg(format!("localhost:{}:127.0.0.1", address.port()));
    curl.arg("--cacert").arg(&cert).arg(&url).stdout(Stdio::piped());
    let curl = curl.spawn().expect("curl is installed");
    let mut stream = plain(server.accept_any().await.unwrap());
    assert_eq!(stream.protocol(), HTTP);
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut request).await.unwrap() > 0);
    }
    assert!(request.starts_with(b"GET / HTTP/1.1\r\n"));
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nplain\n")
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let output = tokio::task::spawn_blocking(|| curl.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(output.stdout, b"plain\n");

    let mut asked = document(address, &cert, folder.join("state.json"));
    asked.fallback = vec![HTTP.into()];
    let (connection, _) = open_any(&asked).await.unwrap();
    let Connection::Session(client) = connection else {
        panic!("it speaks Hawser")
    };
    let accepted = server.accept().await.unwrap();
    client.open().unwrap().write_all(b"session\n").await.unwrap();
    let mut text = String::new();
    accepted
        .accept()
        .await
        .unwrap()
        .read_to_string(&mut text)
        .await
        .unwrap();
    assert_eq!(text, "session\n");
}

/// A peer that sends HELLO, or any other bytes, under another protocol's name begins no session.
#[tokio::test]
async fn a_plain_client_begins_no_session() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let address = free();
    let tls = Identity::read(&cert, &key)
        .unwrap()
        .server(&[HTTP.to_owned()])
        .unwrap();
    let server = serve(address, tls, AcceptorConfig::default());
    let mut offer = Arc::unwrap_or_clone(Trust::File(cert).client(&[]).unwrap());
    offer.alpn_protocols = vec![HTTP.into()];
    let config = hawser_session::ClientConfig {
        session: hawser_session::Config::default(),
        name: None,
        scheduler: hawser_session::scheduler::by_name("ecf").unwrap(),
        candidates: vec![(
            hawser_session::PathCandidate::Tcp { peer: address, local: None, options: Default::default() },
            hawser_session::Candidate::new(0),
        )],
        tls: Some((Arc::new(offer), "localhost".into())),
    };
    let session = hawser_session::connect(config).unwrap();
    assert!(server.accept_any().await.unwrap().is_plain());
    let error = session.opened().await.unwrap_err().to_string();
    assert!(error.contains("http/1.1"), "{error}");
    assert_eq!(server.counts(), (0, 0));
}

/// RFC 8446, 6.1, requires a peer to end TLS before TCP. A violation is reported in Hawser's own words,
/// without the address of a library's manual.
#[tokio::test]
async fn closing_without_a_tls_alert_is_reported() {
    let folder = Folder::new().expect("a folder");
    let (cert, key) = certificate(&folder);
    let tls = TlsServer { config: Identity::read(&cert, &key).unwrap().server(&[]).unwrap() };
    let listener =
        TcpListener::open("127.0.0.1:0".parse().unwrap(), TcpOptions::default(), Some(tls)).unwrap();
    let address = listener.local().unwrap();
    let tls = TlsClient {
        config: Trust::File(cert).client(&[]).unwrap(),
        name: "localhost".try_into().unwrap(),
    };
    let serving = async { listener.accept().await.unwrap().accept().await.map(drop) };
    let options = TcpOptions::default();
    let (served, client) = tokio::join!(
        serving,
        hawser_carriers::tcp::connect(address, None, &options, Some(&tls))
    );
    served.unwrap();
    let mut client = client.unwrap();
    let error = poll_fn(|cx| client.poll_read(cx)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the peer closed the connection without ending TLS"
    );
}
