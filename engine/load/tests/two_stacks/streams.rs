//! Streams within a connection, over a lossless wire: the requests and notices of each end's application, and
//! the same packets from both engines.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Direction, Errno, Handle, Notice, RequestError, Stack, StackConfig, StackLimits};
use hawser_load::Engine;
use hawser_load::programs::resolve_on;
use hawser_time::Instant;

use super::cable::{Cable, cable};

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), port)
}

/// Two hosts with a connection between them.
struct Pair {
    stacks: [Stack; 2],
    ends: [Cable; 2],
    connections: [Handle; 2],
    notices: BTreeMap<(usize, Handle), Vec<Notice>>,
    now: Instant,
}

impl Pair {
    fn new(engine: Engine) -> Pair {
        Pair::with(engine, |_, _| {})
    }

    fn with(engine: Engine, limit: fn(u8, &mut StackLimits)) -> Pair {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/two_stacks/streams.mtp");
        let program = resolve_on(Some(engine), file.to_str().expect("a path in UTF-8"), &[]);
        let program = program.unwrap_or_else(|error| panic!("{error}"));
        let [a, b] = cable(0, 1);
        let stack = |number: u8, end: &Cable| {
            let interface = InterfaceConfig {
                addresses: vec![(address(number, 0).ip(), 24)],
                gateways: vec![],
                mtu: 1500,
            };
            let mut config = StackConfig::new(interface, 7 + u64::from(number));
            limit(number, &mut config.limits);
            Stack::new(Arc::clone(&program), config, end.caps()).expect("a good configuration")
        };
        let mut stacks = [stack(0, &a), stack(1, &b)];
        let now = Instant::from_nanos(1_000_000);
        let listener = stacks[1].listen(now, address(1, 80), 8).expect("free");
        let client = stacks[0].connect(now, address(1, 80), None).expect("a route");
        let mut pair = Pair {
            stacks,
            ends: [a, b],
            connections: [client, listener],
            notices: BTreeMap::new(),
            now,
        };
        pair.run();
        assert_eq!(pair.notices(0, client), [Notice::Connected]);
        let [Notice::Accepted(server)] = pair.notices(1, listener)[..] else {
            panic!("the listener's connection");
        };
        pair.connections[1] = server;
        pair
    }

    /// Carries packets until both directions are empty.
    fn run(&mut self) {
        let mut busy = true;
        while busy {
            busy = false;
            for host in 0..2 {
                let (stack, end) = (&mut self.stacks[host], &mut self.ends[host]);
                while stack.poll(self.now, end).expect("a cable does not fail") {
                    busy = true;
                }
                while let Some((handle, notice)) = stack.next_notice() {
                    busy = true;
                    self.notices.entry((host, handle)).or_default().push(notice);
                }
            }
        }
    }

    /// Returns the notices about a handle since the last call.
    fn notices(&mut self, host: usize, handle: Handle) -> Vec<Notice> {
        self.notices.remove(&(host, handle)).unwrap_or_default()
    }

    /// Opens a stream at one end and accepts it at the other.
    fn open(&mut self, host: usize, direction: Direction) -> [Handle; 2] {
        let connection = self.connections[host];
        let opened = self.stacks[host].open_stream(self.now, connection, direction);
        let here = opened.expect("it is possible").expect("there is room");
        self.run();
        let peer = self.connections[1 - host];
        let [Notice::Accepted(there)] = self.notices(1 - host, peer)[..] else {
            panic!("the peer's stream");
        };
        [here, there]
    }

    fn send(&mut self, host: usize, stream: Handle, bytes: &[u8]) {
        assert_eq!(self.stacks[host].send(self.now, stream, bytes), Ok(bytes.len()));
        self.run();
    }

    fn recv(&mut self, host: usize, stream: Handle) -> Vec<u8> {
        let mut out = vec![0; 1 << 16];
        let len = self.stacks[host].recv(self.now, stream, &mut out);
        out.truncate(len.expect("a handle"));
        out
    }

    /// Checks that no stream is left and that no error occurred.
    fn ends_well(&self) {
        for stack in &self.stacks {
            let c = stack.counters();
            assert_eq!(
                c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving,
                0,
                "{c:?}"
            );
            assert_eq!(stack.held_bytes(), (0, 0));
        }
        let left = [self.stacks[0].contexts(), self.stacks[1].contexts()];
        assert_eq!(left, [1, 2], "the connections, and a listener");
    }
}

const ENGINES: [Engine; 2] = [Engine::Interp, Engine::Native];

#[test]
fn both_ends_open_streams_and_each_has_its_own_bytes() {
    for engine in ENGINES {
        let mut pair = Pair::new(engine);
        let mine = [pair.open(0, Direction::Both), pair.open(0, Direction::Both)];
        let theirs = pair.open(1, Direction::Both);
        let text = |stream: u8, host: u8| vec![16 * stream + host; 3_500 + usize::from(stream)];
        for (number, [a, b]) in mine.into_iter().chain([[theirs[1], theirs[0]]]).enumerate() {
            let number = number as u8;
            pair.send(0, a, &text(number, 0));
            pair.send(1, b, &text(number, 1));
        }
        for (number, [a, b]) in mine.into_iter().chain([[theirs[1], theirs[0]]]).enumerate() {
            let number = number as u8;
            assert_eq!(pair.recv(1, b), text(number, 0), "{engine:?}");
            assert_eq!(pair.recv(0, a), text(number, 1), "{engine:?}");
            pair.stacks[0].close(pair.now, a);
            pair.run();
            assert_eq!(pair.notices(1, b), [Notice::Readable, Notice::Eof]);
            pair.stacks[1].close(pair.now, b);
            pair.run();
            assert_eq!(
                pair.notices(0, a),
                [Notice::Readable, Notice::Eof, Notice::Closed]
            );
            assert_eq!(pair.notices(1, b), [Notice::Closed]);
            pair.stacks[0].release(a);
            pair.stacks[1].release(b);
        }
        pair.ends_well();
    }
}

