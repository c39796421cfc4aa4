//! One T-ware in three places: in the loop, in a thread, at the other end of the socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cap::Cap;
use super::*;
use crate::hostile::ACKED;
use crate::{
    AuditAction, Hands, Remote, Rights, Schema, Signal, SourceId, Subscription, Tware, run_in_thread,
};

/// Returns its acts on three events: flow, variable, count, last value.
fn deeds(place: &TestServer) -> Vec<(String, String, u64, AuditAction)> {
    let wait = |flow: usize, window| soon("it acts", || place.provider.window(flow) == window);
    place.provider.publish(0, ACKED, &[30]);
    wait(0, 15);
    place.provider.publish(1, ACKED, &[1000]);
    wait(1, 40);
    place.provider.publish(0, ACKED, &[60]);
    wait(0, 30);
    let mut out = Vec::new();
    soon("the log has it", || {
        let (entries, _) = place.bus.audit();
        out = entries
            .into_iter()
            .map(|e| (e.target.to_string(), e.variable, e.count, e.act))
            .collect();
        out.iter().map(|entry| entry.2).sum::<u64>() == 3
    });
    out
}

fn expected() -> Vec<(String, String, u64, AuditAction)> {
    let entry = |flow: &str, count, value| {
        (
            flow.into(),
            "tcp.conn.cc.cwnd".into(),
            count,
            AuditAction::Set(value),
        )
    };
    vec![entry("0:0", 2, 30), entry("0:1", 1, 40)]
}

#[test]
fn a_tware_in_the_loop_steers() {
    let place = TestServer::new();
    let _subscriber = place
        .bus
        .attach("cap", Rights::all(), 1, || Box::new(Cap(None)))
        .expect("it may");
    assert_eq!(deeds(&place), expected());
}

#[test]
fn a_tware_in_a_thread_steers() {
    let place = TestServer::new();
    let _running =
        run_in_thread(&place.bus, "cap", Rights::all(), 1, 64, Box::new(Cap(None))).expect("it may");
    assert_eq!(deeds(&place), expected());
}

/// Caps the window, and panics at the second event.
struct Fragile(Cap, bool);

impl Tware for Fragile {
    fn subscriptions(&self) -> Vec<Subscription> {
        self.0.subscriptions()
    }

    fn begin(&mut self, source: SourceId, schema: &Schema) {
        self.0.begin(source, schema);
    }

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
        self.0.signal(subscription, signal, hands);
        assert!(!std::mem::replace(&mut self.1, true), "one is enough");
    }
}

/// In the loop, the bus catches the panic (`hawser_bus::tests::fallen`).
#[test]
fn a_tware_that_panics_in_its_thread_holds_no_variables() {
    let place = TestServer::new();
    let fragile = Box::new(Fragile(Cap(None), false));
    let running = run_in_thread(&place.bus, "fragile", Rights::all(), 1, 64, fragile).expect("it may");
    place.provider.publish(0, ACKED, &[30]);
    soon("it acts", || place.provider.window(0) == 15);
    place.provider.publish(1, ACKED, &[30]);
    soon("what it held is given back", || place.provider.window(0) == 10);
    assert!(
        place.bus.subscriptions().is_empty(),
        "nobody receives what it wanted"
    );
    assert_eq!(
        running.statistics(Duration::from_millis(100)),
        hawser_bus::Statistics::default()
    );
}

#[test]
fn a_tware_in_another_process_steers() {
    let place = TestServer::new();
    let mut process = subscriber("caps", &place.socket()).spawn().expect("it runs");
    soon("it has subscribed", || place.bus.subscriptions().len() == 2);
    assert_eq!(deeds(&place), expected());
    process.kill().expect("it is ours");
    process.wait().expect("it ends");
    soon("what it held is given back", || {
        place.provider.window(0) == 10 && place.provider.window(1) == 20
    });
}

/// Through the ring, and with a restricted view of the provider.
#[test]
fn a_tware_behind_a_shared_ring_steers() {
    let rules = "[[rule]]\nname = \"cap\"\nobserve = [\"tcp.acked\", \"*.cwnd\"]\npriority = 1\n\
        modify = [{ variables = \"*.cwnd\" }]";
    let place = TestServer::with(Rules::parse(rules).expect("rules"));
    struct Acked(Cap);
    impl Tware for Acked {
        fn subscriptions(&self) -> Vec<Subscription> {
            // The subscription has another number than in `Cap`.
            vec![self.0.subscriptions().swap_remove(1)]
        }
        fn begin(&mut self, source: SourceId, schema: &Schema) {
            assert_eq!((schema.events().len(), schema.variables().len()), (1, 1));
            self.0.begin(source, schema);
        }
        fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
            self.0.signal(subscription + 1, signal, hands);
        }
    }
    let client = place.client("cap", 1);
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let mut remote = Remote::new(client, Box::new(Acked(Cap(None))), Some(64)).expect("it may");
    let thread = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            remote.turn(Duration::from_millis(20)).expect("it is served");
        }
    });
    assert_eq!(deeds(&place), expected());
    over.store(true, Ordering::Relaxed);
    thread.join().expect("it ends");
}
