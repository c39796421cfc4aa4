//! ICMP errors of ours, as Linux understands them.

use std::net::UdpSocket;
use std::time::Duration;

use hawser_host::netns::Netlink;
use hawser_host::{TunOptions, TunWire};

use crate::TestResult;
use crate::station::Station;

/// <asm-generic/errno.h>: what `icmp_err_convert` and `icmpv6_err_convert` make of a protocol
/// unreachable and of an unknown next header.
const ENOPROTOOPT: i32 = 92;
const EPROTO: i32 = 71;

pub(crate) fn protocol_unreachable_reaches_linux() -> TestResult {
    let wire = TunWire::open("hawser0", TunOptions::default())?;
    let mut netlink = Netlink::open()?;
    netlink.add_address(wire.name(), "10.9.0.1".parse()?, 24)?;
    netlink.add_address(wire.name(), "fd00:9::1".parse()?, 64)?;
    netlink.bring_up(wire.name())?;
    let mut station = Station::new(wire, &[("10.9.0.2", 24), ("fd00:9::2", 64)], &[]);
    station.refuses = Some(17);
    for (to, local, expected) in
        [("10.9.0.2:4000", "10.9.0.1:0", ENOPROTOOPT), ("[fd00:9::2]:4000", "[fd00:9::1]:0", EPROTO)]
    {
        let socket = UdpSocket::bind(local)?;
        socket.connect(to)?;
        socket.send(&[1; 100])?;
        station.run(Duration::from_millis(100), |_, _| false)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let error = socket.recv(&mut [0; 10]).expect_err("nobody answers");
        assert_eq!(error.raw_os_error(), Some(expected), "from {to}: {error}");
    }
    assert_eq!(station.interface.counters().errors_sent, 2);
    Ok(())
}
