//! Requests that the program puts off: `refuse(EAGAIN)`.

use crate::common;

use common::cable::cable;
use common::script::*;
use common::{address, config, stack};
use hawser_engine::Notice;
use hawser_ir::abi::*;
use hawser_time::Instant;

/// A program that connects; the flow has both units.
fn connecting() -> Script {
    Script::new().on(CONNECT, |step| {
        let id = step.new_context(FLOW);
        step.new_units(id, 65_536);
        ChainOutcome::Done
    })
}

/// The program may refuse with `EAGAIN` for any reason that an event can change, such as a limit that the
/// peer sets.
#[test]
fn a_send_refused_with_eagain_is_retried_after_an_event() {
    let script = connecting()
        .on(SEND, |step| {
            if step.words()[0] == 0 {
                return ChainOutcome::Refused(11);
            }
            step.words()[0] -= 1;
            step.add_tx();
            ChainOutcome::Done
        })
        .on(OPTION, |step| {
            step.words()[0] += 1;
            ChainOutcome::Done
        });
    let now = Instant::from_nanos(1);
    let mut stack = stack(script, config(0));
    let mut wire = cable(0, 1);
    let handle = stack.connect(now, address(1, 80), None).expect("free");
    stack.poll(now, &mut wire[0]).expect("a cable does not fail");
    assert_eq!(stack.send(now, handle, b"one"), Ok(0));
    for _ in 0..3 {
        stack.poll(now, &mut wire[0]).expect("a cable does not fail");
        assert!(stack.next_notice().is_none(), "nothing happened");
    }
    stack.set_option(now, handle, 7, 1).expect("the program takes it");
    stack.poll(now, &mut wire[0]).expect("a cable does not fail");
    assert_eq!(stack.next_notice(), Some((handle, Notice::Writable)));
    assert_eq!(stack.send(now, handle, b"one"), Ok(3));
    // Refused again, the application asks once for each event, and does not spin.
    assert_eq!(stack.send(now, handle, b"two"), Ok(0));
    stack.poll(now, &mut wire[0]).expect("a cable does not fail");
    assert!(stack.next_notice().is_none());
}

/// If the program refuses a `close` with `EAGAIN`, no application waits for it; the request itself is
/// repeated.
#[test]
fn a_close_refused_with_eagain_is_raised_again() {
    let script = connecting()
        .on(CLOSE, |step| {
            step.words()[0] += 1;
            if step.words()[1] == 0 {
                return ChainOutcome::Refused(11);
            }
            step.notify(NOTIFY_CLOSED, Id::NONE, 0);
            ChainOutcome::Done
        })
        .on(OPTION, |step| {
            step.words()[1] = 1;
            ChainOutcome::Done
        });
    let now = Instant::from_nanos(1);
    let mut stack = stack(script, config(0));
    let mut wire = cable(0, 1);
    let handle = stack.connect(now, address(1, 80), None).expect("free");
    stack.close(now, handle);
    let idle = (0..5).filter(|_| !stack.poll(now, &mut wire[0]).expect("a cable does not fail"));
    assert!(idle.count() > 2, "a request that waits keeps nobody busy");
    assert!(stack.next_notice().is_none());
    stack.set_option(now, handle, 7, 1).expect("the program takes it");
    stack.poll(now, &mut wire[0]).expect("a cable does not fail");
    assert_eq!(stack.next_notice(), Some((handle, Notice::Closed)));
}
