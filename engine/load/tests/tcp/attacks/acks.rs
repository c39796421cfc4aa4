//! Misbehaving receivers (Savage et al., 1999): acknowledgements of data that was not sent or did not arrive,
//! and acknowledgements in pieces.

use crate::bench::{Connection, MS};

/// Acknowledges 20 segments' worth of data in steps of `step` bytes and returns the congestion window.
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

/// RFC 5961, 5.2: an acknowledgement of data that was never sent is challenged and has no other effect.
#[test]
fn an_ack_of_unsent_data_is_challenged_without_effect() {
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
    assert!(answers.iter().all(|s| s.payload.is_empty()) && answers.len() <= 10);
    assert_eq!(c.bench.observe(c.handle, "cc.cwnd"), before);
    assert_eq!(c.bench.observe(c.handle, "flight"), u64::from(sent));
}

/// Early acknowledgement of data under way only shortens the round trip. In slow start an ACK adds at most
/// eight segments (RFC 9406, 4.2, SLOW_START_LIMIT), whatever it claims. No data goes beyond the announced
/// window.
#[test]
fn optimistic_acks_are_bounded_by_the_sent_data() {
    let mut c = Connection::agreed(&["HYSTART=false"], false, |syn| syn);
    c.bench.send(c.handle, 4_000_000);
    let (mut sent, mut largest) = (0, 0);
    for round in 0..40u64 {
        let burst: u32 = c.ranges().iter().map(|(_, len)| len).sum();
        sent += burst;
        let flight = c.bench.observe(c.handle, "flight");
        largest = largest.max(flight);
        assert!(flight <= 10_000 + 8000 * round, "round {round}: {flight} bytes under way");
        c.bench.advance(MS);
        c.acknowledge(burst);
    }
    println!("early ACKs: {sent} bytes in 40 rounds of 1 ms, at most {largest} under way");
    assert!(largest > 200_000, "{largest}");
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 1_000_000);
    for _ in 0..40 {
        let burst: u32 = c.ranges().iter().map(|(_, len)| len).sum();
        c.acknowledge(burst);
        let flight = c.bench.observe(c.handle, "flight");
        assert!(flight <= u64::from(c.window), "never beyond the window announced: {flight}");
    }
}

/// Duplicate ACKs that no segment caused. Each stands for a segment that left the network, so no more of them
/// count than can have been sent. The maximum is 255, the limit of a byte, whereas RFC 5681, 3.2 (4), lets
/// the window grow by all of them.
#[test]
fn forged_duplicate_acks_release_no_more_than_was_sent() {
    let mut c = Connection::agreed(&[], false, |syn| syn);
    c.bench.send(c.handle, 4_000_000);
    let flight: u32 = c.ranges().iter().map(|(_, len)| len).sum();
    (0..5000).for_each(|_| c.acknowledge(0));
    let sent: u32 = c.ranges().iter().map(|(_, len)| len).sum();
    let cwnd = c.windows().0;
    println!("duplicate ACK spoofing: 5000 ACKs with {flight} bytes in flight made {sent} bytes go; cwnd {cwnd}");
    assert!(sent <= 255_000 + flight, "{sent}");
    assert!(cwnd <= 255_000 + u64::from(flight), "{cwnd}");
}
