//! The signals of one turn wake a subscriber once.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Makes a subscriber that sleeps, and a count of its wake-ups.
fn sleeper(subscriber: &Subscriber, slots: usize) -> (Consumer, Arc<AtomicUsize>) {
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let waker: crate::ring::Waker = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let (queue, consumer) = Ring::new(slots, Some(waker));
    subscriber
        .subscribe(Subscription::new(["tcp.*"]), &queue)
        .expect("it may");
    (consumer, woken)
}

#[test]
fn a_sleeping_subscriber_is_woken_at_the_end_of_a_batch() {
    let bus = Bus::new();
    let mut provider = Provider::new(&bus);
    let subscriber = bus.join("some", Rights::all(), 1).expect("a subscriber");
    let (mut signals, woken) = sleeper(&subscriber, 64);
    provider.poll(1);
    assert!(signals.doze());
    provider.publish(2, 0, ACKED, &[1]);
    assert_eq!(woken.swap(0, Ordering::Relaxed), 1, "at once without a batch");
    assert_eq!(waiting(&mut signals).len(), 1);

    assert!(signals.doze());
    provider.source.begin_batch();
    (3..6).for_each(|now| provider.publish(now, 0, ACKED, &[now]));
    provider.poll(6);
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    provider.source.end_batch();
    assert_eq!(woken.swap(0, Ordering::Relaxed), 1);
    assert_eq!(waiting(&mut signals).len(), 3);

    // A subscriber that does not drain its queue is woken while there is room.
    assert!(signals.doze());
    provider.source.begin_batch();
    (6..20).for_each(|now| provider.publish(now, 0, ACKED, &[now]));
    assert_eq!(woken.swap(0, Ordering::Relaxed), 1);
    provider.source.end_batch();
}

/// Its earlier signals are in the queue although it has unsubscribed.
#[test]
fn unsubscribing_in_a_batch_still_wakes_for_earlier_events() {
    let bus = Bus::new();
    let mut provider = Provider::new(&bus);
    let subscriber = bus.join("some", Rights::all(), 1).expect("a subscriber");
    let (signals, woken) = sleeper(&subscriber, 64);
    provider.poll(1);
    assert!(signals.doze());
    provider.source.begin_batch();
    provider.publish(2, 0, ACKED, &[1]);
    subscriber
        .unsubscribe(bus.subscriptions()[0].id)
        .expect("it is there");
    provider.poll(3);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    assert!(signals.is_ready());
}

/// A process has one queue for all its subscriptions.
#[test]
fn a_queue_of_many_subscriptions_is_read_before_it_is_full() {
    let bus = Bus::new();
    let mut provider = Provider::new(&bus);
    let subscriber = bus.join("some", Rights::all(), 1).expect("a subscriber");
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let waker: crate::ring::Waker = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let (queue, mut signals) = Ring::new(64, Some(waker));
    for _ in 0..16 {
        subscriber
            .subscribe(Subscription::new(["tcp.acked"]), &queue)
            .expect("it may");
    }
    provider.poll(1);
    assert!(signals.doze());
    provider.source.begin_batch();
    provider.publish(2, 0, ACKED, &[1]);
    assert_eq!(woken.load(Ordering::Relaxed), 1, "a quarter is full");
    assert_eq!(waiting(&mut signals).len(), 16);
    provider.source.end_batch();
}

#[test]
fn a_source_that_ends_in_a_batch_wakes_its_subscribers() {
    let bus = Bus::new();
    let mut provider = Provider::new(&bus);
    let subscriber = bus.join("some", Rights::all(), 1).expect("a subscriber");
    let (mut signals, woken) = sleeper(&subscriber, 64);
    provider.poll(1);
    assert!(signals.doze());
    provider.source.begin_batch();
    provider.publish(2, 0, ACKED, &[1]);
    drop(provider);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    assert_eq!(waiting(&mut signals).len(), 1);
}
