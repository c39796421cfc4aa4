//! Tests of the translator. Expected values come from the RFCs, and checksums from another implementation,
//! over whole packets.

use std::net::Ipv4Addr;
use std::time::Duration;

use hawser_engine::wire::Csum;
use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_testing::internet_checksum;
use hawser_time::Instant;

use crate::plan::NatPlan;
use crate::rules::packet::{ICMP, TCP, UDP};
use crate::spec::Dependence;

use super::Translator;
use super::table::MAPPINGS;

const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const SECOND: u64 = 1_000_000_000;

/// A translator and the rules of both its sides.
struct Rig {
    translator: Translator,
    outward: Box<dyn Rule>,
    inward: Box<dyn Rule>,
}

fn translator(change: impl FnOnce(&mut NatPlan)) -> Rig {
    let mut plan = NatPlan {
        inside: 0,
        gateway: Ipv4Addr::new(192, 168, 0, 1),
        address: OUTSIDE,
        mapping: Dependence::Endpoint,
        filtering: Dependence::Endpoint,
        timeout: Duration::from_secs(30),
        ports: [40_000, 49_999],
    };
    change(&mut plan);
    let translator = Translator::new(&plan, 1, "test");
    Rig { outward: translator.outward(), inward: translator.inward(), translator }
}

impl Rig {
    fn out(&mut self, now: u64, frame: Vec<u8>) -> Option<Vec<u8>> {
        apply(&mut *self.outward, now, frame)
    }

    fn back(&mut self, now: u64, frame: Vec<u8>) -> Option<Vec<u8>> {
        apply(&mut *self.inward, now, frame)
    }

    /// Sends a datagram out and returns its outside port.
    fn port(&mut self, now: u64, from: u16, to: (Ipv4Addr, u16)) -> Option<u16> {
        let sent = self.out(now, packet(UDP, (INSIDE, from), to, b"x"))?;
        assert_eq!(sent[26..30], OUTSIDE.octets());
        Some(u16::from_be_bytes([sent[34], sent[35]]))
    }

    fn comes_in(&mut self, now: u64, from: (Ipv4Addr, u16), port: u16) -> bool {
        self.back(now, packet(UDP, from, (OUTSIDE, port), b"x")).is_some()
    }
}

fn apply(rule: &mut dyn Rule, now: u64, frame: Vec<u8>) -> Option<Vec<u8>> {
    let mut frame = Frame {
        head: frame,
        csum: Csum::Unverified,
        link_header: 14,
        ..Frame::default()
    };
    match rule.apply(Instant::from_nanos(now), &mut frame, &mut Rng::new(0, "unused")) {
        Verdict::Pass => Some(frame.head),
        _ => None,
    }
}

/// Returns an Ethernet frame with an IPv4 header (RFC 791) and this payload.
fn ipv4(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let sum = internet_checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    [&[2; 12][..], &[8, 0], &header, payload].concat()
}

/// Returns a TCP segment, a UDP datagram or an ICMP echo, with its checksums. The first port of an echo is
/// its identifier.
fn packet(protocol: u8, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), data: &[u8]) -> Vec<u8> {
    let (source, destination) = (from.1.to_be_bytes(), to.1.to_be_bytes());
    let (mut segment, at) = match protocol {
        TCP => (
            [
                &source[..],
                &destination,
                &[1; 8],
                &[0x50, 0x10, 1, 1, 0, 0, 0, 0],
                data,
            ]
            .concat(),
            16,
        ),
        UDP => {
            let len = (8 + data.len() as u16).to_be_bytes();
            ([&source[..], &destination, &len, &[0, 0], data].concat(), 6)
        }
        _ => ([&[8, 0, 0, 0][..], &source, &[0, 1], data].concat(), 2),
    };
    let sum = internet_checksum(&[&pseudo(protocol, from.0, to.0, segment.len()), &segment]);
    segment[at..at + 2].copy_from_slice(&sum);
    ipv4(protocol, from.0, to.0, &segment)
}

fn pseudo(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, len: usize) -> Vec<u8> {
    if protocol == ICMP {
        return vec![];
    }
    [
        &from.octets()[..],
        &to.octets(),
        &[0, protocol],
        &(len as u16).to_be_bytes(),
    ]
    .concat()
}

/// Verifies every checksum of a packet: the sum over all bytes, the field included, is zero.
fn verify(frame: &[u8]) {
    let (header, segment) = frame[14..].split_at(20);
    assert_eq!(internet_checksum(&[header]), [0, 0], "the IP header");
    let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let pseudo = pseudo(header[9], address(12), address(16), segment.len());
    assert_eq!(
        internet_checksum(&[&pseudo, segment]),
        [0, 0],
        "the transport header"
    );
}

