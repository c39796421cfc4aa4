//! The UDP sockets that carry SCTP (RFC 6951): one for each family, with the same port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::sockopt;
use socket2::{Domain, Socket, Type};

use crate::sctp::error::SctpError;

/// The sockets of a stack, one for each family.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) v4: Option<UdpSocket>,
    pub(crate) v6: Option<UdpSocket>,
    /// The destinations to accept; if empty, all.
    pub(crate) addresses: Vec<IpAddr>,
}

/// The number of attempts to find a port that is free in both families.
const PORT_TRIES: usize = 16;
/// The receive buffer of each socket, in bytes. All associations share it, and data that overflows it in a
/// burst must be sent again. The system grants as much as it permits.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Opens the sockets at these addresses, or at all if there are none, and at port `wanted`, or at any if that
/// is 0.
///
/// The socket of a family with one address is bound to it. With several addresses, the socket is bound to all
/// of the machine's, because the library has only one socket for each family. Datagrams to other addresses
/// are dropped.
pub(crate) fn open(addresses: &[IpAddr], wanted: u16) -> Result<(Sockets, u16), SctpError> {
    let taken = |(port, error)| SctpError::Port { port, error };
    let mut result = open_both(addresses, wanted);
    for _ in 1..PORT_TRIES {
        if wanted != 0 || result.is_ok() {
            break;
        }
        result = open_both(addresses, wanted);
    }
    result.map_err(taken)
}

fn open_both(addresses: &[IpAddr], wanted: u16) -> Result<(Sockets, u16), (u16, io::Error)> {
    let mut sockets = Sockets { addresses: addresses.to_vec(), ..Sockets::default() };
    let mut port = wanted;
    if let Some(ip) = one_of(addresses, IpAddr::is_ipv4, Ipv4Addr::UNSPECIFIED.into()) {
        let socket = bind(ip, port).map_err(|error| (port, error))?;
        port = socket.local_addr().map_err(|error| (port, error))?.port();
        sockets.v4 = Some(socket);
    }
    if let Some(ip) = one_of(addresses, IpAddr::is_ipv6, Ipv6Addr::UNSPECIFIED.into()) {
        match bind(ip, port) {
            Ok(socket) => {
                port = socket.local_addr().map_err(|error| (port, error))?.port();
                sockets.v6 = Some(socket);
            }
            // A machine without IPv6 has no such socket.
            Err(error) if addresses.is_empty() && error.kind() != io::ErrorKind::AddrInUse => {}
            Err(error) => return Err((port, error)),
        }
    }
    Ok((sockets, port))
}

/// Returns the address to bind for a family: its only address, or all (`any`), or `None`.
fn one_of(addresses: &[IpAddr], is_of: fn(&IpAddr) -> bool, any: IpAddr) -> Option<IpAddr> {
    let mut of_family = addresses.iter().copied().filter(is_of);
    match (of_family.next(), of_family.next()) {
        (None, _) => addresses.is_empty().then_some(any),
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => Some(any),
    }
}

fn bind(ip: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let address = SocketAddr::new(ip, port);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if ip.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    // This needs a privilege; without it, the default size is used.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(text: &str) -> Vec<IpAddr> {
        text.split(',').map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn one_address_is_bound_directly() {
        let (sockets, port) = open(&ips("127.0.0.1"), 0).unwrap();
        let bound = sockets.v4.unwrap().local_addr().unwrap();
        assert_eq!(bound, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        assert!(sockets.v6.is_none());
    }

    #[test]
    fn several_addresses_share_a_filtered_socket() {
        let (sockets, _) = open(&ips("127.0.0.1,127.0.0.2"), 0).unwrap();
        assert!(sockets.v4.unwrap().local_addr().unwrap().ip().is_unspecified());
        assert_eq!(sockets.addresses, ips("127.0.0.1,127.0.0.2"));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let result = open(&ips("127.0.0.1"), port).unwrap_err();
        assert!(matches!(result, SctpError::Port { port: named, .. } if named == port));
    }
}
