//! The owner of the shared memory: one word that the stack and the frames on any processor take from each
//! other.
//!
//! A frame (`bpf/front.h`) takes the turn if it is free, and otherwise goes to the stack: it never waits. The
//! stack waits while a frame has the turn, which lasts as long as the frame's chains run. During a flood,
//! while the stack is awake, frames take the turn to find out whether the stack knows their connection. They
//! do not change any data that the stack reads then.

use super::sync::{AtomicU64, Ordering, pause};

/// Free: the first to come takes it.
pub(super) const FREE: u64 = 0;
/// Owned by a frame.
#[allow(dead_code, reason = "frames take it, in `front.h`")]
pub(super) const FRAME: u64 = 1;
/// Owned by the stack.
pub(super) const STACK: u64 = 2;
/// Free, but the stack has to take it before a frame does.
pub(super) const WANTED: u64 = 3;
/// Free while the stack is awake: a frame that takes it runs no chain, and restores this state.
pub(super) const AWAKE: u64 = 4;

/// Takes the turn for the stack.
pub(super) fn take(turn: &AtomicU64) {
    let mut rounds = 0;
    loop {
        for from in [FREE, WANTED, AWAKE] {
            if turn
                .compare_exchange(from, STACK, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
        pause(rounds);
        rounds += 1;
    }
}

/// Gives the turn away. The new state is free or, while the stack is awake, open only to frames that look up
/// connections.
pub(super) fn give(turn: &AtomicU64, to: u64) {
    turn.store(to, Ordering::Release);
}
