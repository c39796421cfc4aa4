//! Spurious retransmissions are undone: RFC 3522, RFC 4015.

use crate::bench::{Connection, MS, NEWRENO, SECOND};
use crate::segment::Segment;

/// Opens a connection with timestamps over 100 ms and ten segments out. Returns it with their timestamp.
fn sending(params: &[&str]) -> (Connection, u32) {
    let params = &[params, &[NEWRENO, "PROBES=false"]].concat();
    let mut c = Connection::agreed(params, true, |syn| Segment { sack_permitted: true, ..syn });
    c.bench.send(c.handle, 100_000);
    let stamp = c.bench.sent()[9].timestamps.expect("timestamps").0;
    (c, stamp)
}

/// Sends an ACK for `len` more bytes that echoes a timestamp.
fn echo(c: &mut Connection, len: u32, stamp: u32) {
    c.host = c.host.wrapping_add(len);
    let ack = Segment { timestamps: Some((7, stamp)), ..c.segment() };
    c.bench.inject(&ack);
}

#[test]
fn a_spurious_timeout_is_undone() {
    let (mut c, original) = sending(&[]);
    assert_eq!(c.windows().0, 10_000);
    c.bench.advance(1100 * MS);
    let again = c.bench.sent();
    assert_eq!((again.len(), c.windows()), (1, (1000, 5000)));

    // The ACK of the original arrives a second late.
    echo(&mut c, 1000, original);
    assert_eq!(c.windows(), (10_000, 1 << 30));
    // RFC 4015, 3 (5): the sender continues with data that was never sent.
    assert_eq!(c.ranges(), [(9000, 1000)]);
    // RFC 4015, 3 (8): the timeout becomes longer.
    assert!(c.bench.observe(c.handle, "rto") >= 3 * SECOND);
    echo(&mut c, 9000, original);
    assert_eq!(c.ranges()[0].0, 1000);
}

#[test]
fn a_real_timeout_is_not_undone() {
    let (mut c, _) = sending(&[]);
    c.bench.advance(1100 * MS);
    let stamp = c.bench.sent()[0].timestamps.expect("timestamps").0;
    echo(&mut c, 1000, stamp);
    assert_eq!(c.windows(), (2000, 5000));
    assert_eq!(c.ranges()[0].0, 0, "the rest goes again");
}

/// Without timestamps a spurious timeout cannot be detected.
#[test]
fn without_timestamps_a_timeout_is_not_undone() {
    let params = [NEWRENO, "PROBES=false"];
    let mut c = Connection::agreed(&params, false, |syn| Segment { sack_permitted: true, ..syn });
    c.bench.send(c.handle, 100_000);
    c.bench.advance(1100 * MS);
    c.acknowledge(1000);
    assert_eq!(c.windows(), (2000, 5000));
}

/// The same for a fast retransmit, after the network reordered by more than three segments.
#[test]
fn a_spurious_fast_retransmit_is_undone() {
    let (mut c, original) = sending(&[]);
    c.bench.advance(100 * MS);
    let host = c.host;
    let blocks = [(host.wrapping_add(1000), host.wrapping_add(5000))];
    let ack = Segment { timestamps: Some((7, original)), ..c.segment().sack(&blocks) };
    c.bench.inject(&ack);
    assert_eq!(c.windows().1, 5000);
    assert!(c.ranges().contains(&(0, 1000)));
    c.bench.advance(5 * MS);
    echo(&mut c, 5000, original);
    assert_eq!(c.windows(), (10_000, 1 << 30));
    assert_eq!(c.bench.observe(c.handle, "rack.reordering"), 1);
}
