//! The bus with a provider of one variable.

mod attach;
mod batch;
mod common;
mod fallen;
mod offers;

use std::sync::Arc;
use std::time::Duration;

use hawser_time::Instant;
use parking_lot::Mutex;

use crate::ring::{Consumer, Ring};
use crate::*;

const ACKED: EventId = EventId(0);
const CLOSED: EventId = EventId(1);
const CWND: VariableId = VariableId(0);
const SRTT: VariableId = VariableId(1);

/// Makes a point in time, in nanoseconds.
const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn schema() -> Arc<Schema> {
    let field = |name: &str| Field { name: name.into(), kind: ValueKind::Number };
    let event = |name: &str, fields: &[&str]| EventType {
        name: name.into(),
        fields: fields.iter().map(|f| field(f)).collect(),
    };
    let variable = |name: &str, access| Variable { name: name.into(), kind: ValueKind::Number, access };
    let events = vec![event("tcp.acked", &["bytes"]), event("tcp.closed", &[])];
    let variables = vec![
        variable("tcp.conn.cc.cwnd", Access::Modifiable { min: 1, max: 1000 }),
        variable("tcp.conn.srtt", Access::Observable),
    ];
    Arc::new(Schema::new("tcp", events, variables).expect("a schema"))
}

/// Two connections with a window each.
#[derive(Default)]
struct Flows([u64; 2]);

impl ProviderState for Flows {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        let cwnd = *self.0.get(flow.0 as usize)?;
        match variable {
            CWND => Some(cwnd),
            SRTT => Some(7),
            _ => None,
        }
    }

    fn write(&mut self, flow: FlowId, _: VariableId, value: u64) -> bool {
        self.0.get_mut(flow.0 as usize).is_some_and(|cwnd| {
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

/// A provider under test.
struct Provider {
    source: Source,
    flows: Flows,
    /// The time, in nanoseconds, as everywhere in these tests.
    now: u64,
}

impl Provider {
    fn new(bus: &Bus) -> Provider {
        let mut provider = Provider { source: bus.source(schema(), None), flows: Flows([10, 20]), now: 0 };
        provider.poll(0);
        provider
    }

    fn poll(&mut self, now: u64) {
        self.now = now;
        self.source.poll(at(now), &mut self.flows);
    }

    fn publish(&mut self, now: u64, flow: u64, event: EventId, fields: &[u64]) {
        self.poll(now);
        if self.source.wants(event) {
            self.source
                .publish(at(now), FlowId(flow), event, fields, &mut self.flows);
        }
        self.source.settle(FlowId(flow), &mut self.flows);
    }

    /// Changes the window as the provider itself.
    fn own_write(&mut self, flow: u64, cwnd: u64) {
        self.flows.0[flow as usize] = cwnd;
        self.source.settle(FlowId(flow), &mut self.flows);
    }

    fn target(&self, flow: u64) -> SourceFlow {
        SourceFlow { source: self.source.id(), flow: FlowId(flow) }
    }

    fn set(&self, flow: u64, value: u64, lease: u64) -> Modification {
        Modification {
            target: self.target(flow),
            variable: CWND,
            set: Some((value, Duration::from_nanos(lease))),
        }
    }
}

/// Takes the queued signals: event, flow, fields and variables, lost.
fn waiting(consumer: &mut Consumer) -> Vec<(u16, u64, Vec<u64>, u32)> {
    let mut out = Vec::new();
    let take = |signal: &Signal<'_>, _: &mut Hands| {
        let values = [signal.fields(), signal.variables()].concat();
        out.push((signal.event().0, signal.target().flow.0, values, signal.lost()));
    };
    run_waiting(consumer, &mut Hands::default(), take, |_| {});
    out
}

fn acts(bus: &Bus) -> Vec<(String, &'static str, u64)> {
    bus.audit()
        .0
        .into_iter()
        .map(|e| (e.who, e.act.name(), e.count))
        .collect()
}

#[test]
fn signals_come_with_the_variables_that_were_asked_for() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(16, None);
    assert_eq!(tcp.source.wanted(), 0, "nobody wants anything");
    let subscription = Subscription::new(["tcp.acked"])
        .with([".conn.cc.cwnd", "tcp.conn.srtt"])
        .priority(0);
    watcher.subscribe(subscription, &queue).expect("it may");
    tcp.publish(5, 1, ACKED, &[1448]);
    tcp.publish(6, 1, CLOSED, &[]);
    assert_eq!(tcp.source.wanted(), 1);
    assert_eq!(waiting(&mut signals), [(0, 1, vec![1448, 20, 7], 0)]);
}

#[test]
fn a_subscription_includes_later_sources() {
    let bus = Bus::new();
    let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(16, None);
    watcher
        .subscribe(Subscription::new(["*"]).priority(0), &queue)
        .expect("there is no provider yet");
    let mut tcp = Provider::new(&bus);
    tcp.publish(1, 0, CLOSED, &[]);
    assert_eq!(waiting(&mut signals), [(1, 0, vec![], 0)]);
    drop(tcp);
    assert!(bus.sources().is_empty(), "a source that is gone is forgotten");
}

#[test]
fn scopes_choose_flows() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::all(), 0).expect("it may");
    let (one, mut of_one) = Ring::new(16, None);
    let (rule, mut of_rule) = Ring::new(16, None);
    let subscription = || Subscription::new(["tcp.acked"]);
    watcher
        .subscribe(subscription().with_scope(Scope::One(tcp.target(1))), &one)
        .expect("it may");
    let first = Scope::Rule("remote=10.0.0.0".parse().expect("a rule"));
    watcher
        .subscribe(subscription().with_scope(first), &rule)
        .expect("it may");
    (0..4).for_each(|n| tcp.publish(n, n % 2, ACKED, &[n]));
    let numbers = |seen: Vec<(u16, u64, Vec<u64>, u32)>| seen.into_iter().map(|s| s.2[0]).collect::<Vec<_>>();
    assert_eq!(numbers(waiting(&mut of_one)), [1, 3]);
    assert_eq!(numbers(waiting(&mut of_rule)), [0, 2]);
}

