//! Paths on which routers fragment: a packet script does not see that bit of a packet. The other rules of the
//! path MTU are in `transports/tcp/scripts/RFC1191` and `RFC4821`.

use crate::bench::{Connection, Offer, SECOND};
use crate::segment::icmp_error;

/// Returns whether an IPv4 packet forbids fragmentation, and its identification.
fn fragmentation(packet: &[u8]) -> (bool, u16) {
    (packet[6] & 0x40 != 0, u16::from_be_bytes([packet[4], packet[5]]))
}

/// RFC 1191, 3: the MTU of a path may be as small as 68 bytes. Segments do not become that small. Linux stops
/// at 552 (`net.ipv4.route.min_pmtu`) and lets routers fragment, with distinct identifications (RFC 6864,
/// 4.3).
#[test]
fn below_the_smallest_segments_routers_fragment() {
    let mut c = Connection::open(&[], Offer { mss: Some(1460), ..Offer::default() }, 65535);
    c.bench.send(c.handle, 5000);
    let _ = c.bench.sent();
    let packet = c.bench.last_packet.clone();
    assert!(fragmentation(&packet).0, "an atomic datagram");
    c.bench.deliver(icmp_error(3, 4, 68, &packet));
    let sizes: Vec<_> = c.bench.sent().iter().map(|s| s.payload.len()).collect();
    assert_eq!(sizes[..2], [512, 512], "at once: {sizes:?}");
    assert_eq!(c.bench.observe(c.handle, "smss"), 512);
    let mut seen = Vec::new();
    for wait in [8, 16, 32] {
        c.bench.advance(wait * SECOND);
        seen.push(fragmentation(&c.bench.last_packet));
    }
    assert!(seen.iter().all(|(dont, _)| !dont), "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0].1 != pair[1].1), "{seen:?}");
    c.acknowledge(5000);
    c.bench.advance(700 * SECOND);
    c.acknowledge(0);
    c.bench.send(c.handle, 1460);
    assert!(fragmentation(&c.bench.last_packet).0, "after ten minutes the path is tried again");
}
