//! Mutated frames: no bytes make the interface panic, and its tables stay within their bounds.

use fastrand::Rng;
use hawser_ir::abi::{Csum, Net};
use hawser_ir::buf::NET_ZERO;
use hawser_time::Instant;

use super::frames::CASES;
use super::{OWN_MAC, from_hex, station};
use crate::net::{Interface, to_bytes};
use crate::wire::{Medium, RxFrame, TxFrame};

fn corpus() -> Vec<Vec<u8>> {
    CASES
        .lines()
        .filter_map(|line| line.strip_prefix("in "))
        .map(from_hex)
        .collect()
}

/// Applies one to four changes: of a bit, a byte, a length or the end.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.usize(..4) {
        let at = rng.usize(..bytes.len().max(1));
        match (rng.usize(..6), bytes.get_mut(at)) {
            (0 | 1, Some(byte)) => *byte ^= 1 << rng.usize(..8),
            (2, Some(byte)) => *byte = rng.u8(..),
            (3, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            (4, _) => bytes.truncate(at),
            (_, _) => bytes.extend((0..rng.usize(..40)).map(|i| (i * 31) as u8)),
        }
    }
}

/// Passes a frame to the interface as a wire might, and then makes every call that an engine might.
fn feed(interface: &mut Interface, rng: &mut Rng, now: Instant, bytes: &[u8]) {
    let (head, tail) = bytes.split_at(rng.usize(..bytes.len() + 1));
    // Most checksums are declared right, so that mutations get further.
    let csum = if rng.usize(..4) == 0 {
        Csum::Unverified
    } else {
        Csum::Complete
    };
    let frame = RxFrame { head, tail, csum, seg_size: rng.u16(..) & 0x7ff, at: now };
    interface.ingress(now, &frame);
    interface.unreachable_reply(now, &frame);
    let mut net = Net {
        dst_ip: to_bytes("192.0.2.7".parse().unwrap()),
        protocol: 17,
        ..NET_ZERO
    };
    net.dst_ip[15] = rng.u8(..);
    if interface.route(&mut net).is_ok() {
        let head = vec![0; rng.usize(..100)];
        let csum = Some((rng.u16(..) & 0x7f, rng.u16(..) & 0x7f));
        interface.send(now, &net, TxFrame { head, csum, ..TxFrame::default() });
    }
    interface.poll(now);
    for frame in interface.outgoing().drain(..) {
        assert!(frame.head.len() >= 20, "a frame of {} bytes", frame.head.len());
    }
}

fn swarm(medium: Medium, link: usize, seed: u64) {
    let corpus = corpus();
    let mut rng = Rng::with_seed(seed);
    let mut interface = station(medium);
    let mut now = Instant::ORIGIN;
    for _ in 0..60_000 {
        let whole = &corpus[rng.usize(..corpus.len())];
        let mut bytes = whole.get(link..).unwrap_or(&[]).to_vec();
        mutate(&mut rng, &mut bytes);
        now = now.plus_nanos(rng.u64(..1 << 30));
        feed(&mut interface, &mut rng, now, &bytes);
    }
    assert!(interface.counters().echo_replies > 0, "some frames still pass");
}

#[test]
fn no_ethernet_frame_panics() {
    swarm(Medium::Ethernet(OWN_MAC), 0, 0x5eed_0001);
}

#[test]
fn no_ip_packet_panics() {
    swarm(Medium::Ip, 14, 0x5eed_0002);
}

#[test]
fn random_packets_never_panic() {
    let mut rng = Rng::with_seed(0x5eed_0003);
    let mut interface = station(Medium::Ip);
    for now in (0..60_000).map(Instant::from_nanos) {
        let mut bytes: Vec<u8> = (0..rng.usize(..90)).map(|_| rng.u8(..)).collect();
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x60, 0x4f, *first][rng.usize(..4)];
        }
        feed(&mut interface, &mut rng, now, &bytes);
    }
}
