//! Whose the shared memory is: one word that the stack and the frames on any processor take from each other.
//!
//! A frame (`bpf/front.h`) takes the turn where it is free, and goes to the stack where it is not: it never waits. The
//! stack waits while a frame has the turn, which is for as long as its chains take. While it is awake and a flood comes,
//! frames take the turn to find out whether the stack knows their connection, and leave alone all that it reads then.

use super::sync::{AtomicU64, Ordering, pause};

/// Nobody's: whoever comes first takes it.
pub(super) const FREE: u64 = 0;
/// A frame's.
#[allow(dead_code, reason = "frames take it, in `front.h`")]
pub(super) const FRAME: u64 = 1;
/// The stack's.
pub(super) const STACK: u64 = 2;
/// Nobody's, and the stack has to take it before a frame does.
pub(super) const WANTED: u64 = 3;
/// Nobody's, and the stack is awake: a frame that takes it runs no chain, and gives it back as it was.
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

/// Gives the turn away, to who comes first or, while the stack is awake, to who asks what it knows.
pub(super) fn give(turn: &AtomicU64, to: u64) {
    turn.store(to, Ordering::Release);
}
