//! Options of handles: the time at which a program receives them, and the options of the engine itself.

use crate::common;

use std::sync::Arc;

use common::script::{CONNECT, FLOW, LISTEN, LISTENER, OPTION, RAISED, Script, Step};
use common::{Pair, address};
use hawser_engine::{Errno, Notice, RequestError};
use hawser_ir::abi::*;
use hawser_time::Instant;
use parking_lot::Mutex;

type Reported = Arc<Mutex<Vec<(u16, u64, u64)>>>;

/// A program that creates contexts, knows only `OPT_NODELAY`, and records its events, in order.
fn listening(reported: &Reported) -> Script {
    let note = |reported: &Reported, event: u16| {
        let reported = reported.clone();
        move |step: &mut Step<'_>| {
            reported.lock().push((event, step.ev.flag, step.ev.seq));
            ChainOutcome::Done
        }
    };
    let (connect, option) = (note(reported, CONNECT), note(reported, OPTION));
    Script::new()
        .on(CONNECT, move |step| {
            connect(step);
            let id = step.new_context(FLOW);
            step.new_units(id, 65_536);
            step.raise(id, 7);
            ChainOutcome::Done
        })
        .on(LISTEN, |step| {
            step.new_context(LISTENER);
            ChainOutcome::Done
        })
        .on(OPTION, move |step| match step.ev.flag as u32 {
            OPT_NODELAY if step.ev.seq > 1 => ChainOutcome::Refused(22),
            OPT_NODELAY => option(step),
            _ => ChainOutcome::Refused(92),
        })
        .on(RAISED, note(reported, RAISED))
}

#[test]
fn initial_options_precede_events_raised_by_the_request() {
    let reported = Reported::default();
    let mut pair = Pair::new([listening(&reported), Script::new()], 0, 1);
    let options = [(OPT_NODELAY, 1), (OPT_NODELAY, 0)];
    let handle = pair.stacks[0]
        .connect_with(Instant::from_nanos(5), address(1, 80), None, &options)
        .expect("known options");
    pair.settle();
    let nodelay = u64::from(OPT_NODELAY);
    let want = vec![
        (CONNECT, 0, 0),
        (OPTION, nodelay, 1),
        (OPTION, nodelay, 0),
        (RAISED, 7, 0),
    ];
    assert_eq!(*reported.lock(), want);
    assert_eq!(
        pair.stacks[0].set_option(Instant::from_nanos(6), handle, OPT_NODELAY, 1),
        Ok(())
    );
}

#[test]
fn a_refused_option_has_no_effect() {
    let reported = Reported::default();
    let mut pair = Pair::new([listening(&reported), Script::new()], 0, 1);
    let refused = |errno| Err(RequestError::Refused(errno));
    let options = [(OPT_NODELAY, 1), (OPT_TOS, 4)];
    let outcome = pair.stacks[0].connect_with(
        Instant::from_nanos(5),
        address(1, 80),
        Some(address(0, 1000)),
        &options,
    );
    assert_eq!(outcome.err(), refused(Errno::UNKNOWN_OPTION).err());
    let outcome = pair.stacks[0].listen_with(Instant::from_nanos(5), address(0, 80), 1, &[(OPT_NODELAY, 2)]);
    assert_eq!(outcome.err(), refused(Errno::INVALID).err());
    pair.settle();
    assert_eq!(pair.stacks[0].contexts(), 0);
    assert!(pair.notices(0).is_empty());
    // The address and port are free again.
    let handle = pair.stacks[0]
        .connect_with(
            Instant::from_nanos(6),
            address(1, 80),
            Some(address(0, 1000)),
            &[],
        )
        .expect("free");
    assert_eq!(
        pair.stacks[0].set_option(Instant::from_nanos(6), handle, OPT_TOS, 4),
        refused(Errno::UNKNOWN_OPTION)
    );
    assert_eq!(
        pair.stacks[0].set_option(Instant::from_nanos(6), handle, OPT_REUSE_PORT, 1),
        refused(Errno::INVALID)
    );
    pair.stacks[0].release(handle);
    assert_eq!(
        pair.stacks[0].set_option(Instant::from_nanos(6), handle, OPT_NODELAY, 1),
        Err(RequestError::BadHandle)
    );
}

#[test]
fn a_send_buffer_bounds_accepted_bytes() {
    let reported = Reported::default();
    let script = listening(&reported).on(common::script::SEND, |step| {
        step.add_tx();
        ChainOutcome::Done
    });
    let mut pair = Pair::new([script, Script::new()], 0, 1);
    let handle = pair.stacks[0]
        .connect_with(
            Instant::from_nanos(5),
            address(1, 80),
            None,
            &[(OPT_SEND_BUFFER, 5000)],
        )
        .expect("the engine knows it");
    assert_eq!(
        pair.stacks[0].send(Instant::from_nanos(5), handle, &[1; 9000]),
        Ok(5000)
    );
    assert_eq!(
        pair.stacks[0].send(Instant::from_nanos(5), handle, &[1; 9000]),
        Ok(0)
    );
    assert_eq!(
        pair.stacks[0].set_option(Instant::from_nanos(5), handle, OPT_SEND_BUFFER, 6000),
        Ok(())
    );
    assert_eq!(pair.notices(0), [(handle, Notice::Writable)]);
    assert_eq!(
        pair.stacks[0].send(Instant::from_nanos(5), handle, &[1; 9000]),
        Ok(1000)
    );
    // The buffer is smaller than the bytes it holds: they are kept, and no more are accepted.
    assert_eq!(
        pair.stacks[0].set_option(Instant::from_nanos(5), handle, OPT_SEND_BUFFER, 1),
        Ok(())
    );
    assert_eq!(pair.stacks[0].writable(handle), 0);
}
