//! Whose memory is: one word that the stack and the frames of any processor take from each other.
//!
//! `bpf/front.h` has the kernel's side. A frame takes the turn where it is free and goes to the stack where it is not; it
//! never waits. The stack waits for it while a frame has it, for as long as its chains take.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nobody's: whoever comes first takes it.
const FREE: u64 = 0;
/// The stack's.
const STACK: u64 = 2;
/// Nobody's, and the stack has to take it before a frame does.
const WANTED: u64 = 3;

/// Takes the turn for the stack.
pub(super) fn take(turn: &AtomicU64) {
    let mut rounds = 0_u32;
    loop {
        for from in [FREE, WANTED] {
            if turn
                .compare_exchange(from, STACK, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
        rounds += 1;
        // A frame has it on another processor, which may be one that this thread shares.
        if rounds.is_multiple_of(64) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Gives the turn away.
pub(super) fn give(turn: &AtomicU64) {
    turn.store(FREE, Ordering::Release);
}
