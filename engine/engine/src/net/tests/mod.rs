//! Tests of the interface as a whole: cases whose bytes come from scapy ([`frames`]), and mutated frames
//! ([`mutation`]).

mod egress;
mod frames;
mod mutation;
mod probe;

use std::net::IpAddr;

use hawser_ir::abi::Csum;
use hawser_time::Instant;

use super::{Interface, InterfaceConfig};
use crate::wire::{Caps, Medium, RxFrame};

pub(super) const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub(super) fn config(addresses: &[(&str, u8)], gateways: &[&str]) -> InterfaceConfig {
    let ip = |text: &&str| text.parse::<IpAddr>().unwrap();
    InterfaceConfig {
        addresses: addresses.iter().map(|(text, bits)| (ip(text), *bits)).collect(),
        gateways: gateways.iter().map(ip).collect(),
        mtu: 1500,
    }
}

pub(super) fn caps(medium: Medium) -> Caps {
    Caps { medium, mtu: 1500, tx_csum: false, gso_max: 0, rx_queue_bytes: 1 << 20 }
}

/// The station that frames.py describes.
pub(super) fn station(medium: Medium) -> Interface {
    let config = config(
        &[("192.0.2.2", 24), ("2001:db8::2", 64)],
        &["192.0.2.1", "2001:db8::1"],
    );
    Interface::new(config, &caps(medium)).unwrap()
}

pub(super) fn frame(head: &[u8]) -> RxFrame<'_> {
    RxFrame {
        head,
        tail: &[],
        csum: Csum::Unverified,
        seg_size: 0,
        at: Instant::ORIGIN,
    }
}

pub(super) fn from_hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
