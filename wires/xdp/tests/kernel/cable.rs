//! A veth pair with the wire at this end.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use hawser_engine::wire::{PayRef, TxFrame, Wire};
use hawser_host::netns::{Namespace, Netlink, set_parameter};
use hawser_host::{PacketOptions, PacketWire};
use hawser_xdp::{XdpOptions, XdpWire};

use crate::TestResult;

pub(crate) const OURS: [&str; 2] = ["10.9.1.2", "fd00:9:1::2"];
pub(crate) const DEVICE: &str = "cable0";
pub(crate) const PEER: &str = "eth0";
/// The Ethernet address from which frames come.
pub(crate) const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// The maximum duration of any step.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// An EtherType for experiments (IEEE 802, 9.2.4).
pub(crate) const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

pub(crate) fn addresses() -> Vec<IpAddr> {
    OURS.iter().filter_map(|ip| ip.parse().ok()).collect()
}

/// Creates the two interfaces, up and silent: the kernel uses no IPv6 on them.
pub(crate) fn lay(mtu: u32, peers_mtu: u32) -> TestResult<Namespace> {
    let peer = Namespace::create()?;
    let mut here = Netlink::open()?;
    here.add_veth(DEVICE, PEER, &peer)?;
    here.set_mtu(DEVICE, mtu)?;
    set_parameter("net/ipv6/conf/cable0/disable_ipv6", "1")?;
    here.bring_up(DEVICE)?;
    peer.run(|| -> TestResult {
        let mut there = Netlink::open()?;
        there.set_mtu(PEER, peers_mtu)?;
        set_parameter("net/ipv6/conf/eth0/disable_ipv6", "1")?;
        there.bring_up(PEER)?;
        Ok(())
    })??;
    Ok(peer)
}

pub(crate) fn open() -> TestResult<XdpWire> {
    open_on(DEVICE)
}

pub(crate) fn open_on(name: &str) -> TestResult<XdpWire> {
    let options = XdpOptions { addresses: addresses(), ..XdpOptions::default() };
    Ok(XdpWire::open(name, &options)?)
}

/// Returns the wire, a packet socket at the other end, and that end's namespace.
pub(crate) fn set_up(mtu: u32) -> TestResult<(XdpWire, PacketWire, Namespace)> {
    let peer = lay(mtu, mtu)?;
    let wire = open()?;
    let far = peer.run(|| PacketWire::open(PEER, PacketOptions::default()))??;
    Ok((wire, far, peer))
}

/// Returns a frame with this EtherType and payload.
pub(crate) fn frame(to: [u8; 6], kind: [u8; 2], payload: Vec<u8>) -> TxFrame {
    let mut head = to.to_vec();
    head.extend(SENDER);
    head.extend(kind);
    TxFrame { head, payload: vec![PayRef::from(payload)], ..TxFrame::default() }
}

pub(crate) fn send(wire: &mut impl Wire, frames: &[TxFrame]) -> TestResult {
    let (begin, mut sent) = (Instant::now(), 0);
    while sent < frames.len() {
        sent += wire.transmit(&frames[sent..])?;
        if begin.elapsed() > TIMEOUT {
            return Err(format!("{sent} of {} frames left", frames.len()).into());
        }
    }
    Ok(())
}

/// Receives frames until there are `count`, or until the time is over.
pub(crate) fn receive(wire: &mut impl Wire, count: usize, limit: Duration) -> TestResult<Vec<Vec<u8>>> {
    let (begin, mut frames) = (Instant::now(), Vec::new());
    while frames.len() < count && begin.elapsed() < limit {
        for i in 0..wire.receive(64)? {
            let frame = wire.frame(i);
            frames.push([frame.head, frame.tail].concat());
        }
        wire.release();
    }
    Ok(frames)
}

/// Returns the output of iproute2's `ip`.
pub(crate) fn ip(arguments: &str) -> TestResult<String> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if !output.status.success() {
        return Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
