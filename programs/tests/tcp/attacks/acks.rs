//! Receivers that lie (Savage et al., 1999): acknowledgements of what was not sent, of what did not arrive, and in
//! pieces.

use crate::bench::{Connection, MS};

/// Acknowledges 20 segments' worth of text in steps of `step` bytes and returns the congestion window.
fn after(step: u32) -> u64 {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 100_000);
    let _ = c.bench.sent();
    for _ in 0..10_000 / step {
        c.acknowledge(step);
    }
    c.bench.observe(c.handle, "cc.cwnd")
}

/// RFC 3465: bytes are counted, not ACKs.
#[test]
fn acks_in_pieces_open_the_window_no_faster() {
    let (honest, divided) = (after(1000), after(10));
    println!("ACK division: cwnd {honest} after 10 ACKs, {divided} after 1000 of the same bytes");
    assert!(divided <= honest + 1000, "{honest} {divided}");
}

/// RFC 5961, 5.2: the acknowledgement of what was never sent is challenged, and moves nothing.
#[test]
fn what_was_not_sent_cannot_be_acknowledged() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 100_000);
    let sent: u32 = c.ranges().iter().map(|(_, len)| len).sum();
    let before = c.bench.observe(c.handle, "cc.cwnd");
    for ahead in 1..2000 {
        let ack = c.segment().acks(c.host.wrapping_add(sent + ahead));
        c.bench.inject(&ack);
    }
    let answers = c.bench.sent();
    println!(
        "optimistic ACKs beyond what was sent: 1999, {} challenges, cwnd {before} as before",
        answers.len()
    );
    assert!(answers.iter().all(|s| s.text.is_empty()) && answers.len() <= 10);
    assert_eq!(c.bench.observe(c.handle, "cc.cwnd"), before);
    assert_eq!(c.bench.observe(c.handle, "flight"), u64::from(sent));
}

/// Acknowledging early what is under way shortens the round trip, no more: slow start at most doubles with each,
/// and the send buffer bounds what may be lost to it.
#[test]
fn early_acks_are_bounded_by_what_was_sent() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 1_000_000);
    let mut sent = 0;
    for _ in 0..40 {
        let burst: u32 = c.ranges().iter().map(|(_, len)| len).sum();
        sent += burst;
        c.bench.advance(MS);
        c.acknowledge(burst);
        let (flight, window) = (c.bench.observe(c.handle, "flight"), u64::from(c.window));
        assert!(flight <= window, "never beyond the window announced: {flight}");
    }
    println!("early ACKs: {sent} bytes in 40 rounds of 1 ms, at most 65535 under way");
    assert!(sent <= 40 * 65_535);
}

/// Duplicate ACKs that no segment caused: each lets at most a segment go, and none more than what was in flight.
#[test]
fn forged_duplicate_acks_release_no_more_than_was_sent() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 500_000);
    let flight: u32 = c.ranges().iter().map(|(_, len)| len).sum();
    (0..5000).for_each(|_| c.acknowledge(0));
    let sent: u32 = c.ranges().iter().map(|(_, len)| len).sum();
    println!("duplicate ACK spoofing: 5000 ACKs with {flight} bytes in flight made {sent} bytes go");
    assert!(sent <= 65_535 + 1000, "the window announced bounds it: {sent}");
}
