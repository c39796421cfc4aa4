//! Selective acknowledgements: RFC 2018, RFC 2883.

use crate::bench::{Bench, Connection, MS, SECOND};
use crate::segment::Segment;

/// Opens a connection that agreed on SACK, with timestamps only on request.
fn sack(params: &[&str], timestamps: bool) -> Connection {
    Connection::agreed(params, timestamps, |syn| Segment { sack_permitted: true, ..syn })
}

/// Returns the host's answer to a segment of the peer: its ACK and its blocks, as offsets from `base`.
fn answer(c: &mut Connection, base: u32, from: u32, to: u32) -> (u32, Vec<(u32, u32)>) {
    let segment = c.segment().at(base.wrapping_add(from)).payload(vec![b'p'; (to - from) as usize]);
    c.bench.inject(&segment);
    c.bench.advance(50 * MS);
    let answer = c.bench.one();
    let offset = |number: u32| number.wrapping_sub(base);
    let blocks = answer.sacks.iter().map(|(from, to)| (offset(*from), offset(*to))).collect();
    (offset(answer.ack.expect("an ACK")), blocks)
}

/// Returns a connection, and the base for offsets at which the peer's first byte is `from`.
fn receiving(from: u32) -> (Connection, u32) {
    let c = sack(&[], false);
    let base = c.next.wrapping_sub(from);
    (c, base)
}

/// RFC 2018, 2: SACK is used only if both ends permit it in their SYNs.
#[test]
fn sack_is_used_only_if_both_ends_permit_it() {
    let mut bench = Bench::new(&[]);
    bench.connect();
    assert!(bench.one().sack_permitted);
    let mut bench = Bench::new(&["SACK=false"]);
    bench.connect();
    assert!(!bench.one().sack_permitted);

    for offered in [false, true] {
        let mut bench = Bench::new(&[]);
        bench.listen(80, 5);
        let syn = Segment { source: 4000, destination: 80, seq: 1, window: 1000, ..Segment::default() }.syn();
        bench.inject(&Segment { sack_permitted: offered, ..syn });
        assert_eq!(bench.one().sack_permitted, offered);
    }

    let mut c = Connection::agreed(&[], false, |syn| syn);
    let base = c.next;
    assert_eq!(answer(&mut c, base, 1000, 2000), (0, vec![]), "not agreed: no blocks");
    c.bench.send(c.handle, 5000);
    let _ = c.ranges();
    (0..2).for_each(|_| c.sacks(&[(1000, 5000)]));
    assert_eq!(c.ranges(), [], "and none are believed");
}

/// RFC 2018, section 7: eight segments of 500 bytes from 5000 on, in the cases of its example.
#[test]
fn blocks_match_the_example_of_rfc_2018() {
    // Case 1: the last four are lost.
    let (mut c, base) = receiving(5000);
    for (from, ack) in [(5000, 5500), (5500, 6000), (6000, 6500), (6500, 7000)] {
        assert_eq!(answer(&mut c, base, from, from + 500), (ack, vec![]));
    }

    // Case 2: the first is lost.
    let (mut c, base) = receiving(5000);
    for from in (5500..9000).step_by(500) {
        assert_eq!(answer(&mut c, base, from, from + 500), (5000, vec![(5500, from + 500)]));
    }

    // Case 3: the second, fourth, sixth and eighth are lost.
    let (mut c, base) = receiving(5000);
    assert_eq!(answer(&mut c, base, 5000, 5500), (5500, vec![]));
    assert_eq!(answer(&mut c, base, 6000, 6500), (5500, vec![(6000, 6500)]));
    assert_eq!(answer(&mut c, base, 7000, 7500), (5500, vec![(7000, 7500), (6000, 6500)]));
    let three = vec![(8000, 8500), (7000, 7500), (6000, 6500)];
    assert_eq!(answer(&mut c, base, 8000, 8500), (5500, three));
    // The fourth arrives out of order, then the second.
    assert_eq!(answer(&mut c, base, 6500, 7000), (5500, vec![(6000, 7500), (8000, 8500)]));
    assert_eq!(answer(&mut c, base, 5500, 6000), (7500, vec![(8000, 8500)]));
}

