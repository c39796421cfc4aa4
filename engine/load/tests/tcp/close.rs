//! A FIN that waits to leave. The packet scripts about closing are in `transports/tcp/scripts/RFC9293`.

use hawser_time::Instant;

use crate::bench::Connection;

/// A segment that waits to leave does not carry the fields that the segmentation rules set.
#[test]
fn an_ack_does_not_replace_a_waiting_fin() {
    let mut c = Connection::plain(&[]);
    c.bench.stack.close(Instant::from_nanos(c.bench.now), c.handle);
    // The segments arrive before the FIN has left.
    let first = c.segment().payload(vec![1; 1460]);
    let second = c.segment().at(c.next.wrapping_add(1460)).payload(vec![2; 1460]);
    c.bench.inject_all(&[first, second]);
    let sent = c.bench.sent();
    let fins: Vec<u32> = sent.iter().filter(|segment| segment.fin).map(|segment| segment.seq).collect();
    assert_eq!(fins, [c.host], "{sent:#?}");
    assert_eq!(c.bench.observe(c.handle, "retransmissions"), 0);
}
