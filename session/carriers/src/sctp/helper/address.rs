//! Addresses in the library's form: `sockaddr_in` and `sockaddr_in6`, one after the other without gaps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::abi::Storage;

const LENGTH_V4: usize = 16;
const LENGTH_V6: usize = 28;
const V4: u16 = libc::AF_INET as u16;
const V6: u16 = libc::AF_INET6 as u16;

/// Encodes addresses one after the other.
pub(crate) fn pack(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(addresses.len() * LENGTH_V6);
    for address in addresses {
        match address {
            SocketAddr::V4(address) => {
                bytes.extend(V4.to_ne_bytes());
                bytes.extend(address.port().to_be_bytes());
                bytes.extend(address.ip().octets());
                bytes.extend([0; 8]);
            }
            SocketAddr::V6(address) => {
                bytes.extend(V6.to_ne_bytes());
                bytes.extend(address.port().to_be_bytes());
                bytes.extend(address.flowinfo().to_ne_bytes());
                bytes.extend(address.ip().octets());
                bytes.extend(address.scope_id().to_ne_bytes());
            }
        }
    }
    bytes
}

/// Returns the length of an address of this family.
pub(crate) fn length_of(family: u16) -> Option<usize> {
    match family {
        V4 => Some(LENGTH_V4),
        V6 => Some(LENGTH_V6),
        _ => None,
    }
}

/// Decodes the addresses in `bytes`, up to the first that is neither IPv4 nor IPv6.
pub(crate) fn unpack(mut bytes: &[u8]) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    while let Some((address, rest)) = first(bytes) {
        addresses.push(address);
        bytes = rest;
    }
    addresses
}

/// Returns the address in a structure of the library.
pub(crate) fn from_storage(storage: &Storage) -> Option<SocketAddr> {
    first(bytemuck::bytes_of(storage)).map(|(address, _)| address)
}

/// Returns the address as a structure of the library.
pub(crate) fn store(address: SocketAddr) -> Storage {
    let mut storage = Storage::default();
    let bytes = pack(&[address]);
    bytemuck::bytes_of_mut(&mut storage)[..bytes.len()].copy_from_slice(&bytes);
    storage
}

fn first(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let (address, rest) = bytes.split_at_checked(length_of(family)?)?;
    let port = u16::from_be_bytes(*address[2..].first_chunk()?);
    let address = if family == V4 {
        let octets: [u8; 4] = *address[4..].first_chunk()?;
        SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port)
    } else {
        let octets: [u8; 16] = *address[8..].first_chunk()?;
        let scope = u32::from_ne_bytes(*address[24..].first_chunk()?);
        SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope))
    };
    Some((address, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_packing_and_unpacking() {
        let addresses: Vec<SocketAddr> = ["192.0.2.1:9899", "[2001:db8::1]:1", "[fe80::1%3]:65535"]
            .map(|a| a.parse().unwrap())
            .into();
        assert_eq!(unpack(&pack(&addresses)), addresses);
        assert_eq!(from_storage(&store(addresses[1])), Some(addresses[1]));
    }

    #[test]
    fn addresses_have_the_layout_of_the_system() {
        // struct sockaddr_in: family, port in network byte order, address, eight zeros (ip(7)).
        let mut expected = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        expected.extend([0x26, 0xab, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(pack(&["192.0.2.1:9899".parse().unwrap()]), expected);
        assert_eq!(size_of::<libc::sockaddr_in>(), LENGTH_V4);
        assert_eq!(size_of::<libc::sockaddr_in6>(), LENGTH_V6);
    }

    #[test]
    fn a_truncated_or_unknown_address_ends_the_list() {
        let bytes = pack(&["192.0.2.1:9899".parse().unwrap()]);
        assert!(unpack(&bytes[..15]).is_empty());
        assert!(unpack(&[]).is_empty());
        assert!(unpack(&[123, 0, 0, 0]).is_empty());
    }
}
