//! The wire over UDP sockets, tested with plain sockets of the host. It needs no privilege and no namespace.

#![allow(unsafe_code)] // System calls.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use hawser_engine::net::udp;
use hawser_engine::wire::{TxFrame, Wire};
use hawser_host::UdpWire;
use hawser_testing::TestResult;

const TIMEOUT: Duration = Duration::from_secs(5);
const UDP_GRO: libc::c_int = 104;
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn pair(ip: IpAddr) -> TestResult<(UdpWire, UdpSocket)> {
    let wire = UdpWire::open(SocketAddr::new(ip, 0))?;
    let peer = UdpSocket::bind((ip, 0))?;
    peer.set_read_timeout(Some(TIMEOUT))?;
    peer.connect((ip, wire.port()))?;
    Ok((wire, peer))
}

/// Builds a packet of IP and UDP as the engine writes it, in the formats of RFC 791, 8200 and 768.
fn packet(from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> TxFrame {
    let length = ((udp::HEADER + bytes.len()) as u16).to_be_bytes();
    let mut head = Vec::new();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = ((28 + bytes.len()) as u16).to_be_bytes();
            head.extend([0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0]);
            head.extend(src.octets().into_iter().chain(dst.octets()));
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            head.extend([0x60, 0, 0, 0, length[0], length[1], 17, 64]);
            head.extend(src.octets().into_iter().chain(dst.octets()));
        }
        _ => unreachable!("of one family"),
    }
    head.extend(from.port().to_be_bytes());
    head.extend(to.port().to_be_bytes());
    head.extend([length[0], length[1], 0, 0]);
    let cut = bytes.len() / 3;
    head.extend(&bytes[..cut]);
    TxFrame {
        head,
        payload: vec![bytes[cut..].to_vec().into()],
        ..TxFrame::default()
    }
}

/// Returns the content of the wire's next batches, until `count` packets have arrived.
fn receive(wire: &mut UdpWire, count: usize) -> TestResult<Vec<Vec<u8>>> {
    let mut packets = Vec::new();
    let begin = std::time::Instant::now();
    while packets.len() < count {
        if begin.elapsed() > TIMEOUT {
            return Err(format!("{} of {count} packets came", packets.len()).into());
        }
        let got = wire.receive(7)?;
        assert!(got <= 7);
        packets.extend((0..got).map(|i| wire.frame(i).head.to_vec()));
        wire.release();
        if got == 0 {
            wire.wait(Some(Duration::from_millis(20)))?;
        }
    }
    Ok(packets)
}

/// Returns the length of the network and UDP headers of a datagram.
fn headers(ip: IpAddr) -> usize {
    if ip.is_ipv4() { 28 } else { 48 }
}

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
    let at = std::ptr::from_ref(&value).cast();
    // SAFETY: the value is readable for its size.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, 4) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn datagrams_of_one_size_leave_by_one_system_call() -> TestResult {
    for ip in [V4, V6] {
        let (mut wire, peer) = pair(ip)?;
        let (own, to) = (SocketAddr::new(ip, wire.port()), peer.local_addr()?);
        let sent: Vec<Vec<u8>> = (0..40_u8).map(|i| vec![i; 1000]).chain([vec![77; 10]]).collect();
        let frames: Vec<TxFrame> = sent.iter().map(|bytes| packet(own, to, bytes)).collect();
        assert_eq!(wire.transmit(&frames)?, 41);
        assert_eq!((wire.counters().sent, wire.counters().system_calls), (41, 1));
        for expected in &sent {
            let mut bytes = [0; 2000];
            let len = peer.recv(&mut bytes)?;
            assert_eq!(bytes[..len], expected[..]);
        }
        // A longer datagram, one for another peer, and an empty one are not merged with them.
        let other = UdpSocket::bind((ip, 0))?;
        other.set_read_timeout(Some(TIMEOUT))?;
        let mixed = [
            packet(own, to, &[1; 10]),
            packet(own, to, &[2; 20]),
            packet(own, to, &[3; 20]),
            packet(own, to, &[]),
            packet(own, other.local_addr()?, &[4; 20]),
        ];
        assert_eq!(wire.transmit(&mixed)?, 5);
        assert_eq!(wire.counters().system_calls, 1 + 4);
        let lens: Vec<usize> = (0..4)
            .map(|_| peer.recv(&mut [0; 100]))
            .collect::<Result<_, _>>()?;
        assert_eq!(lens, [10, 20, 20, 0]);
        assert_eq!(other.recv(&mut [0; 100])?, 20);
    }
    Ok(())
}

