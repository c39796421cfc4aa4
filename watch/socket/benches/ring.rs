//! Measures signals through the ring in shared memory, from one process to another.
//!
//! ```text
//! cargo bench -p hawser-socket --bench ring              # 1.2 million a second, then as fast as it goes
//! ```
//!
//! This process is the provider. The subscriber is a second process of the same program, which connects to
//! the socket, asks for a ring and takes the signals. Standard output has one JSON object for each case: the
//! numbers of published, taken and lost signals, and the rate.

#![allow(clippy::disallowed_methods)] // A bench reads its arguments and the clock; the crate does not.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser_socket::*;
use serde_json::json;

const ACKED: EventId = EventId(0);
const SLOTS: usize = 1 << 16;
/// The field's value of the last signal.
const END: u64 = u64::MAX;
/// The number of signals published between two readings of the clock.
const BATCH: u64 = 64;

struct Flow;

impl ProviderState for Flow {
    fn read(&self, _: FlowId, _: VariableId) -> Option<u64> {
        Some(14_480)
    }

    fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
        false
    }

    fn info(&self, _: FlowId) -> Option<FlowInfo> {
        Some(FlowInfo { kind: "conn".into(), ..FlowInfo::default() })
    }

    fn flows(&self) -> Vec<FlowId> {
        vec![FlowId(0)]
    }
}

fn schema() -> Arc<Schema> {
    let field = |name: &str| Field { name: name.into(), kind: ValueKind::Number };
    let events = vec![EventType {
        name: "tcp.acked".into(),
        fields: ["bytes", "rtt", "flight"].map(field).to_vec(),
    }];
    let access = Access::Observable;
    let variables = vec![Variable { name: "tcp.conn.cc.cwnd".into(), kind: ValueKind::Number, access }];
    Arc::new(Schema::new("tcp", events, variables).expect("names within the provider's"))
}

/// Runs the other process: it takes signals until the last, and prints the numbers of received and of lost
/// ones.
fn subscribe(socket: &Path) {
    let mut client = Client::connect(socket, "bench", 1).expect("it is served");
    let (mut ring, waker) = client.ring(SLOTS).expect("memory");
    let subscription =
        json!({ "subscribe": { "events": ["tcp.acked"], "with": [".conn.cc.cwnd"], "ring": true } });
    client.ask(&subscription).expect("it may");
    println!("ready");
    let (mut taken, mut lost, mut next, mut over) = (0u64, 0u64, 0u64, false);
    while !over {
        let take = |signal: &Signal<'_>, _: &mut Hands| {
            lost += u64::from(signal.lost());
            if signal.fields()[0] == END {
                over = true;
                return;
            }
            assert_eq!(signal.fields()[0], next + u64::from(signal.lost()), "in order");
            next = signal.fields()[0] + 1;
            taken += 1;
        };
        let count = run_waiting(&mut ring, &mut Hands::default(), take, |_| {});
        if count == 0 {
            waker.wait(&ring, Duration::from_secs(1)).expect("the waker");
        }
    }
    println!("{taken} {lost}");
}

/// Publishes for `length`, at a rate or at full speed.
fn publish(source: &mut Source, rate: Option<u64>, length: Duration) -> (u64, Duration) {
    let begin = Instant::now();
    let mut count = 0;
    loop {
        let now = begin.elapsed();
        if now >= length {
            return (count, now);
        }
        if rate.is_some_and(|rate| u128::from(count) * 1_000_000_000 > u128::from(rate) * now.as_nanos()) {
            // Both processes may have to share a processor.
            std::thread::yield_now();
            continue;
        }
        for _ in 0..BATCH {
            source.publish(
                hawser_time::Instant::after(now),
                FlowId(0),
                ACKED,
                &[count, 0, 0],
                &mut Flow,
            );
            count += 1;
        }
    }
}

fn measure(name: &str, rate: Option<u64>, bus: &Bus, socket: &Path) {
    let mut source = bus.source(schema(), None);
    let mut child: Child = Command::new(std::env::current_exe().expect("it runs"))
        .arg("subscribe")
        .arg(socket)
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let mut printed = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut line = || printed.next().expect("a line").expect("it is readable");
    assert_eq!(line(), "ready");
    while !source.wants(ACKED) {
        source.poll(hawser_time::Instant::ORIGIN, &mut Flow);
        std::thread::sleep(Duration::from_millis(1));
    }
    let (count, took) = publish(&mut source, rate, Duration::from_secs(3));
    // The last signal needs room, so the other process must take some first.
    std::thread::sleep(Duration::from_millis(500));
    source.publish(
        hawser_time::Instant::ORIGIN,
        FlowId(0),
        ACKED,
        &[END, 0, 0],
        &mut Flow,
    );
    let figures: Vec<u64> = line().split(' ').filter_map(|word| word.parse().ok()).collect();
    child.wait().expect("it ends");
    let [taken, lost] = figures[..] else {
        panic!("two figures")
    };
    assert_eq!(taken + lost, count, "each is taken or counted as lost");
    let per_second = taken as f64 / took.as_secs_f64();
    let line = json!({ "case": name, "published": count, "taken": taken, "lost": lost,
                       "seconds": took.as_secs_f64(), "per_second": per_second.round() });
    println!("{line}");
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [word, socket] = &arguments[..]
        && word == "subscribe"
    {
        return subscribe(Path::new(socket));
    }
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let socket: PathBuf = folder.join("s");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let bus = Bus::new();
    let inside = runtime.enter();
    runtime.spawn(serve(bus.clone(), &socket, Rules::default()).expect("a socket"));
    drop(inside);
    measure("paced", Some(1_200_000), &bus, &socket);
    measure("free", None, &bus, &socket);
}
