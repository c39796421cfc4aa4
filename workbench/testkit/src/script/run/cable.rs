//! A script on a veth pair of this machine, in real time. The stack has one end, either by AF_XDP with its
//! program's chains in the kernel, or by a port of DPDK. The peer is a packet socket at the other end, where
//! the kernel answers for the router.

mod absent;
#[cfg(feature = "dpdk")]
mod dpdk;
#[cfg(feature = "xdp")]
mod xdp;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_host::netns::{Namespace, Netlink, set_parameter};
use hawser_host::peer::Peer;
use hawser_host::{Clock, Interface};
use hawser_time::Instant;

use super::RunTarget;
use super::config::Config;
use super::real::{DeviceError, NAME, nap};
use super::world::Environment;

/// The name of the peer's end.
const PEER: &str = "hawser-peer";
/// The size of an Ethernet header, in bytes.
const ETHERNET: usize = 14;
/// The EtherTypes of IPv4 and IPv6 (RFC 894, RFC 2464).
const ETHER_TYPES: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// The wire at the stack's end.
trait WireEnd: Wire {
    /// Returns the stack's Ethernet address.
    fn mac(&self) -> [u8; 6];

    /// Sleeps until a frame waits, or until `limit` has passed.
    fn wait(&self, limit: Option<Duration>) -> io::Result<()>;

    /// Returns the number of packets that the program's chains have handled in the kernel.
    fn handled(&self) -> u64 {
        0
    }
}

/// One end of a veth pair, and a packet socket at the other end.
pub(super) struct OnCable {
    wire: Box<dyn WireEnd>,
    peer: Peer,
    /// The Ethernet address at the peer's end.
    mac: [u8; 6],
    router: IpAddr,
    /// The last field, so that the pair is removed after its users.
    _cable: VethPair,
}

/// A veth pair, which is removed on drop.
struct VethPair(Netlink);

impl VethPair {
    fn lay(mtu: u32) -> Result<VethPair, DeviceError> {
        let mut netlink = Netlink::open()?;
        netlink.add_veth(NAME, PEER, &Namespace::current()?)?;
        let mut cable = VethPair(netlink);
        for end in [NAME, PEER] {
            cable.0.set_mtu(end, mtu)?;
            cable.0.bring_up(end)?;
        }
        cable.0.settle(PEER)?;
        Ok(cable)
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        // Otherwise the namespace removes it.
        let _ = self.0.remove(NAME);
    }
}

impl OnCable {
    /// Creates the veth pair, and opens the stack's end for the target.
    pub(super) fn open(
        target: RunTarget,
        config: &Config,
        program: &dyn Program,
    ) -> Result<OnCable, DeviceError> {
        let router = other(config.local);
        if router == config.remote {
            return Err(DeviceError::Router(router));
        }
        let mut cable = VethPair::lay(config.mtu)?;
        let bits = if router.is_ipv4() { 31 } else { 127 };
        // The kernel answers for its own address, and does not forward.
        let family = if router.is_ipv4() { "ipv4" } else { "ipv6" };
        set_parameter(&format!("net/{family}/conf/{PEER}/forwarding"), "0")?;
        cable.0.add_address(PEER, router, bits)?;
        let wire = match target {
            #[cfg(feature = "xdp")]
            RunTarget::Xdp => xdp::open(config, program)?,
            #[cfg(feature = "dpdk")]
            RunTarget::Dpdk => dpdk::open()?,
            _ => absent::open(target, config, program)?,
        };
        Ok(OnCable {
            wire,
            peer: Peer::open(PEER)?,
            mac: Interface::read(PEER)?.mac,
            router,
            _cable: cable,
        })
    }

    /// Returns the packet in a frame that the stack sent. Returns `None` for frames that only maintain the
    /// link.
    fn packet<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let (header, packet) = frame.split_at_checked(ETHERNET)?;
        let is_own = header[6..12] == self.wire.mac();
        let is_ip = ETHER_TYPES.iter().any(|kind| header.ends_with(kind));
        (is_own && is_ip && !is_discovery(packet)).then_some(packet)
    }
}

/// Returns the other address of a two-address link (RFC 3021, RFC 6164).
fn other(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() ^ 1).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() ^ 1).into(),
    }
}

/// Returns whether an IPv6 packet belongs to neighbour discovery: ICMPv6 of types 133 to 137 (RFC 4861, 4).
fn is_discovery(packet: &[u8]) -> bool {
    matches!(packet.get(..41), Some([0x60..0x70, .., 133..=137])) && packet[6] == 58
}

impl Environment for OnCable {
    fn now(&self) -> Instant {
        Clock.now()
    }

    fn router(&self) -> Option<IpAddr> {
        Some(self.router)
    }

    fn wire(&mut self) -> &mut dyn Wire {
        &mut *self.wire
    }

    fn is_real(&self) -> bool {
        true
    }

    fn handled(&self) -> u64 {
        self.wire.handled()
    }

    fn inject(&mut self, frame: Vec<u8>, _seg_size: u16) -> io::Result<()> {
        let kind = ETHER_TYPES[usize::from(self.router.is_ipv6())];
        let header = [&self.wire.mac()[..], &self.mac, &kind];
        self.peer.send(&[&header.concat(), &frame[..]].concat())
    }

    fn sent(&mut self) -> io::Result<Vec<(Instant, Vec<u8>)>> {
        let mut packets = Vec::new();
        while let Some(frame) = self.peer.receive()? {
            let frame = frame.to_vec();
            packets.extend(self.packet(&frame).map(|packet| (Clock.now(), packet.to_vec())));
        }
        Ok(packets)
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        nap(until, |limit| self.wire.wait(limit))
    }
}
