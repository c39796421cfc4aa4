//! Data in tiny segments and acknowledgements of tiny segments: CVE-2019-11477, -11478, -11479 (SACK),
//! CVE-2018-5390 (data out of order), and windows of a few bytes.

use std::time::Instant;

use fastrand::Rng;
use super::each;
use crate::bench::{Connection, MS, SECOND};
use crate::segment::Segment;

/// Opens a connection that agreed on SACK, with this MSS.
fn with_sack(mss: u16) -> Connection {
    Connection::agreed(&["MIN_RTO=200ms"], true, |syn| Segment {
        sack_permitted: true,
        mss: Some(mss),
        scale: Some(7),
        ..syn
    })
}

/// CVE-2018-5390: every other byte, in any order. The ranges and the memory are bounded, and each segment
/// costs one ACK.
#[test]
fn tiny_segments_out_of_order_are_bounded() {
    const TINY_SEGMENTS: u32 = 20_000;
    let mut c = Connection::plain(&[]);
    let mut rng = Rng::with_seed(7);
    let (before, began) = (c.bench.stack.counters().chains, Instant::now());
    for _ in 0..TINY_SEGMENTS {
        let at = 1 + 2 * rng.u32(..30_000);
        let tiny = c.segment().at(c.next.wrapping_add(at)).payload(*b"x");
        c.bench.inject(&tiny);
    }
    let chains = c.bench.stack.counters().chains - before;
    let (_, held) = c.bench.stack.held_bytes();
    let acks = c.bench.sent().len();
    let cost = each(began, u64::from(TINY_SEGMENTS));
    println!("tiny segments: {TINY_SEGMENTS} of one byte, {cost}; {held} bytes of memory, {acks} ACKs, {chains} chains");
    assert!(held <= 64 << 10, "no more than the window, however many tiny segments: {held}");
    assert!(acks as u32 <= TINY_SEGMENTS && chains <= u64::from(TINY_SEGMENTS));
    // Data that was dropped was not promised either, and the stream goes on.
    c.peer_sends(60_001);
    assert_eq!(c.bench.read(c.handle, 100_000).len(), 60_001);
}

/// CVE-2019-11477 and -11478: SACK blocks that break the sent data into tiny pieces.
#[test]
fn sack_splinters_are_bounded() {
    const ACKS: usize = 5_000;
    let mut c = with_sack(88);
    c.bench.send(c.handle, 400_000);
    // The window opens wide, so that only the congestion window limits the data under way.
    for _ in 0..30 {
        let sent: u32 = c.ranges().iter().map(|(_, len)| len).sum();
        c.acknowledge(sent);
    }
    let _ = c.bench.sent();
    let flight = c.bench.observe(c.handle, "flight") as u32;
    let (held, chains) = (c.bench.stack.held_bytes(), c.bench.stack.counters().chains);
    let (mut rng, began) = (Rng::with_seed(3), Instant::now());
    let mut largest = 0;
    let mut bytes = 0;
    for _ in 0..ACKS {
        let mut block = || {
            let from = 1 + rng.u32(..flight.max(9) - 8);
            (c.host.wrapping_add(from), c.host.wrapping_add(from + 1 + rng.u32(..8)))
        };
        let blocks = [block(), block(), block()];
        let ack = c.segment().sack(&blocks);
        c.bench.inject(&ack);
        let sent = c.bench.sent();
        largest = largest.max(sent.len());
        bytes += sent.iter().map(|s| s.payload.len()).sum::<usize>();
    }
    let work = c.bench.stack.counters().chains - chains;
    let cost = each(began, ACKS as u64);
    println!(
        "SACK splinters: {ACKS} ACKs of 3 blocks over {flight} bytes in flight, {cost}; {work} chains, at most {largest} \
         packets for one ACK, {bytes} bytes sent again; memory {held:?} -> {:?}",
        c.bench.stack.held_bytes()
    );
    assert_eq!(c.bench.stack.held_bytes(), held, "nothing grows");
    assert!(work <= ACKS as u64, "one chain for one ACK");
    // Proportional rate reduction allows one segment more than arrived, at most 24 bytes here.
    assert!(largest <= 3 && bytes <= ACKS * (76 + 24), "{largest} packets for one ACK, {bytes} bytes");
    // The stream ends normally.
    let mut rounds = 0;
    while c.bench.observe(c.handle, "snd_una") < c.bench.observe(c.handle, "snd_nxt") && rounds < 20_000 {
        c.bench.advance(300 * MS);
        let _ = c.bench.sent();
        c.acknowledge(c.bench.observe(c.handle, "flight") as u32);
        rounds += 1;
    }
    assert!(rounds < 20_000);
}

/// Windows of a few bytes (RFC 9293, 3.8.6.2.1): a naive sender would send tiny segments without end.
#[test]
fn tiny_windows_do_not_shred_the_stream() {
    for window in [1, 10, 100] {
        let mut c = Connection::plain(&["MIN_RTO=200ms"]);
        c.window = window;
        c.acknowledge(0);
        c.bench.send(c.handle, 50_000);
        let _ = c.bench.sent();
        let (mut packets, before) = (0, c.bench.stack.counters().chains);
        for _ in 0..100 {
            c.bench.advance(100 * MS);
            let sent = c.bench.sent();
            packets += sent.len();
            let end = sent.iter().map(|s| s.seq.wrapping_add(s.numbers()).wrapping_sub(c.host)).max();
            c.acknowledge(end.unwrap_or(0).min(50_000));
        }
        let chains = c.bench.stack.counters().chains - before;
        println!("window of {window}: {packets} packets and {chains} chains in {} s", 10);
        assert!(packets <= 10 * SECOND as usize / (200 * MS as usize) + 2, "{packets}");
    }
}
