//! QUIC-Lite as far as it is: streams whole and in order, over a wire that loses packets, and the same from both engines.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
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

fn program(engine: Engine) -> Arc<dyn Program> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/quic-lite/quic-lite.mtp");
    let program = resolve_on(Some(engine), file.to_str().expect("a path in UTF-8"), &[]);
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// The bytes that a host sends on each stream.
fn bytes_of(host: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + host * 13 + i / 251) as u8).collect()
}

/// What one end of a stream has done.
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
    streams: BTreeMap<Handle, Progress>,
    /// Streams that are over, with all bytes of the peer.
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
            streams: BTreeMap::new(),
            done: 0,
        }
    }

    /// Does all that is to be done now; true when that was anything.
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
                    if self.stack.sends_on(child) {
                        self.streams.insert(child, Progress::default());
                    }
                }
                Notice::Failed(error) => {
                    panic!("host {}: {error}: {:?}", self.number, self.stack.counters())
                }
                Notice::Eof | Notice::Closed => {
                    if let Some(stream) = self.streams.get_mut(&handle) {
                        stream.is_at_end |= notice == Notice::Eof;
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

/// The client opens so many streams, on each of which both ends send `len` bytes; when the last of them is over, and how
/// many packets each end sent.
fn run(
    program: &Arc<dyn Program>,
    (loss, seed): (u64, u64),
    (streams, len): (usize, usize),
) -> (Instant, [u64; 2]) {
    let [a, b] = cable(loss, seed);
    let mut hosts = [
        Host::new(program, (0, len), seed, a),
        Host::new(program, (1, len), seed, b),
    ];
    hosts[1].stack.listen(START, address(1), 8).expect("free");
    let client = hosts[0].stack.connect(START, address(1), None);
    let client = client.expect("a route");
    let (mut now, mut opened) = (START, 0);
    while hosts[0].done < streams || hosts[1].done < streams {
        while hosts[0].connected && opened < streams {
            let stream = hosts[0].stack.open_stream(now, client, Direction::Both);
            let Some(stream) = stream.expect("it is possible") else {
                break;
            };
            hosts[0].streams.insert(stream, Progress::default());
            opened += 1;
        }
        let busy = hosts.each_mut().map(|host| host.work(now));
        if busy == [false, false] {
            let next = hosts.iter().filter_map(|host| host.stack.next_deadline()).min();
            now = now.max(next.expect("something is waited for"));
            assert!(now < END, "seed {seed}: {:?}", hosts.map(|host| host.done));
        }
    }
    for host in &hosts {
        let c = host.stack.counters();
        let faults = c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving;
        assert_eq!(faults, 0, "seed {seed}: {c:?}");
    }
    let left = hosts.each_ref().map(|host| host.stack.contexts());
    assert_eq!(left, [1, 2], "seed {seed}: the connections, and a listener");
    (now, hosts.map(|host| host.stack.counters().frames_sent))
}

#[test]
fn streams_are_whole_and_in_order_through_losses() {
    let program = program(Engine::Interp);
    for seed in 0..6 {
        run(&program, (2 * seed, seed), (4, 60_000));
    }
}

/// A hundred may be open at a time (`STREAMS`); the others wait until the peer allows more.
#[test]
fn more_streams_than_may_be_open_are_opened_one_after_the_other() {
    run(&program(Engine::Interp), (0, 1), (120, 3_000));
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
