//! Tests of both APIs between two endpoints on a cable in memory, in virtual time.

#[path = "endpoint/bytes.rs"]
mod bytes;
#[path = "common/end.rs"]
mod end;
#[path = "endpoint/streams.rs"]
mod streams;

use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hawser_engine::StackConfig;
use hawser_engine::net::InterfaceConfig;
use hawser_load::LoadedProgram;
use hawser_sockets::{Endpoint, Handle, Keepalive, Network, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn address(end: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, end + 1)), 80)
}

/// Both endpoints; 0 is the client, 1 the server.
struct Pair {
    clock: Arc<AtomicU64>,
    ends: [Endpoint; 2],
    listener: Handle,
    /// Breaks the client's device when it is set.
    broken: Arc<AtomicBool>,
}

impl Pair {
    fn new(backlog: u32) -> Pair {
        let clock = Arc::new(AtomicU64::new(SECOND));
        let broken = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
        let mut devices = end::cable(&clock, &broken).map(Some);
        let mut ends = [0u8, 1].map(|end| {
            let device = devices[usize::from(end)].take().expect("one for each");
            let addresses = vec![(address(end).ip(), 24)];
            let interface = InterfaceConfig { addresses, gateways: vec![], mtu: 1500 };
            let program = LoadedProgram::open("tcp", None)
                .expect("it comes with Hawser")
                .with(&[])
                .expect("a program");
            Endpoint::new(
                program,
                StackConfig::new(interface, u64::from(end)),
                Box::new(device),
            )
            .expect("an endpoint")
        });
        let listener = ends[1].listen(address(1), backlog).expect("a listener");
        let [broken, _] = broken;
        Pair { clock, ends, listener, broken }
    }

    /// Lets both endpoints do the work that is due now.
    fn settle(&mut self) {
        while self
            .ends
            .iter_mut()
            .any(|end| end.poll().expect("a cable does not fail"))
        {}
    }

    /// Advances time, timer by timer.
    fn advance(&mut self, time: u64) {
        self.settle();
        let until = self.clock.load(Ordering::Relaxed) + time;
        while let Some(at) = self.ends.iter().filter_map(Endpoint::next_deadline).min()
            && at.as_nanos() <= until
        {
            self.clock.fetch_max(at.as_nanos(), Ordering::Relaxed);
            self.settle();
        }
        self.clock.store(until, Ordering::Relaxed);
    }

    fn connect(&mut self) -> Handle {
        self.ends[0].connect(address(1)).expect("a connection")
    }

    /// Opens a connection and returns the client's handle and the server's.
    fn connected(&mut self) -> (Handle, Handle) {
        let client = self.connect();
        self.settle();
        (client, self.ends[1].accept(self.listener).expect("a connection"))
    }
}

/// Writes as much of `data` as there is room for.
fn write_some(end: &mut Endpoint, handle: Handle, data: &[u8]) -> usize {
    match end.write(handle, data) {
        Ok(n) => n,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            0
        }
    }
}

/// RFC 9293, 3.6.1 (SHLD-3): the peer is notified that its data was lost.
#[test]
fn data_after_a_close_is_reset_without_delay() {
    let mut pair = Pair::new(4);
    let (client, server) = pair.connected();
    pair.ends[0].close(client);
    pair.advance(SECOND);
    assert!(write_some(&mut pair.ends[1], server, &[7; 100_000]) > 0);
    pair.advance(SECOND);
    let outcome = pair.ends[1].write(server, &[7]).map_err(|error| error.kind());
    assert_eq!(outcome, Err(ErrorKind::ConnectionReset));
    assert_eq!(pair.ends[0].contexts(), 0);
}