#[test]
fn packets_go_out_and_their_answers_come_back() {
    for protocol in [TCP, UDP, ICMP] {
        for data in [&b""[..], b"odd", b"some data"] {
            let mut nat = translator(|_| ());
            let sent = packet(protocol, (INSIDE, 5000), (SERVER, 80), data);
            verify(&sent);
            let out = nat.out(0, sent.clone()).expect("it goes out");
            verify(&out);
            assert_eq!(
                (&out[26..30], &out[30..34]),
                (&OUTSIDE.octets()[..], &SERVER.octets()[..])
            );
            assert_eq!(out[42..].len(), sent[42..].len());
            let at = if protocol == ICMP { 38 } else { 34 };
            let port = u16::from_be_bytes([out[at], out[at + 1]]);
            assert!((40_000..=49_999).contains(&port), "{port}");
            let answer = packet(
                protocol,
                (SERVER, if protocol == ICMP { port } else { 80 }),
                (OUTSIDE, port),
                data,
            );
            let back = nat.back(SECOND, answer).expect("the answer comes in");
            verify(&back);
            let at = if protocol == ICMP { 38 } else { 36 };
            assert_eq!(
                (&back[30..34], &back[at..at + 2]),
                (&INSIDE.octets()[..], &5000u16.to_be_bytes()[..])
            );
        }
    }
}

#[test]
fn a_datagram_without_checksum_gets_none() {
    let mut nat = translator(|_| ());
    let mut sent = packet(UDP, (INSIDE, 5000), (SERVER, 80), b"x");
    sent[40..42].fill(0);
    let out = nat.out(0, sent).expect("it goes out");
    assert_eq!(out[40..42], [0, 0]);
}

#[test]
fn mapping_and_filtering_follow_the_chosen_behaviour() {
    use Dependence::{Address, Endpoint, Independent};
    //= RFC4787 4.1
    let same_port = |mapping, to| {
        let mut nat = translator(|plan| plan.mapping = mapping);
        nat.port(0, 5000, (SERVER, 80)) == nat.port(0, 5000, to)
    };
    let table = [
        (Independent, true, true),
        (Address, true, false),
        (Endpoint, false, false),
    ];
    for (mapping, other_port, other_address) in table {
        assert_eq!(same_port(mapping, (SERVER, 81)), other_port, "{mapping:?}");
        assert_eq!(same_port(mapping, (OTHER, 80)), other_address, "{mapping:?}");
    }
    //= RFC4787 5
    let gets_in = |filtering, from| {
        let mut nat = translator(|plan| (plan.mapping, plan.filtering) = (Independent, filtering));
        let port = nat.port(0, 5000, (SERVER, 80)).expect("a port");
        assert!(nat.comes_in(1, (SERVER, 80), port));
        nat.comes_in(1, from, port)
    };
    for (filtering, other_port, other_address) in table {
        assert_eq!(gets_in(filtering, (SERVER, 81)), other_port, "{filtering:?}");
        assert_eq!(gets_in(filtering, (OTHER, 80)), other_address, "{filtering:?}");
    }
}

#[test]
fn unsolicited_packets_from_outside_are_dropped() {
    let mut nat = translator(|_| ());
    assert!(!nat.comes_in(0, (SERVER, 80), 40_000));
    let port = nat.port(0, 5000, (SERVER, 80)).expect("a port");
    assert!(
        nat.back(1, packet(TCP, (SERVER, 80), (OUTSIDE, port), b""))
            .is_none(),
        "another protocol"
    );
    assert!(
        nat.back(1, packet(UDP, (SERVER, 80), (INSIDE, 5000), b""))
            .is_none(),
        "to the inside address"
    );
}

#[test]
fn mappings_end_without_packets_from_inside() {
    let mut nat = translator(|_| ());
    let port = nat.port(0, 5000, (SERVER, 80)).expect("a port");
    assert_eq!(
        nat.port(29 * SECOND, 5000, (SERVER, 80)),
        Some(port),
        "it was used in time"
    );
    assert!(nat.comes_in(58 * SECOND, (SERVER, 80), port));
    //= RFC4787 4.3
    assert!(
        !nat.comes_in(59 * SECOND, (SERVER, 80), port),
        "coming in does not keep it"
    );
    assert_ne!(
        nat.port(60 * SECOND, 5000, (SERVER, 80)),
        Some(port),
        "another port"
    );
}

#[test]
fn rebinding_takes_other_ports() {
    let mut nat = translator(|_| ());
    let port = nat.port(0, 5000, (SERVER, 80)).expect("a port");
    nat.translator.rebind();
    assert!(!nat.comes_in(1, (SERVER, 80), port));
    assert_ne!(nat.port(1, 5000, (SERVER, 80)).expect("a port"), port);
}

