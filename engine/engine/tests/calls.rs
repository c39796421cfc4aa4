//! Calls from endpoint to endpoint: each has its own handle at both ends.

use crate::common;

use common::script::*;
use common::{Pair, address};
use hawser_engine::{Errno, Handle, Notice, RequestError, Stack};
use hawser_ir::AppOp;
use hawser_ir::abi::{ChainOutcome, NOTIFY_ACCEPTED, NOTIFY_CLOSED, NOTIFY_FAILED, RecordKind};
use hawser_time::Instant;

const NOW: Instant = Instant::from_nanos(1);

/// A program that carries calls of one packet each way, without retransmission. The reply has flag 2.
fn calls(own: u8, peer: u8) -> Script {
    let script = Script::new().on(LISTEN, |step| {
        step.new_context(LISTENER);
        ChainOutcome::Done
    });
    let script = script.on(CALL, move |step| {
        if step.ev.len == 13 {
            return ChainOutcome::Refused(99);
        }
        let (id, ev) = (step.new_context(FLOW), step.ev);
        step.unit(RecordKind::NewTx, id, 0, ev.len, 0);
        step.unit(RecordKind::AddTx, id, ev.addr, ev.len, 0);
        step.packet(peer, PACKET, 0, ev.seq, (0, ev.len as u32, 0));
        ChainOutcome::Done
    });
    let script = script.on(SEND, move |step| {
        let ev = step.ev;
        let id = flow_id(2000, 0);
        step.unit(RecordKind::NewTx, id, 0, ev.len, 0);
        step.unit(RecordKind::AddTx, id, ev.addr, ev.len, 0);
        step.packet_of(id, peer, PACKET, 2, 0, (0, ev.len as u32, 0));
        step.notify(NOTIFY_CLOSED, hawser_ir::abi::Id::NONE, 0);
        step.del_context();
        ChainOutcome::Done
    });
    let script = script.on(ABORT, |step| {
        step.notify(NOTIFY_FAILED, hawser_ir::abi::Id::NONE, 125);
        step.del_context();
        ChainOutcome::Done
    });
    script.on(PACKET, move |step| {
        let (ev, is_reply) = (step.ev, step.ev.flag == 2);
        if is_reply && step.kind() != Some(FLOW) {
            return ChainOutcome::Done; // for a call that was given up
        }
        let uid = flow_id(3000, 0);
        if !is_reply {
            let id = step.new_context(FLOW);
            step.set_ends(own, peer);
            step.unit(RecordKind::NewRx, uid, 0, ev.len, 65_536);
            step.unit(RecordKind::AddRx, uid, ev.addr, ev.len, 0);
            step.unit(RecordKind::FlushRx, uid, 0, ev.len, 0);
            step.notify(NOTIFY_ACCEPTED, id, 0);
            return ChainOutcome::Done;
        }
        step.unit(RecordKind::NewRx, uid, 0, ev.len, 65_536);
        step.unit(RecordKind::AddRx, uid, ev.addr, ev.len, 0);
        step.unit(RecordKind::FlushRx, uid, 0, ev.len, 0);
        step.notify(NOTIFY_CLOSED, hawser_ir::abi::Id::NONE, 0);
        step.del_context();
        ChainOutcome::Done
    })
}

/// Returns two stacks with an endpoint each, at port 80.
fn endpoints() -> (Pair, [Handle; 2]) {
    let mut pair = Pair::new([calls(0, 1), calls(1, 0)], 0, 1);
    let [a, b] = &mut pair.stacks;
    let handles = [
        a.listen(NOW, address(0, 80), 16).expect("free"),
        b.listen(NOW, address(1, 80), 16).expect("free"),
    ];
    (pair, handles)
}

fn message_of(stack: &mut Stack, handle: Handle) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let is_some = stack.recv_message(NOW, handle, &mut out).expect("a handle");
    is_some.then_some(out)
}

#[test]
fn a_call_is_accepted_and_its_reply_reaches_its_handle() {
    let (mut pair, [here, there]) = endpoints();
    let call = pair.stacks[0].call(NOW, here, address(1, 80), b"question");
    let call = call.expect("it is taken").expect("there is room");
    assert_eq!(pair.stacks[0].peer(call), Some(address(1, 80)));
    assert_eq!(
        pair.stacks[0].local(call),
        Some(address(0, 80)),
        "the endpoint's port"
    );
    pair.settle();
    let notices = pair.notices(1);
    let [(listener, Notice::Accepted(incoming)), (_, Notice::Readable)] = notices[..] else {
        panic!("{notices:?}");
    };
    assert_eq!(listener, there);
    assert_eq!(pair.stacks[1].peer(incoming), Some(address(0, 80)));
    assert_eq!(
        message_of(&mut pair.stacks[1], incoming),
        Some(b"question".to_vec())
    );
    assert_eq!(pair.stacks[1].send_message(NOW, incoming, b"answer"), Ok(true));
    pair.settle();
    let expected = [(call, Notice::Readable), (call, Notice::Closed)];
    assert_eq!(pair.notices(0), expected);
    assert_eq!(message_of(&mut pair.stacks[0], call), Some(b"answer".to_vec()));
    assert_eq!(pair.stacks[0].held_bytes(), (0, 0));
    pair.stacks[0].release(call);
    assert_eq!(
        pair.stacks.each_ref().map(Stack::contexts),
        [1, 1],
        "the endpoints"
    );
}

