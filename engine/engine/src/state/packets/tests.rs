//! Tests of the order in which packets leave.

use bytemuck::Zeroable;

use super::*;
use crate::wire::PayRef;

const NOW: Instant = Instant::from_nanos(1);

fn instruction(record: PacketRec, len: u32, seg_size: u32) -> Box<PendingInstruction> {
    let mut pending = PendingInstruction::blank();
    pending.renew(&record, &[]);
    pending.set_payload(len, seg_size);
    pending
}

/// Returns a packet that is recognised by its length.
fn pending(queue: u32, blueprint: u16, len: u32) -> Box<PendingInstruction> {
    let record = PacketRec { queue, blueprint, ..PacketRec::zeroed() };
    instruction(record, len, 0)
}

fn drain(packets: &mut Packets) -> Vec<u32> {
    std::iter::from_fn(|| {
        let turn = packets.turn(NOW)?;
        let len = packets.front(turn)?.len;
        packets.pop(turn);
        Some(len)
    })
    .collect()
}

fn slot(index: u32) -> Slot {
    Slot { generation: 0, index }
}

fn context(index: u32) -> Option<Slot> {
    Some(slot(index))
}

/// Returns queues of one priority with these policies.
fn queues(policies: &[QueuePolicy]) -> Packets {
    let queue =
        |policy: &QueuePolicy| hawser_ir::PacketQueue { name: String::new(), policy: *policy, prio: 0 };
    Packets::new(&Module { queues: policies.iter().map(queue).collect(), ..Module::default() })
}

fn two_queues() -> Packets {
    queues(&[QueuePolicy::Fifo, QueuePolicy::Fifo])
}

#[test]
fn only_adjacent_packets_of_one_context_and_queue_coalesce() {
    let mut packets = two_queues();
    let always = |_: &PendingInstruction| true;
    assert!(!packets.push(context(1), pending(0, 0, 1), always));
    assert!(
        !packets.push(context(2), pending(0, 0, 2), always),
        "another context"
    );
    assert!(
        !packets.push(context(1), pending(1, 0, 3), always),
        "another queue"
    );
    assert!(!packets.push(None, pending(0, 0, 4), always), "no context");
    assert!(
        packets.push(context(1), pending(0, 0, 5), always),
        "others between do not matter"
    );
    assert!(
        !packets.push(context(1), pending(0, 7, 6), always),
        "another blueprint"
    );
    assert!(
        !packets.push(context(1), pending(0, 0, 7), always),
        "not adjacent any more"
    );
    assert!(
        !packets.push(context(1), pending(0, 0, 8), |_| false),
        "the rule forbids it"
    );
    assert_eq!(packets.len(), 7);
    assert_eq!(
        drain(&mut packets),
        [5, 2, 4, 6, 7, 8, 3],
        "in the place of the first"
    );
    assert_eq!(packets.len(), 0);
    assert!(
        !packets.push(context(1), pending(0, 0, 9), always),
        "the last one has left"
    );
}

#[test]
fn a_partly_sent_instruction_is_not_replaced() {
    let mut packets = two_queues();
    packets.push(context(1), pending(0, 0, 1), |_| true);
    let turn = packets.turn(NOW).expect("one");
    packets.front(turn).expect("one").sent.packets = 1;
    assert!(!packets.push(context(1), pending(0, 0, 2), |_| true));
}

#[test]
fn packets_with_pending_rules_are_not_replaced() {
    let mut packets = two_queues();
    let mut earlier = pending(0, 0, 1);
    earlier.record.rules = 1;
    packets.push(context(1), earlier, |_| true);
    assert!(!packets.push(context(1), pending(0, 0, 2), |_| true));
}

#[test]
fn a_reused_context_slot_has_no_queued_packets() {
    let mut packets = two_queues();
    packets.push(context(1), pending(1, 0, 1), |_| true);
    packets.forget(slot(1));
    assert!(!packets.push(context(1), pending(1, 0, 2), |_| true));
    assert_eq!(drain(&mut packets), [1, 2]);
}

#[test]
fn a_reset_queue_is_empty_and_goes_on() {
    let mut packets = two_queues();
    (0..5).for_each(|len| assert!(!packets.push(context(1), pending(1, 0, len), |_| false)));
    packets.push(context(1), pending(0, 0, 9), |_| false);
    assert!(packets.reset(1, None));
    assert!(!packets.reset(2, None));
    assert_eq!(packets.len(), 1);
    assert!(
        !packets.push(context(1), pending(1, 0, 7), |_| true),
        "its neighbour is gone"
    );
    assert!(packets.set_prio(1, 0) && packets.set_prio(0, 1));
    assert_eq!(drain(&mut packets), [7, 9]);
}