#[test]
fn mappings_are_bounded() {
    let mut nat = translator(|_| ());
    for from in 0..MAPPINGS as u16 {
        assert!(nat.port(0, 1000 + from, (SERVER, 80)).is_some());
    }
    assert_eq!(nat.port(1, 60_000, (SERVER, 80)), None);
    assert!(
        nat.port(1, 1000, (SERVER, 80)).is_some(),
        "who has a mapping keeps it"
    );
    assert!(
        nat.port(31 * SECOND, 60_000, (SERVER, 80)).is_some(),
        "old ones make room"
    );
}

#[test]
fn ports_are_bounded() {
    let mut nat = translator(|plan| plan.ports = [40_000, 40_001]);
    let ports: Vec<_> = (0..3).map(|i| nat.port(0, 5000 + i, (SERVER, 80))).collect();
    assert!(ports[0].is_some() && ports[1].is_some() && ports[0] != ports[1]);
    assert_eq!(ports[2], None);
}

#[test]
fn icmp_errors_reach_the_host_they_concern() {
    for protocol in [TCP, UDP, ICMP] {
        let mut nat = translator(|_| ());
        let sent = packet(protocol, (INSIDE, 5000), (SERVER, 80), b"data");
        let out = nat.out(0, sent.clone()).expect("it goes out");
        // "Fragmentation needed" (RFC 1191) from the server, which quotes the header and 8 bytes.
        let quote = &out[14..42];
        let mut error = [&[3, 4, 0, 0, 0, 0, 5, 0x78], quote].concat();
        let sum = internet_checksum(&[&error]);
        error[2..4].copy_from_slice(&sum);
        let back = nat
            .back(1, ipv4(ICMP, SERVER, OUTSIDE, &error))
            .expect("the error comes in");
        verify(&back);
        assert_eq!(back[30..34], INSIDE.octets());
        let (before, after) = (&sent[14..42], &back[42..]);
        assert_eq!(
            &after[..20],
            &before[..20],
            "the quoted IP header is the one that was sent"
        );
        let ports = if protocol == ICMP { 24..26 } else { 20..24 };
        assert_eq!(&after[ports.clone()], &before[ports], "and so are its ports");
    }
}

#[test]
fn errors_from_inside_go_out() {
    let mut nat = translator(|_| ());
    let port = nat.port(0, 5000, (SERVER, 80)).expect("a port");
    let came = packet(UDP, (SERVER, 80), (OUTSIDE, port), b"data");
    let inside = nat.back(1, came.clone()).expect("it comes in");
    let mut error = [&[3, 3, 0, 0, 0, 0, 0, 0], &inside[14..42]].concat();
    let sum = internet_checksum(&[&error]);
    error[2..4].copy_from_slice(&sum);
    let out = nat
        .out(2, ipv4(ICMP, INSIDE, SERVER, &error))
        .expect("the error goes out");
    verify(&out);
    assert_eq!(out[26..30], OUTSIDE.octets());
    assert_eq!(out[42..66], came[14..38], "it quotes what the server sent");
}

#[test]
fn a_translator_passes_other_protocols_and_drops_malformed_ipv4() {
    let mut nat = translator(|_| ());
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(nat.out(0, arp.clone()), Some(arp.clone()));
    assert_eq!(nat.back(0, arp.clone()), Some(arp));
    assert_eq!(nat.out(0, ipv4(47, INSIDE, SERVER, &[0; 20])), None);
    let mut fragment = packet(UDP, (INSIDE, 1), (SERVER, 2), b"x");
    fragment[20] = 0x20;
    assert_eq!(nat.out(0, fragment), None);
}

/// Arbitrary bytes cause no panic and no change of length. In packets that pass, checksums that were right
/// stay right.
#[test]
fn translating_any_bytes_never_panics() {
    let mut rng = Rng::new(7, "bytes");
    let mut nat = translator(|_| ());
    let seeds = [
        packet(TCP, (INSIDE, 5000), (SERVER, 80), b"data"),
        packet(UDP, (INSIDE, 5000), (SERVER, 80), b"data"),
        packet(ICMP, (INSIDE, 5000), (SERVER, 80), b"data"),
    ];
    for round in 0..200_000u64 {
        let mut frame = seeds[rng.below(3) as usize].clone();
        for _ in 0..rng.below(6) {
            let at = 12 + rng.below(frame.len() as u64 - 12) as usize;
            frame[at] = rng.bits() as u8;
        }
        frame.truncate(rng.between(0, frame.len() as u64 + 20) as usize);
        let len = frame.len();
        let passed = if round % 2 == 0 {
            nat.out(round, frame)
        } else {
            nat.back(round, frame)
        };
        assert!(passed.is_none_or(|frame| frame.len() == len));
    }
}
