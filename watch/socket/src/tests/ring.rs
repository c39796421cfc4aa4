//! The ring in shared memory: delivery, sealing, and a reader that writes garbage.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hawser_bus::ring::{RingMemory, SLOT};
use hawser_bus::{Hands, Signal, run_waiting};

use super::*;
use crate::hostile::ACKED;
use crate::shared;

const SUBSCRIPTION: &str = r#"{"subscribe":{"events":["tcp.acked"],"ring":true}}"#;

fn subscription() -> Value {
    serde_json::from_str(SUBSCRIPTION).expect("JSON")
}

#[test]
fn a_shared_ring_keeps_order_and_counts_losses() {
    let place = TestServer::new();
    let mut client = place.client("ring", 1);
    let (mut ring, waker) = client.ring(64).expect("memory");
    assert_eq!(
        refusal(&mut client, &json!({ "ring": { "slots": 2 } })),
        "this connection already has a ring"
    );
    let number = ask(&mut client, &subscription())["subscribed"].clone();
    let mut next = 0u64;
    for round in 0..20u64 {
        (0..50).for_each(|n| place.provider.publish(0, ACKED, &[round * 50 + n]));
        while next < (round + 1) * 50 {
            assert!(
                waker.wait(&ring, Duration::from_secs(10)).expect("it is there"),
                "it is woken"
            );
            let take = |signal: &Signal<'_>, _: &mut Hands| {
                assert_eq!((signal.fields(), signal.lost()), (&[next][..], 0));
                next += 1;
            };
            run_waiting(&mut ring, &mut Hands::default(), take, |_| {});
        }
    }
    assert!(
        matches!(
            client.receive(Some(Duration::from_millis(10))),
            Ok(ServerMessage::Nothing)
        ),
        "no lines"
    );
    (0..100).for_each(|n| place.provider.publish(0, ACKED, &[n]));
    let lost =
        |client: &mut Client| ask(client, &json!({ "statistics": number }))["statistics"]["lost"].clone();
    soon("what does not fit is counted", || lost(&mut client) == 36);
}

#[test]
fn memory_that_could_shrink_is_not_mapped() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    let plain = memfd_create("plain", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&plain, 1 << 16).expect("it grows");
    assert!(
        shared::accept(&plain)
            .expect_err("refused")
            .to_string()
            .contains("not sealed")
    );
    let offer = shared::offer(16).expect("memory");
    assert!(ftruncate(&offer.files[0], 0).is_err(), "sealed");
    assert!(shared::accept(&offer.files[0]).is_ok());
}

/// Fills the shared memory of a ring with noise until it is asked to stop.
fn write_garbage(socket: &Path, over: &AtomicBool) {
    let mut client = Client::connect(socket, "vandal", 1).expect("it is served");
    let (memory, _bell) = client.ring_memory(64).expect("memory");
    client.ask(&subscription()).expect("it may");
    let words = memory.words();
    let mut rng = fastrand::Rng::with_seed(1);
    for n in (0i64..).take_while(|_| !over.load(Ordering::Relaxed)) {
        let value = if n % 3 == 0 {
            rng.u64(..1 << 24)
        } else {
            rng.u64(..)
        };
        rng.choice(words).expect("some").store(value, Ordering::Relaxed);
    }
}

#[test]
fn garbage_in_a_ring_affects_no_other_client() {
    let place = TestServer::new();
    let over = Arc::new(AtomicBool::new(false));
    let (socket, ends) = (place.socket(), over.clone());
    let vandal = std::thread::spawn(move || write_garbage(&socket, &ends));
    let mut other = place.client("other", 1);
    ask(&mut other, &json!({ "subscribe": { "events": ["tcp.acked"] } }));
    soon("both are there", || place.bus.subscriptions().len() == 2);
    for n in 0..20_000u64 {
        place.provider.publish(0, ACKED, &[n]);
        if n % 100 == 99 {
            (n - 99..=n).for_each(|k| assert_eq!(receive(&mut other)["fields"]["bytes"], k));
        }
    }
    over.store(true, Ordering::Relaxed);
    vandal.join().expect("it ends");
    soon("it is gone", || place.bus.subscriptions().len() == 1);
    assert_eq!(
        ask(&mut other, &json!({ "flows": {} }))["flows"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

/// The number of slots is limited by the size of the memory, whatever the other end claims.
#[test]
fn a_ring_with_a_false_size_is_refused() {
    let offer = shared::offer(16).expect("memory");
    let memory: Arc<dyn RingMemory> = Arc::new(shared::map(&offer.files[0]).expect("it is sealed"));
    for (word, value) in [(1, 1 << 20), (1, 3), (2, SLOT as u64 + 1), (0, 0)] {
        let before = memory.words()[word].swap(value, Ordering::Relaxed);
        assert!(shared::accept(&offer.files[0]).is_err(), "{word} {value}");
        memory.words()[word].store(before, Ordering::Relaxed);
    }
    assert!(shared::accept(&offer.files[0]).is_ok());
}
