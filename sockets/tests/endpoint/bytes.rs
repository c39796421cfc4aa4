//! Byte streams over a program whose connections have streams.

use super::streams::ends_of;
use super::*;

use hawser_sockets::{Accepted, Listener, Stream};
use tokio::time::timeout;

/// The only port of the program.
const PORT: u16 = 4433;
const TIMEOUT: Duration = Duration::from_secs(10);

fn at(end: u8) -> SocketAddr {
    SocketAddr::new(address(end).ip(), PORT)
}

/// Returns both networks, and the server's listener. Their clock follows the real one, because
/// acknowledgements wait by it.
fn networks(backlog: u32) -> (Network, Network, Listener) {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let (ticking, begin) = (Arc::clone(&clock), std::time::Instant::now());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            ticking.store(SECOND + begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    });
    let [client, server] =
        ends_of("quic-lite", &clock, PORT..=PORT).map(|end| Network::start(end).expect("it is driven"));
    let listener = server.listen(at(1), backlog).expect("free");
    (client, server, listener)
}

async fn accepted(listener: &Listener) -> Stream {
    let accepted = timeout(TIMEOUT, listener.accept()).await;
    accepted.expect("it comes").expect("it is open")
}

async fn all(stream: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await;
    read.expect("it ends").expect("all of it");
    bytes
}

#[tokio::test]
async fn a_byte_stream_is_two_way_and_ends_with_its_connection() {
    let (client, server, listener) = networks(4);
    let (asking, answering) = tokio::join!(
        async {
            let mut stream = client.connect(at(1)).await.expect("connected");
            assert_eq!(stream.peer(), Some(at(1)));
            assert!(stream.observe("srtt").is_some(), "a variable of the connection");
            let [variable] = stream.observables(["srtt"]);
            assert!(stream.observe_all([variable])[0].is_some());
            stream.write_all(&[7; 300_000]).await.expect("sent");
            stream.shutdown().await.expect("it is open");
            all(&mut stream).await
        },
        async {
            let mut stream = accepted(&listener).await;
            assert_eq!(stream.peer().map(|peer| peer.ip()), Some(at(0).ip()));
            let bytes = all(&mut stream).await;
            stream.write_all(b"all of it").await.expect("sent");
            bytes
        }
    );
    assert_eq!(asking, b"all of it");
    assert_eq!(answering, vec![7; 300_000]);
    client.drained(0, TIMEOUT).await;
    server.drained(1, TIMEOUT).await;
    let left = [&client, &server].map(|network| network.inspect(Endpoint::contexts));
    assert_eq!(left, [0, 1], "the listener");
}

/// Written bytes arrive although the stream was dropped at once.
#[tokio::test]
async fn written_bytes_arrive_after_the_stream_is_dropped() {
    let (client, _server, listener) = networks(4);
    let mut stream = client.connect(at(1)).await.expect("connected");
    stream.write_all(&[3; 100_000]).await.expect("sent");
    drop(stream);
    let mut accepted = accepted(&listener).await;
    assert_eq!(all(&mut accepted).await, vec![3; 100_000]);
}

#[tokio::test]
async fn an_aborted_stream_fails_at_the_peer() {
    let (client, _server, listener) = networks(4);
    let mut stream = client.connect(at(1)).await.expect("connected");
    stream.write_all(b"begun").await.expect("sent");
    let mut accepted = accepted(&listener).await;
    accepted.read_exact(&mut [0; 5]).await.expect("it came");
    stream.abort();
    let read = timeout(TIMEOUT, accepted.read(&mut [0; 5]))
        .await
        .expect("an end");
    assert_eq!(read.expect_err("aborted").kind(), ErrorKind::ConnectionReset);
}

