//! Super-segments with SACK options: a device that cuts or merges has the same effect as the individual
//! segments (RFC 2018, 3 and 4; RFC 2883, 4).

use crate::bench::{Bench, Connection, MS};
use crate::segment::Segment;

fn agreed(bench: Bench, timestamps: bool) -> Connection {
    Connection::agreed_on(bench, timestamps, |syn| Segment { sack_permitted: true, ..syn })
}

/// Sends data to the peer while the peer's data has more and more holes. At the end, the data that the peer
/// reports as lost is sent again. Returns all sent segments, and the number that were super-segments.
fn exchange(bench: Bench, timestamps: bool) -> (Vec<Segment>, usize) {
    let mut c = agreed(bench, timestamps);
    let mut sent = Vec::new();
    for holes in 0..6 {
        c.bench.send(c.handle, 30_000);
        sent.extend(c.bench.sent());
        c.bench.advance(100 * MS);
        let beyond = c.segment().at(c.next.wrapping_add(1000 + holes * 2000)).payload(vec![b'p'; 1000]);
        c.bench.inject(&beyond);
        let flight = c.bench.observe(c.handle, "flight") as u32;
        c.acknowledge(flight);
        sent.extend(c.bench.sent());
    }
    c.sacks(&[(3000, 8000)]);
    c.bench.advance(50 * MS);
    sent.extend(c.bench.sent());
    (sent, c.bench.wire.super_segments)
}

/// Sending: every packet that the device makes carries the blocks, which take their room from its data.
#[test]
fn a_device_makes_the_packets_with_their_blocks() {
    for timestamps in [false, true] {
        let (plain, none) = exchange(Bench::new(&[]), timestamps);
        let (cut, joined) = exchange(Bench::cutting(&[]), timestamps);
        assert_eq!(none, 0);
        let differs = plain.iter().zip(&cut).position(|(a, b)| a != b);
        assert_eq!((differs, plain.len()), (None, cut.len()), "{timestamps}");
        let max_blocks = if timestamps { 3 } else { 4 };
        let reported = |blocks: usize| cut.iter().filter(|s| !s.payload.is_empty() && s.sacks.len() == blocks).count();
        let counts: Vec<_> = (0..=max_blocks).map(reported).collect();
        println!("{joined} super-segments, {} packets; data with 0, 1, … blocks: {counts:?}", cut.len());
        assert!(joined > 6, "{joined}");
        assert!(counts.iter().all(|count| *count > 2), "{counts:?}");
        for s in cut.iter().filter(|s| !s.payload.is_empty()) {
            let options = if s.sacks.is_empty() { 0 } else { 4 + 8 * s.sacks.len() };
            assert!(s.payload.len() + options <= 1000, "{} bytes beside {} blocks", s.payload.len(), s.sacks.len());
        }
    }
}

/// Returns the peer's and our own view of the connection after five segments.
fn after(merged: bool, known: u32, gap: u32, blocks: &[(u32, u32)]) -> (Vec<u64>, Segment, Vec<(u32, u32)>) {
    let mut c = agreed(Bench::new(&[]), true);
    c.bench.send(c.handle, 10_000);
    c.peer_sends(known as usize);
    c.bench.advance(100 * MS);
    let _ = c.bench.sent();
    let start = c.next.wrapping_sub(known).wrapping_add(gap);
    let host = c.host;
    let at = |offset: u32| host.wrapping_add(offset);
    let blocks: Vec<_> = blocks.iter().map(|(from, to)| (at(*from), at(*to))).collect();
    let all = Segment { psh: true, ..c.segment() }.at(start).sack(&blocks).payload(vec![b'p'; 5000]);
    if merged {
        c.bench.inject_merged(&all, 1000);
    } else {
        let one = |i: u32| Segment { psh: i == 4, ..all.clone() }.at(start.wrapping_add(i * 1000));
        let pieces: Vec<_> = (0..5).map(|i| one(i).payload(vec![b'p'; 1000])).collect();
        c.bench.inject_all(&pieces);
    }
    let sent = c.bench.sent();
    let answer = sent.last().expect("an ACK at once").clone();
    let again = sent.iter().filter(|s| !s.payload.is_empty()).map(|s| (s.seq.wrapping_sub(host), s.numbers()));
    let fields = ["rcv_nxt", "snd_una", "snd_nxt", "sack.held_bytes", "lost_bytes", "recovering", "cc.ssthresh"];
    let known = fields.iter().map(|field| c.bench.observe(c.handle, field));
    (known.collect(), answer, again.collect())
}