/// RFC 2883, 4.1.1 to 4.1.3 and 4.2.1: full duplicates.
#[test]
fn duplicate_blocks_match_the_examples_of_rfc_2883() {
    // 4.1.1: a duplicate of acknowledged data.
    let (mut c, base) = receiving(3000);
    assert_eq!(answer(&mut c, base, 3000, 3500), (3500, vec![]));
    assert_eq!(answer(&mut c, base, 3500, 4000), (4000, vec![]));
    assert_eq!(answer(&mut c, base, 3000, 3500), (4000, vec![(3000, 3500)]));
    assert_eq!(answer(&mut c, base, 4000, 4500), (4500, vec![]), "reported once");

    // 4.1.2: the same while other data is held out of order.
    let (mut c, base) = receiving(3000);
    assert_eq!(answer(&mut c, base, 3000, 3500), (3500, vec![]));
    assert_eq!(answer(&mut c, base, 4000, 4500), (3500, vec![(4000, 4500)]));
    assert_eq!(answer(&mut c, base, 4500, 5000), (3500, vec![(4000, 5000)]));
    assert_eq!(answer(&mut c, base, 3000, 3500), (3500, vec![(3000, 3500), (4000, 5000)]));
    assert_eq!(answer(&mut c, base, 5000, 5500), (3500, vec![(4000, 5500)]));

    // 4.1.3: a duplicate of data held out of order.
    let (mut c, base) = receiving(3500);
    assert_eq!(answer(&mut c, base, 4000, 4500), (3500, vec![(4000, 4500)]));
    assert_eq!(answer(&mut c, base, 4500, 5000), (3500, vec![(4000, 5000)]));
    assert_eq!(answer(&mut c, base, 5000, 5500), (3500, vec![(4000, 5500)]));
    assert_eq!(answer(&mut c, base, 5000, 5500), (3500, vec![(5000, 5500), (4000, 5500)]));

    // 4.2: a segment that is partly a duplicate, then its late original.
    let (mut c, base) = receiving(1000);
    assert_eq!(answer(&mut c, base, 2000, 2500), (1000, vec![(2000, 2500)]));
    assert_eq!(answer(&mut c, base, 1000, 2000), (2500, vec![]));
    assert_eq!(answer(&mut c, base, 1000, 1500), (2500, vec![(1000, 1500)]));
}

/// RFC 2018, 3: four blocks fit, three beside timestamps; the latest first.
#[test]
fn an_ack_carries_as_many_blocks_as_fit() {
    for (timestamps, limit) in [(false, 4), (true, 3)] {
        let mut c = sack(&[], timestamps);
        let base = c.next;
        let mut blocks = Vec::new();
        for from in (1000..11_000).step_by(2000) {
            blocks.insert(0, (from, from + 1000));
            blocks.truncate(limit);
            assert_eq!(answer(&mut c, base, from, from + 1000), (0, blocks.clone()));
        }
    }
}

/// RFC 2018, 4: "in all ACKs which do not ACK the highest sequence number", so also those with data, which is
/// cut to leave them room. No packet exceeds the path MTU. Duplicates (RFC 2883, 4) are reported once, in a
/// pure ACK.
#[test]
fn data_segments_carry_sack_blocks() {
    for (timestamps, size, limit) in [(false, 1000, 4), (true, 1000, 3)] {
        let mut c = sack(&[], timestamps);
        let mut expected: Vec<(u32, u32)> = Vec::new();
        for gap in 0..6 {
            let from = c.next.wrapping_add(1000 + gap * 2000);
            let segment = c.segment().at(from).payload(vec![b'p'; 1000]);
            c.bench.inject(&segment);
            let _ = c.bench.one();
            expected.insert(0, (from, from.wrapping_add(1000)));
            expected.truncate(limit);
            c.bench.send(c.handle, 3 * size);
            let sent = c.bench.sent();
            let room = size - 4 - 8 * expected.len();
            assert_eq!(sent.iter().map(|s| s.payload.len()).sum::<usize>(), 3 * size);
            assert_eq!((sent[0].payload.len(), sent[1].payload.len()), (room, room));
            assert!(sent.iter().all(|s| s.sacks == expected && s.ack == Some(c.next)), "{sent:#?}");
            c.acknowledge(3 * size as u32);
            c.bench.expect_nothing_sent();
        }
        let again = c.segment().at(c.next.wrapping_sub(10)).payload(vec![b'p'; 20]);
        c.bench.inject(&again);
        c.bench.send(c.handle, 3 * size);
        let twice = |s: &Segment| s.sacks[0] == (c.next.wrapping_sub(10), c.next);
        let sent = c.bench.sent();
        assert_eq!((sent.iter().filter(|s| twice(s)).count(), twice(&sent[0])), (1, true), "{sent:#?}");
        // All data has arrived, and segments are full again.
        let rest = c.segment().at(c.next.wrapping_add(10)).payload(vec![b'p'; 12_000]);
        c.bench.inject(&rest);
        let _ = c.bench.sent();
        c.acknowledge(3 * size as u32);
        c.bench.send(c.handle, 2 * size);
        assert_eq!(c.ranges(), [(0, size as u32), (size as u32, size as u32)]);
    }
}