/// The peers open connections but never a stream.
#[tokio::test]
async fn connections_without_a_stream_are_bounded_and_harmless() {
    let (client, server, listener) = networks(3);
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(client.connection(at(1)).await.expect("connected"));
        let mut stream = client.connect(at(1)).await.expect("connected");
        stream.write_all(b"x").await.expect("sent");
        accepted(&listener)
            .await
            .read_exact(&mut [0])
            .await
            .expect("it came");
    }
    drop(client.connect(at(1)).await.expect("connected"));
    server.drained(1 + 3, TIMEOUT).await;
    let left = server.inspect(Endpoint::contexts);
    assert!(left <= 1 + 3, "a listener, and its backlog: {left}");
    let oldest = timeout(TIMEOUT, idle[0].accept()).await.expect("an end");
    assert!(oldest.is_err(), "it has given way");
}

/// The first stream is the peer's end; further streams of the peer are refused and take no memory.
#[tokio::test]
async fn a_second_stream_of_the_peer_is_refused() {
    let (client, _server, listener) = networks(4);
    let connection = client.connection(at(1)).await.expect("connected");
    let (mut send, mut recv) = connection.open_both().await.expect("opened");
    send.write_all(b"one").await.expect("sent");
    let mut stream = accepted(&listener).await;
    let (mut second, _) = connection.open_both().await.expect("opened");
    second.write_all(b"two").await.expect("sent");
    let stopped = timeout(TIMEOUT, second.stopped()).await.expect("an end");
    assert!(matches!(stopped, Ok(Some(_)) | Err(_)), "{stopped:?}");
    stream.write_all(b"three").await.expect("the first one lives");
    let mut bytes = [0; 5];
    timeout(TIMEOUT, recv.read_exact(&mut bytes))
        .await
        .expect("it comes")
        .expect("it is open");
    assert_eq!(&bytes, b"three");
}

/// Both APIs accept connections of the same listener.
#[tokio::test]
async fn connections_are_accepted_whole_as_well() {
    let (client, _server, listener) = networks(4);
    let (stream, connection) = tokio::join!(client.connect(at(1)), listener.accept_connection());
    let (mut stream, connection) = (stream.expect("connected"), connection.expect("accepted"));
    stream.write_all(b"bytes").await.expect("sent");
    let Accepted::Both(_, mut recv) = connection.accept().await.expect("a stream") else {
        panic!("both ends send");
    };
    let mut bytes = [0; 5];
    recv.read_exact(&mut bytes).await.expect("it came");
    assert_eq!(&bytes, b"bytes");
}

#[test]
fn byte_streams_are_opened_and_accepted_by_polling() {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let [mut client, mut server] = ends_of("quic-lite", &clock, PORT..=PORT);
    let listener = server.listen(at(1), 4).expect("free");
    let connection = client.connect(at(1)).expect("a connection");
    let early = client.byte_stream(connection).expect_err("not yet");
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    // Packets are paced, and acknowledgements are delayed.
    let settle = |client: &mut Endpoint, server: &mut Endpoint| {
        for _ in 0..20 {
            clock.fetch_add(50 * MS, Ordering::Relaxed);
            while client.poll().expect("no fault") | server.poll().expect("no fault") {}
        }
    };
    settle(&mut client, &mut server);
    let none = server.accept_stream(listener).expect_err("no stream yet");
    assert_eq!(none.kind(), ErrorKind::WouldBlock);
    let asking = client.byte_stream(connection).expect("a stream");
    assert_eq!(client.write(asking, b"a question").expect("room"), 10);
    settle(&mut client, &mut server);
    let answering = server.accept_stream(listener).expect("a stream");
    let mut bytes = [0; 20];
    assert_eq!(server.read(answering, &mut bytes).expect("it came"), 10);
    assert_eq!(server.write(answering, b"an answer").expect("room"), 9);
    server.close(answering);
    settle(&mut client, &mut server);
    assert_eq!(client.read(asking, &mut bytes).expect("it came"), 9);
    assert_eq!(client.read(asking, &mut bytes).expect("the end"), 0);
    client.close(asking);
    settle(&mut client, &mut server);
    assert_eq!([client.contexts(), server.contexts()], [0, 1], "the listener");
}
