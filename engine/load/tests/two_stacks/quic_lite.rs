//! QUIC-Lite in its present extent: complete and ordered streams over a wire that loses packets, identical on
//! both engines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_engine::{Direction, Handle, Notice, Stack, StackConfig};
use hawser_load::Engine;
use hawser_load::programs::resolve_on;
use hawser_time::Instant;

use super::cable::{Cable, cable};

const START: Instant = Instant::from_nanos(1_000_000);
const END: Instant = Instant::from_nanos(60_000_000_000);

fn address(host: u8) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), 4433)
}

/// Returns the program. `HAWSER_QUIC_LITE` names another file, as `cargo xtask mutants` does.
fn program(engine: Engine) -> Arc<dyn Program> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/quic-lite/quic-lite.mtp");
    let file = std::env::var_os("HAWSER_QUIC_LITE").map_or_else(own, PathBuf::from);
    let program = resolve_on(Some(engine), file.to_str().expect("a path in UTF-8"), &[]);
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the bytes that a host sends on each stream.
fn bytes_of(host: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + host * 13 + i / 251) as u8).collect()
}

/// The progress of one end of a stream.
#[derive(Default)]
struct Progress {
    sent: usize,
    received: Vec<u8>,
    is_finished: bool,
    is_at_end: bool,
    is_closed: bool,
}

/// A host, its end of the cable, and its streams.
struct Host {
    stack: Stack,
    end: Cable,
    number: usize,
    len: usize,
    connected: bool,
    /// The connection that was accepted.
    connection: Option<Handle>,
    /// The peer's streams. Only these may have notices.
    accepted: BTreeSet<Handle>,
    streams: BTreeMap<Handle, Progress>,
    /// The number of finished streams, with all bytes of the peer.
    done: usize,
}

impl Host {
    fn new(program: &Arc<dyn Program>, (number, len): (usize, usize), seed: u64, end: Cable) -> Host {
        let interface = InterfaceConfig {
            addresses: vec![(address(number as u8).ip(), 24)],
            gateways: vec![],
            mtu: 1500,
        };
        let config = StackConfig::new(interface, 2 * seed + number as u64);
        Host {
            stack: Stack::new(Arc::clone(program), config, end.caps()).expect("a good configuration"),
            end,
            number,
            len,
            connected: false,
            connection: None,
            accepted: BTreeSet::new(),
            streams: BTreeMap::new(),
            done: 0,
        }
    }

    /// Does all work that is due now. Returns whether there was any.
    fn work(&mut self, now: Instant) -> bool {
        let mut busy = false;
        while self
            .stack
            .poll(now, &mut self.end)
            .expect("a cable does not fail")
        {
            busy = true;
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            busy = true;
            match notice {
                Notice::Connected => self.connected = true,
                Notice::Accepted(child) => {
                    self.stack.accept(handle);
                    match self.number == 1 && self.connection.is_none() {
                        true => self.connection = Some(child),
                        false => _ = self.accepted.insert(child),
                    }
                    if self.stack.sends_on(child) {
                        self.streams.insert(child, Progress::default());
                    }
                }
                Notice::Failed(error) => {
                    panic!("host {}: {error}: {:?}", self.number, self.stack.counters())
                }
                Notice::Eof | Notice::Reset(_) | Notice::Closed => {
                    let is_early = matches!(notice, Notice::Reset(_)) && !self.accepted.contains(&handle);
                    assert!(!is_early, "a stream was reset before it was accepted");
                    if let Some(stream) = self.streams.get_mut(&handle) {
                        stream.is_at_end |= notice != Notice::Closed;
                        stream.is_closed |= notice == Notice::Closed;
                    }
                }
                _ => {}
            }
        }
        let (mine, theirs) = (
            bytes_of(self.number, self.len),
            bytes_of(1 - self.number, self.len),
        );
        let mut buffer = vec![0; 1 << 16];
        for (handle, stream) in &mut self.streams {
            let sent = match &mine[stream.sent..] {
                [] => 0,
                rest => self.stack.send(now, *handle, rest).expect("it is open"),
            };
            stream.sent += sent;
            if stream.sent == mine.len() && !std::mem::replace(&mut stream.is_finished, true) {
                self.stack.close(now, *handle);
                busy = true;
            }
            let read = self.stack.recv(now, *handle, &mut buffer).expect("a handle");
            stream.received.extend_from_slice(&buffer[..read]);
            busy |= sent + read > 0;
        }
        let is_over = |stream: &Progress| stream.is_at_end && stream.is_closed;
        let over: Vec<Handle> = self
            .streams
            .iter()
            .filter_map(|(handle, stream)| is_over(stream).then_some(*handle))
            .collect();
        for handle in over {
            let stream = self.streams.remove(&handle).expect("it was there");
            assert!(
                stream.received == theirs,
                "host {}: {}",
                self.number,
                stream.received.len()
            );
            self.stack.release(handle);
            self.done += 1;
            busy = true;
        }
        busy
    }
}

/// Returns two hosts while the client's connection to the server is under way, and the connection.
fn pair(program: &Arc<dyn Program>, (loss, seed): (u64, u64), len: usize) -> ([Host; 2], Handle) {
    let [a, b] = cable(loss, seed);
    let mut hosts = [
        Host::new(program, (0, len), seed, a),
        Host::new(program, (1, len), seed, b),
    ];
    hosts[1].stack.listen(START, address(1), 8).expect("free");
    let client = hosts[0].stack.connect(START, address(1), None);
    (hosts, client.expect("a route"))
}

