//! Packets in a program's queues leave by rank and at a rate, and wait there rather than in the device.

use std::sync::Arc;

use crate::common;

use common::cable::{Cable, cable};
use common::script::*;
use common::{address, config, stack};

use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_ir::QueuePolicy;
use hawser_ir::abi::{ChainOutcome, RecordKind};
use hawser_time::Instant;

/// The size of each packet in bytes: the network header and the program's.
const BYTES: u64 = 32;

/// Connections of a program whose second queue has this policy. Sending n bytes issues a packet without data
/// in it, of rank 1000 - n or of that cost. `close` sets the queue's rate to 8 Mbit/s, so that a byte takes 1
/// µs.
fn connected(policy: QueuePolicy) -> (Stack, Cable, [Handle; 2]) {
    connected_as(script(policy, 8_000_000), config(0))
}

/// The program of [`connected`]; `close` sets this rate.
fn script(policy: QueuePolicy, rate: u64) -> Script {
    let script = Script::new().with(|module| module.queues[1].policy = policy);
    let script = script.on(CONNECT, |step| {
        let id = step.new_context(FLOW);
        step.new_units(id, 0);
        ChainOutcome::Done
    });
    let script = script.on(SEND, |step| {
        step.packet(1, PACKET, 1, 1000 - step.ev.len, (0, 0, 0));
        ChainOutcome::Done
    });
    let script = script.on(CLOSE, move |step| {
        step.queue(RecordKind::QueueRate, 1, rate);
        ChainOutcome::Done
    });
    script.on(ABORT, |step| {
        step.del_context();
        ChainOutcome::Done
    })
}

fn connected_as(script: Script, config: StackConfig) -> (Stack, Cable, [Handle; 2]) {
    let mut stack = stack(script, config);
    let connect = |port, stack: &mut Stack| stack.connect(now(1), address(1, port), None).expect("free");
    let handles = [80, 81].map(|port| connect(port, &mut stack));
    let [mut end, _] = cable(0, 1);
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    (stack, end, handles)
}

