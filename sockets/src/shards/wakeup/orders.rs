//! The wakeup under loom, which tries every order of its threads that the memory model allows.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::*;

impl Counter for Mutex<u64> {
    fn increment(&self) {
        *self.lock().expect("not poisoned") += 1;
    }

    fn clear(&self) {
        *self.lock().expect("not poisoned") = 0;
    }
}

#[test]
fn a_posted_value_is_seen_or_wakes_the_driver() {
    loom::model(|| {
        let wakeup = Arc::new(Wakeup::new(Mutex::new(0)));
        let places = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let senders = [0, 1].map(|place| {
            let (wakeup, places) = (wakeup.clone(), places.clone());
            thread::spawn(move || {
                places[place].store(1, Ordering::Relaxed);
                wakeup.signal();
            })
        });
        let mut seen = [0, 0];
        for _ in 0..2 {
            wakeup.clear();
            seen = [0, 1].map(|place| places[place].load(Ordering::Relaxed));
        }
        for sender in senders {
            sender.join().expect("it ends");
        }
        let would_wake = *wakeup.counter().lock().expect("not poisoned") > 0;
        assert!(seen == [1, 1] || would_wake, "{seen:?}");
    });
}
