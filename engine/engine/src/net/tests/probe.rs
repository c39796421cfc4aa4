//! Probes for free addresses, and the frames that answer them. The bytes are those of RFC 826 and RFC 5227,
//! 1.1, and of RFC 4861, 4.3 and 4.4, assembled by hand.

use std::net::IpAddr;

use hawser_testing::internet_checksum;

use super::{OWN_MAC, caps, frame, from_hex, station, to_hex};
use crate::net::Ingress;
use crate::net::probe::AddressProbe;
use crate::wire::Medium;
use hawser_time::Instant;

const OTHER: &str = "02000000aa01";

fn own() -> String {
    to_hex(&OWN_MAC)
}

fn probe() -> AddressProbe {
    let addresses: [IpAddr; 2] = ["192.0.2.2", "2001:db8::2"].map(|text| text.parse().unwrap());
    AddressProbe::new(&addresses, &caps(Medium::Ethernet(OWN_MAC))).unwrap()
}

/// An ARP packet in a frame.
fn arp(to: &str, operation: &str, from: &str, sender: &str, target: &str) -> Vec<u8> {
    from_hex(&format!(
        "{to}{from}0806000108000604{operation}{from}{sender}000000000000{target}"
    ))
}

/// An ICMPv6 message of neighbour discovery in a frame.
fn discovery(kind: u8, from: &str, source: &str, target: &str) -> Vec<u8> {
    let message = from_hex(&format!("{kind:02x}00000000000000{target}"));
    let to = "ff020000000000000000000000000001";
    let pseudo = from_hex(&format!("{source}{to}000000180000003a"));
    let sum = internet_checksum(&[&pseudo, &message]);
    let header = from_hex(&format!("333300000001{from}86dd6000000000183aff{source}{to}"));
    [&header[..], &message[..2], &sum, &message[4..]].concat()
}

#[test]
fn arp_probes_and_announcements_have_the_right_senders() {
    let questions = probe().questions();
    let expected = arp("ffffffffffff", "0001", &own(), "00000000", "c0000202");
    assert_eq!(to_hex(&questions[0].head), to_hex(&expected));
    let announced = arp("ffffffffffff", "0001", &own(), "c0000202", "c0000202");
    let frames = probe().announcements();
    assert_eq!(frames.len(), 1);
    assert_eq!(to_hex(&frames[0].head), to_hex(&announced));
}

#[test]
fn a_probing_solicitation_goes_to_the_targets_multicast_group() {
    let questions = probe().questions();
    assert_eq!(
        questions.len(),
        3,
        "the link-local address is asked about as well"
    );
    let head = &questions[1].head;
    assert_eq!(to_hex(&head[..6]), "3333ff000002");
    assert_eq!(to_hex(&head[22..38]), "00".repeat(16), "from ::");
    assert_eq!(to_hex(&head[38..54]), "ff0200000000000000000001ff000002");
    let message = &head[54..];
    assert_eq!(
        (message[0], message.len()),
        (135, 24),
        "without the sender's link address"
    );
    assert_eq!(to_hex(&message[8..]), "20010db8000000000000000000000002");
    let pseudo = [&head[22..54], &[0, 0, 0, 24, 0, 0, 0, 58]].concat();
    assert_eq!(internet_checksum(&[&pseudo, message]), [0, 0]);
}

#[test]
fn owners_of_an_address_and_hosts_that_ask_for_it_too_are_found() {
    let v4: IpAddr = "192.0.2.2".parse().unwrap();
    let v6: IpAddr = "2001:db8::2".parse().unwrap();
    let (unspecified, target) = ("00".repeat(16), "20010db8000000000000000000000002");
    let other = "20010db8000000000000000000000009";
    for (frame, found) in [
        (arp(&own(), "0002", OTHER, "c0000202", "00000000"), Some(v4)),
        (
            arp("ffffffffffff", "0001", OTHER, "c0000202", "c0000209"),
            Some(v4),
        ),
        (
            arp("ffffffffffff", "0001", OTHER, "00000000", "c0000202"),
            Some(v4),
        ),
        (arp("ffffffffffff", "0001", OTHER, "c0000209", "c0000202"), None),
        (arp("ffffffffffff", "0001", &own(), "00000000", "c0000202"), None),
        (discovery(136, OTHER, target, target), Some(v6)),
        (discovery(135, OTHER, &unspecified, target), Some(v6)),
        (discovery(135, OTHER, other, target), None),
        (discovery(136, OTHER, other, other), None),
        (discovery(136, &own(), target, target), None),
    ] {
        assert_eq!(probe().conflict(&frame), found, "{}", to_hex(&frame));
        for len in 0..frame.len() {
            assert_eq!(probe().conflict(&frame[..len]), None, "{len} bytes");
        }
    }
}

#[test]
fn a_stack_defends_its_address() {
    let mut interface = station(Medium::Ethernet(OWN_MAC));
    let question = arp("ffffffffffff", "0001", OTHER, "00000000", "c0000202");
    assert!(matches!(
        interface.ingress(Instant::ORIGIN, &frame(&question)),
        Ingress::Done
    ));
    let sent = std::mem::take(interface.outgoing());
    let answer = from_hex(&format!(
        "{OTHER}{}08060001080006040002{}c0000202{OTHER}00000000",
        own(),
        own()
    ));
    assert_eq!(to_hex(&sent[0].head), to_hex(&answer));
    let of_another = arp("ffffffffffff", "0001", OTHER, "00000000", "c0000203");
    interface.ingress(Instant::ORIGIN, &frame(&of_another));
    assert!(interface.outgoing().is_empty());
}
