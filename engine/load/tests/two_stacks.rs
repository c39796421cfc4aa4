//! Whole programs over two stacks and a wire that loses frames.
//!
//! The tests check the view of the applications: all bytes arrive, in order, once, followed by the end.

#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;
#[path = "two_stacks/quic_lite.rs"]
mod quic_lite;
#[path = "two_stacks/streams.rs"]
mod streams;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cable::{Cable, cable};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_ir::Module;
use hawser_load::{Interpreted, load};
use hawser_time::Instant;

/// One stack, its end of the cable, and the actions of its application.
struct Host {
    stack: Stack,
    end: Cable,
    handle: Option<Handle>,
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    end_of_stream: bool,
    closed: bool,
    /// True if the host closes when its peer does.
    polite: bool,
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), port)
}

impl Host {
    fn new(module: Module, number: u8, end: Cable, to_send: Vec<u8>) -> Host {
        let program = Interpreted::new(module, &[]).expect("a program that runs");
        let interface = InterfaceConfig {
            addresses: vec![(address(number, 0).ip(), 24)],
            gateways: vec![],
            mtu: 1500,
        };
        let config = StackConfig::new(interface, 40 + u64::from(number));
        let stack = Stack::new(Arc::new(program), config, end.caps()).expect("a good configuration");
        Host {
            stack,
            end,
            handle: None,
            to_send,
            sent: 0,
            received: Vec::new(),
            end_of_stream: false,
            closed: false,
            polite: false,
        }
    }

    /// Does all work that is due at this time. Returns whether there was any.
    fn work(&mut self, now: u64) -> bool {
        let mut any = false;
        while self
            .stack
            .poll(Instant::from_nanos(now), &mut self.end)
            .expect("a cable does not fail")
        {
            any = true;
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            any = true;
            match notice {
                Notice::Accepted(child) => self.handle = Some(child),
                Notice::Eof => {
                    self.end_of_stream = true;
                    if self.polite {
                        self.stack.close(Instant::from_nanos(now), handle);
                    }
                }
                Notice::Closed if Some(handle) == self.handle => self.closed = true,
                Notice::Failed(errno) => panic!("failed: {errno}"),
                _ => {}
            }
        }
        let Some(handle) = self.handle.filter(|_| !self.closed) else {
            return any;
        };
        while self.sent < self.to_send.len() {
            let until = self.to_send.len().min(self.sent + 10_000);
            let taken = self
                .stack
                .send(Instant::from_nanos(now), handle, &self.to_send[self.sent..until])
                .expect("open");
            if taken == 0 {
                break;
            }
            any = true;
            self.sent += taken;
        }
        let mut out = [0; 5000];
        while let Ok(n @ 1..) = self.stack.recv(Instant::from_nanos(now), handle, &mut out) {
            any = true;
            self.received.extend_from_slice(&out[..n]);
        }
        any
    }
}

