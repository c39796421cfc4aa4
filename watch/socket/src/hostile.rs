//! Lines of hostile clients, for a fuzzer; this module has no other use. The tests use its provider, too.

mod memory_documents;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use hawser_bus::{
    Access, Bus, Documents, EventId, EventType, Field, FlowId, FlowInfo, ProviderState, Refusal, Schema,
    Source, ValueKind, Variable, VariableId,
};
use parking_lot::Mutex;

use hawser_engine::Step;
use hawser_engine::program::Program;
use hawser_load::Attachments;
use hawser_sockets::OnBus;

use self::memory_documents::{MAX_DOCUMENTS, MemoryDocuments};
use super::Rules;
use super::connection::Connection;
use crate::local::LINE;

/// A provider in its own thread: `tcp` with two flows, each with a window that can be set, and a provider of
/// documents.
pub(super) struct Provider {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    store: Arc<MemoryDocuments>,
}

#[derive(Default)]
struct Shared {
    windows: Mutex<[u64; 2]>,
    /// Events to be published: flow, event, fields.
    events: Mutex<Vec<(u64, EventId, Vec<u64>)>>,
    over: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The provider's own values of the windows.
pub(super) const WINDOWS: [u64; 2] = [10, 20];
pub(super) const ACKED: EventId = EventId(0);
/// The interval at which it polls when it is not called.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(super) fn schema() -> Arc<Schema> {
    let field = |name: &str| Field { name: name.into(), kind: ValueKind::Number };
    let events = vec![
        EventType { name: "tcp.acked".into(), fields: vec![field("bytes")] },
        EventType { name: "tcp.closed".into(), fields: vec![] },
    ];
    let state = ValueKind::Enum(vec![(0, "closed".into()), (4, "established".into())]);
    let window = Access::Modifiable { min: 1, max: 1_000_000 };
    let variable = |name: &str, kind, access| Variable { name: name.into(), kind, access };
    let variables = vec![
        variable("tcp.conn.cc.cwnd", ValueKind::Number, window),
        variable("tcp.conn.srtt", ValueKind::Duration, Access::Observable),
        variable("tcp.conn.state", state, Access::Observable),
    ];
    Arc::new(Schema::new("tcp", events, variables).expect("names within the provider's"))
}

/// Returns TCP, loaded once, against which attachments are checked.
fn program() -> Arc<dyn Program> {
    static TCP: OnceLock<Arc<dyn Program>> = OnceLock::new();
    TCP.get_or_init(|| hawser_load::programs::resolve("tcp", &[]).expect("it is built in"))
        .clone()
}

impl ProviderState for &Shared {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        let cwnd = *self.windows.lock().get(flow.0 as usize)?;
        [cwnd, 7, 4].get(usize::from(variable.0)).copied()
    }

    // Only the window can be set.
    fn write(&mut self, flow: FlowId, _: VariableId, value: u64) -> bool {
        self.windows.lock().get_mut(flow.0 as usize).is_some_and(|cwnd| {
            *cwnd = value;
            true
        })
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        let remote = format!("10.0.0.{}:80", flow.0).parse().ok();
        (flow.0 < 2).then(|| FlowInfo { kind: "conn".into(), remote, ..FlowInfo::default() })
    }

    fn flows(&self) -> Vec<FlowId> {
        vec![FlowId(0), FlowId(1)]
    }
}

impl Provider {
    pub(super) fn new(bus: &Bus) -> Provider {
        let shared = Arc::new(Shared { windows: Mutex::new(WINDOWS), ..Shared::default() });
        let waker = shared.clone();
        let waker = move || waker.wake();
        let attachable = Arc::new(OnBus::new(Arc::new(Attachments::new(program()))));
        let source = bus.attachable_source(schema(), Some(Arc::new(waker)), attachable);
        let there = shared.clone();
        let thread = std::thread::spawn(move || there.run(source));
        let _ = shared.thread.set(thread.thread().clone());
        let store = Arc::new(MemoryDocuments::new());
        let documents: Arc<dyn Documents> = store.clone();
        bus.offer_documents(&documents);
        Provider { shared, thread: Some(thread), store }
    }

    pub(super) fn publish(&self, flow: u64, event: EventId, fields: &[u64]) {
        self.shared.events.lock().push((flow, event, fields.to_vec()));
        self.shared.wake();
    }

