//! RACK-TLP, RFC 8985: time-based loss detection and tail loss probes.

use crate::bench::{Connection, MS, NEWRENO, SECOND};
use crate::segment::Segment;

/// Opens a connection over 100 ms whose segments have 1000 bytes, with this many of them sent.
fn sent(params: &[&str], timestamps: bool, segments: usize) -> Connection {
    let params = &[params, &[NEWRENO]].concat();
    let mut c = Connection::agreed(params, timestamps, |syn| Segment { sack_permitted: true, ..syn });
    c.bench.send(c.handle, segments * 1000);
    assert_eq!(c.ranges().len(), segments.min(10));
    c
}

/// Returns the segments sent since the last call, with milliseconds since `start`.
fn timed(c: &mut Connection, start: u64) -> Vec<(u64, u32, u32)> {
    let host = c.host;
    let data = c.bench.timed().into_iter().filter(|(_, s)| s.numbers() > 0);
    data.map(|(time, s)| ((time - start) / MS, s.seq.wrapping_sub(host), s.numbers())).collect()
}

/// RFC 8985, 6.2: an overtaken segment is marked lost a quarter of the minimum round-trip time after the
/// later segment was acknowledged.
#[test]
fn an_overtaken_segment_is_lost_after_the_reordering_window() {
    let mut c = sent(&[], false, 3);
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 2000)]);
    c.bench.advance(200 * MS);
    assert_eq!(timed(&mut c, start), [(125, 0, 1000)]);
    assert_eq!(c.windows().1, 2000, "a recovery: two segments at least");
}

/// RFC 8985, 6.2: with three segments beyond it and no reordering seen, a segment is lost at once.
#[test]
fn three_segments_beyond_a_gap_mark_it_lost() {
    let mut c = sent(&[], false, 10);
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 3000)]);
    assert_eq!(timed(&mut c, start), []);
    c.sacks(&[(1000, 4000)]);
    assert_eq!(timed(&mut c, start), [(100, 0, 1000)]);
}

/// RFC 8985, 6.2 (step 3): if the network reorders, three segments prove nothing.
#[test]
fn a_network_that_reorders_gets_time() {
    let mut c = sent(&[], false, 4);
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 2000)]);
    c.acknowledge(2000);            // the first was only late
    assert_eq!(c.bench.observe(c.handle, "rack.reordering"), 1);
    c.acknowledge(2000);
    c.bench.send(c.handle, 10_000);
    let _ = c.ranges();
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 5000)]);
    c.bench.advance(300 * MS);
    let sent = timed(&mut c, start);
    assert_eq!(sent.iter().find(|s| s.1 == 0), Some(&(125, 0, 1000)), "{sent:?}");
}

/// RFC 8985, 6.2 (step 4): a duplicate that the peer reports widens the window to two quarters for 16
/// recoveries.
#[test]
fn a_needless_retransmission_widens_the_window() {
    let mut c = sent(&[], false, 10);
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 4000)]);
    let _ = c.ranges();
    c.acknowledge(10_000);
    c.sacks(&[(-10_000, -9000)]);   // the retransmission arrived twice
    c.bench.send(c.handle, 3000);
    let _ = c.ranges();
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 2000), (1500, 1600)]);
    c.bench.advance(300 * MS);
    assert_eq!(timed(&mut c, start)[0], (150, 0, 1000));
}

/// RFC 2883, 4 (4): a first block within the second is also a duplicate. A block beside it, or across its
/// border, reports new data.
#[test]
fn a_duplicate_beyond_the_ack_widens_the_window() {
    for (first, second, due) in [
        ((2000, 3000), (1000, 6000), 150),
        ((6000, 7000), (1000, 6000), 125),
        ((5000, 7000), (1000, 6000), 125),
        ((0, 1500), (1000, 6000), 125),
    ] {
        let mut c = sent(&[], false, 10);
        c.bench.advance(100 * MS);
        c.sacks(&[(3000, 6000), (1000, 2000)]);
        c.bench.advance(50 * MS);
        let _ = c.ranges();
        c.sacks(&[first, second]);
        c.acknowledge(10_000);
        c.bench.send(c.handle, 3000);
        let _ = c.ranges();
        let start = c.bench.now;
        c.bench.advance(100 * MS);
        c.sacks(&[(1000, 2000), (1500, 1600)]);
        c.bench.advance(300 * MS);
        assert_eq!(timed(&mut c, start)[0], (due, 0, 1000), "{first:?} {second:?}");
    }
}

