//! Security is established before Ready, or the Connection fails. The peers are other implementations:
//! OpenSSL, curl, quinn.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hawser_connect::taps::{
    ConnectionEvent, EstablishmentError, MessageContext, Preconnection, Property, RemoteEndpoint,
    SecurityParameters,
};
use hawser_documents::temporary::Folder;
use hawser_race::Failure;
use hawser_session::{Identity, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::{framed, here, rest, secured, secured_pair, words};

/// A process that is killed at the end of the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `openssl s_server` with a new certificate; it answers requests with a page.
async fn openssl() -> (Peer, SocketAddr, [u8; 32], Folder) {
    let folder = Folder::new().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let digest = Identity::read(&cert, &key).expect("an identity").digest();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its address");
    drop(free);
    let child = Command::new("openssl")
        .args([
            "s_server",
            "-www",
            "-quiet",
            "-tls1_3",
            "-accept",
            &address.to_string(),
        ])
        .arg("-cert")
        .arg(&cert)
        .arg("-key")
        .arg(&key)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let peer = Peer(child);
    while tokio::net::TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (peer, address, digest, folder)
}

#[tokio::test]
async fn a_plain_tls_server_is_spoken_with() {
    let (_peer, address, digest, _folder) = openssl().await;
    let security = SecurityParameters::new().with_pinned_server_certificate(digest);
    let wanted = Preconnection::new(security.with_server_name("localhost")).with_remote(address);
    let mut client = wanted.initiate().expect("a connection");
    client.send("GET / HTTP/1.0\r\n\r\n").await.expect("it is open");
    assert_eq!(client.next_event().await, Some(ConnectionEvent::Ready));
    let received = client.receive().await.expect("a page");
    assert!(received.data().starts_with(b"HTTP/1.0 200"), "{received:?}");
    assert_eq!(client.transport(), "tcp");
}

/// An untrusted peer is refused, without a fallback to no protection.
#[tokio::test]
async fn a_server_with_a_wrong_pin_is_refused() {
    let (_peer, address, _, _folder) = openssl().await;
    let security = SecurityParameters::new().with_pinned_server_certificate([7; 32]);
    let wanted = Preconnection::new(security.with_server_name("localhost")).with_remote(address);
    let mut client = wanted.initiate().expect("a connection");
    let events = rest(&mut client).await;
    let [ConnectionEvent::EstablishmentError(EstablishmentError::Unreachable { failure, .. })] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*failure, Failure::Security);
}

#[tokio::test]
async fn opportunistic_security_uses_tls_if_available() {
    let (_peer, address, _, _folder) = openssl().await;
    let wanted = Preconnection::new(SecurityParameters::opportunistic()).with_remote(address);
    let mut client = wanted.initiate().expect("a connection");
    client.send("GET / HTTP/1.0\r\n\r\n").await.expect("it is open");
    assert!(
        client
            .receive()
            .await
            .expect("a page")
            .data()
            .starts_with(b"HTTP/1.0 200")
    );

    let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = plain.local_addr().expect("its address");
    // The server closes on input that it does not understand, then answers.
    tokio::spawn(async move {
        drop(plain.accept().await);
        let (mut stream, _) = plain.accept().await.expect("a connection");
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"plain")
            .await
            .expect("it is taken");
    });
    let wanted = Preconnection::new(SecurityParameters::opportunistic()).with_remote(address);
    let mut client = wanted.initiate().expect("a connection");
    assert_eq!(client.receive().await.expect("bytes").data(), "plain");
}

#[tokio::test]
async fn a_listener_without_a_certificate_is_an_error() {
    let wanted = Preconnection::new(SecurityParameters::new()).with_local(here());
    assert!(matches!(
        wanted.listen().await.err(),
        Some(EstablishmentError::Security(_))
    ));
}

/// curl speaks HTTP with a Listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_of_tls_is_taken() {
    let identity = Identity::generate(vec!["localhost".into()]).expect("a certificate");
    let security = SecurityParameters::new()
        .with_server_certificate(identity)
        .with_alpn(["http/1.1"]);
    let mut listener = Preconnection::new(security)
        .with_local(here())
        .listen()
        .await
        .expect("a listener");
    let url = format!("https://{}/", listener.addresses()[0]);
    let curl = tokio::task::spawn_blocking(move || {
        Command::new("curl")
            .args(["--silent", "--insecure", "--max-time", "10", &url])
            .output()
    });
    let mut server = listener.accept().await.expect("a connection");
    assert_eq!(server.application_protocol().as_deref(), Some(&b"http/1.1"[..]));
    assert!(
        server
            .receive()
            .await
            .expect("a request")
            .data()
            .starts_with(b"GET / HTTP/1.1")
    );
    let mut last = MessageContext::new();
    last.add(Property::Final, true).expect("a message property");
    server
        .send_with("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", &last)
        .await
        .expect("it is open");
    let output = curl.await.expect("it ran").expect("curl is installed");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello");
}

/// Starts a quinn server that echoes each stream.
pub(crate) async fn echo() -> (SocketAddr, [u8; 32]) {
    let identity = Identity::generate(vec!["localhost".into()]).expect("a certificate");
    let mut tls = Arc::unwrap_or_clone(identity.server(&[]).expect("a configuration"));
    tls.alpn_protocols = vec![b"echo".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls).expect("a configuration");
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let here = "127.0.0.1:0".parse().expect("an address");
    let endpoint = quinn::Endpoint::server(config, here).expect("an endpoint");
    let address = endpoint.local_addr().expect("its address");
    tokio::spawn(async move {
        let connection = endpoint
            .accept()
            .await
            .expect("a client")
            .await
            .expect("a handshake");
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            tokio::spawn(async move {
                let all = receive.read_to_end(1 << 20).await.expect("all of it");
                send.write_all(&all).await.expect("it is taken");
                send.finish().expect("it is open");
            });
        }
        drop(endpoint);
    });
    (address, identity.digest())
}