#[test]
fn a_one_way_stream_is_sent_only_by_its_opener() {
    let mut pair = Pair::new(Engine::Interp);
    let [here, there] = pair.open(0, Direction::One);
    pair.send(0, here, b"news");
    assert_eq!(pair.recv(1, there), b"news");
    let refused = pair.stacks[1].send(pair.now, there, b"an answer");
    assert_eq!(refused, Err(RequestError::Refused(Errno(32))), "EPIPE");
    pair.stacks[0].close(pair.now, here);
    pair.run();
    assert_eq!(pair.notices(0, here), [Notice::Closed]);
    assert_eq!(
        pair.notices(1, there),
        [Notice::Readable, Notice::Eof, Notice::Closed]
    );
    pair.ends_well();
}

#[test]
fn reset_and_stop_deliver_their_error_codes() {
    let mut pair = Pair::new(Engine::Interp);
    let [here, there] = pair.open(0, Direction::Both);
    assert_eq!(pair.stacks[0].reset(pair.now, here, 77), Ok(()));
    pair.run();
    assert_eq!(pair.notices(1, there), [Notice::Reset(77)]);
    pair.send(1, there, b"the other direction goes on");
    assert_eq!(pair.recv(0, here), b"the other direction goes on");
    assert_eq!(pair.stacks[0].stop(pair.now, here, u64::MAX), Ok(()));
    pair.run();
    assert_eq!(
        pair.notices(1, there),
        [Notice::Stopped(u64::MAX), Notice::Closed]
    );
    assert_eq!(pair.notices(0, here), [Notice::Readable, Notice::Closed]);
    pair.ends_well();
}

#[test]
fn the_stream_limit_delays_the_next_stream() {
    let mut pair = Pair::new(Engine::Interp);
    let open: Vec<_> = (0..4).map(|_| pair.open(0, Direction::One)).collect();
    let connection = pair.connections[0];
    let fifth = |pair: &mut Pair| pair.stacks[0].open_stream(pair.now, connection, Direction::One);
    assert_eq!(fifth(&mut pair), Ok(None));
    pair.run();
    assert_eq!(pair.notices(0, connection), []);
    pair.stacks[0].close(pair.now, open[2][0]);
    pair.run();
    assert_eq!(pair.notices(0, connection), [Notice::Writable]);
    assert!(matches!(fifth(&mut pair), Ok(Some(_))));
}

#[test]
fn releasing_a_stream_aborts_only_that_stream() {
    let mut pair = Pair::new(Engine::Interp);
    let [first, gone] = (pair.open(0, Direction::Both), pair.open(0, Direction::Both)).into();
    pair.stacks[0].release(gone[0]);
    pair.run();
    assert_eq!(
        pair.notices(1, gone[1]),
        [Notice::Reset(0), Notice::Stopped(0), Notice::Closed]
    );
    pair.send(0, first[0], b"as before");
    assert_eq!(pair.recv(1, first[1]), b"as before");
}

#[test]
fn streams_fail_with_their_connection() {
    let mut pair = Pair::new(Engine::Interp);
    let streams = [pair.open(0, Direction::Both), pair.open(1, Direction::One)];
    pair.stacks[0].release(pair.connections[0]);
    pair.run();
    assert_eq!(
        pair.notices(0, streams[0][0]),
        [Notice::Failed(Errno(125))],
        "ECANCELED"
    );
    assert_eq!(
        pair.notices(1, streams[0][1]),
        [Notice::Failed(Errno(104))],
        "ECONNRESET"
    );
    assert_eq!(pair.notices(0, streams[1][1]), [Notice::Failed(Errno(125))]);
    assert_eq!(pair.notices(1, streams[1][0]), [Notice::Failed(Errno(104))]);
    assert_eq!([pair.stacks[0].contexts(), pair.stacks[1].contexts()], [0, 1]);
}

#[test]
fn opening_a_stream_on_a_wrong_handle_is_refused() {
    let mut pair = Pair::new(Engine::Interp);
    let [here, there] = pair.open(0, Direction::Both);
    let opened = pair.stacks[0].open_stream(pair.now, here, Direction::Both);
    assert!(opened.is_err(), "a stream within a stream: {opened:?}");
    pair.stacks[1].release(there);
    assert_eq!(
        pair.stacks[1].reset(pair.now, there, 1),
        Err(RequestError::BadHandle)
    );
    assert_eq!(
        pair.stacks[1].open_stream(pair.now, there, Direction::Both),
        Err(RequestError::BadHandle)
    );
}

/// Handles are the limit here. A stream without a free handle leaves no state behind.
#[test]
fn a_stream_without_a_free_handle_is_not_opened() {
    let mut pair = Pair::with(Engine::Interp, |host, limits| {
        if host == 0 {
            limits.handles = 3;
        }
    });
    for _ in 0..2 {
        pair.open(0, Direction::One);
    }
    let connection = pair.connections[0];
    let third = pair.stacks[0].open_stream(pair.now, connection, Direction::One);
    assert_eq!(third, Err(RequestError::Limit("handles")));
    pair.run();
    assert_eq!(pair.stacks[0].contexts(), 3);
}
