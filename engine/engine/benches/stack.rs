//! The cost of the engine itself: two stacks in one thread, a wire in memory, and a program whose chains are
//! a few lines of Rust (`support/bulk.rs`).
//!
//! ```text
//! cargo bench -p hawser-engine --bench stack                   # all
//! cargo bench -p hawser-engine --bench stack -- bulk 200000    # one connection, so many packets
//! cargo bench -p hawser-engine --bench stack -- super 200000   # the same with super-segments
//! cargo bench -p hawser-engine --bench stack -- sums 200000    # checksums in software, packets merged on receipt
//! cargo bench -p hawser-engine --bench stack -- flows 100000   # packets spread over so many
//! cargo bench -p hawser-engine --bench stack -- idle 10000     # bytes of memory per connection
//! ```
//!
//! Under callgrind, select one of them with a small number of packets.

#![allow(unsafe_code)] // An allocator that counts.
#![allow(clippy::disallowed_methods)] // A bench reads its arguments and the clock; the crate does not.

#[path = "support/bulk.rs"]
mod bulk;

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bulk::{Bulk, MSS};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Handle, Stack, StackConfig};
use hawser_testing::memory_wire::{SharedDirection, WireDirection, WireEnd};
use hawser_time::Instant;

/// The system's allocator, with a count of the bytes held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of bytes of one write and one read.
const CHUNK: usize = 64 << 10;
/// The virtual time between two turns.
const STEP: Duration = Duration::from_micros(10);
const RUNS: usize = 5;
/// The name of the bench with checksums in software.
const SUMS: &str = "sums";

struct Pair {
    stacks: [Stack; 2],
    ends: [WireEnd; 2],
    lanes: [SharedDirection; 2],
    flows: Vec<[Handle; 2]>,
    now: Instant,
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), port)
}

impl Pair {
    /// Creates two stacks. With `sums` each stack computes and verifies checksums and merges received
    /// packets.
    fn new(lane: fn() -> WireDirection, sums: bool) -> Pair {
        let lanes = [lane, lane].map(|lane| SharedDirection::new(lane().into()));
        let ends = [
            WireEnd::new(&lanes[0], &lanes[1], 1500, sums),
            WireEnd::new(&lanes[1], &lanes[0], 1500, sums),
        ];
        let stack = |host: u8| {
            let addresses = vec![(address(host, 0).ip(), 24)];
            let interface = InterfaceConfig { addresses, gateways: vec![], mtu: 1500 };
            let mut config = StackConfig::new(interface, u64::from(host) + 1);
            config.merge = sums;
            Stack::new(Arc::new(Bulk::new()), config, ends[0].caps()).expect("a good configuration")
        };
        Pair {
            stacks: [stack(0), stack(1)],
            ends,
            lanes,
            flows: Vec::new(),
            now: Instant::from_nanos(1),
        }
    }

    fn connect(&mut self, count: usize) {
        for i in self.flows.len()..self.flows.len() + count {
            let (a, b) = (
                address(0, 1024 + (i % 60_000) as u16),
                address(1, 5000 + (i / 60_000) as u16),
            );
            let open = |stack: &mut Stack, from, to| {
                stack
                    .connect(Instant::from_nanos(1), to, Some(from))
                    .expect("free")
            };
            let [client, server] = &mut self.stacks;
            self.flows.push([open(client, a, b), open(server, b, a)]);
        }
        self.settle();
    }

    /// Lets both stacks do all work that is due.
    fn settle(&mut self) {
        loop {
            let mut any = false;
            for (stack, end) in self.stacks.iter_mut().zip(&mut self.ends) {
                while stack.poll(self.now, end).expect("memory does not fail") {
                    any = true;
                }
                while stack.next_notice().is_some() {}
            }
            if !any {
                return;
            }
            self.now += STEP;
        }
    }

    /// Moves the bytes of `packets` packets over the first connection.
    fn bulk(&mut self, packets: u64) {
        let [from, to] = self.flows[0];
        let (chunk, mut out) = (vec![7; CHUNK], vec![0; CHUNK]);
        let goal = packets * u64::from(MSS);
        let mut got = 0;
        while got < goal {
            let [client, server] = &mut self.stacks;
            let [here, there] = &mut self.ends;
            while client.send(self.now, from, &chunk).expect("open") > 0 {}
            while client.poll(self.now, here).expect("memory does not fail") {}
            while server.poll(self.now, there).expect("memory does not fail") {}
            while let Ok(n @ 1..) = server.recv(self.now, to, &mut out) {
                got += n as u64;
            }
            while server.poll(self.now, there).expect("memory does not fail") {}
            while client.next_notice().is_some() || server.next_notice().is_some() {}
            self.now += STEP;
        }
    }

