//! Selection of the stack's frames, and their unchanged arrival.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use hawser_engine::wire::{TxFrame, Wire};
use hawser_host::netns::{Netlink, set_parameter};
use hawser_host::{PacketOptions, PacketWire};

use crate::TestResult;
use crate::cable::{DEVICE, EXPERIMENT, PEER, TIMEOUT, frame, ip, lay, open, open_on, receive, send, set_up};

const ALL: [u8; 6] = [0xff; 6];
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// The time to wait when no frame should arrive.
const SHORT: Duration = Duration::from_millis(100);

/// An ARP packet (RFC 826): a request for `target` (1), or a reply (2).
fn arp(operation: u8, target: [u8; 4]) -> TxFrame {
    let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, operation];
    bytes.extend([2, 0, 0, 0, 0, 9, 10, 9, 1, 1]);
    bytes.extend([0; 6]);
    bytes.extend(target);
    frame(ALL, ARP, bytes)
}

/// A neighbour solicitation (135) or advertisement (136) of fd00:9:1::`last` (RFC 4861, 4.3 and 4.4).
fn discovery(kind: u8, last: u8) -> TxFrame {
    let mut target = [0; 16];
    (target[0], target[3], target[5], target[15]) = (0xfd, 9, 1, last);
    let mut bytes = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
    bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    bytes.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, last]);
    bytes.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(target);
    frame([0x33, 0x33, 0xff, 0, 0, last], IPV6, bytes)
}

pub(crate) fn frames_to_our_address_are_ours_and_others_the_kernels() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(1500)?;
    let own = wire.mac();
    let ours = [
        frame(own, EXPERIMENT, vec![1; 50]),
        arp(1, [10, 9, 1, 2]),
        discovery(135, 2),
        // Another host has our address (RFC 4862, 5.4.4).
        discovery(136, 2),
    ];
    let others = [
        frame([2, 0, 0, 0, 0, 7], EXPERIMENT, vec![2; 50]),
        frame(ALL, EXPERIMENT, vec![3; 50]),
        // A frame of a VLAN.
        frame(own, [0x81, 0x00], vec![0, 1, 0x88, 0xb5, 4]),
        arp(1, [10, 9, 1, 3]),
        arp(2, [10, 9, 1, 2]),
        discovery(135, 3),
        discovery(136, 3),
    ];
    let count = |netlink: &mut Netlink| netlink.interface_counters(DEVICE).map(|counts| counts.received);
    let mut netlink = Netlink::open()?;
    let before = count(&mut netlink)?;
    for (other, our) in others.iter().zip(ours.iter().cycle()) {
        send(&mut far, &[other.clone(), our.clone()])?;
    }
    let got = receive(&mut wire, others.len() + 1, SHORT)?;
    let expected: Vec<Vec<u8>> = ours
        .iter()
        .cycle()
        .take(others.len())
        .map(|frame| [&frame.head, frame.payload[0].bytes()].concat())
        .collect();
    assert_eq!(got, expected);
    assert_eq!(wire.counters().received, others.len() as u64);
    assert!(count(&mut netlink)? - before >= others.len() as u64);
    Ok(())
}

/// The kernel's own address on the same interface answers ARP and UDP.
pub(crate) fn the_kernels_own_address_still_answers() -> TestResult {
    let peer = lay(1500, 1500)?;
    let wire = open()?;
    Netlink::open()?.add_address(DEVICE, "10.9.1.3".parse()?, 24)?;
    let kernel = UdpSocket::bind("10.9.1.3:9")?;
    kernel.set_read_timeout(Some(TIMEOUT))?;
    let asker = peer.run(|| -> TestResult<UdpSocket> {
        Netlink::open()?.add_address(PEER, "10.9.1.1".parse()?, 24)?;
        Ok(UdpSocket::bind("10.9.1.1:9")?)
    })??;
    asker.set_read_timeout(Some(TIMEOUT))?;
    asker.send_to(b"question", "10.9.1.3:9")?;
    let mut bytes = [0; 20];
    let (len, from) = kernel.recv_from(&mut bytes)?;
    assert_eq!(&bytes[..len], b"question");
    kernel.send_to(b"answer", from)?;
    let len = asker.recv(&mut bytes)?;
    assert_eq!(&bytes[..len], b"answer");
    assert_eq!(wire.counters().received, 0);
    Ok(())
}