/// RFC 8985, 6.2 (step 4): after sixteen recoveries without a duplicate, including those from timeouts, the
/// window has its initial size again.
#[test]
fn a_wide_window_lasts_sixteen_recoveries() {
    for (recoveries, due) in [(15, 150), (16, 125)] {
        let mut c = sent(&["PROBES=false"], false, 10);
        let exchange = |c: &mut Connection, segments: u32| {
            c.bench.send(c.handle, segments as usize * 1000);
            c.bench.advance(100 * MS);
            (0..segments).for_each(|_| c.acknowledge(1000));
        };
        c.bench.advance(100 * MS);
        c.acknowledge(10_000);
        c.sacks(&[(-10_000, -9000)]);
        for _ in 0..recoveries {
            c.bench.send(c.handle, 1000);
            c.bench.advance(1100 * MS);
            c.acknowledge(1000);
            exchange(&mut c, 1);
        }
        (0..3).for_each(|_| exchange(&mut c, 2));
        let _ = c.ranges();
        c.bench.send(c.handle, 3000);
        let _ = c.ranges();
        let start = c.bench.now;
        c.bench.advance(100 * MS);
        c.sacks(&[(1000, 2000)]);
        c.bench.advance(300 * MS);
        assert_eq!(timed(&mut c, start)[0], (due, 0, 1000), "{recoveries}");
    }
}

/// RFC 8985, 6.2 (step 3): an arrival counts as the highest number so far even if step 2 learns nothing from
/// it. Here the last segment arrives immediately after its probe. It is the original, so the segments before
/// it are only late.
#[test]
fn an_original_behind_its_probe_shows_reordering() {
    let mut c = sent(&[], false, 10);
    c.bench.advance(205 * MS);
    assert_eq!(c.ranges(), [(9000, 1000)], "the probe");
    c.sacks(&[(9000, 10_000)]);
    assert_eq!(c.bench.observe(c.handle, "rack.reordering"), 0);
    c.acknowledge(5000);
    assert_eq!(c.bench.observe(c.handle, "rack.reordering"), 1);
}

/// RFC 8985, 1: the loss of a retransmission is detected like that of any other segment, when a later one
/// arrives.
#[test]
fn a_lost_retransmission_is_found() {
    let mut c = sent(&[], false, 20);
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    (3..10).for_each(|held| c.sacks(&[(1000, held * 1000 + 1000)]));
    let sent = timed(&mut c, start);
    let retransmission = sent.iter().position(|s| s.1 == 0).expect("the first goes again");
    let later = sent[retransmission + 1..].iter().find(|s| s.1 >= 10_000).expect("then something new");
    let later = later.1 as i32;
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, later + 1000)]);
    assert_eq!(timed(&mut c, start)[0], (200, 0, 1000));
}

/// RFC 8985, 6.2 (step 2): an ACK that is earlier than any round trip belongs to the original.
#[test]
fn an_ack_earlier_than_a_round_trip_is_not_used() {
    let mut c = sent(&[], false, 10);
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 4000)]);
    assert_eq!(timed(&mut c, start), [(100, 0, 1000)]);
    c.bench.advance(5 * MS);
    c.acknowledge(4000);
    c.bench.advance(5 * MS);
    assert_eq!(timed(&mut c, start), [], "the rest may be under way still");
}

/// Segments sent within an eighth of a round trip are kept as one run. Arrivals count from the start of the
/// run. Otherwise a retransmission in between would seem overtaken.
#[test]
fn a_run_is_timed_from_its_first_segment() {
    let mut c = sent(&[], false, 100);
    c.bench.advance(100 * MS);
    (0..10).for_each(|_| c.acknowledge(1000));
    let _ = c.ranges();
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    for held in 2..20 {
        c.sacks(&[(1000, held * 1000)]);
        c.bench.advance(MS);
    }
    let sent = timed(&mut c, start);
    assert_eq!(sent[..3], [(100, 20_000, 1000), (101, 21_000, 1000), (102, 0, 1000)]);
    assert!(sent.len() > 5, "and more after it: {sent:?}");
    c.bench.advance(82 * MS);
    c.sacks(&[(1000, 21_000)]);
    c.bench.advance(MS);
    c.sacks(&[(1000, 22_000)]);
    let again = timed(&mut c, start);
    assert!(again.iter().all(|s| s.1 != 0), "its ACK is due at 202 ms: {again:?}");
}

/// A window that takes two seconds to send fills the send history. Each run then spans more time, an eighth
/// of a second here. Losses are still detected, within merged runs and at their borders.
#[test]
fn losses_in_merged_runs_are_detected() {
    for hole in [0, 1, 40, 77, 148] {
        let mut c = Connection::agreed(&["PROBES=false", "MIN_RTO=10s", "HYSTART=false"], false, |syn| Segment {
            sack_permitted: true,
            ..syn
        });
        while c.windows().0 < 200_000 {
            let flight = c.bench.observe(c.handle, "flight") as u32 / 1000;
            (0..flight).for_each(|_| c.acknowledge(1000));
            c.bench.send(c.handle, c.windows().0 as usize);
            c.bench.advance(100 * MS);
        }
        let flight = c.bench.observe(c.handle, "flight") as u32;
        c.acknowledge(flight);
        let _ = c.ranges();
        for _ in 0..150 {
            c.bench.send(c.handle, 1000);
            c.bench.advance(13 * MS);
        }
        assert_eq!(c.ranges().len(), 150);
        c.acknowledge(hole * 1000);
        for beyond in 2..6.min(150 - hole as i32) + 1 {
            c.sacks(&[(1000, beyond * 1000)]);
        }
        c.bench.advance(300 * MS);
        let again: Vec<_> = c.ranges();
        assert_eq!(again.first(), Some(&(0, 1000)), "{hole}: {again:?}");
        assert!(again.len() < 8, "{hole}: what may be under way is left alone: {again:?}");
    }
}