fn now(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Sends a packet of this rank, at most 999.
fn send(stack: &mut Stack, handle: Handle, rank: usize) {
    let bytes = vec![0; 1000 - rank];
    assert_eq!(stack.send(now(1), handle, &bytes), Ok(bytes.len()));
}

/// Returns the ranks of the packets that have left since the last call.
fn left(end: &Cable) -> Vec<u16> {
    let frames = end.outbound.lock().drain(..).collect::<Vec<_>>();
    frames
        .iter()
        .map(|frame| u16::from_be_bytes([frame[30], frame[31]]))
        .collect()
}

#[test]
fn a_rank_decides_until_the_wire_takes_a_packet() {
    let (mut stack, mut end, [one, other]) = connected(QueuePolicy::Rank);
    end.takes = 1;
    [700, 500, 600]
        .iter()
        .for_each(|rank| send(&mut stack, one, *rank));
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(left(&end), [500], "the wire takes one packet ahead");
    assert!(stack.wants_wire());
    send(&mut stack, other, 550);
    end.takes = 2 * BYTES as usize;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(
        left(&end),
        [550, 600],
        "issued last, it leaves before those of larger ranks"
    );
    end.takes = 0;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert!(left(&end).is_empty() && stack.wants_wire());
    end.takes = usize::MAX;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(left(&end), [700]);
    assert!(!stack.wants_wire());
}

#[test]
fn only_frames_refused_by_a_full_wire_cannot_be_overtaken() {
    let (mut stack, mut end, [one, other]) = connected(QueuePolicy::Rank);
    end.slots = 0;
    send(&mut stack, one, 900);
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    [800, 700].iter().for_each(|rank| send(&mut stack, one, *rank));
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    send(&mut stack, other, 600);
    end.slots = 100;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(left(&end), [900, 600, 700, 800]);
}

/// A wire that adapts its room relies on the question: it means that there is more to send.
#[test]
fn a_wire_is_asked_for_room_only_if_packets_wait() {
    let (mut stack, mut end, [one, _]) = connected(QueuePolicy::Fifo);
    let before = end.asked;
    for _ in 0..3 {
        stack.poll(now(1), &mut end).expect("a cable does not fail");
    }
    assert_eq!(end.asked, before, "nothing waits");
    end.takes = 0;
    send(&mut stack, one, 700);
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(end.asked, before + 1);
    end.takes = usize::MAX;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    let after = end.asked;
    assert_eq!(left(&end), [700]);
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(end.asked, after);
}

/// Twenty packets of 1000 bytes, on a wire that cuts super-segments and takes 4000 bytes.
#[test]
fn a_super_segment_is_no_longer_than_there_is_room_for() {
    let script = Script::new().tcp().proven().on(CONNECT, |step| {
        let id = step.new_context(FLOW);
        step.new_units(id, 0);
        ChainOutcome::Done
    });
    let script = script.on(SEND, |step| {
        step.add_tx();
        step.packet(1, PACKET, 0, 0, (0, 20_000, 1000));
        ChainOutcome::Done
    });
    let [mut end, _] = cable(0, 1);
    (end.caps.tx_csum, end.caps.gso_max) = (true, 65_535);
    let mut stack = Stack::new(Arc::new(script), config(0), &end.caps).expect("a good configuration");
    let handle = stack.connect(now(1), address(1, 80), None).expect("free");
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(stack.send(now(1), handle, &[7; 20_000]), Ok(20_000));
    end.takes = 4000;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    let packets = end.outbound.lock().len();
    assert_eq!((end.joined, packets, stack.wants_wire()), (1, 4, true));
    end.takes = usize::MAX;
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    let packets = end.outbound.lock().len();
    assert_eq!((end.joined, packets, stack.wants_wire()), (2, 20, false));
}

/// Returns the times at which packets leave, driven by the stack's own deadlines.
fn schedule(stack: &mut Stack, end: &mut Cable) -> Vec<(u64, Vec<u16>)> {
    let mut at = now(1);
    let mut out = Vec::new();
    loop {
        while stack.poll(at, end).expect("a cable does not fail") {}
        let there = left(end);
        if !there.is_empty() {
            out.push((at.as_nanos(), there));
        }
        match stack.next_deadline() {
            Some(next) => at = next,
            None => return out,
        }
    }
}

#[test]
fn a_paced_queue_is_served_at_its_deadlines() {
    let (mut stack, mut end, [one, other]) = connected(QueuePolicy::Rate);
    stack.close(now(1), one);
    [0, 0, 100, 7, 0]
        .iter()
        .for_each(|cost| send(&mut stack, other, *cost));
    // 8 bits at 8 Mbit/s are 1 µs. A packet without a cost counts as its own 32 bytes.
    let at = |bytes: u64| 1 + bytes * 1000;
    let expected = [
        (at(0), vec![0]),
        (at(BYTES), vec![0]),
        (at(2 * BYTES), vec![100]),
        (at(2 * BYTES + 100), vec![7]),
        (at(2 * BYTES + 107), vec![0]),
    ];
    assert_eq!(schedule(&mut stack, &mut end), expected);
}

/// A device receives a super-segment of the bytes that 8 Mbit/s sends in 1 ms. These 1,000 bytes are five
/// packets of 200, or two packets that cost 500.
#[test]
fn a_paced_super_segment_holds_what_its_cost_allows() {
    for (cost, first) in [(0, 5), (500, 2), (5_000, 1)] {
        let script = Script::new().tcp().proven().on(CONNECT, |step| {
            let id = step.new_context(FLOW);
            step.new_units(id, 0);
            step.queue(RecordKind::QueueRate, 1, 8_000_000);
            ChainOutcome::Done
        });
        let script = script.with(|module| module.queues[1].policy = QueuePolicy::Rate);
        let script = script.on(SEND, move |step| {
            step.add_tx();
            step.packet(1, PACKET, 1, cost, (0, 4_000, 200));
            ChainOutcome::Done
        });
        let [mut end, _] = cable(0, 1);
        (end.caps.tx_csum, end.caps.gso_max) = (true, 65_535);
        let mut stack = Stack::new(Arc::new(script), config(0), &end.caps).expect("a good configuration");
        let handle = stack.connect(now(1), address(1, 80), None).expect("free");
        stack.poll(now(1), &mut end).expect("a cable does not fail");
        assert_eq!(stack.send(now(1), handle, &[7; 4_000]), Ok(4_000));
        stack.poll(now(1), &mut end).expect("a cable does not fail");
        assert_eq!(end.outbound.lock().len(), first, "{cost}");
    }
}

/// A flow that is held back by its rate may fill half of the room. The next flow may fill half of the rest,
/// less the worst case of a request.
#[test]
fn a_flow_without_a_rate_leaves_room_for_others() {
    let limit = 100;
    let script = script(QueuePolicy::RatePerFlow, 0);
    let mut options = config(0);
    options.limits.pending_packets = limit;
    let (mut stack, mut end, [held, other]) = connected_as(script, options);
    stack.close(now(1), held);
    let sent = |stack: &mut Stack, handle| {
        let requests = (0..).map(|_| stack.send(now(1), handle, &[0]));
        requests.take_while(|taken| *taken == Ok(1)).count()
    };
    let stuck = sent(&mut stack, held);
    assert!((limit / 2 - 2..=limit / 2).contains(&stuck), "{stuck}");
    while stack.next_notice().is_some() {}
    for round in 0..3 {
        let count = sent(&mut stack, other);
        let half = (limit - stuck) / 2;
        assert!((half - 2..=half).contains(&count), "round {round}: {count}");
        stack.poll(now(1), &mut end).expect("a cable does not fail");
        assert_eq!(left(&end).len(), count);
        assert_eq!(stack.next_notice(), Some((other, Notice::Writable)));
        assert_eq!(stack.next_notice(), None, "what is held back has not moved");
    }
    stack.abort(now(1), held);
    stack.poll(now(1), &mut end).expect("a cable does not fail");
    assert_eq!(left(&end).len(), stuck, "what an ended flow has issued leaves");
}

#[test]
fn a_rate_of_each_flow_is_its_own() {
    let (mut stack, mut end, [one, other]) = connected(QueuePolicy::RatePerFlow);
    send(&mut stack, one, 0);
    send(&mut stack, one, 2);
    stack.close(now(1), one);
    [5, 6, 7].iter().for_each(|rank| send(&mut stack, other, *rank));
    let expected = [(1, vec![5, 0, 6, 7]), (1 + BYTES * 1000, vec![2])];
    assert_eq!(schedule(&mut stack, &mut end), expected);
}
