//! Transports written in MTP among the candidates of an application, at UDP sockets of the host.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_connect::taps::{
    ConnectionEvent, EstablishmentError, Preconnection, RemoteEndpoint, SecurityParameters,
};
use hawser_session::MtpStack;
use hawser_session::document::Stack;
use hawser_sockets::host::StackSetup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::{rest, secured};

const LIMIT: Duration = Duration::from_secs(10);

/// Runs QUIC-Lite at a port of loopback; 0 is any.
fn quic_lite(port: u16) -> MtpStack {
    let described = Stack {
        program: "quic-lite".into(),
        params: Vec::new(),
        engine: None,
        setup: StackSetup::at_socket(SocketAddr::from(([127, 0, 0, 1], port))),
    };
    described.start().expect("a socket")
}

/// Starts a listener over QUIC-Lite, with no listener over TCP. The task returns the beginning of the first
/// stream, and answers it.
async fn server() -> (SocketAddr, tokio::task::JoinHandle<Vec<u8>>) {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its address");
    drop(free);
    let stack = quic_lite(address.port());
    let listener = stack.network().listen(address, 16).expect("a listener");
    let taken = tokio::spawn(async move {
        let mut stream = listener.accept().await.expect("a stream");
        let mut first = [0; 5];
        stream.read_exact(&mut first).await.expect("bytes");
        stream.write_all(b"answer").await.expect("it is taken");
        stream.shutdown().await.expect("it ends");
        // The client reads the answer and closes the stream.
        let _ = timeout(LIMIT, stream.read(&mut [0; 1])).await;
        drop(stack);
        first.to_vec()
    });
    (address, taken)
}

/// TCP is raced as well, and refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_lite_is_a_candidate_without_protection() {
    let (address, taken) = server().await;
    let wants = Preconnection::new(SecurityParameters::disabled()).with_stack(quic_lite(0));
    let mut client = wants.with_remote(address).initiate().expect("a connection");
    client.send("hello").await.expect("it may be given before");
    let received = timeout(LIMIT, client.receive()).await.expect("in time");
    assert_eq!(received.expect("an answer").data(), "answer");
    assert_eq!(client.transport(), "mtp-quic-lite");
    client.close();
    assert_eq!(taken.await.expect("a stream came"), b"hello");
}

/// Required protection comes from TLS above QUIC-Lite. The stream begins with a handshake (RFC 8446, 5.1),
/// which is not answered here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_lite_needs_tls_where_protection_is_required() {
    let (address, taken) = server().await;
    let (_, wants) = secured(&[]);
    let wants = wants.with_stack(quic_lite(0));
    let mut client = wants
        .clone()
        .with_remote(address)
        .initiate()
        .expect("a connection");
    client.send("hello").await.expect("it may be given before");
    let events = timeout(LIMIT, rest(&mut client)).await.expect("in time");
    assert!(
        matches!(events.last(), Some(ConnectionEvent::EstablishmentError(_))),
        "{events:?}"
    );
    let first = taken.await.expect("a stream came");
    assert_eq!(first[..2], [22, 3], "{first:?}");

    let by_itself = RemoteEndpoint::from(address).with_protocol("mtp-quic-lite");
    let mut client = wants.with_remote(by_itself).initiate().expect("a connection");
    let events = timeout(LIMIT, rest(&mut client)).await.expect("in time");
    assert!(
        matches!(
            &events[..],
            [ConnectionEvent::EstablishmentError(
                EstablishmentError::Unreachable { .. }
            )]
        ),
        "{events:?}"
    );
}
