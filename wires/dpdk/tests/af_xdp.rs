//! Ports of DPDK with AF_XDP sockets, behind a program of ours. Real root is needed: eBPF cannot be loaded in
//! a user namespace. If it cannot be loaded, the tests say so and pass.

#[path = "ports/lifetime.rs"]
#[allow(dead_code, reason = "tests of other ports are among them")]
mod lifetime;

use std::net::{IpAddr, UdpSocket};
use std::process::{Command, ExitCode};
use std::time::Duration;

use hawser_dpdk::{DpdkWire, OpenError};
use hawser_engine::wire::Wire;
use hawser_host::netns::{Namespace, NamespaceError, Netlink};
use hawser_testing::{Need, Test, TestResult, is_listing, run, skip, tests};

use lifetime::ip;

const TESTS: &[Test] = tests![
    a_killed_process_leaves_no_program,
    a_port_is_closed_without_messages,
    the_kernel_beside_a_port_is_reached,
    a_queue_without_a_socket_is_refused,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold", device] => return lifetime::hold(device),
        ["close", device] => return close(device),
        _ => {}
    }
    if !is_listing()
        && let Err(reason) = in_namespace(can_open)
    {
        if reason.is::<NamespaceError>() || reason.to_string().contains("CAP_BPF") {
            skip(Need::Ebpf, "ports of DPDK with AF_XDP sockets", reason);
            return ExitCode::SUCCESS;
        }
        println!("ports of DPDK with AF_XDP sockets: {reason}");
        return ExitCode::FAILURE;
    }
    run(TESTS
        .iter()
        .map(|&(name, test)| (name, move || in_namespace(test))))
}

/// Runs a test in a fresh network namespace.
fn in_namespace(test: impl FnOnce() -> TestResult + Send) -> TestResult {
    Namespace::create()?.run(test)?
}

/// Creates a veth pair: `cable0` here and `eth0` in the returned namespace.
fn lay() -> TestResult<Namespace> {
    let peer = Namespace::create()?;
    let mut netlink = Netlink::open()?;
    netlink.add_veth("cable0", "eth0", &peer)?;
    netlink.bring_up("cable0")?;
    peer.run(|| Netlink::open()?.bring_up("eth0"))??;
    netlink.settle("cable0")?;
    Ok(peer)
}

fn open(number: u8) -> Result<DpdkWire, OpenError> {
    let device = format!("net_af_xdp{number},iface=cable0");
    let own = [IpAddr::from([10, 9, 1, 2])];
    let mut wires = DpdkWire::open_queues(&device, &own, 1)?;
    Ok(wires.remove(0))
}

fn can_open() -> TestResult {
    let _peer = lay()?;
    open(0)?;
    Ok(())
}

/// The rest of the interface's state is restored as well.
fn a_killed_process_leaves_no_program() -> TestResult {
    lifetime::on_an_interface("net_af_xdp1", &["prog/xdp", "promiscuity 1"])
}

fn close(device: &str) -> ExitCode {
    match DpdkWire::open(device) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A process that opens and closes a port leaves no state, so that the next one opens it at once. Neither
/// DPDK nor its libraries print an error.
fn a_port_is_closed_without_messages() -> TestResult {
    let _peer = lay()?;
    let before = ip("-details link show cable0")?;
    for _ in 0..5 {
        let output = Command::new(std::env::current_exe()?)
            .args(["close", "net_af_xdp1,iface=cable0"])
            .output()?;
        let [printed, complaints] = [output.stdout, output.stderr].map(String::from_utf8);
        assert!(output.status.success(), "{}", printed?);
        let complaints = complaints?.to_lowercase();
        assert!(
            !complaints.contains("program") && !complaints.contains("error"),
            "{complaints}"
        );
        assert_eq!(ip("-details link show cable0")?, before);
    }
    Ok(())
}

/// The kernel's own address on the same interface answers, and the port receives none of these frames.
fn the_kernel_beside_a_port_is_reached() -> TestResult {
    let peer = lay()?;
    let mut wire = open(3)?;
    Netlink::open()?.add_address("cable0", [10, 9, 1, 3].into(), 24)?;
    let kernel = UdpSocket::bind("10.9.1.3:9")?;
    kernel.set_read_timeout(Some(Duration::from_secs(10)))?;
    let asker = peer.run(|| -> TestResult<UdpSocket> {
        Netlink::open()?.add_address("eth0", [10, 9, 1, 1].into(), 24)?;
        Ok(UdpSocket::bind("10.9.1.1:9")?)
    })??;
    asker.send_to(b"question", "10.9.1.3:9")?;
    let mut bytes = [0; 20];
    let (len, _) = kernel.recv_from(&mut bytes)?;
    assert_eq!(&bytes[..len], b"question");
    // Only the query for the stack's address reaches the wire.
    asker.send_to(b"question", "10.9.1.2:9")?;
    let begin = std::time::Instant::now();
    while wire.receive(64)? == 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "no question came");
    }
    let question = wire.frame(0).head;
    assert_eq!(
        (&question[12..14], &question[38..42]),
        (&[8, 6][..], &[10, 9, 1, 2][..])
    );
    Ok(())
}

/// Frames to the stack on a queue without a socket would be lost.
fn a_queue_without_a_socket_is_refused() -> TestResult {
    ip("link add wide0 numrxqueues 2 numtxqueues 2 type veth peer name wide1 numrxqueues 2 numtxqueues 2")?;
    ip("link set wide0 up")?;
    let error = DpdkWire::open("net_af_xdp4,iface=wide0")
        .err()
        .ok_or("it opens")?;
    let text = error.to_string();
    assert!(matches!(error, OpenError::Program { .. }), "{text}");
    assert!(
        text.contains("2 queues") && text.contains("net_af_xdp4"),
        "{text}"
    );
    Ok(())
}