    pub(super) fn window(&self, flow: usize) -> u64 {
        self.shared.windows.lock()[flow]
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn run(&self, mut source: Source) {
        let (begin, mut state) = (Instant::now(), self);
        while !self.over.load(Ordering::Relaxed) {
            let now = hawser_time::Instant::after(begin.elapsed());
            // Orders that were given before an event was published are carried out first.
            let events = std::mem::take(&mut *self.events.lock());
            source.poll(now, &mut state);
            while let Some((stepping, step)) = source.next_step() {
                let step = step
                    .downcast::<Step>()
                    .map_err(|_| Refusal::unable("another's step"));
                // No stack runs here, and any program would do.
                source.stepped(
                    now,
                    stepping,
                    step.and_then(|step| step(&mut |_| Ok(program())).map_err(Refusal::unable)),
                );
            }
            for (flow, event, fields) in events {
                source.publish(now, FlowId(flow), event, &fields, &mut state);
                source.settle(FlowId(flow), &mut state);
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }
}

/// Takes bytes for the lines of a subscriber that may set one variable within bounds, and carries them out.
/// The code must not panic, every answer must be an object of a known form, and the variable must stay within
/// the bounds. Afterwards no state of the subscriber may be left.
///
/// # Panics
/// When one of these promises is broken.
pub fn lines(data: &[u8]) {
    const RULES: &str = "[[rule]]\nattach = true\nobserve = [\"tcp.*\", \"shelf.nodes\"]\npriority = 3\n\
        modify = [{ variables = \"*.cwnd\", min = 5, max = 100 }, { variables = \"shelf.nodes\" }]";
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let rules = Rules::parse(RULES).expect("rules");
    let bus = Bus::new();
    let provider = Provider::new(&bus);
    let mut connection = Connection::new(bus.clone(), &rules, 7, None).expect("the first one");
    for line in data
        .split(|byte| *byte == b'\n')
        .filter(|line| line.len() <= LINE)
        .take(32)
    {
        let answer = runtime.block_on(connection.take(line, &rules, 7));
        provider.publish(0, ACKED, &[1]);
        if let Some(answer) = answer {
            let words = answer.as_object().map_or(0, serde_json::Map::len);
            assert!((1..=3).contains(&words), "{answer}");
            assert!(
                answer
                    .get("error")
                    .is_none_or(|why| why.as_str().is_some_and(|why| !why.is_empty()))
            );
        }
        assert!(provider.store.len() <= MAX_DOCUMENTS);
        for (flow, own) in WINDOWS.iter().enumerate() {
            let window = provider.window(flow);
            assert!((5..=100).contains(&window) || window == *own, "{window}");
        }
    }
    drop((connection, runtime));
    assert!(bus.subscriptions().is_empty());
    let until = Instant::now() + Duration::from_secs(2);
    while (0..2).any(|flow| provider.window(flow) != WINDOWS[flow]) {
        assert!(Instant::now() < until, "what it held is given back");
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid lines, cut, joined and changed at random.
    #[test]
    fn mutated_lines_do_no_harm() {
        const LINES: [&str; 19] = [
            r#"{"hello":{"name":"fast-1","priority":3}}"#,
            r#"{"offers":{}}"#,
            r#"{"flows":{}}"#,
            r#"{"subscribe":{"events":["tcp.*"],"with":[".conn.cc.cwnd"],"scope":"remote.port=80","interval":"1.5ms","frequency":3}}"#,
            r#"{"change":{"subscription":0,"scope":{"flow":"0:1"},"interval":7}}"#,
            r#"{"statistics":0}"#,
            r#"{"probe":{"flow":"0:1","variables":["*"]}}"#,
            r#"{"modify":{"flow":"0:0","variable":".conn.cc.cwnd","value":50,"lease":"2s","priority":2}}"#,
            r#"{"steer":{"flow":"0:1","variable":"tcp.conn.cc.cwnd","value":99,"lease":1000000}}"#,
            r#"{"release":{"flow":"0:0","variable":"tcp.conn.cc.cwnd"}}"#,
            r#"{"ring":{"slots":16}}"#,
            r#"{"audit":{}}"#,
            r#"{"attachments":{}}"#,
            r#"{"attach":{"source":0,"name":"cap","text":"void cap(event_t ev, tcp_conn c) { } attach cap after cc;"}}"#,
            r#"{"detach":{"source":0,"name":"cap"}}"#,
            r#"{"put":{"uid":"a","properties":{"mtu":{"value":1500}}}}"#,
            r#"{"list":{"uid":"a"}}"#,
            r#"{"watch":{}}"#,
            r#"{"delete":"a"}"#,
        ];
        let mut rng = fastrand::Rng::with_seed(1);
        let mut random = |below: usize| rng.usize(..below);
        for _ in 0..400 {
            let mut data = Vec::new();
            for _ in 0..1 + random(8) {
                data.extend_from_slice(LINES[random(LINES.len())].as_bytes());
                data.push(b'\n');
            }
            for _ in 0..random(6) {
                if data.is_empty() {
                    break;
                }
                let place = random(data.len());
                match random(4) {
                    0 => drop(data.remove(place)),
                    1 => data[place] = random(256) as u8,
                    2 => data.insert(place, b"{}[]\",:19"[random(9)]),
                    _ => data.truncate(place.max(1)),
                }
            }
            lines(&data);
        }
    }
}
