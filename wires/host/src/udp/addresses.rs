//! The addresses of a socket, and the largest packet that leaves from them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use hawser_engine::net::MAX_ADDRESSES;

use crate::netlink::NetlinkSocket;
use crate::netlink::interfaces::{self, InterfaceReport};

/// The length of the longest IP packet, in bytes.
const MAX_PACKET: u32 = 65_535;
/// The MTU that every interface with IPv6 supports, in bytes (RFC 8200, 5).
const MIN_MTU_IPV6: u32 = 1280;
/// The MTU, in bytes, of an address that belongs to no known interface.
const USUAL_MTU: u32 = 1500;

/// An address of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostAddress {
    ip: IpAddr,
    prefix: u8,
    mtu: u32,
}

/// The addresses and the MTU of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketAddresses {
    /// The addresses with their prefix lengths. The first of a family is that of the default route.
    pub(super) addresses: Vec<(IpAddr, u8)>,
    pub(super) mtu: u32,
}

/// Returns the current state for a socket at `at`.
pub(super) fn standing(at: IpAddr) -> io::Result<SocketAddresses> {
    let usual = [
        usual_source(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(203, 0, 113, 1).into()),
        usual_source(
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        ),
    ];
    Ok(choose(at, list()?, usual))
}

fn choose(at: IpAddr, own: Vec<HostAddress>, usual: [Option<IpAddr>; 2]) -> SocketAddresses {
    if !at.is_unspecified() {
        let mtu = own.iter().filter(|own| holds(own, at)).map(|own| own.mtu).min();
        return SocketAddresses {
            addresses: vec![(at, if at.is_ipv4() { 32 } else { 128 })],
            mtu: mtu.unwrap_or(USUAL_MTU).min(MAX_PACKET),
        };
    }
    let mut own: Vec<HostAddress> = own
        .into_iter()
        .filter(|own| at.is_ipv6() || own.ip.is_ipv4())
        .collect();
    own.sort_by_key(|own| (!usual.contains(&Some(own.ip)), own.ip.is_loopback()));
    own.truncate(MAX_ADDRESSES);
    let widest = own.iter().map(|own| own.mtu).max().unwrap_or(USUAL_MTU);
    let outward = own
        .iter()
        .filter(|own| !own.ip.is_loopback())
        .map(|own| own.mtu)
        .min();
    // An interface with a smaller MTU has only IPv4. Larger packets are reported when they are sent.
    let min_mtu = if own.iter().any(|own| own.ip.is_ipv6()) {
        MIN_MTU_IPV6
    } else {
        0
    };
    SocketAddresses {
        addresses: own.iter().map(|own| (own.ip, own.prefix)).collect(),
        mtu: outward.unwrap_or(widest).min(MAX_PACKET).max(min_mtu),
    }
}

/// Returns whether `ip` is on the subnet of an address.
fn holds(own: &HostAddress, ip: IpAddr) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    let differ = (bits(own.ip) ^ bits(ip)).leading_zeros();
    own.ip.is_ipv4() == ip.is_ipv4() && differ >= u32::from(own.prefix)
}

/// Returns the host's addresses on interfaces that are up.
fn list() -> io::Result<Vec<HostAddress>> {
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
    let mut mtus = HashMap::new();
    socket.exchange(interfaces::links(), |message| {
        if let Some(InterfaceReport::Link(link)) = InterfaceReport::read(message)
            && link.is_up
            && !link.of_bridge
        {
            mtus.insert(link.index, link.mtu.unwrap_or(USUAL_MTU));
        }
    })?;
    let mut own = Vec::new();
    socket.exchange(interfaces::addresses(), |message| {
        let prefix = message.body.get(1).copied();
        if let (Some(InterfaceReport::Address(address)), Some(prefix)) =
            (InterfaceReport::read(message), prefix)
            && let Some(mtu) = mtus.get(&address.index)
        {
            own.push(HostAddress { ip: address.address, prefix, mtu: *mtu });
        }
    })?;
    Ok(own)
}

/// Returns the address from which the kernel sends on its default route. No packet is sent for that.
fn usual_source(any: IpAddr, far: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(ip: &str, prefix: u8, mtu: u32) -> HostAddress {
        HostAddress { ip: ip.parse().expect("an address"), prefix, mtu }
    }

    #[test]
    fn a_socket_stands_on_its_address_or_on_all_of_its_families() {
        let all = || {
            vec![
                own("127.0.0.1", 8, 65_536),
                own("::1", 128, 65_536),
                own("10.0.0.1", 24, 9000),
                own("192.168.0.7", 16, 1400),
                own("fd00::7", 64, 1400),
            ]
        };
        let usual = ["192.168.0.7".parse().ok(), None];
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let at = |text: &str| choose(ip(text), all(), usual);
        let one = |text: &str, prefix, mtu| SocketAddresses { addresses: vec![(ip(text), prefix)], mtu };
        assert_eq!(at("10.0.0.1"), one("10.0.0.1", 32, 9000));
        assert_eq!(at("127.0.0.2"), one("127.0.0.2", 32, 65_535));
        assert_eq!(at("fd00::7"), one("fd00::7", 128, 1400));
        assert_eq!(at("172.16.0.1"), one("172.16.0.1", 32, 1500));
        let v4 = [
            (ip("192.168.0.7"), 16),
            (ip("10.0.0.1"), 24),
            (ip("127.0.0.1"), 8),
        ];
        assert_eq!(
            at("0.0.0.0"),
            SocketAddresses { addresses: v4.to_vec(), mtu: 1400 }
        );
        assert_eq!(at("::").addresses.len(), 5);
        let narrow = choose(
            ip("::"),
            vec![own("10.0.0.1", 24, 600), own("::1", 128, 65_536)],
            usual,
        );
        assert_eq!(narrow.mtu, 1280);
    }

    #[test]
    fn the_host_lists_its_loopback_address() {
        let standing = standing(Ipv4Addr::UNSPECIFIED.into()).expect("a list");
        assert!(standing.addresses.contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
    }
}
