//! What `turn` is made of, apart, so that it can be checked with loom's in its place.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// Waits for the `rounds`th time: a frame is at work on another processor, or on this one, which it then needs.
pub(super) fn pause(rounds: u32) {
    if rounds % 64 == 63 {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}
