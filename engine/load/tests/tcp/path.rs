//! The path MTU: the errors that may lower it, its later growth, and paths that drop large segments without
//! an ICMP error.

use std::net::{IpAddr, SocketAddr};

use hawser_time::Instant;
use hawser_testing::internet_checksum;

use crate::bench::{Connection, MS, Offer, SECOND};
use crate::segment::{PEER, icmp_error};

/// Opens a connection with full segments of 1460 bytes under way.
fn sending(params: &[&str]) -> Connection {
    let mut c = Connection::open(params, Offer { mss: Some(1460), ..Offer::default() }, 65535);
    c.bench.send(c.handle, 5000);
    c
}

/// Opens another connection. Returns the MSS that it announces and the stack's path MTU.
fn another(c: &mut Connection) -> (Option<u16>, u64) {
    let remote = SocketAddr::new(IpAddr::V4(PEER), 999);
    let handle = c.bench.stack.connect(Instant::from_nanos(c.bench.now), remote, None).expect("a connection");
    let mss = c.bench.sent().into_iter().find(|s| s.syn).expect("a SYN").mss;
    let path_mtu = c.bench.observe(handle, "path_mtu");
    c.bench.stack.abort(Instant::from_nanos(c.bench.now), handle);
    c.bench.stack.release(handle);
    c.bench.settle();
    (mss, path_mtu)
}

/// Returns a full segment at an offset as a router would quote it: `packet` with another sequence number.
fn quoted(c: &Connection, packet: &[u8], seq_offset: i64) -> Vec<u8> {
    let mut about = packet.to_vec();
    about[2..4].copy_from_slice(&1500u16.to_be_bytes());
    about[10..12].fill(0);
    let sum = internet_checksum(&[&about[..20]]);
    about[10..12].copy_from_slice(&sum);
    let seq = c.host.wrapping_add(seq_offset as u32);
    about[24..28].copy_from_slice(&seq.to_be_bytes());
    about
}

/// RFC 5927, 7; RFC 8201, 4: only an error about data in flight is believed, by this connection and by all
/// later ones.
#[test]
fn a_forged_packet_too_big_has_no_effect() {
    let mut c = sending(&[]);
    let _ = c.bench.sent();
    let packet = c.bench.last_packet.clone();
    for offset in [-1, 5000, 100_000] {
        let about = quoted(&c, &packet, offset);
        c.bench.deliver(icmp_error(3, 4, 600, &about));
        assert_eq!((c.bench.observe(c.handle, "smss"), another(&mut c).1), (1460, 1500), "{offset}");
    }
    let mut unknown = quoted(&c, &packet, 0);
    unknown[20..22].copy_from_slice(&7777u16.to_be_bytes());
    c.bench.deliver(icmp_error(3, 4, 600, &unknown));
    assert_eq!(another(&mut c).1, 1500, "about no connection of ours");
    let about = quoted(&c, &packet, 0);
    c.bench.deliver(icmp_error(3, 4, 600, &about));
    assert_eq!((c.bench.observe(c.handle, "smss"), another(&mut c).1), (560, 600));
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
    let mut c = sending(&[]);
    let _ = c.bench.sent();
    let packet = c.bench.last_packet.clone();
    assert!(fragmentation(&packet).0, "an atomic datagram");
    c.bench.deliver(icmp_error(3, 4, 68, &quoted(&c, &packet, 0)));
    let sizes: Vec<_> = c.bench.sent().iter().map(|s| s.payload.len()).collect();
    assert_eq!(sizes[..2], [512, 512], "at once: {sizes:?}");
    assert_eq!((c.bench.observe(c.handle, "smss"), another(&mut c).1), (512, 552));
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

/// RFC 9293, 3.7.1 (MUST-67): the MSS states what this end can receive, regardless of the path to the peer.
#[test]
fn the_announced_mss_does_not_shrink_with_the_path() {
    let mut c = sending(&[]);
    let _ = c.bench.sent();
    let packet = c.bench.last_packet.clone();
    c.bench.deliver(icmp_error(3, 4, 1300, &quoted(&c, &packet, 0)));
    assert_eq!(another(&mut c), (Some(1460), 1300));
}

/// RFC 1191, 6.3: after ten minutes larger segments are tried again.
#[test]
fn a_path_grows_again_after_ten_minutes() {
    let mut c = sending(&[]);
    let packet = c.bench.last_packet.clone();
    let about = quoted(&c, &packet, 0);
    c.bench.deliver(icmp_error(3, 4, 600, &about));
    c.acknowledge(5000);
    c.bench.advance(599 * SECOND);
    c.acknowledge(0);
    assert_eq!(c.bench.observe(c.handle, "smss"), 560);
    c.bench.advance(2 * SECOND);
    c.acknowledge(0);
    assert_eq!(c.bench.observe(c.handle, "smss"), 1460);
}

/// RFC 4821, 7.7: full segments that vanish three times may be too large for a router that sends no ICMP
/// error. RFC 4821, 7.2: 1024.
#[test]
fn segments_lost_repeatedly_become_smaller() {
    let mut c = sending(&["USER_TIMEOUT=60min"]);
    let size = |c: &mut Connection| c.bench.sent().last().map(|s| s.payload.len());
    let _ = c.bench.sent();
    // RFC 6298: after 1 s, 3 s, 7 s.
    let mut sizes = Vec::new();
    for wait in [1, 2, 4, 8, 16, 32] {
        c.bench.advance(wait * SECOND);
        sizes.push(size(&mut c).expect("a retransmission"));
    }
    assert_eq!(sizes, [1460, 1460, 1024, 512, 512, 512], "1024, half the MTU, the least");
    assert_eq!(another(&mut c).1, 1500, "a guess about one connection");
    // The peer answers. After ten minutes the path gets a second chance.
    c.acknowledge(5000);
    c.bench.advance(540 * SECOND);
    c.acknowledge(0);
    assert_eq!(c.bench.observe(c.handle, "smss"), 512);
    c.bench.advance(60 * SECOND);
    c.acknowledge(0);
    assert_eq!(c.bench.observe(c.handle, "smss"), 1460);
}

/// Small segments that vanish were not too large.
#[test]
fn a_small_lost_segment_leaves_the_path_mtu_as_it_is() {
    let mut c = Connection::open(&[], Offer { mss: Some(1460), ..Offer::default() }, 65535);
    c.bench.send(c.handle, 700);
    c.bench.advance(60 * SECOND + MS);
    assert_eq!(c.bench.observe(c.handle, "smss"), 1460);
}
