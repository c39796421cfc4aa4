//! The word that says whose the shared memory is, on every order in which processors can see it (loom).

/// `std`'s names, of loom.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn pause(_: u32) {
        loom::thread::yield_now();
    }
}
#[path = "../src/front/turn.rs"]
mod turn;

use std::sync::atomic::AtomicUsize;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU64, Ordering};
use turn::{AWAKE, FRAME, FREE, STACK, WANTED, give, take};

/// Memory that both sides change while they have the turn: loom fails where two do so at a time, or one does not see what
/// the other did.
struct Shared {
    turn: AtomicU64,
    handled: UnsafeCell<u64>,
}

/// What a frame does, as `hw_arrive` and `hw_answer` of `bpf/front.h`; whether it was handled.
fn frame(shared: &Shared, is_urgent: bool) -> bool {
    let is_free = shared
        .turn
        .compare_exchange(FREE, FRAME, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok();
    if is_free {
        // SAFETY: the frame has the turn; loom checks that nobody else is at it.
        shared.handled.with_mut(|handled| unsafe { *handled += 1 });
        shared
            .turn
            .swap(if is_urgent { WANTED } else { FREE }, Ordering::SeqCst);
    }
    is_free
}

#[test]
fn one_side_at_a_time_has_the_memory_and_sees_what_the_other_did() {
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
        // SAFETY: the stack has the turn; loom checks that nobody else is at it.
        let seen = shared.handled.with(|handled| unsafe { *handled });
        give(&shared.turn, FREE);
        let handled = frames.into_iter().map(|frame| frame.join().unwrap());
        let handled = handled.filter(|handled| *handled).count();
        take(&shared.turn);
        // SAFETY: as above.
        let at_the_end = shared.handled.with(|handled| unsafe { *handled });
        assert!(seen <= at_the_end && at_the_end == handled as u64);
        let kind = if handled > 0 { &HANDLED } else { &PASSED };
        kind.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    // The model has both: frames that are handled, and frames that go to the stack.
    for kind in [&HANDLED, &PASSED] {
        assert!(kind.load(std::sync::atomic::Ordering::Relaxed) > 0);
    }
}

/// A stack that is awake reads what chains have left, while a frame takes the turn to be looked at; then it sleeps.
#[test]
fn a_frame_that_is_looked_at_leaves_alone_what_the_stack_reads() {
    static LOOKED: AtomicUsize = AtomicUsize::new(0);
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        let shared = Arc::new(Shared { turn: AtomicU64::new(AWAKE), handled: UnsafeCell::new(0) });
        // Where frames are looked at.
        let sieve = Arc::new(UnsafeCell::new(0));
        let theirs = (shared.clone(), sieve.clone());
        let frame = thread::spawn(move || {
            let (shared, sieve) = theirs;
            let awake = shared
                .turn
                .compare_exchange(AWAKE, FRAME, Ordering::SeqCst, Ordering::SeqCst);
            if awake.is_ok() {
                // SAFETY: the frame has the turn; loom checks that nobody else is at it.
                sieve.with_mut(|sieve| unsafe { *sieve += 1 });
                shared.turn.swap(AWAKE, Ordering::SeqCst);
                LOOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            } else if frame(&shared, false) {
                HANDLED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        // SAFETY: frames leave it alone while the stack is awake; loom checks that none is at it.
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
