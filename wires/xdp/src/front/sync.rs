//! The primitives of `ownership`, in a separate file so that loom's can replace them in a test.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// Waits for the `rounds`th time. A frame is being processed on another processor, or on this one, which it
/// then needs.
pub(super) fn pause(rounds: u32) {
    if rounds % 64 == 63 {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}