#[test]
fn a_peer_with_gro_receives_datagrams_merged() -> TestResult {
    let (mut wire, peer) = pair(V4)?;
    set(&peer, libc::SOL_UDP, UDP_GRO, 1);
    let (own, to) = (SocketAddr::new(V4, wire.port()), peer.local_addr()?);
    let frames: Vec<TxFrame> = (0..20_u8).map(|i| packet(own, to, &[i; 1200])).collect();
    assert_eq!(wire.transmit(&frames)?, 20);
    let mut bytes = vec![0; 65_535];
    assert_eq!(peer.recv(&mut bytes)?, 20 * 1200);
    let expected: Vec<u8> = (0..20_u8).flat_map(|i| [i; 1200]).collect();
    assert_eq!(bytes[..20 * 1200], expected);
    Ok(())
}

#[test]
fn merged_datagrams_are_received_one_by_one() -> TestResult {
    for ip in [V4, V6] {
        let (mut wire, peer) = pair(ip)?;
        set(&peer, libc::SOL_UDP, libc::UDP_SEGMENT, 700);
        let sent: Vec<u8> = (0..30 * 700 + 5_u32).map(|i| (i / 700) as u8).collect();
        peer.send(&sent)?;
        let packets = receive(&mut wire, 31)?;
        // One call receives them, and others may find that there are no more.
        assert!(wire.counters().system_calls <= 3, "{:?}", wire.counters());
        for (packet, expected) in packets.iter().zip(sent.chunks(700)) {
            assert_eq!(packet[headers(ip)..], *expected);
        }
    }
    Ok(())
}

#[test]
fn datagrams_of_any_length_are_received_whole() -> TestResult {
    for (ip, longest) in [(V4, 65_507), (V6, 65_527)] {
        let (mut wire, peer) = pair(ip)?;
        for len in [0, 1, longest, 0, 1473] {
            let sent: Vec<u8> = (0..len as u32).map(|i| (i * 7 / 5) as u8).collect();
            peer.send(&sent)?;
            let packets = receive(&mut wire, 1)?;
            assert_eq!(packets[0].len(), headers(ip) + len);
            assert_eq!(packets[0][headers(ip)..], sent[..]);
            // The header states that length and both ends' ports, and meets the requirements of RFC 768 and
            // 8200.
            let udp = &packets[0][headers(ip) - 8..];
            assert_eq!(udp[..2], peer.local_addr()?.port().to_be_bytes());
            assert_eq!(udp[2..4], wire.port().to_be_bytes());
            assert_eq!(
                usize::from(u16::from_be_bytes([udp[4], udp[5]])),
                (8 + len) & 0xffff
            );
        }
    }
    Ok(())
}

/// 20,000 datagrams arrive while the wire reads none. Memory does not grow, and later datagrams are received.
#[test]
fn a_flood_takes_no_memory() -> TestResult {
    let (mut wire, peer) = pair(V4)?;
    for _ in 0..20_000 {
        peer.send(&[9; 1200])?;
    }
    let mut last = wire.counters().received;
    loop {
        let got = wire.receive(256)?;
        assert!(got <= 256);
        wire.release();
        if got == 0 && wire.counters().received == last {
            break;
        }
        last = wire.counters().received;
    }
    assert!(last < 20_000, "the kernel's buffer holds less than {last}");
    peer.send(b"after")?;
    let packets = receive(&mut wire, 1)?;
    assert_eq!(&packets[0][28..], b"after");
    Ok(())
}

