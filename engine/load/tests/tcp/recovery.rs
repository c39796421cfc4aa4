//! Loss recovery with SACK: RFC 6675 and RFC 6937. The congestion control is NewReno, whose ssthresh is half
//! the flight, as in the examples of both.

use crate::bench::{Connection, MS, NEWRENO, SECOND};
use crate::segment::Segment;

/// The params that detect losses by counting.
const COUNTING: [&str; 3] = [NEWRENO, "RACK=false", "PROBES=false"];

/// Opens a connection over 100 ms whose segments have 1000 bytes, with `len` bytes to send. Ten segments are
/// out, or twice as many.
fn sending(params: &[&str], segments: u32, len: usize) -> Connection {
    let mut c = Connection::agreed(params, false, |syn| Segment { sack_permitted: true, ..syn });
    c.bench.send(c.handle, len);
    c.bench.advance(100 * MS);
    while c.bench.observe(c.handle, "flight") < u64::from(segments) * 1000 {
        c.acknowledge(1000);
    }
    let _ = c.ranges();
    c
}

/// RFC 6675, 5: step by step.
#[test]
fn recovery_follows_rfc_6675() {
    let mut c = sending(&COUNTING, 10, 100_000);
    // (3): arrivals out of order release new segments.
    c.sacks(&[(1000, 2000)]);
    assert_eq!(c.ranges(), [(10_000, 1000)]);
    c.sacks(&[(1000, 3000)]);
    assert_eq!(c.ranges(), [(11_000, 1000)]);
    // IsLost: more than (DupThresh - 1) * SMSS bytes are held beyond it.
    c.sacks(&[(1000, 4000)]);
    assert_eq!(c.windows().1, 5000);
    assert_eq!(c.ranges(), [(0, 1000)]);
    // Segments 4 and 6 are missing as well. NextSeg, rule 1: only data that IsLost reports is sent again.
    c.sacks(&[(5000, 6000), (1000, 4000)]);
    c.sacks(&[(7000, 8000), (5000, 6000), (1000, 4000)]);
    assert_eq!(c.ranges(), []);
    c.sacks(&[(7000, 9000), (5000, 6000), (1000, 4000)]);
    assert_eq!(c.ranges(), [], "4 is lost, too; but ssthresh is under way");
    c.sacks(&[(7000, 10_000), (5000, 6000), (1000, 4000)]);
    assert_eq!(c.ranges(), [(4000, 1000), (6000, 1000)], "three are held beyond 6 as well");
    // (A): the recovery ends when all data that was out at its start is acknowledged.
    c.acknowledge(4000);
    let _ = c.ranges();
    c.acknowledge(8000);
    assert_eq!(c.windows(), (5000, 5000));
}

/// RFC 6675, 4 (IsLost): three runs count as much as three segments.
#[test]
fn three_ranges_beyond_a_gap_mark_it_lost() {
    let mut c = sending(&COUNTING, 10, 10_000);
    c.sacks(&[(2000, 2100)]);
    c.sacks(&[(4000, 4100), (2000, 2100)]);
    assert_eq!(c.ranges(), []);
    c.sacks(&[(6000, 6100), (4000, 4100), (2000, 2100)]);
    assert_eq!(c.ranges()[0], (0, 1000));
    assert_eq!(c.windows().1, 5000);
}

/// RFC 6675, 4 (NextSeg, rules 3 and 4): without new data, segments that may be lost are sent, each once, and
/// then the last one.
#[test]
fn without_new_data_presumably_lost_segments_are_sent() {
    let mut c = sending(&COUNTING, 10, 10_000);
    c.sacks(&[(1000, 4000)]);
    assert_eq!(c.ranges(), [(0, 1000)]);
    // Segment 4 is missing, and too little is held beyond it.
    let mut again = Vec::new();
    for end in [6000, 7000] {
        c.sacks(&[(5000, end), (1000, 4000)]);
        again.extend(c.ranges());
    }
    assert_eq!(again, [(4000, 1000)], "rule 3");
    // A partial ACK: beyond it, only the tail may be lost.
    c.acknowledge(7000);
    assert_eq!(c.ranges(), [(2000, 1000)], "rule 4: the last segment");
    c.sacks(&[]);
    assert_eq!(c.ranges(), [], "once");
}

/// RFC 6937, 3.1, in fractional numbers: the data that PRR releases at each ACK.
struct Model {
    ssthresh: f64,
    flight: f64,
    delivered: f64,
    out: f64,
}

