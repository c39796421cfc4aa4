//! Tests the word that names the owner of the shared memory, in every order in which processors can see it
//! (loom).

#![allow(unsafe_code)] // Loom hands out raw pointers to its cells.

/// The names of `std`'s primitives, from loom.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn pause(_: u32) {
        loom::thread::yield_now();
    }
}
#[path = "../src/front/ownership.rs"]
mod ownership;

use std::sync::atomic::AtomicUsize;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ownership::{AWAKE, FRAME, FREE, STACK, WANTED, give, take};
use sync::{AtomicU64, Ordering};

/// Memory that both sides change while they have the turn. Loom fails if two do so at a time, or if one does
/// not see the other's changes.
struct Shared {
    turn: AtomicU64,
    handled: UnsafeCell<u64>,
}

/// Does the work of a frame, as `hw_arrive` and `hw_answer` of `bpf/front.h`; returns whether the frame was
/// handled.
fn frame(shared: &Shared, is_urgent: bool) -> bool {
    let is_free = shared
        .turn
        .compare_exchange(FREE, FRAME, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok();
    if is_free {
        // SAFETY: the frame has the turn; loom checks for other access.
        shared.handled.with_mut(|handled| unsafe { *handled += 1 });
        shared
            .turn
            .swap(if is_urgent { WANTED } else { FREE }, Ordering::SeqCst);
    }
    is_free
}

#[test]
fn only_one_side_at_a_time_has_the_memory() {
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    static PASSED: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        let shared = Arc::new(Shared { turn: AtomicU64::new(STACK), handled: UnsafeCell::new(0) });
        let frames: Vec<_> = [false, true]
            .map(|is_urgent| {
                let shared = shared.clone();
                thread::spawn(move || frame(&shared, is_urgent))
            })
            .into();
        give(&shared.turn, FREE);
        take(&shared.turn);
        // SAFETY: the stack has the turn; loom checks for other access.
        let seen = shared.handled.with(|handled| unsafe { *handled });
        give(&shared.turn, FREE);
        let handled = frames.into_iter().map(|frame| frame.join().unwrap());
        let handled = handled.filter(|handled| *handled).count();
        take(&shared.turn);
        // SAFETY: the same as above.
        let at_the_end = shared.handled.with(|handled| unsafe { *handled });
        assert!(seen <= at_the_end && at_the_end == handled as u64);
        let kind = if handled > 0 { &HANDLED } else { &PASSED };
        kind.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    // The model covers both: frames that are handled, and frames that go to the stack.
    for kind in [&HANDLED, &PASSED] {
        assert!(kind.load(std::sync::atomic::Ordering::Relaxed) > 0);
    }
}

/// An awake stack reads the output of chains while a frame takes the turn to look up its connection; then the
/// stack sleeps.
#[test]
fn a_lookup_by_a_frame_does_not_disturb_the_stack() {
    static LOOKED: AtomicUsize = AtomicUsize::new(0);
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        let shared = Arc::new(Shared { turn: AtomicU64::new(AWAKE), handled: UnsafeCell::new(0) });
        // The memory in which frames are looked up.
        let sieve = Arc::new(UnsafeCell::new(0));
        let theirs = (shared.clone(), sieve.clone());
        let frame = thread::spawn(move || {
            let (shared, sieve) = theirs;
            let awake = shared
                .turn
                .compare_exchange(AWAKE, FRAME, Ordering::SeqCst, Ordering::SeqCst);
            if awake.is_ok() {
                // SAFETY: the frame has the turn; loom checks for other access.
                sieve.with_mut(|sieve| unsafe { *sieve += 1 });
                shared.turn.swap(AWAKE, Ordering::SeqCst);
                LOOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            } else if frame(&shared, false) {
                HANDLED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        // SAFETY: frames do not change it while the stack is awake; loom checks for other access.
        assert_eq!(shared.handled.with(|handled| unsafe { *handled }), 0);
        take(&shared.turn);
        // SAFETY: the stack has the turn.
        sieve.with_mut(|sieve| unsafe { *sieve += 1 });
        give(&shared.turn, FREE);
        frame.join().unwrap();
    });
    for kind in [&LOOKED, &HANDLED] {
        assert!(kind.load(std::sync::atomic::Ordering::Relaxed) > 0);
    }
}