    /// Sends packets, two on a connection at a time, over connections that are consecutive in time but not
    /// adjacent in memory. Each pair is acknowledged at once, so that a turn leaves no work behind, however
    /// many connections there are.
    fn spread(&mut self, packets: usize) {
        let count = self.flows.len();
        let stride = (count * 2 / 3..)
            .find(|s| *s > 0 && gcd(*s, count) == 1)
            .unwrap_or(1);
        let (chunk, mut out) = (vec![7; 2 * MSS as usize], vec![0; 2 * MSS as usize]);
        let mut at = 0;
        for _ in 0..packets / 128 {
            let first = at;
            for _ in 0..64 {
                at = (at + stride) % count;
                let taken = self.stacks[0].send(self.now, self.flows[at][0], &chunk);
                assert_eq!(taken.ok(), Some(chunk.len()));
            }
            self.settle();
            at = first;
            for _ in 0..64 {
                at = (at + stride) % count;
                let got = self.stacks[1].recv(self.now, self.flows[at][1], &mut out);
                assert_eq!(got.ok(), Some(chunk.len()));
            }
            self.settle();
        }
    }

    fn frames(&self) -> [u64; 2] {
        [0, 1].map(|lane: usize| self.lanes[lane].borrow().packets)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the processor time of this process in nanoseconds, which other load on the machine affects less
/// than real time.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Returns the number of packets, by their bytes, per second of processor time: the median of several runs.
fn rate(packets: usize, mut run: impl FnMut()) -> f64 {
    run();
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = processor_time();
            run();
            packets as f64 * 1e9 / (processor_time() - begin) as f64
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}

fn bulk(name: &str, lane: fn() -> WireDirection, packets: usize) {
    let mut pair = Pair::new(lane, name == SUMS);
    pair.connect(1);
    let before = pair.frames();
    let rate = rate(packets, || pair.bulk(packets as u64));
    let [data, answers] = [0, 1].map(|i| pair.frames()[i] - before[i]);
    println!(
        "{name:<12} {:.0} thousand packets/s of data ({data} frames out, {answers} back)",
        rate / 1e3
    );
}

fn flows(count: usize) -> f64 {
    let mut pair = Pair::new(WireDirection::default, false);
    pair.connect(count);
    let packets = 128 * 1500;
    let before = pair.frames();
    let rate = rate(packets, || pair.spread(packets));
    let [data, answers] = [0, 1].map(|i| pair.frames()[i] - before[i]);
    println!(
        "{count:<12} flows: {:.0} thousand packets/s of data ({data} out, {answers} back)",
        rate / 1e3
    );
    rate
}

fn idle(count: usize) {
    let mut pair = Pair::new(WireDirection::default, false);
    pair.connect(1);
    pair.spread(64);
    let before = HELD.load(Ordering::Relaxed);
    pair.connect(count);
    let held = HELD.load(Ordering::Relaxed) - before;
    // A pair of handles here, and a context of a known size: the rest is the engine's.
    println!("{count:<12} idle connections: {} bytes each", held / (2 * count));
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let count = |default| args.get(1).and_then(|text| text.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("bulk") => bulk("bulk", WireDirection::default, count(200_000)),
        Some("super") => bulk("super", WireDirection::of_super_segments, count(200_000)),
        Some(SUMS) => bulk(SUMS, WireDirection::default, count(200_000)),
        Some("flows") => {
            flows(count(100_000));
        }
        Some("idle") => idle(count(10_000)),
        Some(other) => eprintln!("no bench `{other}`: bulk, super, sums, flows, idle"),
        None => {
            bulk("bulk", WireDirection::default, 200_000);
            bulk("super", WireDirection::of_super_segments, 400_000);
            bulk(SUMS, WireDirection::default, 200_000);
            let ratio = flows(100_000) / flows(1000);
            println!("100,000 flows keep {ratio:.2} of the rate of 1,000");
            idle(10_000);
        }
    }
}
