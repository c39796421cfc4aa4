//! The cost of an event for its provider: without subscribers, with a T-ware in the loop, with a queue, and
//! under filters. `empty` is the surrounding loop alone, to be subtracted.
//!
//! ```text
//! cargo bench -p hawser-bus --bench deliver               # nanoseconds and, with valgrind, instructions
//! cargo bench -p hawser-bus --bench deliver -- loop 1000  # one case, so many events
//! ```
//!
//! Time is processor time, the median of several runs. Instructions are the difference of two runs under
//! callgrind. Standard output has one JSON object for each case.

#![allow(clippy::disallowed_methods)] // A bench reads its arguments and the clock; the crate does not.
#![allow(clippy::disallowed_types)] // No machine: it starts itself under valgrind to count instructions.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::ring::{Consumer, Ring, SLOT};
use hawser_bus::*;
use hawser_time::Instant;

const CASES: &[&str] = &[
    "empty",
    "nobody",
    "loop",
    "loop_modify",
    "ring",
    "interval",
    "frequency",
    "scope",
];
const ACKED: EventId = EventId(0);
const CWND: VariableId = VariableId(0);
const EVENTS: u64 = 2_000_000;
const RUNS: usize = 5;
/// The time between two events.
const STEP: Duration = Duration::from_micros(1);
const FLOWS: u64 = 4;

fn schema() -> Arc<Schema> {
    let field = |name: &str| Field { name: name.into(), kind: ValueKind::Number };
    let fields = ["bytes", "rtt", "flight"].map(field).to_vec();
    let variable = |name: &str, access| Variable { name: name.into(), kind: ValueKind::Number, access };
    let variables = vec![
        variable("tcp.conn.cc.cwnd", Access::Modifiable { min: 1, max: 1 << 30 }),
        variable("tcp.conn.srtt", Access::Observable),
    ];
    let events = vec![EventType { name: "tcp.acked".into(), fields }];
    Arc::new(Schema::new("tcp", events, variables).expect("names within the provider's"))
}

struct Windows([u64; FLOWS as usize]);

impl ProviderState for Windows {
    fn read(&self, flow: FlowId, _: VariableId) -> Option<u64> {
        self.0.get(flow.0 as usize).copied()
    }

    fn write(&mut self, flow: FlowId, _: VariableId, value: u64) -> bool {
        self.0.get_mut(flow.0 as usize).is_some_and(|window| {
            *window = value;
            true
        })
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        (flow.0 < FLOWS).then(|| FlowInfo { kind: "conn".into(), ..FlowInfo::default() })
    }

    fn flows(&self) -> Vec<FlowId> {
        (0..FLOWS).map(FlowId).collect()
    }
}

/// Adds up the values that it receives, and sets the window if configured to.
struct Adder {
    sum: u64,
    modifies: bool,
}

impl Tware for Adder {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["tcp.acked"]).with([".conn.cc.cwnd"])]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, _: usize, signal: &Signal<'_>, hands: &mut Hands) {
        self.sum = black_box(self.sum.wrapping_add(signal.fields()[0]));
        if self.modifies {
            hands.modify(signal.target(), CWND, 1 + self.sum % 1000, Duration::from_secs(1));
        }
    }
}

/// A provider with one subscriber.
struct Setting {
    source: Source,
    windows: Windows,
    _subscriber: Subscriber,
    queue: Option<Consumer>,
    /// True if the loop runs without publishing, to measure its own cost.
    is_empty: bool,
    now: Instant,
}

impl Setting {
    fn new(case: &str) -> Setting {
        let bus = Bus::new();
        let (mut source, mut windows) = (bus.source(schema(), None), Windows([10_000; FLOWS as usize]));
        let mut queue = None;
        let subscriber = match case {
            "loop" | "loop_modify" => {
                let modifies = case == "loop_modify";
                let make = move || Box::new(Adder { sum: 0, modifies }) as Box<dyn Tware>;
                bus.attach("bench", Rights::all(), 1, make).expect("it may")
            }
            _ => {
                let subscriber = bus.join("bench", Rights::all(), 1).expect("it may");
                let (ring, consumer) = Ring::new(1024, None);
                let subscription = Subscription::new(["tcp.acked"]).with([".conn.cc.cwnd"]);
                let subscription = match case {
                    "interval" => subscription.every(Duration::from_millis(10)),
                    "frequency" => subscription.each_nth(3),
                    "scope" => subscription.with_scope(Scope::Rule("kind=listener".parse().expect("a rule"))),
                    _ => subscription,
                };
                if !matches!(case, "empty" | "nobody") {
                    subscriber.subscribe(subscription, &ring).expect("it may");
                }
                queue = Some(consumer);
                subscriber
            }
        };
        source.poll(Instant::ORIGIN, &mut windows);
        Setting {
            source,
            windows,
            _subscriber: subscriber,
            queue,
            is_empty: case == "empty",
            now: Instant::ORIGIN,
        }
    }

    fn run(&mut self, events: u64) {
        if self.is_empty {
            self.drive::<false>(events)
        } else {
            self.drive::<true>(events)
        }
    }

    fn drive<const ASK: bool>(&mut self, events: u64) {
        let mut words = [0; SLOT - 1];
        for n in 0..events {
            self.now += STEP;
            let flow = FlowId(n % FLOWS);
            if ASK && self.source.wants(black_box(ACKED)) {
                self.source
                    .publish(self.now, flow, ACKED, &[1448, n, 14480], &mut self.windows);
                self.source.settle(flow, &mut self.windows);
            }
            if n % 512 == 511 {
                self.source.poll(self.now, &mut self.windows);
                if let Some(queue) = &mut self.queue {
                    while queue.pop(&mut words) {}
                }
            }
        }
    }
}

/// Returns the processor time of this process, in nanoseconds: other load on the machine affects it less.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn nanoseconds(case: &str) -> f64 {
    let mut setting = Setting::new(case);
    setting.run(EVENTS / 10);
    let mut each: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = processor_time();
            setting.run(EVENTS);
            (processor_time() - begin) as f64 / EVENTS as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    each[RUNS / 2]
}

/// Counts the instructions of one run of this program under callgrind; `None` if valgrind is not installed.
fn count(case: &str, events: u64) -> Option<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?);
    let output = command
        .args([case, &events.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

fn instructions(case: &str) -> Option<f64> {
    let (few, many) = (4_096, 20_480);
    Some((count(case, many)? as f64 - count(case, few)? as f64) / (many - few) as f64)
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [case, events] = &arguments[..] {
        Setting::new(case).run(events.parse().expect("a number of events"));
        return;
    }
    for case in CASES {
        let counted = instructions(case).map_or("null".to_owned(), |n| format!("{n:.1}"));
        let time = nanoseconds(case);
        println!("{{\"case\":\"{case}\",\"nanoseconds\":{time:.1},\"instructions\":{counted}}}");
    }
}