/// Records the order in which T-wares receive an event.
struct Listening {
    name: &'static str,
    priority: u8,
    order: Arc<Mutex<Vec<&'static str>>>,
}

impl Tware for Listening {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["tcp.acked"]).priority(self.priority)]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, _: usize, _: &Signal<'_>, _: &mut Hands) {
        self.order.lock().push(self.name);
    }
}

#[test]
fn higher_priorities_receive_first() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut subscribers = Vec::new();
    for (name, priority) in [("middle", 5), ("last", 1), ("first", 9)] {
        let order = order.clone();
        let make = move || -> Box<dyn Tware> { Box::new(Listening { name, priority, order: order.clone() }) };
        subscribers.push(bus.attach(name, Rights::all(), 9, make).expect("it may"));
    }
    tcp.publish(1, 0, ACKED, &[1]);
    assert_eq!(*order.lock(), ["first", "middle", "last"]);
}

#[test]
fn the_last_event_of_an_interval_is_delivered_for_each_flow() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::all(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(16, None);
    let id = watcher
        .subscribe(
            Subscription::new(["tcp.acked"]).every(Duration::from_nanos(10)),
            &queue,
        )
        .expect("it may");
    tcp.publish(100, 0, ACKED, &[1]);
    tcp.publish(105, 1, ACKED, &[2]);
    tcp.publish(109, 0, ACKED, &[3]);
    assert_eq!(tcp.source.next_deadline(), Some(at(110)));
    assert!(waiting(&mut signals).is_empty());
    tcp.poll(110);
    assert_eq!(waiting(&mut signals), [(0, 0, vec![3], 0)]);
    // The provider has not polled in between: the event that the old interval kept goes first.
    tcp.publish(200, 1, ACKED, &[4]);
    assert_eq!(waiting(&mut signals), [(0, 1, vec![2], 0)]);
    // The end of a flow cuts its interval short.
    tcp.source.ended(at(201), FlowId(1), &mut tcp.flows);
    assert_eq!(waiting(&mut signals), [(0, 1, vec![4], 0)]);
    // A subscription can be changed while it runs.
    watcher
        .change(id, |subscription| {
            subscription.filter = Filter { interval: Duration::ZERO, frequency: 2 }
        })
        .expect("it is there");
    (0..5).for_each(|n| tcp.publish(300 + n, 0, ACKED, &[n]));
    let seen = waiting(&mut signals)
        .into_iter()
        .map(|s| s.2[0])
        .collect::<Vec<_>>();
    assert_eq!(seen, [1, 3]);
}