/// Lets both hosts work until `is_done`, which may give the client more work. Returns the time.
fn work_until(
    hosts: &mut [Host; 2],
    mut now: Instant,
    mut is_done: impl FnMut(&mut [Host; 2], Instant) -> bool,
) -> Instant {
    while !is_done(hosts, now) {
        let busy = hosts.each_mut().map(|host| host.work(now));
        if busy == [false, false] {
            let next = hosts.iter().filter_map(|host| host.stack.next_deadline()).min();
            now = now.max(next.expect("something is waited for"));
            assert!(now < END, "{:?}", hosts.each_ref().map(|host| host.done));
        }
    }
    now
}

fn check_counters(hosts: &[Host; 2]) {
    for host in hosts {
        let c = host.stack.counters();
        let faults = c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving;
        assert_eq!(faults, 0, "{c:?}");
    }
}

/// Opens this many streams at the client, on each of which both ends send `len` bytes. Returns the end of the
/// last stream and the number of packets from each end.
fn run(
    program: &Arc<dyn Program>,
    chance: (u64, u64),
    (streams, len): (usize, usize),
) -> (Instant, [u64; 2]) {
    let (mut hosts, client) = pair(program, chance, len);
    let mut opened = 0;
    let end = work_until(&mut hosts, START, |hosts, now| {
        while hosts[0].connected && opened < streams {
            let stream = hosts[0].stack.open_stream(now, client, Direction::Both);
            let Some(stream) = stream.expect("it is possible") else {
                break;
            };
            hosts[0].streams.insert(stream, Progress::default());
            opened += 1;
        }
        hosts.iter().all(|host| host.done >= streams)
    });
    check_counters(&hosts);
    let left = hosts.each_ref().map(|host| host.stack.contexts());
    assert_eq!(left, [1, 2], "the connections, and a listener");
    (end, hosts.map(|host| host.stack.counters().frames_sent))
}

#[test]
fn streams_are_whole_and_in_order_through_losses() {
    let program = program(Engine::Interp);
    for seed in 0..6 {
        run(&program, (2 * seed, seed), (4, 60_000));
    }
}

/// A hundred streams may be open at a time (`STREAMS`). The others wait until the peer allows more.
#[test]
fn more_streams_than_may_be_open_are_opened_one_after_the_other() {
    run(&program(Engine::Interp), (0, 1), (120, 3_000));
}

/// All permitted streams are abandoned at once. It takes 300 frames, more than fit among the packets under
/// way.
#[test]
fn resetting_all_streams_at_once_keeps_the_connection() {
    let (mut hosts, client) = pair(&program(Engine::Interp), (0, 1), 0);
    let now = work_until(&mut hosts, START, |hosts, _| hosts[0].connected);
    let mut open = |direction| {
        let stream = hosts[0].stack.open_stream(now, client, direction);
        stream.expect("it is possible").expect("it is allowed")
    };
    let both: Vec<Handle> = (0..100).map(|_| open(Direction::Both)).collect();
    let one_way: Vec<Handle> = (0..100).map(|_| open(Direction::One)).collect();
    for stream in both.iter().chain(&one_way) {
        hosts[0].stack.abort(now, *stream);
        hosts[0].stack.release(*stream);
    }
    let refused = hosts[0].stack.open_stream(now, client, Direction::Both);
    assert_eq!(refused, Ok(None), "frames wait");
    let now = work_until(&mut hosts, now, |hosts, _| {
        let is_all = hosts[1].accepted.len() == both.len() + one_way.len();
        is_all && hosts.each_ref().map(|host| host.stack.contexts()) == [1, 2]
    });
    for host in &mut hosts {
        (host.len, host.done) = (5_000, 0);
        host.streams.clear();
    }
    let stream = hosts[0].stack.open_stream(now, client, Direction::Both);
    let stream = stream.expect("it is possible").expect("it is allowed");
    hosts[0].streams.insert(stream, Progress::default());
    work_until(&mut hosts, now, |hosts, _| {
        hosts.iter().all(|host| host.done == 1)
    });
    check_counters(&hosts);
}

/// Streams of the peer are accepted even if this end has opened its maximum.
#[test]
fn both_ends_may_have_all_their_streams_open() {
    let (mut hosts, client) = pair(&program(Engine::Interp), (0, 1), 0);
    let now = work_until(&mut hosts, START, |hosts, _| {
        hosts[0].connected && hosts[1].connection.is_some()
    });
    let server = hosts[1].connection.expect("it was accepted");
    for (host, connection) in hosts.iter_mut().zip([client, server]) {
        for direction in [Direction::Both, Direction::One] {
            for _ in 0..100 {
                let stream = host.stack.open_stream(now, connection, direction);
                let stream = stream.expect("it is possible").expect("it is allowed");
                assert_eq!(host.stack.send(now, stream, b"x"), Ok(1));
            }
        }
    }
    work_until(&mut hosts, now, |hosts, _| {
        hosts.iter().all(|host| host.accepted.len() >= 200)
    });
}

#[test]
fn both_engines_send_the_same_packets() {
    let programs = [Engine::Interp, Engine::Native].map(program);
    for seed in 0..3 {
        let [interpreted, native] = programs
            .each_ref()
            .map(|program| run(program, (4, seed), (3, 40_000)));
        assert_eq!(interpreted, native, "seed {seed}");
    }
}