/// Data that leaves when a gap opens is itself the acknowledgement and reports the held data. Without SACK,
/// the peer counts duplicates (RFC 5681, 2), and those are pure ACKs.
#[test]
fn data_acknowledges_a_gap_where_sack_is_agreed() {
    for agreed in [true, false] {
        let mut c = Connection::agreed(&[], false, |syn| Segment { sack_permitted: agreed, ..syn });
        // The window is full, except for the answer that a segment behind a gap releases.
        c.bench.send(c.handle, 20_000);
        let _ = c.bench.sent();
        let ahead = c.segment().at(c.next.wrapping_add(500)).acks(c.host.wrapping_add(2000)).payload([0; 100]);
        c.bench.inject(&ahead);
        let sent = c.bench.sent();
        let pure = sent.iter().filter(|s| s.numbers() == 0).count();
        assert_eq!((sent.len() > 1, pure), (true, usize::from(!agreed)), "{sent:#?}");
        assert!(sent.iter().all(|s| s.sacks.len() == usize::from(agreed)));
    }
}

/// RFC 2018, 4: a block counts if it lies within the unacknowledged data.
#[test]
fn blocks_outside_the_sent_data_are_ignored() {
    let mut c = sack(&[], false);
    c.bench.send(c.handle, 10_000);
    let _ = c.ranges();
    c.acknowledge(1000);
    for blocks in [
        [(20_000, 30_000)],             // never sent
        [(1000, 9001)],                 // a byte too far
        [(5000, 2000)],                 // backwards
        [(3000, 3000)],                 // empty
        [(-500, 4000)],                 // from below the ACK
        [(0, 5000)],                    // the peer would have acknowledged it
        [(i32::MIN, 5000)],
    ] {
        c.sacks(&blocks);
        c.sacks(&blocks);
        assert_eq!(c.ranges(), [], "{blocks:?}");
    }
    c.sacks(&[(1000, 9000)]);
    assert_eq!(c.ranges(), [(0, 1000)]);
}

/// RFC 6675, 5.1: after a timeout, only data that the peer lacks is sent again.
#[test]
fn a_timeout_resends_only_data_the_peer_lacks() {
    let mut c = sack(&["PROBES=false"], false);
    c.bench.send(c.handle, 5000);
    let _ = c.ranges();
    c.sacks(&[(1000, 4000)]);
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.bench.advance(SECOND);
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(4000);
    assert_eq!(c.ranges(), [(0, 1000)]);
}

/// RFC 2018, 8: a peer that dropped held data is detected. Either it acknowledges only up to the data that it
/// had reported, or a second timeout passes. Then all data is sent again.
#[test]
fn a_peer_that_reneged_is_detected() {
    let mut c = sack(&["PROBES=false"], false);
    c.bench.send(c.handle, 4000);
    let _ = c.ranges();
    c.sacks(&[(1000, 4000)]);
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(1000);
    assert_eq!(c.ranges(), [], "it holds the rest, it said");
    c.bench.advance(SECOND);
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(1000);
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000)]);

    let mut c = sack(&["PROBES=false"], false);
    c.bench.send(c.handle, 4000);
    c.sacks(&[(1000, 4000)]);
    c.bench.advance(SECOND);
    c.bench.advance(2 * SECOND);
    let _ = c.ranges();
    c.acknowledge(1000);
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000)], "after two timeouts");
}

/// With more holes than the connection remembers, the rest counts as unreported.
#[test]
fn any_number_of_holes_is_repaired() {
    let mut c = sack(&["NAGLE=false"], false);
    for _ in 0..9 {
        let sent = c.bench.observe(c.handle, "flight") as u32;
        c.bench.send(c.handle, 100_000);
        c.acknowledge(sent);
        let _ = c.ranges();
    }
    let flight = c.bench.observe(c.handle, "flight") as i32;
    assert!(flight > 60_000);
    for from in (1000..flight - 1000).step_by(2000) {
        c.sacks(&[(from, from + 1000)]);
    }
    let again = c.ranges();
    assert!(again.iter().any(|(at, _)| *at == 0) && again.len() < 120, "{again:?}");
    for _ in 0..200 {
        let sent = c.bench.observe(c.handle, "flight") as u32;
        c.acknowledge(sent);
        let _ = c.ranges();
    }
    assert_eq!(c.bench.observe(c.handle, "flight"), 0, "all of it was sent");
}

/// RFC 2018, 3: up to four blocks, or three beside timestamps. Each block counts.
#[test]
fn every_sack_block_of_an_ack_counts() {
    for (timestamps, blocks) in [(false, 4), (true, 3)] {
        let mut c = sack(&[], timestamps);
        c.bench.send(c.handle, 10_000);
        let _ = c.bench.sent();
        let all: Vec<(i32, i32)> = (0..blocks).map(|i| (1000 + 2000 * i, 2000 + 2000 * i)).collect();
        c.sacks(&all);
        assert_eq!(c.bench.observe(c.handle, "sack.held_bytes"), 1000 * blocks as u64);
    }
}
