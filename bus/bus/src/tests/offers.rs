//! A source's schema changes while the source runs: subscribers by pattern receive new events, and numbers
//! stay.

use super::*;

/// Makes the provider's schema, with further events of these names and one field each.
fn with(more: &[&str]) -> Schema {
    let plain = schema();
    let event = |name: &&str| EventType {
        name: (*name).to_owned(),
        fields: vec![Field { name: "cwnd".into(), kind: ValueKind::Number }],
    };
    let events = plain
        .events()
        .iter()
        .cloned()
        .chain(more.iter().map(event))
        .collect();
    Schema::new("tcp", events, plain.variables().to_vec()).expect("a schema")
}

fn numbers(source: &Source, names: &[&str]) -> Vec<Option<u16>> {
    names
        .iter()
        .map(|name| source.schema().event(name).map(|id| id.0))
        .collect()
}

#[test]
fn an_event_offered_later_reaches_matching_subscribers() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let watcher = bus.join("watcher", Rights::all(), 0).expect("it may");
    let (queue, mut signals) = Ring::new(16, None);
    let all = watcher
        .subscribe(Subscription::new(["tcp.*"]), &queue)
        .expect("it may");
    let acked = watcher
        .subscribe(Subscription::new(["tcp.acked"]), &queue)
        .expect("it may");
    tcp.publish(1, 0, ACKED, &[5]);
    tcp.source
        .offer(&with(&["tcp.cap.reached"]))
        .expect("there is room");
    let reached = tcp
        .source
        .schema()
        .event("tcp.cap.reached")
        .expect("it is offered");
    assert_eq!(
        *bus.schema(tcp.source.id()).expect("it is there"),
        **tcp.source.schema()
    );
    assert!(!tcp.source.wants(reached), "the source has taken no order");
    tcp.publish(2, 1, reached, &[7]);
    tcp.publish(3, 0, ACKED, &[6]);
    let received: Vec<_> = waiting(&mut signals)
        .into_iter()
        .map(|(event, _, values, _)| (event, values[0]))
        .collect();
    assert_eq!(received, [(0, 5), (0, 5), (2, 7), (0, 6), (0, 6)]);
    assert_eq!(statistics(&mut tcp, &watcher, all).events, 3);
    assert_eq!(statistics(&mut tcp, &watcher, acked).events, 2);
    tcp.source.offer(&schema()).expect("there is room");
    tcp.poll(4);
    assert!(!tcp.source.wants(reached) && tcp.source.wants(ACKED));
    let why = watcher
        .subscribe(Subscription::new(["tcp.cap.reached"]), &queue)
        .expect_err("it is gone");
    assert!(matches!(why, BusError::NoEvent { .. }), "{why}");
}

#[test]
fn an_event_number_is_reused_only_when_all_are_taken() {
    let bus = Bus::new();
    let mut tcp = Provider::new(&bus);
    let mut offer = |names: &[&str]| {
        tcp.source
            .offer(&with(names))
            .map(|()| numbers(&tcp.source, names))
    };
    assert_eq!(offer(&["tcp.a", "tcp.b"]), Ok(vec![Some(2), Some(3)]));
    assert_eq!(offer(&["tcp.b"]), Ok(vec![Some(3)]), "who stays keeps its number");
    assert_eq!(offer(&["tcp.c", "tcp.b"]), Ok(vec![Some(4), Some(3)]));
    assert_eq!(offer(&["tcp.a"]), Ok(vec![Some(5)]), "it came anew");
    let many: Vec<String> = (0..62).map(|n| format!("tcp.n{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = offer(&many).expect("there is just room");
    let mut sorted: Vec<u16> = all.into_iter().flatten().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, (2..64).collect::<Vec<_>>());
    assert_eq!(offer(&["tcp.a", "tcp.b"]).expect("there is room").len(), 2);
}

#[test]
fn a_pattern_may_match_no_event_yet() {
    let bus = Bus::new();
    let mute = Schema::new("mute", vec![], vec![]).expect("a schema");
    let _source = bus.source(Arc::new(mute), None);
    let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
    let (queue, _signals) = Ring::new(16, None);
    watcher
        .subscribe(Subscription::new(["*"]).priority(0), &queue)
        .expect("it receives what comes");
    let why = watcher
        .subscribe(Subscription::new(["mute.acked"]).priority(0), &queue)
        .expect_err("there is none");
    assert!(matches!(why, BusError::NoEvent { .. }), "{why}");
}
