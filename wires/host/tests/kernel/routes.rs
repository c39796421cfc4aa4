//! Routes of the kernel.

use std::io;
use std::net::{TcpListener, TcpStream};

use hawser_host::netns::{Namespace, Netlink, Route};
use rustix::net::sockopt::tcp_congestion;

use crate::TestResult;

const HERE: &str = "10.9.1.1";
const THERE: [&str; 2] = ["10.9.1.2", "10.9.1.3"];

/// The route to one neighbour names a congestion control; the route to the other does not.
pub(crate) fn a_route_can_name_a_congestion_control() -> TestResult {
    let peer = Namespace::create()?;
    let mut here = Netlink::open()?;
    here.add_veth("cable0", "eth0", &peer)?;
    let mut there = peer.run(Netlink::open)??;
    there.bring_up("eth0")?;
    here.bring_up("cable0")?;
    here.add_address("cable0", HERE.parse()?, 24)?;
    for address in THERE {
        there.add_address("eth0", address.parse()?, 24)?;
    }
    here.settle("cable0")?;
    there.settle("eth0")?;
    let mut route = Route {
        to: (THERE[0].parse()?, 32),
        interface: "cable0",
        gateway: None,
        metric: 0,
        table: None,
        congestion_control: Some("reno"),
    };
    here.set_route(&route)?;
    let used = |address: &str| -> io::Result<String> {
        let listener = peer
            .run(|| TcpListener::bind((address, 0)))
            .map_err(io::Error::other)??;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        Ok(tcp_congestion(&stream)?)
    };
    assert_eq!(used(THERE[0])?, "reno");
    assert_ne!(used(THERE[1])?, "reno", "it is this machine's default");
    route.congestion_control = Some("nosuch");
    assert!(here.set_route(&route).is_err());
    Ok(())
}
