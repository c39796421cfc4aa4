//! Tests of configuration, routing and sending that do not look at bytes.

use std::net::IpAddr;

use hawser_ir::abi::{Csum, Net};
use hawser_ir::buf::NET_ZERO;
use hawser_testing::internet_checksum;
use hawser_time::Instant;

use super::{OWN_MAC, caps, config, frame, from_hex, station};
use crate::net::neighbour::{MAX_ASKED, MAX_NEIGHBOURS, MAX_WAITING, MAX_WAITING_EACH};
use crate::net::{DropReason, Ingress, Interface, InterfaceConfigError, Unreachable, from_bytes, to_bytes};
use crate::wire::{Medium, PayRef, RxFrame, TxFrame};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn to(text: &str) -> Net {
    Net { dst_ip: to_bytes(ip(text)), protocol: 17, ..NET_ZERO }
}

/// Returns a packet for `net` with `payload` bytes of payload.
fn packet(interface: &Interface, net: &Net, payload: usize, gso_size: u16) -> TxFrame {
    TxFrame {
        head: vec![0; interface.header_room(net) + 20],
        payload: vec![PayRef::from(vec![0; payload])],
        gso_size,
        ..TxFrame::default()
    }
}

#[test]
fn invalid_configurations_are_rejected() {
    let ethernet = caps(Medium::Ethernet(OWN_MAC));
    let refusal = |addresses: &[(&str, u8)], gateways: &[&str]| {
        Interface::new(config(addresses, gateways), &ethernet).err()
    };
    assert_eq!(refusal(&[], &[]), Some(InterfaceConfigError::NoAddress));
    assert_eq!(
        refusal(&[("10.0.0.1", 33)], &[]),
        Some(InterfaceConfigError::PrefixLength(ip("10.0.0.1"), 33))
    );
    for bad in ["127.0.0.1", "224.0.0.1", "0.0.0.0", "10.0.0.255", "10.0.0.0"] {
        assert_eq!(
            refusal(&[(bad, 24)], &[]),
            Some(InterfaceConfigError::Address(ip(bad)))
        );
    }
    let gateway = Some(InterfaceConfigError::Gateway(ip("10.0.1.1")));
    assert_eq!(refusal(&[("10.0.0.1", 24)], &["10.0.1.1"]), gateway);
    assert_eq!(
        refusal(&[("10.0.0.1", 24)], &["10.0.0.1"]),
        Some(InterfaceConfigError::Gateway(ip("10.0.0.1")))
    );
    let many: Vec<_> = (1..=33).map(|_| ("10.0.0.1", 24)).collect();
    assert_eq!(
        refusal(&many, &[]),
        Some(InterfaceConfigError::TooManyAddresses(33))
    );
    let mut narrow = config(&[("10.0.0.1", 24), ("fd00::1", 64)], &[]);
    narrow.mtu = 1279;
    let refused = Interface::new(narrow, &ethernet).err();
    assert_eq!(refused, Some(InterfaceConfigError::Mtu { mtu: 1279, min: 1280 }));
    assert_eq!(refusal(&[("10.0.0.1", 24)], &["10.0.0.2"]), None);
}

/// RFC 9293, 3.9.1.1: without a source address one is chosen (MUST-44), and an address that is no host's is an
/// error (MUST-46).
#[test]
fn sources_and_routes_follow_the_configuration() {
    let addresses = [("192.0.2.2", 24), ("10.0.0.2", 8), ("2001:db8::2", 64)];
    let config = config(&addresses, &["10.0.0.1", "2001:db8::1"]);
    let mut interface = Interface::new(config, &caps(Medium::Ethernet(OWN_MAC))).unwrap();
    let mut source = |text: &str| {
        let mut net = to(text);
        interface
            .route(&mut net)
            .map(|mtu| (from_bytes(net.src_ip).to_string(), net.version, net.ttl, mtu))
    };
    let from = |text: &str, version| Ok((text.to_owned(), version, 64, 1500));
    assert_eq!(source("192.0.2.9"), from("192.0.2.2", 4));
    assert_eq!(source("10.9.9.9"), from("10.0.0.2", 4));
    assert_eq!(
        source("198.51.100.1"),
        from("10.0.0.2", 4),
        "the gateway's subnet"
    );
    assert_eq!(source("2001:db8::9"), from("2001:db8::2", 6));
    assert_eq!(source("2001:db8:1::9"), from("2001:db8::2", 6));
    assert_eq!(source("fe80::9"), from("fe80::ff:fe00:2", 6));
    for bad in [
        "0.0.0.0",
        "127.0.0.1",
        "192.0.2.255",
        "224.0.0.1",
        "192.0.2.2",
        "::",
        "ff02::1",
    ] {
        assert_eq!(source(bad), Err(Unreachable::Destination), "{bad}");
    }
    let mixed = super::config(&[("fe80::5", 64), ("2001:db8::2", 64)], &["fe80::1"]);
    let mut by_link_local = Interface::new(mixed, &caps(Medium::Ethernet(OWN_MAC))).unwrap();
    let mut far = to("2001:db8:1::9");
    by_link_local.route(&mut far).unwrap();
    assert_eq!(
        from_bytes(far.src_ip),
        ip("2001:db8::2"),
        "as far-reaching as the destination"
    );
    let mut forged = Net { src_ip: to_bytes(ip("192.0.2.77")), ..to("192.0.2.9") };
    assert_eq!(interface.route(&mut forged), Err(Unreachable::Source));
    let mut chosen = Net { src_ip: to_bytes(ip("10.0.0.2")), ttl: 9, ..to("192.0.2.9") };
    assert_eq!(interface.route(&mut chosen), Ok(1500));
    assert_eq!((from_bytes(chosen.src_ip), chosen.ttl), (ip("10.0.0.2"), 9));
}