#[test]
fn events_lost_at_a_full_queue_are_counted() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("slow", Rights::observer(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(4, None);
    let id = watcher
        .subscribe(Subscription::new(["tcp.acked"]).priority(0), &queue)
        .expect("it may");
    (0..10).for_each(|n| tcp.publish(n, 0, ACKED, &[n]));
    assert_eq!(waiting(&mut signals).len(), 4);
    tcp.publish(11, 0, ACKED, &[11]);
    assert_eq!(waiting(&mut signals), [(0, 0, vec![11], 6)]);
    let asked = statistics(&mut tcp, &watcher, id);
    assert_eq!(asked, Statistics { events: 11, passed: 11, lost: 6, crowded: 0 });
}

/// Asks for the statistics while the provider goes on.
fn statistics(tcp: &mut Provider, subscriber: &Subscriber, id: SubscriptionId) -> Statistics {
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| subscriber.statistics(id, Duration::from_millis(200)));
        while !answer.is_finished() {
            tcp.poll(12);
            std::thread::yield_now();
        }
        answer.join().expect("it ends")
    })
}

/// The queue before the source may be full, too: the kernel's ring counts its losses.
#[test]
fn losses_before_the_source_are_reported() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(16, None);
    let id = watcher
        .subscribe(Subscription::new(["tcp.acked"]).priority(0), &queue)
        .expect("it may");
    tcp.publish(1, 0, ACKED, &[1]);
    tcp.source.lost_before(ACKED, 7);
    tcp.source.lost_before(CLOSED, 9);
    tcp.publish(2, 0, ACKED, &[2]);
    tcp.publish(3, 0, ACKED, &[3]);
    let lost: Vec<u32> = waiting(&mut signals).into_iter().map(|(.., lost)| lost).collect();
    assert_eq!(lost, [0, 7, 0]);
    let asked = statistics(&mut tcp, &watcher, id);
    assert_eq!(asked, Statistics { events: 10, passed: 10, lost: 7, crowded: 0 });
}

#[test]
fn a_lease_overrides_the_provider_until_it_expires() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let steerer = bus.join("steerer", Rights::all(), 1).expect("it may");
    let answer = steerer.modify(&tcp.set(0, 99, 50), 1).expect("there is a source");
    tcp.poll(100);
    assert_eq!(answer.ready(), Some(Ok(10)));
    assert_eq!(tcp.flows.0, [99, 20]);
    tcp.own_write(0, 12);
    assert_eq!(tcp.flows.0[0], 99, "the holder's value stands");
    tcp.poll(149);
    assert_eq!(tcp.flows.0[0], 99);
    tcp.poll(150);
    assert_eq!(tcp.flows.0[0], 12, "what the provider wrote last");
    tcp.poll(1_000_000_000);
    assert_eq!(
        acts(&bus),
        [("steerer".into(), "set", 1), ("steerer".into(), "expired", 1)]
    );
}

/// The provider is busy while the lease ends. The holder knows the length of its lease, and leaves.
#[test]
fn a_holder_that_leaves_after_expiry_is_audited_as_expired() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let steerer = bus.join("steerer", Rights::all(), 1).expect("it may");
    let answer = steerer.modify(&tcp.set(0, 99, 50), 1).expect("there is a source");
    tcp.poll(100);
    assert_eq!(answer.ready(), Some(Ok(10)));
    drop(steerer);
    tcp.poll(160);
    assert_eq!(
        acts(&bus),
        [("steerer".into(), "set", 1), ("steerer".into(), "expired", 1)]
    );
}

/// A provider whose flows live elsewhere learns later that a variable could not be set.
#[test]
fn a_modification_without_effect_is_not_held() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let subscriber = bus.join("fast", Rights::all(), 1).expect("a subscriber");
    assert!(subscriber.steer(&tcp.set(0, 50, 100)));
    tcp.poll(1);
    assert_eq!(tcp.source.holds().len(), 1);
    tcp.source.failed(at(2), FlowId(0), "no map");
    assert!(tcp.source.holds().is_empty());
    tcp.poll(200_000_000);
    let last = bus.audit().0.pop().expect("an entry");
    assert_eq!(
        (last.who.as_str(), last.act),
        ("fast", AuditAction::Refused("no map".into()))
    );
}