/// No interface takes more than UDP can state.
#[test]
fn a_packet_longer_than_a_datagram_is_refused() -> TestResult {
    for ip in [V4, V6] {
        let (mut wire, peer) = pair(ip)?;
        let (own, to) = (SocketAddr::new(ip, wire.port()), peer.local_addr()?);
        let mut frame = packet(own, to, &[1; 100]);
        frame.payload.push(vec![0; 65_600].into());
        let frames = [frame, packet(own, to, b"short")];
        assert_eq!(wire.transmit(&frames)?, 2, "it is dropped, not kept");
        assert_eq!((wire.counters().sent, wire.counters().refused), (1, 1));
        assert_eq!(peer.recv(&mut [0; 100])?, 5);
    }
    Ok(())
}

#[test]
fn packets_that_are_not_in_udp_are_refused() -> TestResult {
    let (mut wire, peer) = pair(V4)?;
    let (own, to) = (SocketAddr::new(V4, wire.port()), peer.local_addr()?);
    let mut icmp = packet(own, to, &[0; 20]);
    icmp.head[9] = 1;
    let cut = TxFrame { head: vec![0x45; 10], ..TxFrame::default() };
    let frames = [icmp, cut, TxFrame::default(), packet(own, to, b"well")];
    assert_eq!(wire.transmit(&frames)?, 4);
    assert_eq!((wire.counters().sent, wire.counters().refused), (1, 3));
    assert_eq!(peer.recv(&mut [0; 100])?, 4);
    Ok(())
}

/// The options in the program's headers are those of the packets that the kernel sends, as a plain socket
/// reads them.
#[test]
fn marks_and_hop_limits_leave_with_the_datagram() -> TestResult {
    for (ip, level, options) in [
        (V4, libc::SOL_IP, [libc::IP_RECVTOS, libc::IP_RECVTTL]),
        (
            V6,
            libc::SOL_IPV6,
            [libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT],
        ),
    ] {
        let (mut wire, peer) = pair(ip)?;
        for option in options {
            set(&peer, level, option, 1);
        }
        let (own, to) = (SocketAddr::new(ip, wire.port()), peer.local_addr()?);
        for (tos, ttl) in [(0x00_u8, 64_u8), (0x02, 64), (0xb9, 7)] {
            let mut frame = packet(own, to, b"marked");
            match ip {
                IpAddr::V4(_) => (frame.head[1], frame.head[8]) = (tos, ttl),
                IpAddr::V6(_) => {
                    (frame.head[0], frame.head[1]) = (0x60 | tos >> 4, tos << 4);
                    frame.head[7] = ttl;
                }
            }
            wire.transmit(&[frame])?;
            let seen = control_bytes(&peer)?;
            assert_eq!(seen, [tos, ttl], "{ip}");
        }
    }
    Ok(())
}

/// Returns the first byte of each control message of the next datagram, by type: TOS or traffic class, then
/// hop limit.
fn control_bytes(socket: &UdpSocket) -> TestResult<[u8; 2]> {
    let (mut bytes, mut control) = ([0_u8; 100], [0_u64; 16]);
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zero is a valid value of the structure, and all pointers are valid for the lengths beside them.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = std::mem::size_of_val(&control) as _;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        let mut seen = [0xff; 2];
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(one) = message.as_ref() {
            let value = *libc::CMSG_DATA(message);
            match one.cmsg_type {
                libc::IP_TOS | libc::IPV6_TCLASS => seen[0] = value,
                libc::IP_TTL | libc::IPV6_HOPLIMIT => seen[1] = value,
                _ => {}
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
        Ok(seen)
    }
}
