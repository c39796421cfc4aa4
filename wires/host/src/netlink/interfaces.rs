//! Interfaces and their addresses, as the kernel lists and reports them by rtnetlink(7).

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use super::NetlinkSocket;
use super::message::{Message, Request, u32_at};

/// The sizes of `struct ifinfomsg` and of `struct ifaddrmsg`, in bytes.
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;

/// A report of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceReport {
    /// A report of an interface.
    Link(LinkReport),
    /// A report of an address of an interface.
    Address(AddressReport),
}

/// The kernel's report of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The interface's index.
    pub index: u32,
    /// True if the interface exists, false if it was removed.
    pub exists: bool,
    /// True if the report only concerns its place in a bridge.
    pub of_bridge: bool,
    /// True if the interface and its carrier are up.
    pub is_up: bool,
    /// The interface's name, if reported.
    pub name: Option<String>,
    /// The largest packet that it accepts, in bytes.
    pub mtu: Option<u32>,
}

/// The kernel's report of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressReport {
    /// The index of its interface.
    pub index: u32,
    /// True if the address exists, false if it was removed.
    pub exists: bool,
    /// The address; on a point-to-point link, the local one.
    pub address: IpAddr,
}

/// Opens a non-blocking socket that receives reports of the calling thread's network namespace. It needs no
/// privilege.
///
/// # Errors
/// Fails if the kernel has no rtnetlink, or if the process may open no more sockets.
pub fn watch() -> io::Result<OwnedFd> {
    let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    super::open(
        rustix::net::SocketFlags::NONBLOCK,
        libc::NETLINK_ROUTE,
        groups as u32,
    )
}

/// The kind of destination of the kernel's routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No route leads there.
    Nowhere,
    /// The destination is an address of this host.
    Local,
    /// A route leads there.
    Routed,
}

/// Asks for the destination of the routes to an address: over the interface of this index, or over any if it
/// is 0.
///
/// # Errors
/// Fails if the kernel does not answer.
pub fn reach(socket: &mut NetlinkSocket, to: IpAddr, index: u32) -> io::Result<Reach> {
    // Without this flag, the kernel treats every IPv4 address as being on the link of the interface
    // (linux/rtnetlink.h).
    const RTM_F_FIB_MATCH: u32 = 0x2000;
    /// The offset of a route's type in `struct rtmsg`.
    const TYPE: usize = 7;
    let (family, octets, prefix) = match to {
        IpAddr::V4(to) => (libc::AF_INET, to.octets().to_vec(), 32),
        IpAddr::V6(to) => (libc::AF_INET6, to.octets().to_vec(), 128),
    };
    let mut request = Request::new(libc::RTM_GETROUTE, 0);
    request.put(&[family as u8, prefix, 0, 0, 0, 0, 0, 0]);
    request.put(&RTM_F_FIB_MATCH.to_ne_bytes());
    request.attribute(libc::RTA_DST, &octets);
    if index > 0 {
        request.attribute(libc::RTA_OIF, &index.to_ne_bytes());
    }
    let mut reach = Reach::Nowhere;
    let answered = socket.exchange(request, |answer| {
        if answer.kind == libc::RTM_NEWROUTE {
            reach = match answer.body.get(TYPE) {
                Some(&libc::RTN_LOCAL) => Reach::Local,
                Some(&libc::RTN_UNICAST) => Reach::Routed,
                _ => Reach::Nowhere,
            };
        }
    });
    match answered.map_err(|error| error.raw_os_error()) {
        Ok(()) => Ok(reach),
        Err(Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL | libc::ENETDOWN)) => {
            Ok(Reach::Nowhere)
        }
        Err(number) => Err(number.map_or_else(|| io::ErrorKind::Other.into(), io::Error::from_raw_os_error)),
    }
}

/// Requests a report of each interface.
#[must_use]
pub fn links() -> Request {
    let mut request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP);
    request.put_link(0, 0, 0);
    request
}

/// Requests a report of each address.
#[must_use]
pub fn addresses() -> Request {
    let mut request = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP);
    request.put_address(0, 0, 0);
    request
}

impl InterfaceReport {
    /// Parses a message. Returns `None` if it is not a report, or is malformed.
    #[must_use]
    pub fn read(message: Message<'_>) -> Option<InterfaceReport> {
        match message.kind {
            libc::RTM_NEWLINK => LinkReport::read(message, true).map(InterfaceReport::Link),
            libc::RTM_DELLINK => LinkReport::read(message, false).map(InterfaceReport::Link),
            libc::RTM_NEWADDR => AddressReport::read(message, true).map(InterfaceReport::Address),
            libc::RTM_DELADDR => AddressReport::read(message, false).map(InterfaceReport::Address),
            _ => None,
        }
    }
}

impl LinkReport {
    fn read(message: Message<'_>, exists: bool) -> Option<LinkReport> {
        const UP: c_int = libc::IFF_UP | libc::IFF_LOWER_UP;
        let attributes = message.attributes(LINK_HEADER);
        let name = attributes.find(libc::IFLA_IFNAME);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        Some(LinkReport {
            index: u32_at(message.body, 4)?,
            exists,
            of_bridge: c_int::from(*message.body.first()?) == libc::AF_BRIDGE,
            is_up: u32_at(message.body, 8)? as c_int & UP == UP,
            name: name.map(text),
            mtu: attributes.find(libc::IFLA_MTU).and_then(|bytes| u32_at(bytes, 0)),
        })
    }
}

impl AddressReport {
    fn read(message: Message<'_>, exists: bool) -> Option<AddressReport> {
        let attributes = message.attributes(ADDRESS_HEADER);
        let bytes = attributes
            .find(libc::IFA_LOCAL)
            .or_else(|| attributes.find(libc::IFA_ADDRESS))?;
        let address = match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        };
        Some(AddressReport { index: u32_at(message.body, 4)?, exists, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_local_and_unreachable_by_absent_interfaces() {
        let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE).expect("a socket");
        let here = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(reach(&mut socket, here, 0).expect("an answer"), Reach::Local);
        let absent = reach(&mut socket, here, i32::MAX as u32);
        assert!(absent.is_err() || absent.is_ok_and(|reach| reach == Reach::Nowhere));
    }

    /// The interface that every network namespace has, with the address that Linux gives it.
    #[test]
    fn the_loopback_interface_is_listed_with_its_address() {
        let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE).expect("a socket");
        let mut reports = Vec::new();
        for request in [links(), addresses()] {
            let listed = socket.exchange(request, |message| reports.extend(InterfaceReport::read(message)));
            listed.expect("the kernel lists them");
        }
        let loopback = reports.iter().find_map(|report| match report {
            InterfaceReport::Link(link) if link.name.as_deref() == Some("lo") => Some(link),
            _ => None,
        });
        let loopback = loopback.expect("a loopback interface");
        assert!(loopback.exists && !loopback.of_bridge && loopback.mtu.is_some());
        let address = InterfaceReport::Address(AddressReport {
            index: loopback.index,
            exists: true,
            address: IpAddr::from([127, 0, 0, 1]),
        });
        assert_eq!(reports.contains(&address), loopback.is_up, "{reports:?}");
    }

    #[test]
    fn a_report_shorter_than_its_structure_is_left_out() {
        for kind in [
            libc::RTM_NEWLINK,
            libc::RTM_DELLINK,
            libc::RTM_NEWADDR,
            libc::RTM_DELADDR,
        ] {
            for length in 0..8 {
                let message = Message { kind, sequence: 0, body: &[0; 8][..length] };
                assert_eq!(InterfaceReport::read(message), None, "{kind} {length}");
            }
        }
    }
}