/// The subscriber does not wait for an answer, so only the log can report the loss.
#[test]
fn events_lost_at_a_full_queue_are_logged() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let subscriber = bus.join("hasty", Rights::all(), 1).expect("a subscriber");
    let taken = (1..=300)
        .filter(|value| subscriber.steer(&tcp.set(0, *value, 1000)))
        .count();
    assert_eq!(taken, 256);
    tcp.poll(1);
    assert_eq!(tcp.flows.0[0], 256, "the last that found room");
    tcp.poll(200_000_000);
    let dropped = bus
        .audit()
        .0
        .into_iter()
        .find(|entry| entry.variable == "*")
        .expect("an entry");
    assert_eq!(
        (dropped.who.as_str(), dropped.count, dropped.act.name()),
        ("hasty", 44, "refused")
    );
    assert!(subscriber.steer(&tcp.set(0, 7, 1000)), "there is room again");
    tcp.poll(200_000_001);
    assert_eq!(tcp.flows.0[0], 7);
}

#[test]
fn a_subscriber_that_leaves_releases_its_holds() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let steerer = bus.join("steerer", Rights::all(), 1).expect("it may");
    assert!(steerer.steer(&tcp.set(1, 500, 1_000_000)));
    tcp.poll(1);
    assert_eq!(tcp.flows.0[1], 500);
    drop(steerer);
    tcp.poll(2);
    assert_eq!((tcp.flows.0[1], tcp.source.holds().len()), (20, 0));
    drop(tcp);
    assert_eq!(
        acts(&bus),
        [("steerer".into(), "set", 1), ("steerer".into(), "holder_gone", 1)]
    );
}

#[test]
fn the_higher_priority_wins() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let low = bus.join("low", Rights::all(), 1).expect("it may");
    let high = bus.join("high", Rights::all(), 2).expect("it may");
    let mut modify = |subscriber: &Subscriber, value, priority| {
        let answer = subscriber
            .modify(&tcp.set(0, value, 100), priority)
            .expect("a source");
        tcp.poll(tcp.now + 1);
        answer.ready().expect("it was polled")
    };
    assert_eq!(modify(&low, 50, 1), Ok(10));
    assert_eq!(modify(&high, 60, 2), Ok(50));
    assert_eq!(modify(&low, 70, 1), Err(Refusal::Held("high".into(), 2)));
    drop(high);
    assert_eq!(
        modify(&low, 70, 1),
        Ok(10),
        "the provider's value stood under both"
    );
}

#[test]
fn every_operation_checks_rights() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let rights = Rights {
        observe: vec!["tcp.acked".into()],
        modify: vec![Grant { variables: "*.cwnd".into(), min: 10, max: 20 }],
        attach: false,
        priority: 3,
    };
    let admitted = bus.join("admitted", rights.clone(), 3).expect("it may");
    let (queue, _signals) = Ring::new(4, None);
    let error = |result: Result<SubscriptionId, BusError>| result.expect_err("refused").to_string();
    assert_eq!(
        error(admitted.subscribe(Subscription::new(["tcp.closed"]), &queue)),
        "`admitted` has no right to receive tcp.closed: an operator can grant it in the rights file"
    );
    assert_eq!(
        error(admitted.subscribe(Subscription::new(["tcp.acked"]).with([".conn.srtt"]), &queue)),
        "`admitted` has no right to read tcp.conn.srtt: an operator can grant it in the rights file"
    );
    assert_eq!(
        error(admitted.subscribe(Subscription::new(["tcp.acked"]).priority(4), &queue)),
        "`admitted` has no right to take priority 4 (its highest is 3): an operator can grant it in the rights file"
    );
    assert_eq!(
        error(admitted.subscribe(Subscription::new(["tcp.ack"]), &queue)),
        "no provider has an event `tcp.ack`; known names: tcp.acked"
    );
    admitted
        .subscribe(Subscription::new(["tcp.*"]), &queue)
        .expect("what it may of these");
    tcp.poll(1);
    assert_eq!(tcp.source.wanted(), 1, "acked alone");
    assert!(bus.join("more", rights, 4).is_err());
    assert!(admitted.variables(tcp.source.id(), &"*".into()).is_err());
    let mut modify = |modification: &Modification| {
        let answer = admitted.modify(modification, 3).expect("a source");
        tcp.poll(tcp.now + 1);
        answer.ready().expect("it was polled")
    };
    let set = |flow, variable, value| Modification {
        target: SourceFlow { source: SourceId(0), flow: FlowId(flow) },
        variable,
        set: Some((value, Duration::from_nanos(10))),
    };
    assert_eq!(
        modify(&set(0, CWND, 21)),
        Err(Refusal::OutOfRange { value: 21, min: 10, max: 20 })
    );
    assert_eq!(modify(&set(0, SRTT, 15)), Err(Refusal::NoRight));
    assert!(matches!(modify(&set(9, CWND, 15)), Err(Refusal::NoFlow(_))));
    assert_eq!(
        modify(&Modification { set: Some((15, Duration::ZERO)), ..set(0, CWND, 0) }),
        Err(Refusal::Lease)
    );
    assert_eq!(
        modify(&Modification { set: None, ..set(0, CWND, 0) }),
        Err(Refusal::NotHeld)
    );
    assert_eq!(modify(&set(0, CWND, 15)), Ok(10));
}