/// Returns bytes that differ from place to place.
fn bytes(len: usize, salt: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|i| ((i ^ salt).wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// Connects from host 0 and sends in both directions. Host 0 closes when it has all data, and host 1 follows
/// if it is `polite`. Returns the time when host 0 receives the notice of the end.
fn exchange(module: &Module, polite: bool, lens: [usize; 2], ends: [Cable; 2]) -> (u64, [Host; 2]) {
    let [a, b] = ends;
    let mut hosts = [
        Host::new(module.clone(), 0, a, bytes(lens[0], 1)),
        Host::new(module.clone(), 1, b, bytes(lens[1], 2)),
    ];
    hosts[1].polite = polite;
    let mut now = 1_000_000;
    hosts[1]
        .stack
        .listen(Instant::from_nanos(now), address(1, 80), 16)
        .expect("free");
    let client = hosts[0]
        .stack
        .connect(Instant::from_nanos(now), address(1, 80), None)
        .expect("free");
    hosts[0].handle = Some(client);
    for _ in 0..100_000 {
        settle(&mut hosts, now);
        if !hosts[0].closed && hosts[0].sent == lens[0] && hosts[0].received.len() == lens[1] {
            hosts[0].stack.close(Instant::from_nanos(now), client);
            settle(&mut hosts, now);
        }
        if hosts[0].closed {
            return (now, hosts);
        }
        let deadlines = hosts.iter().filter_map(|host| host.stack.next_deadline());
        let next = deadlines
            .min()
            .unwrap_or_else(|| panic!("nothing more will happen: {}", state(&hosts)));
        now = now.max(next.as_nanos());
    }
    panic!("no end: {}", state(&hosts));
}

/// Lets both hosts do all work that is due at this time.
fn settle(hosts: &mut [Host; 2], now: u64) {
    let [a, b] = hosts;
    loop {
        let (first, second) = (a.work(now), b.work(now));
        if !(first || second) {
            return;
        }
    }
}

fn state(hosts: &[Host; 2]) -> String {
    let one = |host: &Host| {
        format!(
            "sent {} received {} {:?}",
            host.sent,
            host.received.len(),
            host.stack.counters()
        )
    };
    format!("{}\n{}", one(&hosts[0]), one(&hosts[1]))
}

fn delivered(hosts: &[Host; 2]) -> bool {
    hosts[1].received == hosts[0].to_send && hosts[0].received == hosts[1].to_send
}

/// Counts events that only a bug in the program or the engine can cause.
fn faults(host: &Host) -> u64 {
    let c = host.stack.counters();
    c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving + c.oversize
}

fn example(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name);
    load(&path).unwrap_or_else(|rejected| panic!("{rejected}"))
}

#[test]
fn stop_and_wait_delivers_through_losses() {
    let module = example("stop-and-wait.mtp");
    for seed in 0..4 {
        let (_, hosts) = exchange(&module, false, [150_000, 40_000], cable(10, seed));
        assert!(delivered(&hosts), "seed {seed}: {}", state(&hosts));
        assert!(hosts[1].end_of_stream, "seed {seed}");
        assert_eq!(
            hosts.each_ref().map(faults),
            [0, 0],
            "seed {seed}: {}",
            state(&hosts)
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let module = example("stop-and-wait.mtp");
    let run = |seed| {
        let (now, hosts) = exchange(&module, false, [30_000, 0], cable(20, seed));
        (now, hosts.map(|host| host.stack.counters().clone()))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

fn tcp() -> Module {
    let module = hawser_load::builtin("tcp").expect("it comes with Hawser");
    module.unwrap_or_else(|rejected| panic!("{rejected}"))
}

#[test]
fn tcp_delivers_through_losses() {
    let module = tcp();
    for seed in 0..4 {
        let (_, hosts) = exchange(&module, true, [1_500_000, 400_000], cable(3, seed));
        assert!(delivered(&hosts), "seed {seed}: {}", state(&hosts));
        assert_eq!(
            hosts.each_ref().map(faults),
            [0, 0],
            "seed {seed}: {}",
            state(&hosts)
        );
    }
}

/// A device that cuts super-segments changes nothing that a program or an application can observe.
#[test]
fn super_segments_have_no_observable_effect() {
    let module = tcp();
    for seed in 0..4 {
        let run = |gso_max| {
            let mut ends = cable(2, seed);
            for end in &mut ends {
                (end.caps.tx_csum, end.caps.gso_max) = (true, gso_max);
            }
            let (now, hosts) = exchange(&module, true, [800_000, 100_000], ends);
            assert!(delivered(&hosts), "seed {seed}: {}", state(&hosts));
            let joined = hosts[0].end.joined;
            let seen = |host: &Host| {
                (
                    host.stack.counters().frames_received,
                    host.stack.counters().chains,
                )
            };
            (joined, (now, hosts.each_ref().map(seen)))
        };
        let ((none, plain), (joined, same)) = (run(0), run(65_535));
        assert_eq!(plain, same, "seed {seed}");
        assert!(none == 0 && joined > 10, "{joined} super-segments");
    }
}