/// Receiving in order, behind a gap, and partly known before, with blocks about our own data.
#[test]
fn a_merged_segment_has_the_effect_of_its_segments() {
    for (known, gap) in [(0, 0), (0, 2000), (3000, 0)] {
        for blocks in [&[][..], &[(1000, 2000)], &[(1000, 4000)], &[(1000, 3000), (5000, 8000)]] {
            let name = format!("{known} bytes known, a gap of {gap}, {blocks:?}");
            let (merged, single) = (after(true, known, gap, blocks), after(false, known, gap, blocks));
            assert_eq!(merged.0, single.0, "{name}");
            assert_eq!(merged.2, single.2, "{name}");
            assert_eq!(merged.1.ack, Some(merged.0[0] as u32), "{name}: all of it acknowledged");
            let held: u32 = blocks.iter().map(|(from, to)| to - from).sum();
            assert_eq!(merged.0[3], u64::from(held), "{name}");
            assert_eq!(merged.0[5] == 1, held >= 3000, "{name}: three segments are beyond the first");
            if gap > 0 {
                assert_eq!(merged.1.sacks, single.1.sacks, "{name}");
                assert_eq!(merged.1.sacks.len(), 1, "{name}: one run for all of it");
            }
        }
    }
}

/// Data that had arrived before is reported as one block over the whole merged segment (RFC 2883, 4.1).
#[test]
fn a_d_sack_covers_the_whole_super_segment() {
    let (_, answer, _) = after(true, 3000, 0, &[]);
    let base = answer.ack.expect("an ACK").wrapping_sub(5000);
    assert_eq!(answer.sacks, [(base, base.wrapping_add(3000))]);
}

/// Beside data it is reported once, in its own packet, since a device would repeat it on every packet.
#[test]
fn a_d_sack_goes_once_beside_data() {
    let mut c = agreed(Bench::cutting(&[]), false);
    c.bench.send(c.handle, 30_000);
    c.peer_sends(3000);
    let _ = c.bench.sent();
    // A thousand known bytes and a thousand new ones, with room for more of ours.
    let segment = c.segment().at(c.next.wrapping_sub(1000)).acks(c.host.wrapping_add(10_000)).payload(vec![b'p'; 2000]);
    c.bench.inject(&segment);
    let (data, acks): (Vec<_>, Vec<_>) = c.bench.sent().into_iter().partition(|s| !s.payload.is_empty());
    assert!(data.len() > 10 && c.bench.wire.super_segments > 1, "{}", data.len());
    assert!(data.iter().all(|s| s.sacks.is_empty()), "{:?}", data[0].sacks);
    let reported: Vec<_> = acks.iter().map(|s| s.sacks.clone()).collect();
    assert_eq!(reported, [[(c.next.wrapping_sub(1000), c.next)]]);
}

/// Retransmissions leave as at most two segments at a time, since a full queue drops a whole super-segment.
#[test]
fn a_super_segment_repairs_no_more_than_two_segments() {
    let mut c = agreed(Bench::cutting(&[]), false);
    c.bench.send(c.handle, 10_000);
    c.bench.advance(50 * MS);
    c.acknowledge(10_000);
    c.bench.send(c.handle, 18_000);
    let _ = c.bench.sent();
    c.bench.wire.largest = 0;
    c.bench.advance(50 * MS);
    c.sacks(&[(10_000, 18_000)]);
    c.bench.advance(100 * MS);
    let again: usize = c.bench.sent().iter().map(|s| s.payload.len()).sum();
    assert!(again > 4000, "{again}");
    assert!((1001..=2000).contains(&c.bench.wire.largest), "{}", c.bench.wire.largest);
}

/// New data leaves as several super-segments if the round trip is long, since a full queue drops a whole one: each
/// has the bytes that the window sends in 1 ms, and at least two segments, as Linux sizes them (tcp_tso_autosize).
/// There are at most eight of them.
#[test]
fn a_super_segment_is_a_part_of_a_long_flight() {
    for (rtt, parts) in [(MS / 2, 1), (4 * MS, 4), (50 * MS, 8)] {
        let mut c = agreed(Bench::cutting(&[]), false);
        for _ in 0..80 {
            c.bench.send(c.handle, 8000);
            let _ = c.bench.sent();
            c.bench.advance(rtt);
            let flight = c.bench.observe(c.handle, "flight") as u32;
            c.acknowledge(flight);
        }
        let (window, srtt) = (c.bench.observe(c.handle, "cc.cwnd"), c.bench.observe(c.handle, "srtt"));
        c.bench.wire.largest = 0;
        c.bench.send(c.handle, window as usize);
        let sent: usize = c.bench.sent().iter().map(|s| s.payload.len()).sum();
        let largest = c.bench.wire.largest as u64;
        println!("{window} bytes in {srtt} ns: at most {largest} at once");
        let share = window.div_ceil(parts);
        assert!(sent as u64 > window - 1000 && srtt.abs_diff(rtt) < rtt / 10, "{sent} of {window} in {srtt}");
        assert!(largest.abs_diff(share) <= 1000, "{largest} of {share}");
    }
}