/// On a socket the kernel knows the current source address better than a stored one. A program that opens a
/// connection does need a source.
#[test]
fn an_unset_source_is_left_to_the_kernel_only_at_a_socket() {
    for (medium, left) in [(Medium::Socket, "::"), (Medium::Ip, "192.0.2.2")] {
        let own = config(&[("192.0.2.2", 24)], &[]);
        let mut interface = Interface::new(own, &caps(medium)).unwrap();
        let mut net = to("198.51.100.1");
        assert_eq!(interface.route(&mut net), Ok(1500));
        assert_eq!(from_bytes(net.src_ip), ip(left));
        let source = interface.source_towards(&net.dst_ip).map(from_bytes);
        assert_eq!(source, Ok(ip("192.0.2.2")));
    }
}

#[test]
fn packets_without_a_route_or_family_are_unreachable() {
    let only_v4 = config(&[("192.0.2.2", 24)], &[]);
    let mut interface = Interface::new(only_v4.clone(), &caps(Medium::Ethernet(OWN_MAC))).unwrap();
    assert_eq!(interface.route(&mut to("2001:db8::1")), Err(Unreachable::Family));
    assert_eq!(
        interface.route(&mut to("198.51.100.1")),
        Err(Unreachable::NoRoute)
    );
    // The other end of a wire of bare IP leads to every host.
    let mut interface = Interface::new(only_v4, &caps(Medium::Ip)).unwrap();
    assert_eq!(interface.route(&mut to("198.51.100.1")), Ok(1500));
}

#[test]
fn packets_that_are_too_long_are_dropped() {
    let mut wide = caps(Medium::Ip);
    wide.gso_max = 65_535;
    wide.tx_csum = true;
    let mut interface = Interface::new(config(&[("192.0.2.2", 24)], &[]), &wide).unwrap();
    let mut net = to("192.0.2.9");
    interface.route(&mut net).unwrap();
    // Headers of 20 and 20 bytes; the MTU is 1500.
    for (payload, gso_size, passes) in [
        (1460, 0, true),
        (1461, 0, false),
        (60_000, 1460, true),
        (60_000, 1461, false),
        (65_495, 1460, true),
        (65_496, 1460, false),
        (100, 1461, true),
    ] {
        let frame = packet(&interface, &net, payload, gso_size);
        interface.send(Instant::ORIGIN, &net, frame);
        assert_eq!(
            interface.outgoing().drain(..).count(),
            usize::from(passes),
            "{payload}, {gso_size}"
        );
    }
    assert_eq!(interface.counters().dropped(DropReason::TooLong), 3);
    let mut narrow = station(Medium::Ip);
    let frame = packet(&narrow, &net, 2920, 1460);
    narrow.send(Instant::ORIGIN, &net, frame);
    assert!(narrow.outgoing().is_empty(), "the wire cannot cut it");
}

