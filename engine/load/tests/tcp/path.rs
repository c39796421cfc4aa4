//! Errors about no connection, and paths on which routers fragment: a packet script writes no such errors, and
//! does not see that bit of a packet. The other rules of the path MTU are in `transports/tcp/scripts/RFC1191`,
//! `RFC4821` and `RFC5927`.

use std::net::{IpAddr, SocketAddr};

use hawser_time::Instant;

use crate::bench::{Connection, Offer, SECOND};
use crate::segment::{PEER, icmp_error};

/// Opens a connection with full segments of 1460 bytes under way, and returns the last packet.
fn sending() -> (Connection, Vec<u8>) {
    let mut c = Connection::open(&[], Offer { mss: Some(1460), ..Offer::default() }, 65535);
    c.bench.send(c.handle, 5000);
    let _ = c.bench.sent();
    let packet = c.bench.last_packet.clone();
    (c, packet)
}

/// Opens another connection and returns the path MTU that it begins with.
fn path_mtu(c: &mut Connection) -> u64 {
    let remote = SocketAddr::new(IpAddr::V4(PEER), 999);
    let handle = c.bench.stack.connect(Instant::from_nanos(c.bench.now), remote, None).expect("a connection");
    let path_mtu = c.bench.observe(handle, "path_mtu");
    c.bench.stack.abort(Instant::from_nanos(c.bench.now), handle);
    c.bench.stack.release(handle);
    let _ = c.bench.sent();
    path_mtu
}

/// RFC 5927, 7; RFC 8201, 4: only an error about data in flight is believed, by later connections as well.
#[test]
fn later_connections_believe_errors_about_data_in_flight_alone() {
    let (mut c, packet) = sending();
    let mut unknown = packet.clone();
    unknown[20..22].copy_from_slice(&7777u16.to_be_bytes());
    let mut acknowledged = packet.clone();
    acknowledged[24..28].copy_from_slice(&c.host.wrapping_sub(1).to_be_bytes());
    for forged in [unknown, acknowledged] {
        c.bench.deliver(icmp_error(3, 4, 600, &forged));
        assert_eq!((c.bench.observe(c.handle, "smss"), path_mtu(&mut c)), (1460, 1500));
    }
    c.bench.deliver(icmp_error(3, 4, 600, &packet));
    assert_eq!((c.bench.observe(c.handle, "smss"), path_mtu(&mut c)), (560, 600));
}

/// Returns whether an IPv4 packet forbids fragmentation, and its identification.
fn fragmentation(packet: &[u8]) -> (bool, u16) {
    (packet[6] & 0x40 != 0, u16::from_be_bytes([packet[4], packet[5]]))
}

/// RFC 1191, 3: the MTU of a path may be as small as 68 bytes. Segments do not become that small. Linux stops
/// at 552 (`net.ipv4.route.min_pmtu`) and lets routers fragment, with distinct identifications (RFC 6864,
/// 4.3).
#[test]
fn below_the_smallest_segments_routers_fragment() {
    let (mut c, packet) = sending();
    assert!(fragmentation(&packet).0, "an atomic datagram");
    c.bench.deliver(icmp_error(3, 4, 68, &packet));
    let sizes: Vec<_> = c.bench.sent().iter().map(|s| s.payload.len()).collect();
    assert_eq!(sizes[..2], [512, 512], "at once: {sizes:?}");
    assert_eq!((c.bench.observe(c.handle, "smss"), path_mtu(&mut c)), (512, 552));
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
