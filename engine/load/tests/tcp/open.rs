//! Initial sequence numbers, which packet scripts do not show.

use crate::bench::{Bench, MS, PEER_ISS};
use crate::segment::Segment;

/// RFC 6528; RFC 9293, 3.4.1 (MUST-8, SHLD-1): the clock ticks every 4 µs, and each connection has its own offset.
#[test]
fn initial_sequence_numbers_combine_clock_and_secret() {
    let first = |seed: u64, wait: u64| {
        let mut bench = Bench::seeded(&[], seed);
        bench.advance(wait);
        bench.connect();
        bench.one().seq
    };
    assert_eq!(first(1, 400 * MS).wrapping_sub(first(1, 0)), 100_000);
    assert_ne!(first(1, 0), first(2, 0));

    let mut bench = Bench::new(&[]);
    bench.listen(80, 10);
    let syn = Segment { destination: 80, seq: PEER_ISS, ..Segment::default() }.syn();
    bench.inject_all(&[4000, 4001, 4002].map(|source| Segment { source, ..syn.clone() }));
    let [a, b, c] = bench.sent().iter().map(|s| s.seq).collect::<Vec<_>>()[..] else {
        panic!("three answers")
    };
    assert!(a.wrapping_sub(b) != b.wrapping_sub(c), "no pattern from port to port");
}
