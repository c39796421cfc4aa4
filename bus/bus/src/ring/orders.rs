//! The ring under loom, which tries every interleaving of its threads that the memory model allows.

use std::sync::Arc;

use loom::sync::Notify;
use loom::thread;

use super::*;

/// Makes the smallest ring.
fn ring(waker: Option<Waker>) -> (Ring, Consumer) {
    Ring::new(2, waker)
}

fn pop(consumer: &mut Consumer) -> Option<[u64; 2]> {
    let mut out = [0; MAX_WORDS];
    consumer.pop(&mut out).then_some([out[0], out[1]])
}

/// Runs a check in every interleaving with at most three preemptions.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn signals_arrive_whole_and_in_order() {
    model(|| {
        let (ring, mut consumer) = ring(None);
        let producer = thread::spawn(move || {
            for n in 1..=2 {
                assert!(ring.push(&[n, 10 * n]), "it has two slots");
            }
        });
        let mut next = 1;
        for _ in 0..3 {
            if let Some(words) = pop(&mut consumer) {
                assert_eq!(words, [next, 10 * next]);
                next += 1;
            }
        }
        producer.join().expect("it ends");
        while let Some(words) = pop(&mut consumer) {
            assert_eq!(words, [next, 10 * next]);
            next += 1;
        }
        assert_eq!(next, 3);
    });
}

#[test]
fn a_slot_is_written_again_only_once_it_was_read() {
    model(|| {
        let (ring, mut consumer) = ring(None);
        assert!(ring.push(&[1, 10]) && ring.push(&[2, 20]));
        let producer = thread::spawn(move || ring.push(&[3, 30]));
        assert_eq!(pop(&mut consumer), Some([1, 10]));
        assert_eq!(pop(&mut consumer), Some([2, 20]));
        let is_taken = producer.join().expect("it ends");
        assert_eq!(pop(&mut consumer), is_taken.then_some([3, 30]));
    });
}

#[test]
fn two_producers_take_different_slots() {
    model(|| {
        let (ring, mut consumer) = ring(None);
        let other = ring.clone();
        let producer = thread::spawn(move || other.push(&[1, 10]));
        assert!(ring.push(&[2, 20]));
        assert!(producer.join().expect("it ends"));
        let mut all = [pop(&mut consumer), pop(&mut consumer)];
        all.sort_unstable();
        assert_eq!(all, [Some([1, 10]), Some([2, 20])]);
    });
}

#[test]
fn a_consumer_that_sleeps_is_woken() {
    model(|| {
        let notify = Arc::new(Notify::new());
        let rung = notify.clone();
        let (ring, mut consumer) = ring(Some(Arc::new(move || rung.notify())));
        let producer = thread::spawn(move || assert!(ring.push(&[1, 10])));
        // If the consumer sleeps and is not woken, loom finds a deadlock. A wait may also end early.
        let words = loop {
            if let Some(words) = pop(&mut consumer) {
                break words;
            }
            if consumer.doze() {
                notify.wait();
            }
        };
        assert_eq!(words, [1, 10]);
        producer.join().expect("it ends");
    });
}
