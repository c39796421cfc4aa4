//! Selective acknowledgements: RFC 2018, RFC 2883.

use crate::bench::Connection;
use crate::segment::Segment;

/// A connection that agreed on SACK.
fn sack(params: &[&str]) -> Connection {
    Connection::agreed(params, true, |syn| Segment { sack_permitted: true, ..syn })
}

#[test]
fn blocks_are_honoured() {
    let mut c = sack(&[]);
    c.bench.send(c.handle, 10_000);
    let _ = c.ranges();
    let host = c.host;
    let ack = c.segment().sack(&[(host.wrapping_add(1000), host.wrapping_add(5000))]);
    println!("{ack:?}");
    c.bench.inject(&ack);
    assert_eq!(c.ranges(), [(0, 1000)]);
}