#[test]
fn waiting_packets_are_bounded() {
    let mut interface = station(Medium::Ethernet(OWN_MAC));
    let mut sent = 0;
    for host in 3..=10 {
        let mut net = to(&format!("192.0.2.{host}"));
        interface.route(&mut net).unwrap();
        for _ in 0..MAX_WAITING_EACH + 3 {
            let frame = packet(&interface, &net, 10, 0);
            interface.send(Instant::ORIGIN, &net, frame);
            sent += 1;
        }
    }
    let dropped = interface.counters().dropped(DropReason::Unresolved);
    assert_eq!(sent - dropped, MAX_WAITING as u64);
    for seconds in 1..=3 {
        interface.poll(Instant::from_nanos(seconds * 1_000_000_000));
    }
    assert_eq!(
        interface.counters().dropped(DropReason::Unresolved),
        sent,
        "nobody answered"
    );
    assert_eq!(interface.next_deadline(), None);
}

/// A thousand connections are opened at once to a neighbour not yet known, over ARP (RFC 826). All their
/// first packets leave in order once it answers. If there are more than fit, the latest leave (RFC 4861,
/// 7.2.2).
#[test]
fn first_packets_of_many_connections_wait() {
    for (count, left) in [(1000usize, 1000), (MAX_WAITING_EACH + 40, MAX_WAITING_EACH)] {
        let mut interface = station(Medium::Ethernet(OWN_MAC));
        let mut net = to("192.0.2.9");
        interface.route(&mut net).unwrap();
        for number in 0..count {
            let frame = TxFrame {
                payload: vec![PayRef::from(number.to_be_bytes().to_vec())],
                ..packet(&interface, &net, 0, 0)
            };
            interface.send(Instant::ORIGIN, &net, frame);
        }
        assert_eq!(interface.outgoing().drain(..).count(), 1, "the question alone");
        let mut answer = OWN_MAC.to_vec();
        answer.extend(from_hex("02000000000908060001080006040002020000000009c0000209"));
        answer.extend(OWN_MAC);
        answer.extend([192, 0, 2, 2]);
        interface.ingress(Instant::ORIGIN, &frame(&answer));
        let numbers: Vec<Vec<u8>> = interface
            .outgoing()
            .drain(..)
            .map(|frame| frame.payload[0].bytes().to_vec())
            .collect();
        assert_eq!(
            numbers,
            (count - left..count)
                .map(|n| n.to_be_bytes().to_vec())
                .collect::<Vec<_>>()
        );
    }
}

/// Unknown hosts that ask for us cannot evict the neighbours that we talk to.
#[test]
fn neighbours_are_bounded() {
    let config = config(&[("10.0.0.2", 8)], &[]);
    let mut interface = Interface::new(config, &caps(Medium::Ethernet(OWN_MAC))).unwrap();
    let ask = |host: [u8; 4]| {
        let mut bytes = from_hex("ffffffffffff02000000000108060001080006040001020000000001");
        bytes.extend(host);
        bytes.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        bytes
    };
    let mut net = to("10.0.0.1");
    interface.route(&mut net).unwrap();
    assert!(matches!(
        interface.ingress(Instant::ORIGIN, &frame(&ask([10, 0, 0, 1]))),
        Ingress::Done
    ));
    let send = |interface: &mut Interface, now| {
        interface.outgoing().clear();
        let packet = packet(interface, &net, 10, 0);
        interface.send(now, &net, packet);
        interface.outgoing().len()
    };
    send(&mut interface, Instant::from_nanos(1));
    for i in 2..2000_u32 {
        let [_, _, a, b] = i.to_be_bytes();
        interface.outgoing().clear();
        interface.ingress(Instant::from_nanos(u64::from(i)), &frame(&ask([10, 1, a, b])));
        assert_eq!(interface.outgoing().len(), 1, "all are answered");
    }
    assert_eq!(
        send(&mut interface, Instant::from_nanos(2000)),
        1,
        "the packet alone, without a question"
    );
    assert_eq!(interface.outgoing()[0].head[..6], [2, 0, 0, 0, 0, 1]);
    assert_eq!(interface.neighbours.len(), MAX_NEIGHBOURS);
}

