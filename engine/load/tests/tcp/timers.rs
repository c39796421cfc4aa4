//! Timers, to the nanosecond: RFC 6298; RFC 9293, 3.8.6; RFC 1122, 4.2.3.2.

use hawser_engine::{Errno, Notice};

use crate::bench::{Connection, MS, Offer, SECOND};

const PLAIN: Offer = Offer { mss: Some(1000), scale: None, timestamps: false };

/// RFC 6298, 2.2 and 2.3, by hand: R = 100 ms gives SRTT 100, RTTVAR 50, RTO 100 + 4 · 50; then R' = 200 ms
/// gives RTTVAR 3/4 · 50 + 1/4 · 100 = 62.5, SRTT 7/8 · 100 + 1/8 · 200 = 112.5.
#[test]
fn the_estimator_follows_the_formulas() {
    let mut c = Connection::open_after(&["MIN_RTO=1ms"], PLAIN, 65535, 100 * MS);
    let seen = |c: &Connection| ["srtt", "rttvar", "rto"].map(|f| c.bench.observe(c.handle, f) / 1000);
    assert_eq!(seen(&c), [100_000, 50_000, 300_000]);
    c.bench.send(c.handle, 500);
    c.bench.advance(200 * MS);
    c.acknowledge(500);
    assert_eq!(seen(&c), [112_500, 62_500, 362_500]);
}

/// RFC 6298, 2.4, 5.5; RFC 9293, 3.8.3 (SHLD-11): the last retransmission comes after MAX_RTO, and then
/// USER_TIMEOUT ends the connection.
#[test]
fn the_timeout_doubles_until_it_is_over() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 500);
    let start = c.bench.now;
    c.bench.advance(300 * SECOND - 1);
    let sent = c.bench.timed();
    let times: Vec<u64> = sent.iter().map(|(time, _)| (time - start) / MS).collect();
    assert_eq!(times, [0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 123_000, 183_000, 243_000]);
    assert!(sent.iter().all(|(_, s)| s.seq == c.host && s.payload.len() == 500));
    assert_eq!(c.bench.notices(), [], "not before five minutes, though no timeout falls on them");
    c.bench.advance(1);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))]);
}

/// RFC 6298, 3 (Karn): an ACK of a segment sent twice is no sample.
#[test]
fn a_retransmitted_segment_is_not_timed() {
    let mut c = Connection::open_after(&[], PLAIN, 65535, 100 * MS);
    c.bench.send(c.handle, 500);
    c.bench.advance(1_500 * MS);
    c.acknowledge(500);
    assert_eq!(c.bench.observe(c.handle, "srtt"), 100 * MS);
    assert_eq!(c.bench.observe(c.handle, "rto"), 2 * SECOND, "backed off until there is a new sample");
}

/// New data sent while a hole is open is acknowledged only when the hole is filled.
#[test]
fn segments_across_a_recovery_are_not_timed() {
    let mut c = Connection::open_after(&[], PLAIN, 65535, 100 * MS);
    c.bench.send(c.handle, 60_000);
    (0..8).for_each(|_| c.acknowledge(0));
    assert!(c.ranges().contains(&(12_000, 1000)), "new data goes out in the recovery");
    c.bench.advance(900 * MS);
    c.acknowledge(13_000);
    assert_eq!(c.bench.observe(c.handle, "srtt"), 100 * MS);
}

/// RFC 7323, 4: the echo shows which transmission was acknowledged.
#[test]
fn timestamps_time_a_retransmitted_segment() {
    let offer = Offer { timestamps: true, ..PLAIN };
    let mut c = Connection::open_after(&["MIN_RTO=200ms"], offer, 65535, 100 * MS);
    c.bench.send(c.handle, 500);
    c.bench.advance(300 * MS);
    let again = c.bench.sent().pop().expect("a retransmission after 300 ms");
    c.bench.advance(50 * MS);
    let mut ack = c.segment().acks(c.host.wrapping_add(500));
    ack.timestamps = Some((8, again.timestamps.expect("timestamps").0));
    c.bench.inject(&ack);
    assert_eq!(c.bench.observe(c.handle, "srtt"), (100 * 7 + 50) * MS / 8);
}

/// RFC 6298, 5.2 and 5.3.
#[test]
fn the_timer_restarts_with_each_new_acknowledgement() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 2000);
    let _ = c.bench.sent();
    c.bench.advance(800 * MS);
    c.acknowledge(1000);
    c.bench.advance(1_000 * MS - 1);
    c.bench.expect_nothing_sent();
    c.bench.advance(1);
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(1000);
    c.bench.advance(100 * SECOND);
    c.bench.expect_nothing_sent();
}

