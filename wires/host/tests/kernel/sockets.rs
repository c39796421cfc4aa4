//! The wire over UDP sockets on a host with several interfaces, and on paths with an MTU.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use hawser_engine::wire::{TxFrame, Wire};
use hawser_host::UdpWire;
use hawser_host::netlink::{self, interfaces};
use hawser_host::netns::{Namespace, Netlink};

use crate::TestResult;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the packets of the next non-empty batch.
fn receive(wire: &mut UdpWire) -> TestResult<Vec<Vec<u8>>> {
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        let count = wire.receive(64)?;
        let packets = (0..count).map(|i| wire.frame(i).head.to_vec()).collect();
        wire.release();
        if count > 0 {
            return Ok(packets);
        }
        wire.wait(Some(Duration::from_millis(20)))?;
    }
    Err("no packet came".into())
}

fn frame(head: Vec<u8>) -> TxFrame {
    TxFrame { head, ..TxFrame::default() }
}

/// Returns the index of an interface.
fn index(name: &str) -> TestResult<u32> {
    let mut found = None;
    netlink::NetlinkSocket::open(libc::NETLINK_ROUTE)?.exchange(interfaces::links(), |message| {
        if let Some(interfaces::InterfaceReport::Link(link)) = interfaces::InterfaceReport::read(message)
            && link.name.as_deref() == Some(name)
        {
            found = Some(link.index);
        }
    })?;
    Ok(found.ok_or("no such interface")?)
}

/// Link-local addresses need an interface. Each peer is answered by the interface on which its datagram
/// arrived.
pub(crate) fn an_answer_leaves_by_the_interface_of_the_question() -> TestResult {
    let local = |last| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last);
    let peers = Namespace::create()?;
    let mut netlink = Netlink::open()?;
    for (number, name) in ["near1", "near2"].into_iter().enumerate() {
        let far = format!("far{number}");
        netlink.add_veth(name, &far, &peers)?;
        netlink.bring_up(name)?;
        peers.run(|| -> TestResult {
            let mut netlink = Netlink::open()?;
            netlink.bring_up(&far)?;
            // The same address exists on both links, so that only the interface distinguishes them.
            netlink.add_address(&far, local(2).into(), 64)?;
            Ok(netlink.settle(&far)?)
        })??;
        netlink.add_address(name, local(1).into(), 64)?;
        netlink.settle(name)?;
    }
    let mut wire = UdpWire::open("[::]:0".parse()?)?;
    for number in [1, 0, 1] {
        let port = wire.port();
        let socket = peers.run(|| -> TestResult<UdpSocket> {
            let scope = index(&format!("far{number}"))?;
            let socket = UdpSocket::bind(SocketAddrV6::new(local(2), 0, 0, scope))?;
            socket.connect(SocketAddrV6::new(local(1), port, 0, scope))?;
            Ok(socket)
        })??;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.send(b"question")?;
        let question = receive(&mut wire)?.remove(0);
        assert_eq!(question[48..], *b"question");
        // The answer swaps the source and destination addresses, and the ports.
        let mut answer = question.clone();
        answer[8..24].copy_from_slice(&question[24..40]);
        answer[24..40].copy_from_slice(&question[8..24]);
        answer[40..42].copy_from_slice(&question[42..44]);
        answer[42..44].copy_from_slice(&question[40..42]);
        wire.transmit(&[frame(answer)])?;
        let mut bytes = [0; 100];
        let len = socket.recv(&mut bytes)?;
        assert_eq!(bytes[..len], *b"question");
    }
    Ok(())
}

/// A datagram that exceeds the interface's MTU is reported as a router would, also for each datagram of a
/// super-segment.
pub(crate) fn an_interfaces_mtu_is_reported_for_each_datagram() -> TestResult {
    let peer = Namespace::create()?;
    let mut netlink = Netlink::open()?;
    netlink.add_veth("near", "far", &peer)?;
    netlink.bring_up("near")?;
    peer.run(|| -> TestResult {
        let mut netlink = Netlink::open()?;
        netlink.bring_up("far")?;
        netlink.add_address("far", "10.5.0.2".parse()?, 24)?;
        Ok(netlink.add_address("far", "fd05::2".parse()?, 64)?)
    })??;
    netlink.add_address("near", "10.5.0.1".parse()?, 24)?;
    netlink.add_address("near", "fd05::1".parse()?, 64)?;
    netlink.settle("near")?;
    peer.run(|| -> TestResult { Ok(Netlink::open()?.settle("far")?) })??;
    for (own, far) in [("10.5.0.1", "10.5.0.2"), ("fd05::1", "fd05::2")] {
        netlink.set_mtu("near", 1500)?;
        let (own, far): (IpAddr, IpAddr) = (own.parse()?, far.parse()?);
        let socket = peer.run(|| UdpSocket::bind((far, 0)))??;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let mut wire = UdpWire::open(SocketAddr::new(own, 0))?;
        assert_eq!(
            wire.caps().mtu,
            1500,
            "that of the interface which has the address"
        );
        netlink.set_mtu("near", 1300)?;
        let (from, to) = (SocketAddr::new(own, wire.port()), socket.local_addr()?);
        let frames = [1400, 1400, 1000].map(|len| frame(datagram(from, to, len)));
        assert_eq!(wire.transmit(&frames)?, 3);
        assert_eq!((wire.counters().sent, wire.counters().refused), (1, 2));
        assert_eq!(socket.recv(&mut [0; 2000])?, 1000);
        let reports = receive(&mut wire)?;
        assert_eq!(reports.len(), 2);
        for report in reports {
            // "Fragmentation needed" with the MTU (RFC 1191, 4), or "packet too big" (RFC 4443, 3.2), about that
            // packet.
            let (protocol, header, kind, mtu, stated) = match own {
                IpAddr::V4(_) => (report[9], 20, [3, 4], [0, 0, 0x05, 0x14], (30, 1428_u16)),
                IpAddr::V6(_) => (report[6], 40, [2, 0], [0, 0, 0x05, 0x14], (52, 1408)),
            };
            assert!(matches!(protocol, 1 | 58));
            assert_eq!(
                (&report[header..header + 2], &report[header + 4..header + 8]),
                (&kind[..], &mtu[..])
            );
            assert_eq!(report[stated.0..stated.0 + 2], stated.1.to_be_bytes());
            let udp = 2 * header + 8;
            assert_eq!(report[udp..udp + 2], from.port().to_be_bytes());
            assert_eq!(report[udp + 2..udp + 4], to.port().to_be_bytes());
        }
    }
    Ok(())
}

/// Builds a packet of IP and UDP, according to RFC 791, 8200 and 768.
fn datagram(from: SocketAddr, to: SocketAddr, len: usize) -> Vec<u8> {
    let (total, length) = ((28 + len as u16).to_be_bytes(), (8 + len as u16).to_be_bytes());
    let mut head = match from.ip() {
        IpAddr::V4(_) => vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0],
        IpAddr::V6(_) => vec![0x60, 0, 0, 0, length[0], length[1], 17, 64],
    };
    for end in [from, to] {
        match end.ip() {
            IpAddr::V4(ip) => head.extend(ip.octets()),
            IpAddr::V6(ip) => head.extend(ip.octets()),
        }
    }
    head.extend([from.port().to_be_bytes(), to.port().to_be_bytes(), length, [0, 0]].concat());
    head.resize(head.len() + len, 7);
    head
}