#[test]
fn known_options_reach_the_program_and_others_are_refused() {
    let mut pair = Pair::new(4);
    let options = Options::new().max_segment(500).nodelay(true).send_buffer(8192);
    let client = pair.ends[0]
        .connect_with(address(1), &options)
        .expect("a connection");
    pair.settle();
    assert_eq!(
        pair.ends[0].observe(client, "smss"),
        Some(488),
        "500 less 12 of timestamps"
    );
    assert_eq!(write_some(&mut pair.ends[0], client, &[1; 20_000]), 8192);
    let unknown = pair.ends[0]
        .set_option(client, 77_777, 1)
        .map_err(|error| error.raw_os_error());
    assert_eq!(unknown, Err(Some(92)), "ENOPROTOOPT");
    let senseless = Options::new().max_segment(1);
    let refused = pair.ends[0]
        .connect_with(address(1), &senseless)
        .map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::InvalidInput));
}

/// As with TCP_NOTSENT_LOWAT (tcp(7)), bytes that have not been in a packet are bounded, and bytes in flight
/// are not.
#[test]
fn unsent_bytes_are_bounded_and_all_arrive() {
    const UNSENT: u64 = 16_384;
    let mut pair = Pair::new(4);
    let options = Options::new().not_sent(UNSENT);
    let client = pair.ends[0]
        .connect_with(address(1), &options)
        .expect("a connection");
    let sent: Vec<u8> = (0..1_000_000u32).map(|at| (at >> 3) as u8).collect();
    assert_eq!(
        write_some(&mut pair.ends[0], client, &sent) as u64,
        UNSENT,
        "no packet can leave yet"
    );
    pair.settle();
    let server = pair.ends[1].accept(pair.listener).expect("a connection");
    let (mut written, mut max_held) = (UNSENT as usize, 0);
    let (mut got, mut buffer) = (Vec::new(), [0; 65_536]);
    while got.len() < sent.len() {
        // The peer does not receive these bytes meanwhile.
        for _ in 0..3 {
            written += write_some(&mut pair.ends[0], client, &sent[written..]);
            pair.ends[0].poll().expect("a cable does not fail");
        }
        written += write_some(&mut pair.ends[0], client, &sent[written..]);
        let [held, unsent] = ["snd_una", "snd_nxt"].map(|from| {
            let value = |name| pair.ends[0].observe(client, name).expect("observable");
            value("snd_end") - value(from)
        });
        assert!(unsent <= UNSENT, "{unsent} bytes wait");
        max_held = max_held.max(held);
        pair.advance(10 * MS);
        while let Ok(count) = pair.ends[1].read(server, &mut buffer) {
            got.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(
        got == sent && max_held > 2 * UNSENT,
        "as much as {max_held} bytes were held"
    );
}

#[test]
fn closing_a_listener_resets_waiting_connections() {
    let mut pair = Pair::new(4);
    let client = pair.connect();
    pair.settle();
    pair.ends[1].close(pair.listener);
    pair.advance(SECOND);
    assert_eq!(pair.ends[1].contexts(), 0);
    let mut data = [0; 1];
    let error = pair.ends[0].read(client, &mut data).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_closed_connection_is_dropped_if_its_peer_stays_open() {
    let mut pair = Pair::new(4);
    let (_client, server) = pair.connected();
    pair.ends[1].close(server);
    pair.advance(30 * SECOND);
    assert_eq!(pair.ends[1].contexts(), 2);
    pair.advance(31 * SECOND);
    assert_eq!(pair.ends[1].contexts(), 1, "the listener");
}

#[test]
fn a_half_closed_connection_waits_for_its_answer() {
    let mut pair = Pair::new(4);
    let (client, server) = pair.connected();
    pair.ends[0].shutdown(client);
    pair.advance(600 * SECOND);
    assert_eq!(write_some(&mut pair.ends[1], server, b"at last"), 7);
    pair.settle();
    let mut data = [0; 100];
    assert_eq!(pair.ends[0].read(client, &mut data).expect("an answer"), 7);
    // The handle is released while it waits for the end.
    pair.ends[0].close(client);
    pair.advance(61 * SECOND);
    assert_eq!(pair.ends[0].contexts(), 0);
}

#[test]
fn no_more_than_the_backlog_waits_to_be_accepted() {
    let mut pair = Pair::new(2);
    let clients: Vec<Handle> = (0..3)
        .map(|_| {
            let client = pair.connect();
            pair.settle();
            client
        })
        .collect();
    pair.advance(100 * MS);
    let connected = |pair: &mut Pair| {
        clients
            .iter()
            .filter(|c| pair.ends[0].connected(**c).expect("no failure"))
            .count()
    };
    assert_eq!(connected(&mut pair), 2);
    let _first = pair.ends[1].accept(pair.listener).expect("a connection");
    pair.advance(10 * SECOND);
    assert_eq!(connected(&mut pair), 3);
}

#[tokio::test]
async fn several_tasks_can_accept_from_one_listener() {
    let mut pair = Pair::new(4);
    pair.ends[1].close(pair.listener);
    let [client, server] = pair.ends.map(|end| Network::start(end).expect("a network"));
    let listener = Arc::new(server.listen(address(1), 4).expect("a listener"));
    let accepting: Vec<_> = (0..3)
        .map(|_| {
            let listener = listener.clone();
            tokio::spawn(async move { listener.accept().await.map(|stream| stream.peer()) })
        })
        .collect();
    tokio::task::yield_now().await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(client.connect(address(1)).await.expect("a connection"));
    }
    for task in accepting {
        let accepted = tokio::time::timeout(Duration::from_secs(10), task).await;
        accepted.expect("woken").expect("no panic").expect("a connection");
    }
}

#[tokio::test]
async fn a_stream_learns_that_the_driving_task_has_panicked() {
    let pair = Pair::new(4);
    let broken = pair.broken.clone();
    let [client, _server] = pair.ends.map(|end| Network::start(end).expect("a network"));
    let mut stream = client.connect(address(1)).await.expect("a connection");
    stream.set_keepalive(Some(Keepalive::default())).expect("known");
    stream
        .set_user_timeout(Some(Duration::from_secs(20)))
        .expect("known");
    let reading = tokio::spawn(async move {
        let outcome = stream.read(&mut [0; 10]).await.map_err(|error| error.to_string());
        (outcome, stream.set_nodelay(true).is_err())
    });
    tokio::task::yield_now().await;
    broken.store(true, Ordering::Relaxed);
    let _ = tokio::time::timeout(Duration::from_secs(10), client.connect(address(1)))
        .await
        .expect("an end");
    let (outcome, refused) = tokio::time::timeout(Duration::from_secs(10), reading)
        .await
        .expect("woken")
        .expect("no panic");
    assert_eq!(
        outcome,
        Err("the task that drives the network has ended".to_owned())
    );
    assert!(refused);
}

/// If a buffer is accepted in part, writing continues within it and not with the next one.
#[tokio::test]
async fn a_vectored_write_that_is_taken_in_part_loses_no_byte() {
    let mut pair = Pair::new(4);
    pair.ends[1].close(pair.listener);
    let [client, server] = pair.ends.map(|end| Network::start(end).expect("a network"));
    let listener = server.listen(address(1), 4).expect("a listener");
    let options = Options::new().not_sent(10_000);
    let mut stream = client
        .connect_with(address(1), &options)
        .await
        .expect("a connection");
    let mut accepted = listener.accept().await.expect("a connection");
    let sent: Vec<u8> = (0..300_000u32).map(|at| (at >> 4) as u8).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        let mut at = 0;
        while at < sent.len() {
            // The slices are longer than one write accepts, and accepted bytes leave at once.
            let slices: Vec<IoSlice<'_>> = sent[at..].chunks(13_000).map(IoSlice::new).collect();
            at += stream.write_vectored(&slices).await.expect("it is open");
        }
        stream.shutdown().await.expect("it is open");
        stream
    });
    let mut got = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), accepted.read_to_end(&mut got))
        .await
        .expect("an end")
        .expect("all");
    assert!(got == expected);
    drop(writing.await.expect("no panic"));
}
