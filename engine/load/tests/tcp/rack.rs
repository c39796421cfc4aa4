//! RACK, RFC 8985, over many segments and recoveries. The packet scripts are in `transports/tcp/scripts/RFC8985`.

use crate::bench::{Connection, MS, NEWRENO};
use crate::segment::Segment;

/// Opens a connection over 100 ms whose segments have 1000 bytes, with this many of them sent.
fn sent(params: &[&str], segments: usize) -> Connection {
    let params = &[params, &[NEWRENO]].concat();
    let mut c = Connection::agreed(params, false, |syn| Segment { sack_permitted: true, ..syn });
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

/// RFC 8985, 6.2 (step 4): after sixteen recoveries without a duplicate, including those from timeouts, the
/// window has its initial size again.
#[test]
fn a_wide_window_lasts_sixteen_recoveries() {
    for (recoveries, due) in [(15, 150), (16, 125)] {
        let mut c = sent(&["PROBES=false"], 10);
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

/// Segments sent within an eighth of a round trip are kept as one run. Arrivals count from the start of the
/// run. Otherwise a retransmission in between would seem overtaken.
#[test]
fn a_run_is_timed_from_its_first_segment() {
    let mut c = sent(&[], 100);
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