/// Sends frames with payloads of these lengths each way, and compares them.
fn exchange(wire: &mut impl Wire, own: [u8; 6], far: &mut PacketWire, lengths: &[usize]) -> TestResult {
    let payload = |len: usize| (0..len).map(|i| (i * 31 % 251) as u8).collect::<Vec<u8>>();
    for &len in lengths {
        let there = frame(far.mac(), EXPERIMENT, payload(len));
        let here = frame(own, EXPERIMENT, payload(len));
        let whole = |frame: &TxFrame| [&frame.head, frame.payload[0].bytes()].concat();
        send(wire, std::slice::from_ref(&there))?;
        send(far, std::slice::from_ref(&here))?;
        assert!(receive(far, 1, TIMEOUT)? == [whole(&there)], "{len} bytes sent");
        assert!(
            receive(wire, 1, TIMEOUT)? == [whole(&here)],
            "{len} bytes received"
        );
    }
    Ok(())
}

pub(crate) fn every_length_arrives_in_both_directions() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(1500)?;
    assert!(
        wire.mode().is_native && !wire.mode().is_in_pieces,
        "{}",
        wire.mode()
    );
    let lengths: Vec<usize> = (46..=1500).collect();
    let own = wire.mac();
    exchange(&mut wire, own, &mut far, &lengths)?;
    assert_eq!(wire.missed()?, 0);
    Ok(())
}

/// Lengths around each border between buffers: 3840 bytes for received frames, 4096 for sent ones.
pub(crate) fn jumbo_frames_take_several_buffers() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(9000)?;
    assert!(wire.mode().is_in_pieces, "{}", wire.mode());
    let mut lengths = vec![46, 1500, 9000];
    for border in [3840, 2 * 3840, 4096, 2 * 4096] {
        lengths.extend(border - 15..border + 3);
    }
    let own = wire.mac();
    exchange(&mut wire, own, &mut far, &lengths)?;
    // Each buffer is reused several times.
    exchange(&mut wire, own, &mut far, &[9000; 3000])?;
    assert_eq!(wire.missed()?, 0);
    Ok(())
}

/// A veth whose peer has a larger MTU than its driver supports with an XDP program, and a bridge, whose
/// driver supports none.
pub(crate) fn a_driver_that_refuses_leaves_generic_xdp() -> TestResult {
    for (mtu, peers_mtu, device) in [
        (1500, 9000, DEVICE),
        (1500, 1500, "bridge0"),
        (9000, 9000, "bridge0"),
    ] {
        let peer = lay(mtu, peers_mtu)?;
        if device != DEVICE {
            ip(&format!("link add {device} type bridge"))?;
            set_parameter(&format!("net/ipv6/conf/{device}/disable_ipv6"), "1")?;
            ip(&format!("link set {DEVICE} master {device}"))?;
            ip(&format!("link set {device} up mtu {mtu}"))?;
        }
        let mut wire = open_on(device)?;
        let mode = wire.mode();
        assert!(!mode.is_native && !mode.is_zero_copy, "{mode}");
        assert_eq!(mode.is_in_pieces, mtu == 9000);
        assert!(ip(&format!("link show {device}"))?.contains("xdpgeneric"));
        let mut far = peer.run(|| PacketWire::open(PEER, PacketOptions::default()))??;
        let own = wire.mac();
        exchange(&mut wire, own, &mut far, &[46, 200, mtu as usize])?;
        drop(wire);
        for name in [DEVICE, device].iter().take(1 + usize::from(device != DEVICE)) {
            ip(&format!("link delete {name}"))?;
        }
    }
    Ok(())
}

