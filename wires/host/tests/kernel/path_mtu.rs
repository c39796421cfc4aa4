//! A router before a link with a small MTU: Linux's own ICMP errors.

use std::time::Duration;

use hawser_host::netns::{Namespace, Netlink, set_parameter};
use hawser_host::{Clock, PacketOptions, PacketWire};
use hawser_ir::abi::ICMP_TOO_BIG;

use crate::TestResult;
use crate::station::{Arrival, Payload, Station};

pub(crate) fn a_path_mtu_is_learnt_from_a_router() -> TestResult {
    let router = Namespace::create()?;
    let host = Namespace::create()?;
    let mut here = Netlink::open()?;
    here.add_veth("cable0", "near", &router)?;
    here.bring_up("cable0")?;
    router.run(|| {
        let mut netlink = Netlink::open()?;
        netlink.add_veth("far", "eth0", &host)?;
        for (name, v4, v6) in [
            ("near", "10.9.2.1", "fd00:9:2::1"),
            ("far", "10.9.3.1", "fd00:9:3::1"),
        ] {
            netlink.add_address(name, v4.parse().unwrap(), 24)?;
            netlink.bring_up(name)?;
            netlink.add_address(name, v6.parse().unwrap(), 64)?;
        }
        netlink.set_mtu("far", 1400)?;
        set_parameter("net/ipv4/ip_forward", "1")?;
        set_parameter("net/ipv6/conf/all/forwarding", "1")
    })??;
    host.run(|| Netlink::open()?.bring_up("eth0"))??;
    let wire = PacketWire::open("cable0", PacketOptions::default())?;
    let addresses = [("10.9.2.2", 24), ("fd00:9:2::2", 64)];
    let mut station = Station::new(wire, &addresses, &["10.9.2.1", "fd00:9:2::1"]);
    for (to, payload) in [("10.9.3.2", 1472), ("fd00:9:3::2", 1452)] {
        let mut header = vec![0x0f, 0xa0, 0x13, 0x88];
        header.extend((payload as u16 + 8).to_be_bytes());
        header.extend([0, 0]);
        station.send(
            to.parse()?,
            17,
            &header,
            6,
            Payload { bytes: vec![7; payload], seg_size: 0 },
        );
        let destination = hawser_engine::net::to_bytes(to.parse()?);
        assert_eq!(station.interface.path_mtu(destination), 1500);
        let mut error = None;
        station.run(Duration::from_secs(3), |_, arrival| match arrival {
            Arrival::Error { net, icmp } => {
                error = Some((net, icmp));
                true
            }
            Arrival::Packet { .. } => false,
        })?;
        let (net, icmp) = error.ok_or_else(|| format!("no error about the packet to {to}"))?;
        assert_eq!((icmp.kind, icmp.mtu), (ICMP_TOO_BIG, 1400));
        assert_eq!((net.dst_ip, net.protocol, net.tot_len), (destination, 17, 1500));
        assert_eq!(
            station.interface.path_mtu(destination),
            1500,
            "an error is not believed by itself"
        );
        station.interface.lower_path(Clock.now(), destination, icmp.mtu);
        assert_eq!(station.interface.path_mtu(destination), 1400);
    }
    Ok(())
}
