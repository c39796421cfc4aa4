//! Flows whose sockets are bound to an interface: they are listed, read and given our congestion control like
//! any other.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::time::Duration;

use hawser_lab::{Host, Lab};
use hawser_linux::{Diagnostics, Kernel, TcpFlow, Variable};
use hawser_testing::{Need, skip};
use socket2::{Domain, Protocol, Socket, Type};

use crate::TestResult;
use crate::network::{diagnostics, expect, load, network, wait_until};

const LINK: &str = "both = { rate = \"50Mbit/s\", delay = \"2ms\" }";
const DEVICE: &[u8] = b"eth0";

/// A connection of the client, with the server's end.
struct Connection {
    stream: TcpStream,
    _other: TcpStream,
}

fn connect(
    lab: &Lab,
    protocol: Protocol,
    to: IpAddr,
    scope: u32,
    device: Option<&[u8]>,
) -> TestResult<Connection> {
    let bind: SocketAddr = if to.is_ipv4() {
        "0.0.0.0:0".parse()?
    } else {
        "[::]:0".parse()?
    };
    let listener = lab.host("server")?.run(|| TcpListener::bind(bind))??;
    let port = listener.local_addr()?.port();
    let to = match to {
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
        address => SocketAddr::new(address, port),
    };
    let stream = lab.host("client")?.run(|| -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol))?;
        socket.bind_device(device)?;
        socket.connect(&to.into())?;
        Ok(socket.into())
    })??;
    let (other, _) = listener.accept()?;
    Ok(Connection { stream, _other: other })
}

/// Returns the link-local address of a host's interface, once it may be used, and the interface's number.
fn link_local(host: &Host<'_>) -> TestResult<(Ipv6Addr, u32)> {
    // A lab's hosts have no link-local addresses by default.
    host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/eth0/addr_gen_mode", "0"))??;
    let mut found = None;
    wait_until("the link-local address is ready", || {
        let read = || std::fs::read_to_string("/proc/thread-self/net/if_inet6");
        let Ok(Ok(text)) = host.run(read) else {
            return false;
        };
        found = text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, index, _, "20", flags, "eth0"] = words[..] else {
                return None;
            };
            // IFA_F_TENTATIVE of include/uapi/linux/if_addr.h.
            let is_ready = u32::from_str_radix(flags, 16).ok()? & 0x40 == 0;
            let address = u128::from_str_radix(address, 16).ok()?;
            is_ready.then_some((Ipv6Addr::from(address), u32::from_str_radix(index, 16).ok()?))
        });
        found.is_some()
    })?;
    found.ok_or_else(|| "there is no link-local address".into())
}

/// The flow of a connection is listed, found again by its cookie, and can be modified.
fn check(lab: &Lab, kernel: &mut Kernel, ours: &str, connection: &Connection) -> TestResult<TcpFlow> {
    let mut diagnostics: Diagnostics = diagnostics(lab)?;
    let local = connection.stream.local_addr()?.port();
    let listed = diagnostics.flows()?;
    let flow = listed
        .into_iter()
        .find(|flow| flow.local.port() == local)
        .ok_or("the flow is not listed")?;
    expect(flow.interface != 0, format!("it is bound: {flow:?}"))?;
    for _ in 0..2 {
        let again = diagnostics.probe(flow.cookie)?;
        expect(
            (again.cookie, again.interface) == (flow.cookie, flow.interface),
            format!("{again:?}"),
        )?;
    }
    let found = diagnostics.find(flow.local, flow.remote)?;
    expect(
        found.is_some_and(|found| found.cookie == flow.cookie),
        "it is found by its addresses",
    )?;
    lab.host("client")?.run(|| kernel.adopt(flow.cookie))??;
    kernel.modify(flow.cookie, Variable::Cwnd, 20_000, Duration::from_secs(5))?;
    let control = diagnostics.probe(flow.cookie)?.congestion_control;
    expect(control == ours, format!("it is run by {control}"))?;
    Ok(flow)
}

pub(crate) fn flows_bound_to_an_interface_are_flows() -> TestResult {
    let lab = network(LINK)?;
    let mut kernel = load("hw_bound")?;
    let server = lab.host("server")?;
    let address = server.ipv4().ok_or("no address")?;
    let bound = connect(&lab, Protocol::TCP, address, 0, Some(DEVICE))?;
    check(&lab, &mut kernel, "hw_bound", &bound)?;

    let (to, _) = link_local(&server)?;
    let (_, interface) = link_local(&lab.host("client")?)?;
    let local = connect(&lab, Protocol::TCP, to.into(), interface, None)?;
    let flow = check(&lab, &mut kernel, "hw_bound", &local)?;
    expect(
        flow.remote == local.stream.peer_addr()? && flow.interface == interface,
        format!("{flow:?}"),
    )?;

    match connect(&lab, Protocol::MPTCP, address, 0, Some(DEVICE)) {
        Ok(subflow) => check(&lab, &mut kernel, "hw_bound", &subflow).map(drop),
        Err(error) => {
            skip(Need::Mptcp, "a subflow of MPTCP", error);
            Ok(())
        }
    }
}

/// A socket that is bound to an interface after it was listed is still found.
pub(crate) fn a_flow_that_is_bound_later_is_found_again() -> TestResult {
    let lab = network(LINK)?;
    let address = lab.host("server")?.ipv4().ok_or("no address")?;
    let connection = connect(&lab, Protocol::TCP, address, 0, None)?;
    let mut diagnostics = diagnostics(&lab)?;
    let flow = diagnostics.flows()?.pop().ok_or("the flow is not listed")?;
    expect(flow.interface == 0, format!("{flow:?}"))?;
    lab.host("client")?
        .run(|| socket2::SockRef::from(&connection.stream).bind_device(Some(DEVICE)))??;
    let again = diagnostics.probe(flow.cookie)?;
    expect(again.interface != 0, format!("{again:?}"))
}
