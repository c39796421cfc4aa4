//! Streams within a connection, by both APIs, over the program that `hawser_load` uses for its own tests.

use super::*;

use std::ops::RangeInclusive;

use hawser_sockets::{Accepted, Connection, Direction, RecvStream, SendStream};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../engine/load/tests/two_stacks/streams.mtp"
);

fn ends(clock: &Arc<AtomicU64>) -> [Endpoint; 2] {
    ends_of(PROGRAM, clock, 49_152..=65_535)
}

/// Returns both ends, which connect from these ports.
pub(super) fn ends_of(program: &str, clock: &Arc<AtomicU64>, ports: RangeInclusive<u16>) -> [Endpoint; 2] {
    let broken = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
    let mut devices = end::cable(clock, &broken).map(Some);
    [0u8, 1].map(|end| {
        let device = devices[usize::from(end)].take().expect("one for each");
        let interface =
            InterfaceConfig { addresses: vec![(address(end).ip(), 24)], gateways: vec![], mtu: 1500 };
        let program = LoadedProgram::open(program, None).unwrap_or_else(|error| panic!("{error}"));
        let program = program.with(&[]).expect("a program");
        let mut config = StackConfig::new(interface, u64::from(end));
        config.ephemeral = ports.clone();
        Endpoint::new(program, config, Box::new(device)).expect("an endpoint")
    })
}

/// Opens a connection and returns the client's end and the server's.
async fn connected() -> (Connection, Connection) {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let [client, server] = ends(&clock).map(|end| Network::start(end).expect("it is driven"));
    let listener = server.listen(address(1), 4).expect("free");
    let (here, there) = tokio::join!(client.connection(address(1)), listener.accept_connection());
    (here.expect("connected"), there.expect("accepted"))
}

async fn accept_both(connection: &Connection) -> (SendStream, RecvStream) {
    match connection.accept().await.expect("a stream") {
        Accepted::Both(send, recv) => (send, recv),
        Accepted::One(_) => panic!("both ends send"),
    }
}

async fn all(recv: &mut RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    recv.read_to_end(&mut bytes).await.expect("it ends");
    bytes
}

#[tokio::test]
async fn streams_of_both_ends_carry_their_own_bytes_to_their_own_ends() {
    let (client, server) = connected().await;
    let (mut send, mut recv) = client.open_both().await.expect("opened");
    let mut news = server.open_one().await.expect("opened");
    let echo = async {
        let (mut send, mut recv) = accept_both(&server).await;
        let bytes = all(&mut recv).await;
        send.write_all(&bytes).await.expect("sent");
    };
    let ask = async {
        send.write_all(&[5; 50_000]).await.expect("sent");
        send.finish();
        all(&mut recv).await
    };
    let listen = async {
        let Accepted::One(mut recv) = client.accept().await.expect("a stream") else {
            panic!("the server alone sends");
        };
        all(&mut recv).await
    };
    let tell = async {
        news.write_all(b"news").await.expect("sent");
        drop(news);
    };
    let ((), answer, received, ()) = tokio::join!(echo, ask, listen, tell);
    assert_eq!((answer, received), (vec![5; 50_000], b"news".to_vec()));
}

#[tokio::test]
async fn the_reasons_of_a_reset_and_of_a_stop_arrive() {
    let (client, server) = connected().await;
    let (send, recv) = client.open_both().await.expect("opened");
    let (mut theirs, mut from) = accept_both(&server).await;
    send.reset(41).expect("it is known");
    let error = from.read(&mut [0; 10]).await.expect_err("given up");
    assert_eq!(
        (error.kind(), from.reset_reason()),
        (ErrorKind::ConnectionReset, Some(41))
    );
    recv.stop(42).expect("it is known");
    assert_eq!(theirs.stopped().await.expect("stopped"), Some(42));
    let error = theirs.write(b"x").await.expect_err("nobody reads it");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_fifth_stream_waits_until_one_of_four_has_ended() {
    let (client, server) = connected().await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(client.open_one().await.expect("opened"));
    }
    let short = Duration::from_millis(50);
    assert!(tokio::time::timeout(short, client.open_one()).await.is_err());
    let (fifth, ()) = tokio::join!(client.open_one(), async { drop(open.remove(1)) });
    fifth.expect("opened");
    assert!(matches!(server.accept().await, Ok(Accepted::One(_))));
}

