//! The stack behind a packet socket on one end of a veth pair. Its peer is the kernel at the other end, in
//! another namespace.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use hawser_engine::net::DropReason;
use hawser_engine::wire::Wire;
use hawser_host::netns::{Namespace, Netlink};
use hawser_host::packet::Receive;
use hawser_host::{PacketOptions, PacketWire};

use crate::TestResult;
use crate::ping::ping;
use crate::station::{Arrival, Payload, Station};
use crate::stream;

pub(crate) const OURS: [&str; 2] = ["10.9.1.2", "fd00:9:1::2"];
pub(crate) const KERNELS: [&str; 2] = ["10.9.1.1", "fd00:9:1::1"];

type Error = Box<dyn std::error::Error + Send + Sync>;

pub(crate) fn set_up(receive: Receive) -> Result<(Station<PacketWire>, Namespace), Error> {
    let peer = Namespace::create()?;
    let mut here = Netlink::open()?;
    here.add_veth("cable0", "eth0", &peer)?;
    let mut there = peer.run(Netlink::open)??;
    there.bring_up("eth0")?;
    there.add_address("eth0", KERNELS[0].parse()?, 24)?;
    there.add_address("eth0", KERNELS[1].parse()?, 64)?;
    here.bring_up("cable0")?;
    here.settle("cable0")?;
    there.settle("eth0")?;
    let wire = PacketWire::open("cable0", PacketOptions { receive, ..PacketOptions::default() })?;
    assert_eq!(
        wire.has_ring(),
        receive != Receive::Buffer,
        "this process may have a large buffer, or a ring"
    );
    Ok((Station::new(wire, &[(OURS[0], 24), (OURS[1], 64)], &[]), peer))
}

fn echo(receive: Receive) -> TestResult {
    let (mut station, peer) = set_up(receive)?;
    thread::scope(|scope| {
        let pinger = scope.spawn(|| {
            peer.run(|| {
                for ip in OURS {
                    ping(ip.parse()?, 56)?;
                    ping(ip.parse()?, 1400)?;
                }
                TestResult::Ok(())
            })?
        });
        while !pinger.is_finished() {
            station.run(Duration::from_millis(20), |_, _| false)?;
        }
        pinger.join().unwrap()
    })?;
    assert_eq!(station.interface.counters().echo_replies, 4);
    Ok(())
}

pub(crate) fn echo_is_answered() -> TestResult {
    echo(Receive::Buffer)
}

pub(crate) fn echo_is_answered_through_a_ring() -> TestResult {
    echo(Receive::Ring)
}

/// A packet sent before its neighbour is known waits for the neighbour's answer. It arrives with a checksum
/// that the kernel finds correct.
pub(crate) fn neighbours_are_found() -> TestResult {
    let (mut station, peer) = set_up(Receive::Fitting)?;
    for ip in KERNELS {
        let socket = peer.run(|| UdpSocket::bind((ip, 5000)))??;
        socket.set_nonblocking(true)?;
        let payload = Payload { bytes: b"who are you?".to_vec(), seg_size: 0 };
        let header = [0x0f, 0xa0, 0x13, 0x88, 0, 20, 0, 0];
        station.send(ip.parse()?, 17, &header, 6, payload);
        let mut buffer = [0; 100];
        let mut received = None;
        for _ in 0..150 {
            station.run(Duration::from_millis(20), |_, _| false)?;
            if let Ok(len) = socket.recv(&mut buffer) {
                received = Some(&buffer[..len]);
                break;
            }
        }
        assert_eq!(received, Some(&b"who are you?"[..]), "at {ip}");
    }
    Ok(())
}

fn streams(receive: Receive) -> TestResult {
    let (mut station, peer) = set_up(receive)?;
    for ip in OURS {
        stream::exchange(&mut station, ip.parse()?, |connect| peer.run(connect)?)?;
    }
    Ok(())
}

pub(crate) fn super_segments_cross_in_both_directions() -> TestResult {
    streams(Receive::Buffer)
}

pub(crate) fn super_segments_pass_through_a_ring() -> TestResult {
    streams(Receive::Ring)
}

/// Super-segments wait in the socket's buffer, all other frames wait in the ring, and the order is kept.
pub(crate) fn super_segments_pass_beside_a_ring_in_order() -> TestResult {
    streams(Receive::Fitting)
}

/// Frames to the kernel's own address on our side of the cable never reach the socket, nor do frames that
/// this kernel sends.
pub(crate) fn frames_for_the_kernel_do_not_reach_the_socket() -> TestResult {
    let (mut station, peer) = set_up(Receive::Fitting)?;
    Netlink::open()?.add_address("cable0", "10.9.1.3".parse()?, 24)?;
    // This kernel asks for 10.9.1.77, and the other kernel for 10.9.1.3.
    UdpSocket::bind("10.9.1.3:0")?.send_to(b"x", "10.9.1.77:9")?;
    peer.run(|| ping("10.9.1.3".parse().unwrap(), 56))??;
    station.run(Duration::from_millis(50), |_, _| false)?;
    let counters = station.interface.counters();
    assert_eq!(counters.dropped(DropReason::Link), 0);
    assert!(
        counters.dropped(DropReason::NotForUs) >= 1,
        "that kernel's question went to all"
    );
    assert_eq!(
        station.sources.len(),
        1,
        "frames of that kernel alone: {:02x?}",
        station.sources
    );
    Ok(())
}

/// A full ring drops frames, counts them, and accepts frames again after it was read.
pub(crate) fn a_full_ring_drops_and_goes_on() -> TestResult {
    let (mut station, peer) = set_up(Receive::Ring)?;
    station.wire = PacketWire::open(
        "cable0",
        PacketOptions { receive: Receive::Ring, frames: Some(1), mac: None },
    )?;
    let frames = 15;
    assert_eq!(station.wire.caps().rx_queue_bytes, frames * 1500, "one block's");
    // The peer asks for our address, and then knows the destination.
    let socket = peer.run(|| UdpSocket::bind((KERNELS[0], 5000)))??;
    socket.send_to(b"x", (OURS[0], 9))?;
    station.run(Duration::from_millis(300), |_, arrival| {
        matches!(arrival, Arrival::Packet { .. })
    })?;
    assert_eq!(station.wire.missed()?, 0);
    for round in 0..3 {
        for number in 0..4 * frames {
            socket.send_to(&[round, number as u8], (OURS[0], 9))?;
        }
        let mut got = Vec::new();
        station.run(Duration::from_millis(60), |_, arrival| {
            if let Arrival::Packet { bytes, .. } = arrival {
                got.push((bytes[8], u64::from(bytes[9])));
            }
            false
        })?;
        let missed = station.wire.missed()?;
        assert!(missed >= 3 * frames, "round {round}: {missed} did not fit");
        assert_eq!(
            got.len() as u64 + missed,
            4 * frames,
            "round {round}: what was not missed arrived"
        );
        assert!(
            got.iter().zip(0..).all(|(one, number)| *one == (round, number)),
            "the first, in order"
        );
    }
    Ok(())
}
