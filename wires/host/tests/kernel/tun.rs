//! The stack behind a TUN device. Its peer is the kernel of the same namespace.

use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use hawser_engine::wire::{Csum, Wire};
use hawser_host::netns::Netlink;
use hawser_host::{TunOptions, TunWire};
use hawser_testing::internet_checksum;

use crate::TestResult;
use crate::ping::ping;
use crate::station::{Arrival, Payload, Station, pseudo_sum};
use crate::stream;

const OURS: [&str; 2] = ["10.9.0.2", "fd00:9::2"];
const KERNELS: [&str; 2] = ["10.9.0.1", "fd00:9::1"];

fn station(offload: bool) -> Result<Station<TunWire>, Box<dyn std::error::Error + Send + Sync>> {
    let wire = TunWire::open("hawser0", TunOptions { offload })?;
    let mut netlink = Netlink::open()?;
    netlink.add_address(wire.name(), KERNELS[0].parse()?, 24)?;
    netlink.add_address(wire.name(), KERNELS[1].parse()?, 64)?;
    netlink.bring_up(wire.name())?;
    Ok(Station::new(wire, &[(OURS[0], 24), (OURS[1], 64)], &[]))
}

pub(crate) fn echo_is_answered() -> TestResult {
    let mut station = station(true)?;
    thread::scope(|scope| {
        let pinger = scope.spawn(|| {
            for ip in OURS {
                ping(ip.parse()?, 56)?;
                ping(ip.parse()?, 1400)?;
            }
            TestResult::Ok(())
        });
        while !pinger.is_finished() {
            station.run(Duration::from_millis(20), |_, _| false)?;
        }
        pinger.join().unwrap()
    })?;
    assert_eq!(station.interface.counters().echo_replies, 4);
    Ok(())
}

/// Receives one datagram that Linux sent to `ip`.
fn datagram(
    station: &mut Station<TunWire>,
    ip: &str,
) -> Result<Arrival, Box<dyn std::error::Error + Send + Sync>> {
    let to: IpAddr = ip.parse()?;
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.send_to(b"across the cable", (to, 4000))?;
    let mut found = None;
    station.run(Duration::from_secs(3), |_, arrival| {
        let is_ours = matches!(&arrival, Arrival::Packet { net, .. } if net.protocol == 17);
        found = is_ours.then_some(arrival);
        is_ours
    })?;
    found.ok_or_else(|| format!("no datagram for {ip} arrived").into())
}

pub(crate) fn checksums_are_described() -> TestResult {
    let mut station = station(true)?;
    for ip in OURS {
        let Arrival::Packet { net, bytes, csum } = datagram(&mut station, ip)? else {
            unreachable!()
        };
        assert_eq!(&bytes[8..], b"across the cable");
        assert_eq!((net.segs, net.seg_size), (1, 0));
        // The kernel left the checksum to the device, with the pseudo-header's sum in its place.
        assert_eq!(csum, Csum::Complete);
        assert_eq!(bytes[6..8], pseudo_sum(&net, bytes.len() as u32));
    }
    Ok(())
}

pub(crate) fn without_offload_packets_have_checksums() -> TestResult {
    let mut station = station(false)?;
    assert!(!station.wire.caps().tx_csum);
    for ip in OURS {
        let Arrival::Packet { net, bytes, csum } = datagram(&mut station, ip)? else {
            unreachable!()
        };
        assert_eq!(csum, Csum::Unverified);
        let pseudo = pseudo_sum(&net, bytes.len() as u32);
        assert_eq!(
            internet_checksum(&[&pseudo, &bytes]),
            [0, 0],
            "the checksum is right"
        );
    }
    Ok(())
}

pub(crate) fn super_segments_cross_in_both_directions() -> TestResult {
    let mut station = station(true)?;
    for ip in OURS {
        stream::exchange(&mut station, ip.parse()?, |connect| connect())?;
    }
    Ok(())
}

/// No queue is ahead of the kernel. A packet can be read as soon as the call that wrote it has returned,
/// however many there are.
pub(crate) fn a_written_packet_has_arrived_on_return() -> TestResult {
    let mut station = station(true)?;
    let socket = UdpSocket::bind((KERNELS[0], 5000))?;
    socket.set_nonblocking(true)?;
    let header = [0x0f, 0xa0, 0x13, 0x88, 0, 9 + 8, 0, 0];
    for number in 0..200_u8 {
        let payload = Payload { bytes: [&[number][..], &[0; 8]].concat(), seg_size: 0 };
        station.send(KERNELS[0].parse()?, 17, &header, 6, payload);
        station.flush()?;
        let mut buffer = [0; 100];
        assert_eq!(socket.recv(&mut buffer)?, 9);
        assert_eq!(buffer[0], number);
    }
    assert_eq!(station.wire.room(), usize::MAX);
    Ok(())
}
