//! A bell that wakes a shard once for all that comes until it has looked.
//!
//! Invariant: of what came before [`Bell::ring`], the shard that calls [`Bell::quiet`] and then looks sees all, or its
//! counter is not 0. `orders` checks this in every order of threads.

#[cfg(not(all(test, hawser_loom)))]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(all(test, hawser_loom))]
use loom::sync::atomic::{AtomicBool, Ordering};

use std::os::fd::OwnedFd;

/// A counter that can be waited for until it is not 0, as an eventfd.
pub(super) trait Counter {
    fn increment(&self);
    fn clear(&self);
}

impl Counter for OwnedFd {
    fn increment(&self) {
        // Only a full counter is an error, and that rings.
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(self, &mut [0; 8]);
    }
}

/// The bell of a shard.
#[derive(Debug)]
pub(super) struct Bell<C> {
    counter: C,
    /// It rings, or the shard has yet to see what came.
    rings: AtomicBool,
}

impl<C: Counter> Bell<C> {
    pub(super) fn new(counter: C) -> Bell<C> {
        Bell { counter, rings: AtomicBool::new(false) }
    }

    pub(super) fn counter(&self) -> &C {
        &self.counter
    }

    /// Rings, once something has come.
    pub(super) fn ring(&self) {
        if !self.rings.swap(true, Ordering::AcqRel) {
            self.counter.increment();
        }
    }

    /// From here on the next thing that comes rings again.
    pub(super) fn quiet(&self) {
        if self.rings.load(Ordering::Acquire) {
            self.counter.clear();
            // After the counter, and by an exchange: a sender that saw the bell ring, and so did not, is seen here with what
            // it sent.
            self.rings.swap(false, Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, hawser_loom))]
mod orders;