/// The streams fail as well, at both ends.
#[tokio::test]
async fn closing_a_connection_fails_its_pending_operations() {
    let (client, server) = connected().await;
    let (_send, mut recv) = client.open_both().await.expect("opened");
    let (_theirs, mut from) = accept_both(&server).await;
    let (mut buffer, mut other) = ([0; 1], [0; 1]);
    let (accepted, read, own, ()) = tokio::join!(
        server.accept(),
        from.read(&mut buffer),
        recv.read(&mut other),
        async { client.close(9).expect("it is known") }
    );
    assert!(accepted.is_err() && own.is_err());
    assert_eq!(read.expect_err("it failed").kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn datagrams_arrive_whole_beside_streams() {
    let (client, server) = connected().await;
    let (mut send, _recv) = client.open_both().await.expect("opened");
    send.write_all(b"of the stream").await.expect("sent");
    for len in [1, 1_000, 2] {
        client.send_datagram(&vec![7; len]).await.expect("sent");
    }
    for len in [1, 1_000, 2] {
        assert_eq!(server.recv_datagram().await.expect("it came"), vec![7; len]);
    }
    let error = client.send_datagram(&[0; 1_001]).await;
    assert_eq!(error.expect_err("too long").raw_os_error(), Some(90), "EMSGSIZE");
    let (_, mut recv) = accept_both(&server).await;
    let mut bytes = [0; 13];
    recv.read_exact(&mut bytes).await.expect("it came");
    assert_eq!(&bytes, b"of the stream");
}

/// Each end holds a reference to the clock: a network whose last holder is gone drops its device.
#[tokio::test]
async fn a_network_ends_with_its_last_connection() {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let [client, server] = ends(&clock).map(|end| Network::start(end).expect("it is driven"));
    let listener = server.listen(address(1), 4).expect("free");
    let (here, there) = tokio::join!(client.connection(address(1)), listener.accept_connection());
    let stream = here
        .as_ref()
        .expect("connected")
        .open_both()
        .await
        .expect("opened");
    drop((client, server, listener));
    assert!(
        Arc::strong_count(&clock) > 1,
        "the connections hold their networks"
    );
    drop((here, there, stream));
    // The driving task checks once a second whether there is a holder left.
    for _ in 0..100 {
        if Arc::strong_count(&clock) == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(Arc::strong_count(&clock), 1);
}

/// Tests streams in the polled API, and a program without streams.
#[test]
fn streams_are_opened_and_read_by_polling() {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let [mut client, mut server] = ends(&clock);
    let listener = server.listen(address(1), 4).expect("free");
    let here = client.connect(address(1)).expect("a connection");
    let settle = |client: &mut Endpoint, server: &mut Endpoint| {
        while client.poll().expect("no fault") | server.poll().expect("no fault") {}
    };
    settle(&mut client, &mut server);
    let there = server.accept(listener).expect("a connection");
    let none = server.accept(there).expect_err("no stream yet");
    assert_eq!(none.kind(), ErrorKind::WouldBlock);
    let stream = client.open_stream(here, Direction::Both).expect("opened");
    assert_eq!(client.write(stream, b"hello").expect("there is room"), 5);
    client.shutdown(stream);
    settle(&mut client, &mut server);
    let accepted = server.accept(there).expect("a stream");
    assert!(server.sends_on(accepted));
    let mut buffer = [0; 16];
    let len = server.read(accepted, &mut buffer).expect("bytes");
    assert_eq!(&buffer[..len], b"hello");
    assert_eq!(server.read(accepted, &mut buffer).expect("the end"), 0);

    let mut pair = Pair::new(4);
    let (client, _) = pair.connected();
    let error = pair.ends[0].open_stream(client, Direction::Both);
    assert_eq!(
        error.expect_err("TCP has none").raw_os_error(),
        Some(95),
        "EOPNOTSUPP"
    );
}