#[test]
fn segments_share_the_payload_out() {
    let mut one = instruction(PacketRec::zeroed(), 2500, 1000);
    let pieces = [vec![1; 700], vec![2; 1000], vec![3; 800]];
    one.buffers.payload = pieces.into_iter().map(PayRef::from).collect();
    assert_eq!(one.packets, 3);
    let mut seen = Vec::new();
    for index in 0..3 {
        let mut out = Vec::new();
        one.take_payload(if index < 2 { 1000 } else { 500 }, &mut out);
        seen.push(
            out.iter()
                .map(|piece| (piece.bytes()[0], piece.len()))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(
        seen,
        [vec![(1, 700), (2, 300)], vec![(2, 700), (3, 300)], vec![(3, 500)]]
    );
    assert_eq!(pending(0, 0, 0).packets, 1, "a packet without data");
}

/// Returns a packet of a rank that is recognised by its length.
fn ranked(rank: u64, len: u32) -> Box<PendingInstruction> {
    let mut pending = pending(0, 0, len);
    pending.record.rank = rank;
    pending
}

#[test]
fn the_smallest_rank_leaves_first_and_ties_keep_their_order() {
    let mut packets = queues(&[QueuePolicy::Rank]);
    for (rank, len) in [(5, 1), (3, 2), (9, 3), (3, 4), (u64::MAX, 5), (0, 6), (3, 7)] {
        packets.push(None, ranked(rank, len), |_| false);
    }
    assert_eq!(drain(&mut packets), [6, 2, 4, 7, 1, 3, 5]);
    assert_eq!(packets.len(), 0);
}

#[test]
fn a_smaller_rank_overtakes_an_instruction_that_has_partly_left() {
    let mut packets = queues(&[QueuePolicy::Rank]);
    packets.push(context(1), instruction(ranked(7, 0).record, 3000, 1000), |_| {
        false
    });
    let turn = packets.turn(NOW).expect("one");
    packets.front(turn).expect("one").sent.packets = 1;
    packets.push(context(2), ranked(6, 1), |_| false);
    assert_eq!(drain(&mut packets), [1, 3000]);
}

#[test]
fn only_instructions_of_one_rank_replace_each_other() {
    let mut packets = queues(&[QueuePolicy::Rank]);
    packets.push(context(1), ranked(4, 1), |_| true);
    assert!(packets.push(context(1), ranked(4, 2), |_| true));
    assert!(
        packets.push(context(1), ranked(4, 3), |_| true),
        "it has the place of the first"
    );
    assert!(!packets.push(context(1), ranked(2, 4), |_| true), "another rank");
    assert_eq!(drain(&mut packets), [4, 3]);
}

#[test]
fn a_reset_drops_the_waiting_packets_of_one_context() {
    for policy in [
        QueuePolicy::Fifo,
        QueuePolicy::Rank,
        QueuePolicy::Rate,
        QueuePolicy::RatePerFlow,
    ] {
        let mut packets = queues(&[policy]);
        for (who, len) in [(1, 1), (2, 2), (1, 3), (3, 4), (2, 5)] {
            packets.push(context(who), pending(0, 0, len), |_| false);
        }
        assert!(packets.reset(0, context(2)));
        assert_eq!(packets.len(), 3);
        assert!(
            packets.push(context(3), pending(0, 0, 6), |_| true),
            "{policy:?}: the others are found behind gaps"
        );
        assert!(
            !packets.push(context(2), pending(0, 0, 7), |_| true),
            "{policy:?}: nothing is there to replace"
        );
        let mut left = drain(&mut packets);
        left.sort_unstable();
        assert_eq!(left, [1, 3, 6, 7], "{policy:?}");
    }
}

/// Returns the time at which each packet leaves, in nanoseconds, and its length. Every packet has 1000 bytes
/// on the wire.
fn schedule(packets: &mut Packets, from: u64) -> Vec<(u64, u32)> {
    let mut now = Instant::from_nanos(from);
    let mut left = Vec::new();
    loop {
        while let Some(turn) = packets.turn(now) {
            left.push((now.as_nanos(), packets.front(turn).expect("its turn").len));
            packets.charge(turn, now, 1000);
            packets.pop(turn);
        }
        match packets.next_deadline() {
            Some(at) => now = now.max(at),
            None => return left,
        }
    }
}

#[test]
fn a_paced_queue_keeps_its_rate_exactly() {
    let mut packets = queues(&[QueuePolicy::Rate]);
    // 8,000 bits at 3 Gbit/s take 2,666 2/3 ns: the fraction carries over.
    assert!(packets.set_rate(0, None, NOW, 3_000_000_000));
    (0..4).for_each(|len| assert!(!packets.push(context(len), pending(0, 0, len), |_| false)));
    assert_eq!(
        schedule(&mut packets, 1),
        [(1, 0), (2668, 1), (5335, 2), (8001, 3)]
    );
}

#[test]
fn an_idle_queue_gathers_no_credit_and_a_late_driver_a_little() {
    let mut packets = queues(&[QueuePolicy::Rate]);
    packets.set_rate(0, None, NOW, 8_000_000); // 1000 bytes take 1 ms
    packets.push(None, pending(0, 0, 1), |_| false);
    schedule(&mut packets, 1_000_000);
    (2..6).for_each(|len| assert!(!packets.push(None, pending(0, 0, len), |_| false)));
    let at = schedule(&mut packets, 5_000_000);
    assert_eq!(
        at,
        [(5_000_000, 2), (6_000_000, 3), (7_000_000, 4), (8_000_000, 5)]
    );

    (0..3).for_each(|len| assert!(!packets.push(None, pending(0, 0, len), |_| false)));
    let turn = packets.turn(Instant::from_nanos(60_000_000)).expect("due");
    packets.charge(turn, Instant::from_nanos(60_000_000), 1000);
    packets.pop(turn);
    // The driver comes 2 ms late for the second one, so the third is late by 1 ms and leaves at once.
    assert_eq!(
        schedule(&mut packets, 63_000_000),
        [(63_000_000, 1), (63_000_000, 2)]
    );
}

#[test]
fn each_flow_has_its_own_rate_and_unlimited_ones_take_turns() {
    let mut packets = queues(&[QueuePolicy::RatePerFlow]);
    packets.set_rate(0, context(1), NOW, 8_000_000);
    packets.set_rate(0, context(2), NOW, 4_000_000);
    for len in [10, 11, 12] {
        packets.push(context(1), pending(0, 0, len), |_| false);
        packets.push(context(2), pending(0, 0, len + 10), |_| false);
        packets.push(context(3), pending(0, 0, len + 20), |_| false);
        packets.push(context(4), pending(0, 0, len + 30), |_| false);
    }
    let at = schedule(&mut packets, 1);
    let of = |flow: u32| -> Vec<u64> {
        at.iter()
            .filter(|(_, len)| len / 10 == flow)
            .map(|(at, _)| *at)
            .collect()
    };
    assert_eq!(of(1), [1, 1_000_001, 2_000_001]);
    assert_eq!(of(2), [1, 2_000_001, 4_000_001]);
    let free: Vec<u32> = at.iter().map(|(_, len)| *len).filter(|len| *len >= 30).collect();
    assert_eq!(free, [30, 40, 31, 41, 32, 42]);
}

#[test]
fn a_new_rate_applies_to_waiting_packets() {
    let mut packets = queues(&[QueuePolicy::Rate]);
    packets.set_rate(0, None, NOW, 8_000);
    packets.push(None, pending(0, 0, 1), |_| false);
    let turn = packets.turn(NOW).expect("due");
    packets.charge(turn, NOW, 1000);
    packets.pop(turn);
    packets.push(None, pending(0, 0, 2), |_| false);
    assert_eq!(packets.next_deadline(), Some(Instant::from_nanos(1_000_000_001)));
    // After half a second half of the backlog is paid; the other half takes 0.5 ms at 8 Mbit/s.
    let half = Instant::from_nanos(500_000_001);
    packets.set_rate(0, None, half, 8_000_000);
    assert_eq!(packets.next_deadline(), Some(Instant::from_nanos(500_500_001)));
    packets.set_rate(0, None, half, 0);
    assert_eq!(
        (packets.next_deadline(), packets.turn(Instant::NEVER).is_some()),
        (None, false)
    );
    packets.set_rate(0, None, half, u64::MAX);
    assert_eq!(packets.next_deadline(), Some(half.plus_nanos(1)));
    assert!(!packets.set_rate(1, None, half, 1), "no such queue");
    let mut others = queues(&[QueuePolicy::Fifo, QueuePolicy::Rank]);
    assert!(
        !others.set_rate(0, None, half, 1) && !others.set_rate(1, None, half, 1),
        "they have no rate"
    );
}

#[test]
fn an_ended_context_leaves_no_rate_to_the_next() {
    let mut packets = queues(&[QueuePolicy::RatePerFlow]);
    packets.set_rate(0, context(1), NOW, 0);
    packets.push(context(1), pending(0, 0, 1), |_| false);
    assert!(packets.turn(NOW).is_none());
    packets.forget(slot(1));
    assert_eq!(drain(&mut packets), [1], "what it issued leaves");
    packets.push(Some(Slot { generation: 1, index: 1 }), pending(0, 0, 2), |_| {
        false
    });
    assert_eq!(drain(&mut packets), [2]);
}

#[test]
fn payload_is_counted_until_its_instruction_is_gone() {
    let mut packets = two_queues();
    packets.push(context(1), pending(0, 0, 100), |_| false);
    packets.push(context(1), pending(0, 0, 20), |_| true);
    packets.push(context(2), pending(1, 0, 3), |_| false);
    assert_eq!(packets.held(), 23, "the first was replaced");
    assert!(packets.reset(1, context(2)));
    assert_eq!(packets.held(), 20);
    if let Some(latest) = packets.latest(slot(1), &pending(0, 0, 0).record) {
        latest.renew(&PacketRec::zeroed(), &[]);
    }
    assert_eq!(drain(&mut packets), [0]);
    assert_eq!(packets.held(), 0);
}