pub(crate) fn batches_take_few_system_calls() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(1500)?;
    let count = 1000;
    let frames = vec![frame(wire.mac(), EXPERIMENT, vec![7; 50]); count];
    send(&mut far, &frames)?;
    assert_eq!(receive(&mut wire, count, TIMEOUT)?.len(), count);
    let calls = wire.counters().system_calls;
    assert!(calls < 5, "{calls} system calls to receive {count} frames");
    let frames = vec![frame(far.mac(), EXPERIMENT, vec![7; 50]); 64];
    for _ in 0..10 {
        send(&mut wire, &frames)?;
        assert_eq!(receive(&mut far, 64, TIMEOUT)?.len(), 64);
    }
    let calls = wire.counters().system_calls - calls;
    assert!(calls <= 30, "{calls} system calls to send 640 frames");
    Ok(())
}

/// Frames that another processor sends while they are received: each arrives, in order, or is counted as
/// missed.
pub(crate) fn a_flood_is_received_or_counted() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(1500)?;
    let own = wire.mac();
    let (rounds, each) = (2000_u32, 64);
    let mut got: Vec<u32> = Vec::new();
    std::thread::scope(|scope| {
        let flood = scope.spawn(move || {
            (0..rounds).try_for_each(|round| {
                let number = |at: u32| (round * each + at).to_be_bytes().to_vec();
                let frames: Vec<TxFrame> = (0..each)
                    .map(|at| frame(own, EXPERIMENT, [number(at), vec![0; 46]].concat()))
                    .collect();
                send(&mut far, &frames)
            })
        });
        loop {
            let is_over = flood.is_finished();
            let frames = receive(&mut wire, 1, SHORT)?;
            if is_over && frames.is_empty() {
                break;
            }
            for frame in frames {
                let number = frame[14..].first_chunk().ok_or("a frame is cut short")?;
                got.push(u32::from_be_bytes(*number));
            }
        }
        flood.join().map_err(|_| "the sender panicked")?
    })?;
    assert!(got.is_sorted());
    assert_eq!(got.len() as u64 + wire.missed()?, u64::from(rounds * each));
    Ok(())
}

pub(crate) fn frames_the_wire_cannot_send_are_refused() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(1500)?;
    let good = frame(far.mac(), EXPERIMENT, vec![7; 50]);
    let long = frame(far.mac(), EXPERIMENT, vec![7; 1501]);
    let mut unfinished = good.clone();
    unfinished.csum = Some((14, 16));
    let mut joined = good.clone();
    joined.gso_size = 10;
    send(&mut wire, &[long, unfinished, TxFrame::default(), joined, good])?;
    let counters = wire.counters();
    assert_eq!((counters.refused, counters.sent), (4, 1));
    assert_eq!(receive(&mut far, 2, SHORT)?.len(), 1);
    Ok(())
}

/// While the interface is down the ring fills. Once it is up again there is room, and all frames arrive in
/// order.
pub(crate) fn a_device_that_is_down_keeps_waiting_frames() -> TestResult {
    let (mut wire, mut far, _peer) = set_up(1500)?;
    let mut netlink = Netlink::open()?;
    netlink.take_down(DEVICE)?;
    let frames: Vec<TxFrame> = (0..=255)
        .chain(0..=255)
        .map(|number| frame(far.mac(), EXPERIMENT, vec![number; 50]))
        .collect();
    let mut sent = wire.transmit(&frames)?;
    assert!(sent < frames.len(), "{sent} frames found room");
    assert_eq!(wire.room(), 0);
    netlink.bring_up(DEVICE)?;
    let begin = Instant::now();
    while sent < frames.len() {
        wire.wait(Some(TIMEOUT))?;
        wire.receive(64)?;
        wire.release();
        sent += wire.transmit(&frames[sent..])?;
        assert!(begin.elapsed() < TIMEOUT, "{sent} frames left");
    }
    let got = receive(&mut far, frames.len(), TIMEOUT)?;
    let numbers: Vec<u8> = got.iter().map(|frame| frame[14]).collect();
    assert_eq!(numbers, (0..=255).chain(0..=255).collect::<Vec<u8>>());
    Ok(())
}