/// RFC 6675, 5.1: data that is lost again after a timeout is sent again, without a further reduction.
#[test]
fn a_loss_after_a_timeout_does_not_reduce_again() {
    let mut c = sent(&["PROBES=false"], false, 10);
    c.bench.advance(1000 * MS);
    assert_eq!((c.ranges().len(), c.windows()), (1, (1000, 5000)));
    c.bench.advance(100 * MS);
    c.acknowledge(1000);
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000)]);
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 2000)]);
    assert_eq!(c.ranges()[0], (0, 1000));
    assert_eq!(c.windows().1, 5000);
}

/// RFC 8985, 7.2 and 7.3: after two round-trip times without an answer, the last segment is sent again. Then
/// the retransmission timer runs.
#[test]
fn a_probe_precedes_the_timeout() {
    let mut c = sent(&[], false, 5);
    let start = c.bench.now;
    c.bench.advance(3 * SECOND);
    let sent = timed(&mut c, start);
    assert_eq!(sent[0], (200, 4000, 1000));
    assert_eq!(sent[1], (1200, 0, 1000), "a second after the probe");
    // After a single segment, the peer may delay its ACK for 200 ms.
    let mut c = sent_one();
    let start = c.bench.now;
    c.bench.advance(500 * MS);
    assert_eq!(timed(&mut c, start), [(400, 0, 1000)]);
}

fn sent_one() -> Connection {
    sent(&[], false, 1)
}

/// RFC 8985, 7.3: the probe is new data if there is some and the peer's window permits it, even beyond cwnd.
#[test]
fn a_probe_sends_new_data_if_available() {
    let mut c = sent(&[], false, 12);
    let start = c.bench.now;
    c.bench.advance(500 * MS);
    assert_eq!(timed(&mut c, start), [(200, 10_000, 1000)]);
}

/// RFC 8985, 7: after the loss of a tail, the SACK for the probe reveals the hole.
#[test]
fn a_probe_turns_a_lost_tail_into_a_recovery() {
    let mut c = sent(&[], false, 10);
    let start = c.bench.now;
    c.bench.advance(100 * MS);
    c.acknowledge(6000);
    c.bench.advance(300 * MS);
    assert_eq!(timed(&mut c, start), [(300, 3000, 1000)]);
    c.sacks(&[(3000, 4000)]);
    // Half of the data under way may be sent at once, and the rest with its ACK.
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000)]);
    c.acknowledge(2000);
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(2000);
    assert_eq!(c.bench.observe(c.handle, "flight"), 0);
}

/// RFC 8985, 7.4: for the congestion control, a probe that repaired the only loss counts as a loss, and a
/// duplicate probe does not.
#[test]
fn a_probe_that_repaired_a_loss_counts_as_a_loss() {
    for (needless, reduced) in [(false, true), (true, false)] {
        let mut c = sent(&[], false, 10);
        c.bench.advance(100 * MS);
        c.acknowledge(9000);
        let cwnd = c.windows().0;
        c.bench.advance(400 * MS);
        assert_eq!(c.ranges(), [(0, 1000)], "the tail again");
        c.acknowledge(1000);
        if needless {
            c.sacks(&[(-1000, 0)]);
        }
        c.bench.send(c.handle, 10_000);
        let _ = c.ranges();
        c.acknowledge(10_000);
        assert_eq!(c.windows().0 < cwnd, reduced, "{:?}", c.windows());
    }
}

/// RFC 8985, 7.2: no probe without SACK or during a recovery.
#[test]
fn probes_are_not_sent_without_sack_or_in_recovery() {
    let mut c = Connection::agreed(&[], false, |syn| syn);
    c.bench.send(c.handle, 5000);
    let start = c.bench.now;
    c.bench.advance(2 * SECOND);
    assert_eq!(timed(&mut c, start)[5..], [(1000, 0, 1000)]);
    let mut c = sent(&["PROBES=false"], false, 5);
    let start = c.bench.now;
    c.bench.advance(2 * SECOND);
    assert_eq!(timed(&mut c, start), [(1000, 0, 1000)]);
    let mut c = sent(&[], false, 10);
    let start = c.bench.now;
    c.sacks(&[(1000, 4000)]);
    c.bench.advance(900 * MS);
    assert_eq!(timed(&mut c, start), [(0, 0, 1000)]);
}