#[test]
fn an_aborted_call_fails_and_its_reply_is_dropped() {
    let (mut pair, [here, _]) = endpoints();
    let call = pair.stacks[0].call(NOW, here, address(1, 80), b"question");
    let call = call.expect("it is taken").expect("there is room");
    pair.settle();
    pair.stacks[0].abort(NOW, call);
    assert_eq!(pair.notices(0), [(call, Notice::Failed(Errno(125)))]);
    let notices = pair.notices(1);
    let Some((_, Notice::Accepted(incoming))) = notices.first() else {
        panic!("{notices:?}");
    };
    assert_eq!(pair.stacks[1].send_message(NOW, *incoming, b"late"), Ok(true));
    pair.settle();
    assert!(pair.notices(0).is_empty());
}

#[test]
fn an_invalid_call_is_refused_with_its_reason_and_no_state() {
    let (mut pair, [here, _]) = endpoints();
    let stack = &mut pair.stacks[0];
    let peer = address(1, 80);
    let longest = hawser_engine::StackLimits::default().tx_bytes;
    let refused = |stack: &mut Stack, bytes: &[u8]| stack.call(NOW, here, peer, bytes);
    assert_eq!(refused(stack, b""), Err(RequestError::MessageEmpty));
    assert_eq!(
        refused(stack, &vec![0; longest as usize + 1]),
        Err(RequestError::MessageTooLong(longest))
    );
    assert_eq!(
        refused(stack, b"thirteen byte"),
        Err(RequestError::Refused(Errno(99)))
    );
    let far = "[2001:db8::1]:80".parse().expect("an address");
    assert!(matches!(
        stack.call(NOW, here, far, b"x"),
        Err(RequestError::Unreachable(_))
    ));
    assert_eq!(
        stack.message(NOW, here, peer, b"x"),
        Err(RequestError::Unsupported(AppOp::Message)),
        "the program offers calls alone"
    );
    let call = stack
        .call(NOW, here, peer, b"x")
        .expect("it is taken")
        .expect("there is room");
    assert_eq!(
        stack.call(NOW, call, peer, b"x"),
        Err(RequestError::NotAnEndpoint)
    );
    assert_eq!(stack.contexts(), 2);
    stack.release(here);
    stack.poll(NOW, &mut pair.ends[0]).expect("a cable does not fail");
    assert_eq!(refused(stack, b"x"), Err(RequestError::BadHandle));
}

#[test]
fn a_call_without_room_is_retried_after_packets_left() {
    let (mut pair, [here, _]) = endpoints();
    let mut config = common::config(0);
    config.limits.pending_packets = 8;
    pair.stacks[0] = common::stack(calls(0, 1), config);
    let stack = &mut pair.stacks[0];
    let again = stack.listen(NOW, address(0, 80), 16);
    assert_eq!(again, Ok(here));
    // A chain makes at most four packets: five fit into eight.
    let calls = (0..9).map(|n| stack.call(NOW, here, address(1, 81 + n), b"x"));
    let taken: Vec<bool> = calls.map(|call| call.expect("no error").is_some()).collect();
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 5);
    assert!(!taken[5]);
    pair.settle();
    assert_eq!(pair.notices(0), [(here, Notice::Writable)]);
}

#[test]
fn a_call_without_memory_is_refused_without_a_notice() {
    // If a notice came at once, with the memory still held, application and stack would ask each other
    // forever.
    let (mut pair, [here, _]) = endpoints();
    let mut config = common::config(0);
    config.limits.tx_total = 100;
    pair.stacks[0] = common::stack(calls(0, 1), config);
    assert_eq!(pair.stacks[0].listen(NOW, address(0, 80), 16), Ok(here));
    let call = |stack: &mut Stack, len| stack.call(NOW, here, address(1, 80), &vec![1; len]);
    assert_eq!(call(&mut pair.stacks[0], 51), Err(RequestError::WouldBlock));
    pair.settle();
    assert!(pair.notices(0).is_empty());
    assert!(matches!(call(&mut pair.stacks[0], 50), Ok(Some(_))));
}
