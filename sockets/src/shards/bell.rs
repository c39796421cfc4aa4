//! A bell that wakes a shard once for all items that arrive until the shard has checked.
//!
//! Invariant: a shard that calls [`Bell::quiet`] and then checks sees every item that arrived before a
//! [`Bell::ring`], or else its counter is not 0. `orders` checks this in every order of threads.

#[cfg(not(all(test, hawser_loom)))]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(all(test, hawser_loom))]
use loom::sync::atomic::{AtomicBool, Ordering};

use std::os::fd::OwnedFd;

/// A counter that a thread can wait on until it is not 0, such as an eventfd.
pub(super) trait Counter {
    fn increment(&self);
    fn clear(&self);
}

impl Counter for OwnedFd {
    fn increment(&self) {
        // Only a full counter is an error, and a full counter rings as well.
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
    /// True if the bell rings, or if the shard has yet to see the arrived items.
    rings: AtomicBool,
}

impl<C: Counter> Bell<C> {
    pub(super) fn new(counter: C) -> Bell<C> {
        Bell { counter, rings: AtomicBool::new(false) }
    }

    pub(super) fn counter(&self) -> &C {
        &self.counter
    }

    /// Rings the bell, after an item has arrived.
    pub(super) fn ring(&self) {
        if !self.rings.swap(true, Ordering::AcqRel) {
            self.counter.increment();
        }
    }

    /// Silences the bell; the next item rings it again.
    pub(super) fn quiet(&self) {
        if self.rings.load(Ordering::Acquire) {
            self.counter.clear();
            // This must follow the clearing of the counter, and must be an exchange. A sender that saw the
            // bell ring did not ring itself; the exchange makes its item visible here.
            self.rings.swap(false, Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, hawser_loom))]
mod orders;
