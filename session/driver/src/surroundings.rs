//! Which network this is, and what becomes of it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use hawser_net::host::netlink::interfaces::Reach;
use hawser_net::host::netlink::{self, Socket};
use sha2::{Digest, Sha256};

use crate::document::{Interface, Kind};
use crate::{Change, Network};
use hawser_race::rfc6724::{self, Destination, Source};

/// A network without a name: what is learnt there is kept apart from all others.
pub const UNKNOWN: &str = "unknown";

/// A name for the network that this host is attached to, from the addresses that it has there. Two
/// networks that give the same address are taken for one; what they change is notified by
/// [`Change`], upon which what was learnt of failures is forgotten.
pub fn name(network: &Network) -> Arc<str> {
    let mut parts: Vec<String> = network.addresses().into_iter().filter_map(part).collect();
    parts.sort();
    parts.dedup();
    let digest = Sha256::digest(parts.join(" "));
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into()
}

/// The part of an address that names its network: of IPv6 the prefix, since the rest changes by itself
/// (RFC 8981).
fn part(address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(address) if address.is_loopback() || address.is_link_local() => None,
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(address) if address.is_loopback() || address.is_unicast_link_local() => None,
        IpAddr::V6(address) => Some(format!("{:x}", address.to_bits() >> 64)),
    }
}

/// The interface that a change took away.
pub fn gone(change: &Change) -> Option<Arc<str>> {
    match change {
        Change::Down(name) => Some(name.as_str().into()),
        Change::Up(_) | Change::AddressAdded(..) | Change::AddressRemoved(..) => None,
    }
}

/// A destination with the source address that the system would take: connecting a datagram socket
/// asks the kernel's routes, and sends nothing.
pub fn destination(address: IpAddr) -> Destination {
    let any: IpAddr = if address.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Any port will do; 9 discards.
        socket.connect(SocketAddr::new(address, 9))?;
        socket.local_addr()
    });
    Destination { address, source: source.ok().map(|source| Source::new(source.ip())) }
}

/// These addresses in the order in which to try them from here (RFC 6724).
pub fn ordered(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let all: Vec<_> = addresses.into_iter().map(destination).collect();
    let order = rfc6724::order(&all, rfc6724::DEFAULT_TABLE);
    order.into_iter().map(|index| all[index].address).collect()
}

/// The interfaces, loopback aside, over which a route leads to this address. None for an address of this host, or where
/// the kernel does not answer.
pub fn interfaces_to(address: IpAddr, interfaces: &[Interface]) -> Vec<String> {
    let Ok(mut socket) = Socket::open_route() else {
        return Vec::new();
    };
    let mut reach = |index| netlink::interfaces::reach(&mut socket, address, index).unwrap_or(Reach::Nowhere);
    if reach(0) == Reach::Local {
        return Vec::new();
    }
    let usable = interfaces
        .iter()
        .filter(|interface| interface.is_up && interface.kind != Kind::Loopback);
    usable
        .filter(|interface| reach(interface.index) == Reach::Routed)
        .map(|interface| interface.name.clone())
        .collect()
}

/// Whether nothing leads to this IPv4 address from here, and something to the Internet's IPv6: the network
/// has perhaps a translator.
pub fn has_ipv6_alone(address: IpAddr) -> bool {
    // Of the prefix that translators have where the network has no other (RFC 6052, 2.1).
    const BEYOND: IpAddr = IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0xc000, 0xaa));
    destination(address).source.is_none() && destination(BEYOND).source.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_network() {
        let of = |text: &str| part(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.7").as_deref(), Some("192.0.2.7"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::beef"), "they share a prefix");
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        for own in ["127.0.0.1", "::1", "fe80::1", "169.254.1.1"] {
            assert_eq!(of(own), None, "{own}");
        }
    }

    #[test]
    fn this_host_is_reached_from_itself() {
        let to = destination([127, 0, 0, 1].into());
        assert_eq!(
            to.source.map(|source| source.address),
            Some([127, 0, 0, 1].into())
        );
    }
}