/// Clone opens further streams of the one connection.
#[tokio::test]
async fn a_plain_quic_server_is_spoken_with_over_several_streams() {
    let (address, digest) = echo().await;
    let security = SecurityParameters::new()
        .with_pinned_server_certificate(digest)
        .with_server_name("localhost")
        .with_alpn(["echo"]);
    let first = Preconnection::new(security)
        .with_sent_events()
        .with_remote(address)
        .initiate()
        .expect("a connection");
    first.established().await.expect("it is established");
    assert_eq!(first.transport(), "quic");
    assert!(first.properties().has(Property::Multistreaming));
    let second = first.clone_connection().expect("a further stream");
    second.established().await.expect("it is established");
    assert_eq!(first.endpoints(), second.endpoints(), "one connection");
    let mut last = MessageContext::new();
    last.add(Property::Final, true).expect("a message property");
    for (mut connection, text) in [(first, "one"), (second, "two")] {
        connection.send_with(text, &last).await.expect("it is open");
        assert_eq!(connection.receive().await.expect("an echo").data(), text);
        connection.close();
        assert_eq!(words(&rest(&mut connection).await), ["Ready", "Sent", "Closed"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_taps_peers_use_tls() {
    let (mut client, server, _listener) = secured_pair(secured(&[]), "hello").await;
    server.send("answer").await.expect("it is open");
    assert_eq!(client.receive().await.expect("a message").data(), "answer");
    client.close();
    assert_eq!(words(&rest(&mut client).await), ["Ready", "Sent", "Closed"]);
}

#[tokio::test]
async fn a_pin_of_another_certificate_is_rejected() {
    let (has, _) = secured(&[]);
    let listener = has.with_local(here()).listen().await.expect("a listener");
    let trusts = SecurityParameters::new()
        .with_trust(Trust::Pin([0; 32]))
        .with_server_name("localhost");
    let there = RemoteEndpoint::from(listener.addresses()[0]);
    let mut client = Preconnection::new(trusts)
        .with_remote(there)
        .initiate()
        .expect("a connection");
    assert_eq!(words(&rest(&mut client).await), ["EstablishmentError"]);
    let plain = framed().with_remote(listener.addresses()[0]);
    let mut client = plain.initiate().expect("a connection");
    client.send("in clear").await.expect("it may be given");
    assert!(client.receive().await.is_err(), "who speaks no TLS is not taken");
}

/// A client that has completed the QUIC handshake may wait before it sends.
#[tokio::test]
async fn a_quiet_quic_client_is_waited_for() {
    let (has, wants) = secured(&["echo"]);
    let mut listener = has.with_local(here()).listen().await.expect("a listener");
    let there = RemoteEndpoint::from(listener.addresses()[0]);
    let client = wants.with_remote(there).initiate().expect("a connection");
    client.established().await.expect("it is established");
    assert_eq!(client.transport(), "quic");
    tokio::time::sleep(Duration::from_millis(50)).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    client.send("at last").await.expect("it is open");
    let mut server = listener.accept().await.expect("it was waited for");
    assert_eq!(server.receive().await.expect("a message").data(), "at last");
}

/// The second endpoint with protection is preferred over the first endpoint without.
#[tokio::test]
async fn opportunistic_security_is_looked_for_at_every_endpoint_first() {
    let (has, _) = secured(&[]);
    let listener = has.with_local(here()).listen().await.expect("a listener");
    let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let there = plain.local_addr().expect("its address");
    tokio::spawn(async move {
        drop(plain.accept().await);
        let kept = plain.accept().await;
        std::future::pending::<()>().await;
        drop(kept);
    });
    let mut wanted = Preconnection::new(SecurityParameters::opportunistic()).with_remote(there);
    wanted.add_remote(listener.addresses()[0]);
    let client = wanted.initiate().expect("a connection");
    client.established().await.expect("it is established");
    assert_eq!(client.endpoints().1, Some(listener.addresses()[0]));
}

/// A TLS server that rejects this side's offer by an alert: handshake_failure (RFC 8446, 6 and B.2).
#[tokio::test]
async fn a_tls_alert_prevents_a_plaintext_fallback() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = server.local_addr().expect("its address");
    let (count, seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            let mut first = [0; 1];
            stream.read_exact(&mut first).await.expect("a byte");
            count.send(first[0]).expect("the test waits");
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).await;
        }
    });
    let wanted = Preconnection::new(SecurityParameters::opportunistic()).with_remote(address);
    let mut client = wanted.initiate().expect("a connection");
    let _ = client.send("a secret").await;
    let events = tokio::time::timeout(Duration::from_secs(20), rest(&mut client)).await;
    let events = events.expect("it is not established");
    let [
        ..,
        ConnectionEvent::EstablishmentError(EstablishmentError::Unreachable { failure, .. }),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*failure, Failure::Security);
    let mut seen = seen;
    while let Ok(first) = seen.try_recv() {
        assert_eq!(first, 22, "a record of a handshake");
    }
}