/// The entry of an Incomplete neighbour is free again once the neighbour has answered, has asked for us, or
/// has been given up.
#[test]
fn entries_of_unresolved_neighbours_are_released() {
    let config = config(&[("10.0.0.2", 8)], &[]);
    let mut interface = Interface::new(config, &caps(Medium::Ethernet(OWN_MAC))).unwrap();
    let questions = |interface: &mut Interface, now: u64, hosts: std::ops::Range<u32>| {
        interface.outgoing().clear();
        for host in hosts {
            let mut net = to(&format!("10.1.{}.{}", host >> 8, host & 255));
            interface.route(&mut net).unwrap();
            let packet = packet(interface, &net, 10, 0);
            interface.send(Instant::from_nanos(now), &net, packet);
        }
        interface.outgoing().len()
    };
    let arp = |kind: u8, host: u8| {
        let mut arp = from_hex("ffffffffffff02000000000108060001080006040001020000000001");
        arp[21] = kind;
        arp.extend([10, 1, 0, host]);
        arp.extend(OWN_MAC);
        arp.extend([10, 0, 0, 2]);
        arp
    };
    assert_eq!(questions(&mut interface, 1, 0..1000), MAX_ASKED);
    // Two neighbours that answer, one of them twice, and one that asks.
    for (kind, host) in [(2, 0), (2, 1), (2, 1), (1, 2)] {
        interface.ingress(Instant::from_nanos(2), &frame(&arp(kind, host)));
    }
    assert_eq!(questions(&mut interface, 3, 1000..2000), 3);
    // After three requests, a second apart, the others are given up.
    for second in 1..=3 {
        interface.poll(Instant::from_nanos(second * 1_000_000_000 + 3));
    }
    assert_eq!(questions(&mut interface, 4_000_000_000, 2000..3000), MAX_ASKED);
}

/// Requests for absent hosts leave room for hosts that exist.
#[test]
fn a_neighbour_that_asks_is_learnt_despite_failed_lookups() {
    let config = config(&[("10.0.0.2", 8)], &[]);
    let mut interface = Interface::new(config, &caps(Medium::Ethernet(OWN_MAC))).unwrap();
    let send = |interface: &mut Interface, host: &str| {
        interface.outgoing().clear();
        let mut net = to(host);
        interface.route(&mut net).unwrap();
        let packet = packet(interface, &net, 10, 0);
        interface.send(Instant::from_nanos(1), &net, packet);
        interface.outgoing().len()
    };
    let questions: usize = (0..1000_u32)
        .map(|i| send(&mut interface, &format!("10.1.{}.{}", i >> 8, i & 255)))
        .sum();
    assert_eq!(questions, MAX_ASKED);
    let mut ask = from_hex("ffffffffffff02000000000108060001080006040001020000000001");
    ask.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    interface.ingress(Instant::from_nanos(1), &frame(&ask));
    assert_eq!(send(&mut interface, "10.0.0.1"), 1);
    assert_eq!(
        interface.outgoing()[0].head[..6],
        [2, 0, 0, 0, 0, 1],
        "the packet itself"
    );
}

#[test]
fn super_segments_are_counted() {
    let mut interface = station(Medium::Ip);
    let mut segs = |protocol: u8, transport: &[u8], tail: usize, seg_size: u16| {
        let mut bytes = vec![
            0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ];
        let len = (bytes.len() + transport.len() + tail) as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let sum = internet_checksum(&[&bytes]);
        bytes[10..12].copy_from_slice(&sum);
        bytes.extend(transport);
        let tail = vec![0; tail];
        let frame = RxFrame {
            head: &bytes,
            tail: &tail,
            csum: Csum::Complete,
            seg_size,
            at: Instant::ORIGIN,
        };
        match interface.ingress(Instant::ORIGIN, &frame) {
            Ingress::Packet { net, .. } => (net.segs, net.seg_size),
            other => panic!("{other:?}"),
        }
    };
    let mut tcp = [0; 32];
    tcp[12] = 8 << 4;
    assert_eq!(segs(6, &tcp, 14_480, 1448), (10, 1448));
    assert_eq!(segs(6, &tcp, 14_481, 1448), (11, 1448));
    assert_eq!(segs(6, &tcp, 1448, 1448), (1, 0));
    assert_eq!(segs(6, &tcp, 14_480, 0), (1, 0));
    assert_eq!(segs(17, &[0; 8], 2400, 1200), (2, 1200));
    assert_eq!(segs(6, &[0; 3], 0, 1200), (1, 0));
}

#[test]
fn errors_are_sent_at_a_limited_rate() {
    let mut interface = station(Medium::Ip);
    let packet = from_hex("4500001e000100004011f6cac0000201c000020200010002000a136a6869");
    for _ in 0..100 {
        interface.unreachable_reply(Instant::from_nanos(5), &frame(&packet));
    }
    assert_eq!(interface.outgoing().drain(..).count(), 20);
    assert_eq!(interface.counters().dropped(DropReason::RateLimited), 80);
    interface.unreachable_reply(Instant::from_nanos(5 + 100_000_000), &frame(&packet));
    assert_eq!(interface.outgoing().len(), 1);
}

/// Returns an IPv4 packet of a protocol with these bytes behind its header.
fn ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, bytes: &[u8]) -> Vec<u8> {
    let total = 20 + bytes.len() as u8;
    let mut packet = vec![0x45, 0, 0, total, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend(src.into_iter().chain(dst));
    let sum = internet_checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum);
    packet.extend(bytes);
    packet
}

