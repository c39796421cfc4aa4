//! NewReno and loss recovery without SACK: RFC 5681, 6582, 6928, 3042, 6937.

use crate::bench::{Connection, MS, NEWRENO, Offer, SECOND};

/// Opens a connection with segments of 1000 bytes and `len` bytes waiting.
fn sending(params: &[&str], len: usize) -> Connection {
    let params = &[params, &[NEWRENO]].concat();
    let mut c =
        Connection::open_after(params, Offer { mss: Some(1000), ..Offer::default() }, 65535, 100 * MS);
    c.bench.send(c.handle, len);
    c
}

/// Sends duplicate ACKs, which carry no new information (RFC 5681, 2).
fn duplicates(c: &mut Connection, count: usize) {
    (0..count).for_each(|_| c.acknowledge(0));
}

/// RFC 5681, 3.1: in slow start, each ACK adds the bytes that it acknowledges. The limit is one segment
/// there, and eight in RFC 9406, 4.2.
#[test]
fn slow_start_adds_a_segment_for_each_acknowledgement() {
    let mut c = sending(&["SLOW_START_LIMIT=1"], 100_000);
    let _ = c.ranges();
    c.acknowledge(1000);
    assert_eq!(c.windows().0, 11_000);
    assert_eq!(c.ranges(), [(9000, 1000), (10_000, 1000)]);
    c.acknowledge(2000);
    assert_eq!(c.windows().0, 12_000);
    let mut c = sending(&[], 100_000);
    c.acknowledge(2000);
    assert_eq!(c.windows().0, 12_000);
    c.acknowledge(10_000);
    assert_eq!(c.windows().0, 20_000);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut c = sending(&[], 1000);
    c.acknowledge(1000);
    assert_eq!(c.windows().0, 10_000);
}

/// RFC 5681, 3.2 and RFC 6582, 3.2, step by step.
#[test]
fn fast_retransmit_and_recovery_follow_rfc_6582() {
    let mut c = sending(&[], 60_000);
    let _ = c.ranges();
    let retransmissions = c.bench.observe(c.handle, "retransmissions");

    // RFC 3042: the first two each release a new segment.
    duplicates(&mut c, 2);
    assert_eq!(c.ranges(), [(10_000, 1000), (11_000, 1000)]);
    assert_eq!(c.windows().0, 10_000, "and change nothing");

    // The third: ssthresh = FlightSize / 2, without the segments of limited transmit. The first
    // unacknowledged segment is sent again. 12 segments are under way, minus three that left and the lost
    // one.
    duplicates(&mut c, 1);
    assert_eq!(c.windows(), (8000 + 1000, 5000));
    assert_eq!(c.ranges(), [(0, 1000)]);
    assert_eq!(c.bench.observe(c.handle, "retransmissions"), retransmissions + 1);

    // RFC 6937: ten segments were under way, and each further duplicate delivers one of them. Two of them
    // release one segment, and the retransmission was the first.
    duplicates(&mut c, 2);
    assert_eq!(c.ranges(), []);
    assert_eq!(c.windows().0, 7000 + 500);
    duplicates(&mut c, 1);
    assert_eq!(c.windows().0, 6000 + 1000);
    assert_eq!(c.ranges(), [(12_000, 1000)]);

    // A partial ACK: the next hole is sent at once (RFC 6582, 3.2 (3)).
    c.acknowledge(3000);
    assert_eq!(c.ranges()[0], (0, 1000));

    // All data that was out when the recovery began (12 000) is acknowledged.
    c.acknowledge(9000);
    assert_eq!(c.windows(), (5000, 5000));
}

/// RFC 5681, 3.1 (4): at least two segments.
#[test]
fn ssthresh_is_at_least_two_segments() {
    let mut c = sending(&["NAGLE=false"], 3000);
    let _ = c.ranges();
    c.bench.advance(SECOND);
    assert_eq!(c.windows(), (1000, 2000));
    assert_eq!(c.ranges(), [(0, 1000)]);
}

/// RFC 5681, 3.1: one segment after a timeout. ssthresh stays when the timer fires again.
#[test]
fn a_timeout_restarts_from_one_segment() {
    let mut c = sending(&[], 60_000);
    let _ = c.ranges();
    c.bench.advance(SECOND);
    assert_eq!(c.windows(), (1000, 5000));
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.bench.advance(2 * SECOND);
    assert_eq!(c.windows(), (1000, 5000));
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(1000);
    assert_eq!(c.windows().0, 2000);
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000)]);

    // Data that the peer held is skipped. Duplicates of data from before the timeout start no recovery (RFC
    // 6582, 3.2 (2)).
    c.acknowledge(5000);
    assert_eq!(c.ranges()[0].0, 0);
    duplicates(&mut c, 3);
    assert_eq!(c.windows().1, 5000);
}

/// RFC 5681, 3.1: one segment for each window acknowledged.
#[test]
fn congestion_avoidance_adds_a_segment_in_a_round_trip() {
    let mut c = sending(&[], 200_000);
    c.bench.advance(SECOND);
    let _ = c.ranges();
    // Slow start from 1 to ssthresh = 5 segments, one segment for each ACK.
    for _ in 0..4 {
        c.acknowledge(1000);
        let _ = c.ranges();
    }
    assert_eq!(c.windows(), (5000, 5000));
    for _ in 0..5 {
        assert_eq!(c.windows().0, 5000);
        c.acknowledge(1000);
        let _ = c.ranges();
    }
    assert_eq!(c.windows().0, 6000);
}
