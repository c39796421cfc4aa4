//! The network to which this host is attached, and its changes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use hawser_sockets::host::netlink::interfaces::Reach;
use hawser_sockets::host::netlink::{self, NetlinkSocket};
use sha2::{Digest, Sha256};

use crate::document::{Interface, LinkKind};
use crate::{InterfaceChange, Network};
use hawser_race::rfc6724::{self, Destination, SourceAddress};

/// The name of an unidentified network. Knowledge gathered there is kept apart from that of all others.
pub const UNKNOWN: &str = "unknown";

/// Returns a name for the network that this host is attached to, derived from the host's addresses there. Two
/// networks that assign the same address count as one. A move between them is reported as an
/// [`InterfaceChange`], after which known failures are forgotten.
pub fn name(network: &Network) -> Arc<str> {
    let mut parts: Vec<String> = network.addresses().into_iter().filter_map(part).collect();
    parts.sort();
    parts.dedup();
    let digest = Sha256::digest(parts.join(" "));
    HEXLOWER.encode(&digest[..8]).into()
}

/// Returns the part of an address that identifies its network. For IPv6 that is the prefix, because the rest
/// changes by itself (RFC 8981).
fn part(address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(address) if address.is_loopback() || address.is_link_local() => None,
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(address) if address.is_loopback() || address.is_unicast_link_local() => None,
        IpAddr::V6(address) => Some(format!("{:x}", address.to_bits() >> 64)),
    }
}

/// Returns the interface that a change took away.
pub fn gone(change: &InterfaceChange) -> Option<Arc<str>> {
    match change {
        InterfaceChange::Down(name) => Some(name.as_str().into()),
        InterfaceChange::Up(_) | InterfaceChange::AddressAdded(..) | InterfaceChange::AddressRemoved(..) => {
            None
        }
    }
}

/// Returns a destination with the source address that the system would use. Connecting a datagram socket
/// queries the kernel's routes and sends no packet.
pub fn destination(address: IpAddr) -> Destination {
    let any: IpAddr = if address.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Any port will do; port 9 is the discard service.
        socket.connect(SocketAddr::new(address, 9))?;
        socket.local_addr()
    });
    Destination {
        address,
        source: source.ok().map(|source| SourceAddress::new(source.ip())),
    }
}

/// Returns these addresses in the order in which to try them from here (RFC 6724).
pub fn ordered(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let all: Vec<_> = addresses.into_iter().map(destination).collect();
    let order = rfc6724::order(&all, rfc6724::DEFAULT_TABLE);
    order.into_iter().map(|index| all[index].address).collect()
}

/// Returns the interfaces, except loopback, that have a route to this address. Empty for an address of this
/// host, or if the kernel does not answer.
pub fn interfaces_to(address: IpAddr, interfaces: &[Interface]) -> Vec<String> {
    let Ok(mut socket) = NetlinkSocket::open_route() else {
        return Vec::new();
    };
    let mut reach = |index| netlink::interfaces::reach(&mut socket, address, index).unwrap_or(Reach::Nowhere);
    if reach(0) == Reach::Local {
        return Vec::new();
    }
    let usable = interfaces
        .iter()
        .filter(|interface| interface.is_up && interface.kind != LinkKind::Loopback);
    usable
        .filter(|interface| reach(interface.index) == Reach::Routed)
        .map(|interface| interface.name.clone())
        .collect()
}

/// Returns true if there is no route to this IPv4 address, but one to the IPv6 Internet. The network may then
/// have a translator (NAT64).
pub fn has_ipv6_alone(address: IpAddr) -> bool {
    // An address in the prefix that translators use if the network has no other (RFC 6052, 2.1).
    const BEYOND: IpAddr = IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0xc000, 0xaa));
    destination(address).source.is_none() && destination(BEYOND).source.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_identified_by_its_prefix() {
        let of = |text: &str| part(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.7").as_deref(), Some("192.0.2.7"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::beef"), "they share a prefix");
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        for own in ["127.0.0.1", "::1", "fe80::1", "169.254.1.1"] {
            assert_eq!(of(own), None, "{own}");
        }
    }

    #[test]
    fn localhost_is_reached_from_its_own_address() {
        let to = destination([127, 0, 0, 1].into());
        assert_eq!(
            to.source.map(|source| source.address),
            Some([127, 0, 0, 1].into())
        );
    }
}
