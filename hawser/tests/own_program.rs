//! A user's own program is a provider by its declarations: the names of stop-and-wait occur only in its own
//! file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser::interact::{
    Access, Bus, Hands, Rights, Schema, Signal, SourceId, Subscription, Tware, ValueKind, VariableId,
};
use hawser::runs::{Report, SampleRequest, load, run_steered};

/// A wait of 10 ms, in nanoseconds; the scenario's 50 ms are more than ten of its round trips.
const SHORT: u64 = 10_000_000;

/// Shortens the timer once a packet had to be sent again, and counts.
struct Hasten {
    timer: Option<VariableId>,
    received: Arc<AtomicU64>,
}

impl Tware for Hasten {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["*.sent_again"]).with([".sw_conn.rto", ".sw_conn.retransmissions"])]
    }

    fn begin(&mut self, _: SourceId, schema: &Schema) {
        let again = schema
            .event_type(schema.event("stop.sent_again").expect("declared"))
            .expect("its type");
        assert_eq!((again.fields[0].name.as_str(), again.fields.len()), ("bytes", 1));
        let timer = schema.variable("stop.sw_conn.rto").expect("declared");
        let declared = schema.variable_type(timer).expect("its type");
        assert_eq!(declared.kind, ValueKind::Duration);
        assert_eq!(
            declared.access,
            Access::Modifiable { min: 1_000_000, max: 60_000_000_000 }
        );
        let counter = schema.variable("stop.sw_conn.retransmissions").expect("declared");
        assert_eq!(
            schema.variable_type(counter).expect("its type").access,
            Access::Observable
        );
        self.timer = Some(timer);
    }

    fn signal(&mut self, _: usize, signal: &Signal<'_>, hands: &mut Hands) {
        let received = self.received.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(
            signal.variables()[1],
            received,
            "what is probed is as it is after the event"
        );
        if signal.variables()[0] != SHORT {
            hands.modify(
                signal.target(),
                self.timer.expect("it has begun"),
                SHORT,
                Duration::from_secs(60),
            );
        }
    }
}

fn run(bus: &Bus) -> Report {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/scenarios/stop-and-wait.toml");
    let scenario = load(&example).expect("the example");
    let watch = SampleRequest { every: Duration::from_secs(1), fields: &[], reported: &mut |_| {} };
    run_steered(&scenario, Some(1), watch, bus, &["a"]).expect("it runs")
}

#[test]
fn declared_signals_and_variables_are_received_probed_and_set() {
    let plain = run(&Bus::new());
    let (bus, received) = (Bus::new(), Arc::new(AtomicU64::new(0)));
    let counts = received.clone();
    let hasten = move || -> Box<dyn Tware> { Box::new(Hasten { timer: None, received: counts.clone() }) };
    let _client = bus.attach("hasten", Rights::all(), 1, hasten).expect("it may");
    let steered = run(&bus);
    assert!(
        plain.ok && steered.ok,
        "{:?} {:?}",
        plain.failures,
        steered.failures
    );
    assert!(received.load(Ordering::Relaxed) > 50);
    assert_eq!(
        steered.flows[0].retransmissions,
        Some(received.load(Ordering::Relaxed)),
        "each one is received"
    );
    // 180 waits of 50 ms are 9 s of 13.
    assert!(
        steered.seconds < plain.seconds / 2.0,
        "{} s, and {} s",
        steered.seconds,
        plain.seconds
    );
}