/// Behind a socket the host's kernel has the addresses. Loopback and the host's own addresses are peers,
/// every delivered packet is ours, and the interface sends no answers.
#[test]
fn a_socket_interface_takes_the_hosts_addresses_silently() {
    let addresses = [("192.0.2.2", 24), ("127.0.0.1", 8)];
    let on = |medium| Interface::new(config(&addresses[..], &[]), &caps(medium));
    assert_eq!(
        on(Medium::Ip).err(),
        Some(InterfaceConfigError::Address(ip("127.0.0.1")))
    );
    let mut interface = on(Medium::Socket).unwrap();
    for (dst, src) in [
        ("127.0.0.9", "127.0.0.1"),
        ("192.0.2.2", "192.0.2.2"),
        ("203.0.113.7", "192.0.2.2"),
    ] {
        let mut net = to(dst);
        assert_eq!(interface.route(&mut net), Ok(1500), "{dst}");
        let source = interface.source_towards(&net.dst_ip).map(from_bytes);
        assert_eq!(source, Ok(ip(src)), "{dst}");
    }
    for bad in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.255"] {
        assert_eq!(
            interface.route(&mut to(bad)),
            Err(Unreachable::Destination),
            "{bad}"
        );
    }
    assert_eq!(interface.route(&mut to("2001:db8::1")), Err(Unreachable::Family));
    // An address that the host got later.
    let mut net = to("203.0.113.7");
    net.src_ip = to_bytes(ip("198.51.100.4"));
    assert_eq!(interface.route(&mut net), Ok(1500));
    let own = [192, 0, 2, 2];
    for (src, dst) in [
        (own, own),
        ([127, 0, 0, 1], [127, 0, 0, 9]),
        ([203, 0, 113, 7], [198, 51, 100, 4]),
    ] {
        let packet = ipv4(src, dst, 17, &[0; 12]);
        let taken = interface.ingress(Instant::ORIGIN, &frame(&packet));
        assert!(
            matches!(taken, Ingress::Packet { .. }),
            "{src:?} {dst:?} {taken:?}"
        );
        interface.unreachable_reply(Instant::ORIGIN, &frame(&packet));
        interface.refused_reply(Instant::ORIGIN, &frame(&packet));
    }
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    let sum = internet_checksum(&[&echo]);
    echo[2..4].copy_from_slice(&sum);
    interface.ingress(Instant::ORIGIN, &frame(&ipv4([203, 0, 113, 7], own, 1, &echo)));
    assert_eq!(interface.outgoing().len(), 0);
}

/// Routers may fragment packets to a path whose MTU is below the one that programs learn (RFC 791). The
/// identifications of such packets differ (RFC 6864, 4.3), also those that a device makes of a super-segment.
/// Other packets stay atomic.
#[test]
fn packets_over_a_path_below_the_floor_may_be_fragmented() {
    let mut wide = caps(Medium::Ip);
    (wide.gso_max, wide.tx_csum) = (65_535, true);
    let mut interface = Interface::new(config(&[("192.0.2.2", 24)], &[]), &wide).unwrap();
    let (narrow, other) = (to("198.51.100.7"), to("198.51.100.8"));
    let sent = |interface: &mut Interface, net: &Net, gso_size: u16| {
        let mut net = *net;
        let mtu = interface.route(&mut net).unwrap();
        let frame = packet(interface, &net, 1200, gso_size);
        interface.send(Instant::ORIGIN, &net, frame);
        let head = interface.outgoing().pop().unwrap().head;
        (mtu, head[6] & 0x40 != 0, u16::from_be_bytes([head[4], head[5]]))
    };
    assert_eq!(sent(&mut interface, &narrow, 0), (1500, true, 0));
    interface.lower_path(Instant::ORIGIN, narrow.dst_ip, 551);
    assert_eq!(sent(&mut interface, &narrow, 0), (552, false, 0));
    assert_eq!(
        sent(&mut interface, &narrow, 500),
        (552, false, 1),
        "three packets"
    );
    assert_eq!(sent(&mut interface, &narrow, 0), (552, false, 4));
    assert_eq!(sent(&mut interface, &other, 0), (1500, true, 0));
    interface.lower_path(Instant::ORIGIN, other.dst_ip, 552);
    assert_eq!(
        sent(&mut interface, &other, 0),
        (552, true, 0),
        "the floor itself passes"
    );
}