/// Doubles the window at each acknowledgement.
struct Doubler {
    begun: Arc<Mutex<Vec<SourceId>>>,
}

impl Tware for Doubler {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription::new(["tcp.closed"]),
            Subscription::new(["tcp.acked"]).with([".conn.cc.cwnd"]),
        ]
    }

    fn begin(&mut self, source: SourceId, _: &Schema) {
        self.begun.lock().push(source);
    }

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
        assert_eq!(subscription, 1);
        hands.modify(
            signal.target(),
            CWND,
            signal.variables()[0] * 2,
            Duration::from_nanos(100),
        );
    }
}

#[test]
fn a_tware_in_the_loop_acts_before_the_next_event() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let seen = begun.clone();
    let make = move || Box::new(Doubler { begun: begun.clone() }) as Box<dyn Tware>;
    let subscriber = bus.attach("doubler", Rights::all(), 1, make).expect("it may");
    tcp.publish(1, 0, ACKED, &[1]);
    assert_eq!(tcp.flows.0, [20, 20]);
    tcp.publish(2, 0, ACKED, &[1]);
    assert_eq!(tcp.flows.0, [40, 20]);
    assert_eq!(*seen.lock(), [tcp.source.id()]);
    drop(subscriber);
    tcp.publish(3, 0, ACKED, &[1]);
    assert_eq!(tcp.flows.0, [10, 20]);
}

#[test]
fn ten_thousand_subscribers_leave_no_state() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    for n in 0..10_000 {
        let subscriber = bus.join("admitted", Rights::all(), 1).expect("the last one left");
        let (queue, _signals) = Ring::new(2, None);
        subscriber
            .subscribe(Subscription::new(["*"]).every(Duration::from_nanos(5)), &queue)
            .expect("it may");
        subscriber.steer(&tcp.set(0, 50, 1000));
        tcp.publish(n, 0, ACKED, &[n]);
        drop(subscriber);
    }
    tcp.poll(20_000);
    let source = format!("{:?}", tcp.source);
    assert!(source.contains("listeners: 0, holds: 0"), "{source}");
    assert_eq!((tcp.source.wanted(), tcp.flows.0), (0, [10, 20]));
    assert!(bus.subscriptions().is_empty());
    assert_eq!(
        bus.join("x", Rights::all(), 1)
            .expect("room")
            .flows(SourceId(5))
            .err(),
        Some(BusError::NoSource(5))
    );
}

/// The last signals of a source may be read after its end, but schemas are not kept for ever.
#[test]
fn the_schema_of_an_ended_source_is_kept_for_a_while() {
    let bus = Bus::new();
    let first = bus.source(schema(), None).id();
    assert!(bus.sources().is_empty());
    assert_eq!(bus.schema(first).expect("remembered").provider(), "tcp");
    for _ in 0..64 {
        drop(bus.source(schema(), None));
        assert!(bus.sources().is_empty());
    }
    assert_eq!(bus.schema(first).err(), Some(BusError::NoSource(first.0)));
}

/// A provider that writes at any time may have written between its last event and the lease's end.
#[test]
fn a_provider_write_without_an_event_survives_the_lease() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let holder = bus.join("holder", Rights::all(), 1).expect("it may");
    for (flow, ends) in [(0, "expired"), (1, "holder_gone")] {
        let pending = holder.modify(&tcp.set(flow, 500, 100), 1).expect("a source");
        tcp.poll(1);
        assert!(pending.ready().expect("an answer").is_ok());
        tcp.flows.0[flow as usize] = 77;
        if ends == "expired" {
            tcp.poll(200);
        }
    }
    drop(holder);
    tcp.poll(201);
    assert_eq!(tcp.flows.0, [77, 77]);
}