/// RFC 9293, 3.8.6.1: the first probe is sent after the RTO, and further ones at intervals that double up to
/// 60 s. Probing continues as long as the peer answers.
#[test]
fn a_closed_window_is_probed() {
    let mut c = Connection::plain(&[]);
    c.window = 0;
    c.acknowledge(0);
    c.bench.send(c.handle, 3000);
    c.bench.expect_nothing_sent();
    let start = c.bench.now;
    let mut times = Vec::new();
    for _ in 0..430 {
        c.bench.advance(SECOND);
        for (time, probe) in c.bench.timed() {
            assert_eq!((probe.seq, probe.payload.len()), (c.host, 1));
            times.push((time - start) / SECOND);
            c.acknowledge(0);
        }
    }
    assert_eq!(times, [1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423], "beyond USER_TIMEOUT");

    c.window = 2000;
    c.acknowledge(0);
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000)]);
}

#[test]
fn an_accepted_window_probe_counts_as_sent_data() {
    let mut c = Connection::plain(&[]);
    c.window = 0;
    c.acknowledge(0);
    c.bench.send(c.handle, 3000);
    c.bench.advance(SECOND);
    assert_eq!(c.ranges(), [(0, 1)]);
    c.acknowledge(1);
    c.window = 5000;
    c.acknowledge(0);
    assert_eq!(c.ranges(), [(0, 1000), (1000, 1000), (2000, 999)]);
}

#[test]
fn probes_without_an_answer_come_to_an_end() {
    let mut c = Connection::plain(&["USER_TIMEOUT=20s"]);
    c.window = 0;
    c.acknowledge(0);
    c.bench.send(c.handle, 10);
    c.bench.advance(20 * SECOND - 1);
    assert_eq!(c.bench.notices(), []);
    c.bench.advance(1);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))]);
}

/// RFC 8985, 6.2 (step 1): a minimum round trip expires. Paths change, and an old minimum bounds nothing.
#[test]
fn a_minimum_round_trip_expires() {
    let mut c = Connection::open_after(&[], PLAIN, 65535, 100 * MS);
    let exchange = |c: &mut Connection, round_trip: u64| {
        c.bench.send(c.handle, 500);
        c.bench.advance(round_trip);
        c.acknowledge(500);
        c.bench.observe(c.handle, "rack.min_rtt") / MS
    };
    assert_eq!(exchange(&mut c, 150 * MS), 100);
    c.bench.advance(290 * SECOND);
    assert_eq!(exchange(&mut c, 150 * MS), 100, "five minutes");
    c.bench.advance(10 * SECOND);
    assert_eq!(exchange(&mut c, 150 * MS), 150);
    assert_eq!(exchange(&mut c, 120 * MS), 120, "less is always news");
}

/// RFC 9293, 3.8.6.2.1: a window that is less than a segment and less than half the maximum waits for
/// OVERRIDE.
#[test]
fn a_small_window_is_used_after_the_override_timeout() {
    let mut c = Connection::plain(&[]);
    c.window = 300;
    c.acknowledge(0);
    c.bench.send(c.handle, 3000);
    c.bench.expect_nothing_sent();
    c.bench.advance(200 * MS - 1);
    c.bench.expect_nothing_sent();
    c.bench.advance(1);
    assert_eq!(c.ranges(), [(0, 300)]);
}

#[test]
fn acknowledgements_wait_for_a_second_segment_or_40_ms() {
    let mut c = Connection::plain(&[]);
    c.peer_sends(1000);
    c.bench.expect_nothing_sent();
    c.bench.advance(40 * MS - 1);
    c.bench.expect_nothing_sent();
    c.bench.advance(1);
    assert_eq!(c.bench.one().ack, Some(c.next));
    c.peer_sends(1000);
    c.bench.expect_nothing_sent();
    c.peer_sends(1000);
    assert_eq!(c.bench.one().ack, Some(c.next));
    c.bench.advance(SECOND);
    c.bench.expect_nothing_sent();
}

#[test]
fn data_carries_the_acknowledgement() {
    let mut c = Connection::plain(&[]);
    c.peer_sends(1000);
    c.bench.send(c.handle, 10);
    assert_eq!(c.bench.one().ack, Some(c.next));
    c.bench.advance(500 * MS);
    c.bench.expect_nothing_sent();
}

/// RFC 9293, 3.7.4, in Minshall's form (A.3): one small segment at a time.
#[test]
fn small_writes_wait_for_an_outstanding_small_segment() {
    let mut c = Connection::plain(&[]);
    (0..3).for_each(|_| c.bench.send(c.handle, 100));
    assert_eq!(c.ranges(), [(0, 100)]);
    c.acknowledge(100);
    assert_eq!(c.ranges(), [(0, 200)]);

    let mut c = Connection::plain(&["NAGLE=false"]);
    (0..3).for_each(|_| c.bench.send(c.handle, 100));
    assert_eq!(c.ranges(), [(0, 100), (100, 100), (200, 100)]);
}