impl Model {
    fn window(&mut self, newly: f64, pipe: f64) -> f64 {
        self.delivered += newly;
        let count = if pipe > self.ssthresh {
            (self.delivered * self.ssthresh / self.flight).ceil() - self.out
        } else {
            let limit = (self.delivered - self.out).max(newly) + 1000.0;
            (self.ssthresh - pipe).min(limit)
        };
        pipe + count.max(0.0)
    }
}

/// RFC 6937, 4, figure 1: one loss in a flight of 20. Every other ACK releases a segment, and at the end
/// ssthresh is under way.
#[test]
fn recovery_from_one_loss_in_twenty_follows_rfc_6937() {
    let mut c = sending(&COUNTING, 20, 200_000);
    let mut sent = Vec::new();
    let mut model = Model { ssthresh: 10_000.0, flight: 20_000.0, delivered: 0.0, out: 0.0 };
    let mut pipe = 20_000.0;
    for ack in 1..20 {
        c.sacks(&[(1000, 1000 + ack * 1000)]);
        let ranges = c.ranges();
        pipe -= 1000.0;
        if ack == 3 {
            pipe -= 1000.0; // lost data is no longer under way
        }
        if ack >= 3 {
            let window = model.window(1000.0, pipe);
            let window = if ack == 3 { window.max(pipe + 1000.0) } else { window };
            assert_eq!(c.windows().0 as f64, window, "ACK {ack}");
        }
        let bytes: u32 = ranges.iter().map(|range| range.1).sum();
        pipe += f64::from(bytes);
        if ack >= 3 {
            model.out += f64::from(bytes);
        }
        sent.push(bytes / 1000);
    }
    assert_eq!(sent[..3], [1, 1, 1], "limited transmit twice, and the retransmission");
    assert!(sent[3..].windows(2).all(|two| two[0] + two[1] <= 1), "no burst: {sent:?}");
    assert!(sent[2..].windows(3).all(|three| three.iter().sum::<u32>() >= 1), "no pause: {sent:?}");
    assert_eq!(pipe, c.bench.observe(c.handle, "flight") as f64 - 19_000.0);
    assert!((pipe - 10_000.0).abs() <= 1000.0, "{pipe}");
    // The retransmission arrives, which completes the received data.
    c.acknowledge(22_000);
    assert_eq!(c.windows(), (10_000, 10_000));
}

/// RFC 6937, 3.1: shares are rounded up.
#[test]
fn odd_shares_are_rounded_up() {
    let mut c = sending(&COUNTING, 20, 200_000);
    for held in [2000, 3000, 4000, 5000, 6000, 6333] {
        c.sacks(&[(1000, held)]);
    }
    // 22 segments are out, and 5333 bytes of them have arrived. Since the start 3333 were delivered, which
    // release half as much. The retransmission was the first of these.
    assert_eq!(c.windows().0, 22_000 - 5333 + 1667 - 1000);
}

/// RFC 6937, 4, figure 2: the first 16 of 20 are lost. Below ssthresh each ACK releases two segments, without
/// a burst or a stall.
#[test]
fn recovery_from_a_burst_of_losses_follows_rfc_6937() {
    let mut c = sending(&COUNTING, 20, 30_000);
    let mut sent = Vec::new();
    for ack in 1..=4 {
        c.sacks(&[(16_000, 16_000 + ack * 1000)]);
        sent.push(c.ranges());
    }
    assert_eq!(sent[..2], [vec![], vec![]], "nothing new to send");
    assert_eq!(sent[2], [(0, 1000), (1000, 1000)]);
    assert_eq!(sent[3], [(2000, 1000), (3000, 1000)]);
    // The recovery continues like this until all data has arrived.
    let mut held = 0;
    while held < 16_000 {
        let more = c.ranges().iter().map(|range| range.1).sum::<u32>();
        assert!(more <= 4000);
        held += 2000;
        c.acknowledge(if held == 16_000 { 6000 } else { 2000 });
    }
    assert_eq!(c.windows(), (10_000, 10_000));
}

/// RFC 6675, 5.1: a timeout ends the recovery. No other begins until the outstanding data is acknowledged.
#[test]
fn a_timeout_prevents_a_second_reduction() {
    let mut c = sending(&COUNTING, 10, 100_000);
    c.bench.advance(SECOND);
    let _ = c.ranges();
    assert_eq!(c.windows(), (1000, 5000));
    c.acknowledge(1000);
    let _ = c.ranges();
    c.sacks(&[(1000, 8000)]);
    assert_eq!(c.windows().1, 5000);
    c.acknowledge(9000);
    let flight = c.bench.observe(c.handle, "flight") as u32;
    assert!(flight > 1000);
    assert!(c.windows().0 >= 2000);
}
