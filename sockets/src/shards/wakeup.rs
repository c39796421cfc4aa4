//! Wakes a shard once for all items that arrive until the shard has checked.
//!
//! Invariant: a shard that calls [`Wakeup::clear`] and then checks sees every item that arrived before a
//! [`Wakeup::signal`], or else its counter is not 0. `orders` checks this in every order of threads.

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
        // Only a full counter is an error, and a full counter wakes the shard as well.
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(self, &mut [0; 8]);
    }
}

/// Wakes a shard.
#[derive(Debug)]
pub(super) struct Wakeup<C> {
    counter: C,
    /// True if the counter was incremented, or if the shard has yet to see the arrived items.
    is_signalled: AtomicBool,
}

impl<C: Counter> Wakeup<C> {
    pub(super) fn new(counter: C) -> Wakeup<C> {
        Wakeup { counter, is_signalled: AtomicBool::new(false) }
    }

    pub(super) fn counter(&self) -> &C {
        &self.counter
    }

    /// Wakes the shard, after an item has arrived.
    pub(super) fn signal(&self) {
        if !self.is_signalled.swap(true, Ordering::AcqRel) {
            self.counter.increment();
        }
    }

    /// Clears the wakeup; the next item wakes the shard again.
    pub(super) fn clear(&self) {
        if self.is_signalled.load(Ordering::Acquire) {
            self.counter.clear();
            // This must follow the clearing of the counter, and must be an exchange. A sender that saw the
            // flag set did not increment the counter; the exchange makes its item visible here.
            self.is_signalled.swap(false, Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, hawser_loom))]
mod orders;
