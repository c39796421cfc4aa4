//! T-wares in the loop that panic, flows whose ends are not reported, and events that are not available. The
//! provider goes on, and the log has an entry for each.

use super::*;
use crate::audit::AuditAction;

/// Narrows the window at each event, and panics at the third, after it has requested a modification.
#[derive(Default)]
struct Fragile {
    received: u64,
}

impl Tware for Fragile {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["tcp.acked"])]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, _: usize, signal: &Signal<'_>, hands: &mut Hands) {
        self.received += 1;
        hands.modify(signal.target(), CWND, 4 + self.received, Duration::from_millis(1));
        assert!(self.received < 3, "received {} events", self.received);
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.received < 3, "no better than before");
    }
}

/// Panics in `begin`.
struct Stillborn;

impl Tware for Stillborn {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["tcp.acked"])]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {
        panic!("there is no such name");
    }

    fn signal(&mut self, _: usize, _: &Signal<'_>, _: &mut Hands) {
        unreachable!("it never began");
    }
}

#[test]
fn a_tware_that_panics_leaves_the_flow_to_its_provider() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let fragile = || Box::<Fragile>::default() as Box<dyn Tware>;
    let _fragile = bus.attach("fragile", Rights::all(), 5, fragile).expect("it may");
    let _stillborn = bus
        .attach("stillborn", Rights::all(), 9, || Box::new(Stillborn))
        .expect("it may");
    let order = Arc::new(Mutex::new(Vec::new()));
    let received = order.clone();
    let listening = move || -> Box<dyn Tware> {
        Box::new(Listening { name: "beside", priority: 1, order: received.clone() })
    };
    let _beside = bus.attach("beside", Rights::all(), 1, listening).expect("it may");
    let mut windows = Vec::new();
    for n in 1..6 {
        tcp.publish(n, 0, ACKED, &[1]);
        windows.push(tcp.flows.0[0]);
    }
    assert_eq!(windows, [5, 6, 10, 10, 10], "at the third it holds nothing more");
    assert!(tcp.source.holds().is_empty());
    assert_eq!(order.lock().len(), 5, "others receive it all the same");
    tcp.poll(1_000_000_000);
    let (entries, _) = bus.audit();
    let logged: Vec<_> = entries
        .iter()
        .map(|entry| (entry.who.as_str(), &entry.act))
        .collect();
    assert!(
        logged.contains(&("fragile", &AuditAction::Panicked("received 3 events".into()))),
        "{logged:?}"
    );
    assert!(
        logged.contains(&("fragile", &AuditAction::HolderGone)),
        "{logged:?}"
    );
    assert!(
        logged.contains(&(
            "stillborn",
            &AuditAction::Panicked("there is no such name".into())
        )),
        "{logged:?}"
    );
}

/// The kernel's `closed` may have been lost: the state of such flows is dropped when the table is full.
#[test]
fn flows_without_received_ends_make_room() {
    /// The flows that exist.
    struct Passing(Vec<FlowId>);

    impl ProviderState for Passing {
        fn read(&self, _: FlowId, _: VariableId) -> Option<u64> {
            None
        }

        fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
            false
        }

        fn info(&self, _: FlowId) -> Option<FlowInfo> {
            None
        }

        fn flows(&self) -> Vec<FlowId> {
            self.0.clone()
        }
    }

    let (bus, second) = (Bus::new(), 1_000_000_000);
    let mut source = bus.source(schema(), None);
    let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(1 << 18, None);
    let subscription = Subscription::new(["tcp.acked"])
        .priority(0)
        .every(Duration::from_nanos(1));
    let id = watcher.subscribe(subscription, &queue).expect("it may");
    let mut flows = Passing(Vec::new());
    let mut received = 0;
    for round in 0..3 {
        flows.0 = (0..40_000).map(|n| FlowId(round * 40_000 + n)).collect();
        for n in 0..40_000 {
            let now = (round + 1) * second + n * 10;
            source.poll(at(now), &mut flows);
            source.publish(at(now), flows.0[n as usize], ACKED, &[1], &mut flows);
            received += waiting(&mut signals).len();
        }
        source.poll(at((round + 2) * second - 1), &mut flows);
        received += waiting(&mut signals).len();
    }
    let answer = std::thread::scope(|scope| {
        let answer = scope.spawn(|| watcher.statistics(id, Duration::from_millis(200)));
        while !answer.is_finished() {
            source.poll(at(9 * second), &mut flows);
            std::thread::yield_now();
        }
        answer.join().expect("it ends")
    });
    assert_eq!((received, answer.crowded), (120_000, 0));
}

#[test]
fn an_unavailable_event_is_logged() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
    let (queue, _signals) = Ring::new(16, None);
    watcher
        .subscribe(Subscription::new(["tcp.closed"]).priority(0), &queue)
        .expect("it may");
    tcp.poll(1);
    tcp.source.unable(at(2), ACKED, "nobody wants it");
    tcp.source.unable(at(2), CLOSED, "no such hook");
    tcp.poll(1_000_000_000);
    let entries: Vec<_> = bus
        .audit()
        .0
        .into_iter()
        .map(|e| (e.who, e.target.flow, e.variable, e.act))
        .collect();
    let refused = AuditAction::Refused("no such hook".into());
    assert_eq!(
        entries,
        [("watcher".into(), FlowId::ALL, "tcp.closed".into(), refused)]
    );
}
