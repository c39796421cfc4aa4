//! The common part of all subscriptions to an event, for providers that can filter at the origin of events.

use super::*;

/// Makes the filter of an interval in nanoseconds.
fn every(interval: u64) -> Filter {
    Filter { interval: Duration::from_nanos(interval), frequency: 0 }
}

/// Returns the common part of subscriptions with these scopes, each a flow's number, and intervals.
fn common(wanted: &[(Option<u64>, u64)]) -> SharedSubscription {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::all(), 0).expect("it may");
    let (queue, _signals) = Ring::new(16, None);
    for (flow, interval) in wanted {
        let scope = flow.map_or(Scope::All, |flow| Scope::One(tcp.target(flow)));
        let subscription = Subscription::new(["tcp.acked"])
            .with_scope(scope)
            .every(Duration::from_nanos(*interval));
        watcher.subscribe(subscription, &queue).expect("it may");
    }
    tcp.poll(1);
    assert_eq!(
        tcp.source.common(CLOSED),
        SharedSubscription::default(),
        "nobody wants it"
    );
    tcp.source.common(ACKED)
}

#[test]
fn equal_filters_of_all_subscriptions_become_a_common_filter() {
    assert_eq!(common(&[]), SharedSubscription::default());
    let of = |flow: Option<u64>, filter| SharedSubscription { flow: flow.map(FlowId), filter };
    assert_eq!(common(&[(None, 5)]), of(None, Some(every(5))));
    assert_eq!(common(&[(None, 5), (None, 5)]), of(None, Some(every(5))));
    assert_eq!(common(&[(None, 5), (None, 6)]), of(None, None));
    assert_eq!(common(&[(Some(1), 5), (Some(1), 5)]), of(Some(1), Some(every(5))));
    assert_eq!(
        common(&[(Some(1), 5), (Some(1), 6)]),
        of(Some(1), None),
        "the flow is one all the same"
    );
    assert_eq!(common(&[(Some(1), 5), (Some(0), 5)]), of(None, None));
    assert_eq!(
        common(&[(Some(1), 5), (None, 5)]),
        of(None, None),
        "one filter would be another's loss"
    );
}

#[test]
fn the_bus_evaluates_rules_itself() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::all(), 0).expect("it may");
    let (queue, _signals) = Ring::new(16, None);
    let scope = Scope::Rule("remote=10.0.0.0".parse().expect("a rule"));
    watcher
        .subscribe(Subscription::new(["tcp.acked"]).with_scope(scope), &queue)
        .expect("it may");
    tcp.poll(1);
    assert_eq!(tcp.source.common(ACKED), SharedSubscription::default());
}

/// The interval has been applied at the origin of the events.
#[test]
fn an_event_filtered_before_passes_at_once() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::all(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(16, None);
    let subscription = Subscription::new(["tcp.acked"])
        .with_scope(Scope::One(tcp.target(1)))
        .every(Duration::from_secs(1));
    let id = watcher.subscribe(subscription, &queue).expect("it may");
    tcp.poll(1);
    let mut publish = |now, flow| {
        tcp.source
            .publish_filtered(at(now), FlowId(flow), ACKED, &[now], &mut tcp.flows);
    };
    publish(2, 1);
    publish(3, 1);
    // The event was under way when the subscription was made, or narrowed to one flow.
    publish(4, 0);
    publish(5, 1);
    let fields: Vec<u64> = waiting(&mut signals)
        .into_iter()
        .map(|signal| signal.2[0])
        .collect();
    assert_eq!(fields, [2, 3, 5]);
    let asked = statistics(&mut tcp, &watcher, id);
    assert_eq!(asked, Statistics { events: 3, passed: 3, lost: 0, crowded: 0 });
}
