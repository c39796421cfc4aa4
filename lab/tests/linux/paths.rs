//! Hosts with several links: a socket that is bound to an interface uses its link in both directions.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use hawser_lab::{Direction, Host, Lab, Spec};
use socket2::{Domain, Socket, Type};

use crate::TestResult;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The links of a client and a server, which differ in their delay.
const DIRECT: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    link = [
        { name = "slow", between = ["client", "server"], interfaces = ["slow0", "eth0"], both = { delay = "30ms" } },
        { name = "fast", between = ["client", "server"], interfaces = ["fast0", "eth1"], through = "cell" },
    ]
"#;

/// The same links, with a router on each.
const ROUTED: &str = r#"
    host = [
        { name = "client" }, { name = "x", router = true }, { name = "y", router = true }, { name = "server" },
    ]
    link = [
        { name = "slow", between = ["client", "x"], interfaces = ["slow0", "eth0"], both = { delay = "30ms" } },
        { name = "fast", between = ["client", "y"], interfaces = ["fast0", "eth0"], through = "cell" },
        { between = ["x", "server"] },
        { between = ["y", "server"] },
    ]
"#;

/// Returns a socket of a host that is bound to one of its interfaces, but to no address.
fn bound(host: Host<'_>, kind: Type, to: IpAddr, interface: &str) -> TestResult<Socket> {
    let open = || {
        let socket = Socket::new(if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }, kind, None)?;
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.set_read_timeout(Some(TIMEOUT)).map(|()| socket)
    };
    Ok(host.run(open)??)
}

/// Asks over a stream to this address of the server, and returns the time until the answer.
fn ask_tcp(lab: &Lab, address: IpAddr, interface: &str) -> TestResult<Duration> {
    let listener = lab
        .host("server")?
        .run(|| TcpListener::bind(SocketAddr::new(address, 0)))??;
    let socket = bound(lab.host("client")?, Type::STREAM, address, interface)?;
    socket.connect_timeout(&listener.local_addr()?.into(), TIMEOUT)?;
    let (mut peer, _) = listener.accept()?;
    let start = Instant::now();
    (&socket).write_all(b"?")?;
    peer.read_exact(&mut [0])?;
    peer.write_all(b"!")?;
    (&socket).read_exact(&mut [0])?;
    Ok(start.elapsed())
}

/// Asks by datagrams. The server's socket is bound to the address, so that answers come from it.
fn ask_udp(lab: &Lab, address: IpAddr, interface: &str) -> TestResult<Duration> {
    let server = lab
        .host("server")?
        .run(|| UdpSocket::bind(SocketAddr::new(address, 0)))??;
    server.set_read_timeout(Some(TIMEOUT))?;
    let socket = bound(lab.host("client")?, Type::DGRAM, address, interface)?;
    socket.connect(&server.local_addr()?.into())?;
    let start = Instant::now();
    socket.send(b"?")?;
    let (_, from) = server.recv_from(&mut [0; 9])?;
    server.send_to(b"!", from)?;
    (&socket).read_exact(&mut [0])?;
    Ok(start.elapsed())
}

/// Returns the number of frames that a link carried, in both directions.
fn carried(lab: &Lab, link: &str) -> TestResult<u64> {
    let link = lab.link(link)?;
    Ok(link.statistics(Direction::Forward)?.sent + link.statistics(Direction::Backward)?.sent)
}

/// Every address of the server can be reached over either link, while the other link carries no frames.
pub(crate) fn interfaces_keep_to_their_links() -> TestResult {
    for file in [DIRECT, ROUTED] {
        let lab = Lab::up(&Spec::parse(file)?)?;
        for address in lab.host("server")?.addresses() {
            for (interface, link, other) in [("slow0", "slow", "fast"), ("fast0", "fast", "slow")] {
                for ask in [ask_tcp, ask_udp] {
                    let (before, idle) = (carried(&lab, link)?, carried(&lab, other)?);
                    let took = ask(&lab, *address, interface)?;
                    // The slow link takes 30 ms each way.
                    let is_slow = took >= Duration::from_millis(60);
                    assert_eq!(
                        is_slow,
                        interface == "slow0",
                        "{took:?} to {address} by {interface}"
                    );
                    assert!(carried(&lab, link)? > before);
                    assert_eq!(carried(&lab, other)?, idle, "{address} by {interface}");
                }
            }
        }
    }
    Ok(())
}
