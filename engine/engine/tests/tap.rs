//! The tap's view of events that have to wait.

use std::sync::Arc;

use hawser_engine::TapEvent;
use hawser_ir::abi::ChainOutcome;
use hawser_ir::buf::event_header;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::common::cable::cable;
use crate::common::script::*;
use crate::common::{address, config, stack};

#[test]
fn a_timer_that_has_to_wait_is_shown_and_then_runs() {
    let script = Script::new()
        .on(CONNECT, |step| {
            let id = step.new_context(FLOW);
            step.new_units(id, 65_536);
            ChainOutcome::Done
        })
        .on(SEND, |step| {
            step.packet(1, PACKET, 0, 0, (0, 0, 0));
            step.timer_start(0, 1000);
            ChainOutcome::Done
        })
        .on(TIMER, |_| ChainOutcome::Done);
    let mut config = config(0);
    (config.limits.pending_packets, config.limits.pending_frames) = (20, 3);
    let mut stack = stack(script, config);
    let [mut end, _] = cable(0, 1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    stack.set_event_tap(Some(Box::new(move |event: &TapEvent<'_>| {
        if event_header(event.event).event == TIMER {
            let counters: Vec<_> = event.counted.iter().map(|counted| counted.counter).collect();
            log.lock().push((event.now.as_nanos(), event.outcome, counters));
        }
    })));
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    // The wire takes no frames, and the packets that wait for it leave no room for the worst case of a chain.
    end.slots = 0;
    for _ in 0..2 {
        while stack.send(Instant::from_nanos(1), handle, b"x").expect("open") > 0 {}
        stack
            .poll(Instant::from_nanos(1), &mut end)
            .expect("a cable does not fail");
    }
    while stack.send(Instant::from_nanos(1), handle, b"x").expect("open") > 0 {}
    stack
        .poll(Instant::from_nanos(1001), &mut end)
        .expect("a cable does not fail");
    assert_eq!(*seen.lock(), [(1001, None, vec!["no_room_timer"])]);
    assert_eq!(stack.counters().no_room_timer, 1);
    end.slots = 1000;
    for now in [2000, 5_000_000] {
        while stack
            .poll(Instant::from_nanos(now), &mut end)
            .expect("a cable does not fail")
        {}
    }
    let seen = seen.lock();
    let (last, waits) = seen.split_last().expect("it was seen");
    assert_eq!(
        (last.1, &last.2[..]),
        (Some(ChainOutcome::Done), &[][..]),
        "{seen:?}"
    );
    assert!(
        waits
            .iter()
            .all(|(_, outcome, counters)| outcome.is_none() && counters == &["no_room_timer"]),
        "{seen:?}"
    );
}
