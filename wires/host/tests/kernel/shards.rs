//! Queues of one device, with a wire for each, as shards use them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hawser_engine::net::{Recipient, Steering};
use hawser_engine::wire::{PayRef, RxFrame, TxFrame, Wire};
use hawser_host::netns::{Namespace, Netlink};
use hawser_host::peer::Peer;
use hawser_host::{PacketOptions, PacketWire, TunOptions, TunWire, UdpWire};

use crate::TestResult;

const KEYS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca6b];
const TIMEOUT: Duration = Duration::from_secs(5);

fn shards<const N: usize>() -> [Steering; N] {
    std::array::from_fn(|index| Steering { shards: N as u16, index: index as u16, keys: KEYS })
}

/// Returns a datagram or segment in Ethernet from a port of 10.9.1.N or fd00:9:1::N.
fn frame(to: [u8; 6], is_v6: bool, host: u8, protocol: u8, port: u16) -> Vec<u8> {
    let mut frame = [&to[..], &[2, 0, 0, 0, 0, host]].concat();
    let transport = [&port.to_be_bytes()[..], &[0, 80, 0, 20, 0, 0], &[0; 12]].concat();
    let len = transport.len() as u8;
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, len, protocol, 64]);
        let prefix = [0xfd, 0, 0, 9, 0, 1];
        for last in [host, 200] {
            frame.extend(prefix);
            frame.extend([0, 0, host.wrapping_mul(7), 0, 0, 0, 0, 0, 0, last]);
        }
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 20 + len, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([10, 9, 1, host, 10, 9, 1, 200]);
    }
    frame.extend(transport);
    frame
}

/// Waits for this many frames. Each has arrived at its shard, and each shard has its share.
fn each_gets_its_own<W: Wire>(
    wires: &mut [W],
    expected: usize,
    counts: impl Fn(&RxFrame<'_>) -> bool,
) -> TestResult {
    let (steering, begin, mut came) = (shards::<3>(), Instant::now(), [0; 3]);
    while came.iter().sum::<usize>() < expected {
        assert!(begin.elapsed() < TIMEOUT, "{came:?} of {expected} came");
        for (index, wire) in wires.iter_mut().enumerate() {
            let medium = wire.caps().medium;
            for i in 0..wire.receive(64)? {
                let frame = wire.frame(i);
                if counts(&frame) {
                    let recipient = steering[0].recipient(medium, &frame);
                    assert_eq!(recipient, Recipient::Shard(index as u16), "{:?}", frame.head);
                    came[index] += 1;
                }
            }
            wire.release();
        }
    }
    assert!(came.iter().all(|count| *count > expected / 6), "{came:?}");
    Ok(())
}

/// The kernel computes the same as [`Steering::recipient`]: each socket receives exactly the frames of its
/// shard.
pub(crate) fn packet_sockets_share_frames_out_as_steering_says() -> TestResult {
    let peer = Namespace::create()?;
    let mut here = Netlink::open()?;
    here.add_veth("cable0", "eth0", &peer)?;
    let mut there = peer.run(Netlink::open)??;
    there.bring_up("eth0")?;
    here.bring_up("cable0")?;
    here.settle("cable0")?;
    there.settle("eth0")?;
    let steering = shards::<3>();
    let mut wires = PacketWire::open_shards("cable0", PacketOptions::default(), &steering)?;
    let own = wires[0].mac();
    let mut sender = peer.run(|| Peer::open("eth0"))??;
    let mut expected = 0;
    for port in (0..600).step_by(2) {
        // Without ports, only the address counts. The protocol is one for experiments (RFC 3692).
        for (is_v6, protocol) in [
            (false, 6),
            (true, 6),
            (false, 17),
            (true, 17),
            (false, 253),
            (true, 253),
        ] {
            sender.send(&frame(own, is_v6, (port % 90) as u8 + 1, protocol, port))?;
            expected += 1;
        }
    }
    // Frames that the kernel itself sends on the link do not count.
    each_gets_its_own(&mut wires, expected, |frame| frame.head[..6] == own)
}

/// The same for sockets at one port of the host, with datagrams over IPv4 and IPv6. No other program can have
/// the port.
pub(crate) fn udp_sockets_share_datagrams_out_as_steering_says() -> TestResult {
    Netlink::open()?.bring_up("lo")?;
    let steering = shards::<3>();
    let mut wires = UdpWire::open_shards("[::]:0".parse()?, &steering)?;
    let port = wires[0].port();
    let again = UdpWire::open_shards(SocketAddr::new("::".parse()?, port), &steering).err();
    let text = again.map_or_else(String::new, |error| error.to_string());
    assert!(text.contains("in use"), "{text}");
    let mut expected = 0;
    for number in 0..300u16 {
        let ip = ["127.0.0.1", "::1"][usize::from(number % 2)].parse::<IpAddr>()?;
        let sender = UdpSocket::bind(SocketAddr::new(ip, 20_000 + 2 * number))?;
        sender.send_to(b"to a shard", SocketAddr::new(ip, port))?;
        expected += 1;
    }
    each_gets_its_own(&mut wires, expected, |_| true)
}

/// A device has one queue or several from its creation on.
pub(crate) fn a_tun_device_of_one_queue_has_no_second() -> TestResult {
    let _one = TunWire::open("hawser0", TunOptions::default())?;
    let refused = TunWire::open_queues("hawser0", TunOptions::default(), 2).err();
    let text = refused.map_or_else(String::new, |error| error.to_string());
    assert!(text.contains("several queues"), "{text}");
    let _several = TunWire::open_queues("hawser1", TunOptions::default(), 2)?;
    let refused = TunWire::open("hawser1", TunOptions::default()).err();
    let text = refused.map_or_else(String::new, |error| error.to_string());
    assert!(text.contains("one queue"), "{text}");
    Ok(())
}

/// Linux's answer to a packet arrives on the queue into which the packet was sent.
pub(crate) fn a_queue_of_a_tun_device_gets_the_answers_to_what_it_sent() -> TestResult {
    let mut wires = TunWire::open_queues("hawser0", TunOptions { offload: false }, 3)?;
    let mut netlink = Netlink::open()?;
    netlink.add_address("hawser0", "10.9.0.1".parse()?, 24)?;
    netlink.bring_up("hawser0")?;
    let server = UdpSocket::bind("10.9.0.1:4000")?;
    server.set_read_timeout(Some(TIMEOUT))?;
    for port in 5000..5030u16 {
        let index = usize::from(port) % wires.len();
        let mut head = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
        let sum = hawser_testing::internet_checksum(&[&head]);
        head[10..12].copy_from_slice(&sum);
        head.extend(port.to_be_bytes());
        head.extend([15, 160, 0, 8, 0, 0]);
        let sent = TxFrame { head, payload: vec![PayRef::default()], ..TxFrame::default() };
        assert_eq!(wires[index].transmit(&[sent])?, 1);
        let (_, from) = server.recv_from(&mut [0; 10])?;
        server.send_to(&[], from)?;
        let begin = Instant::now();
        'found: loop {
            assert!(begin.elapsed() < TIMEOUT, "no answer to port {port}");
            for (which, wire) in wires.iter_mut().enumerate() {
                let count = wire.receive(8)?;
                let is_answer = |i| wire.frame(i).head.get(22..24) == Some(&port.to_be_bytes()[..]);
                let found = (0..count).any(is_answer);
                wire.release();
                if found {
                    assert_eq!(which, index, "the answer to port {port}");
                    break 'found;
                }
            }
        }
    }
    Ok(())
}
