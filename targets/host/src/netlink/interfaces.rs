//! Interfaces and their addresses: what the kernel lists and reports of them, by rtnetlink(7).

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use super::message::{Message, Request, u32_at};

/// Bytes of `struct ifinfomsg` and of `struct ifaddrmsg`.
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Of an interface.
    Link(LinkReport),
    /// Of an address of an interface.
    Address(AddressReport),
}

/// What the kernel reports of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Its number.
    pub index: u32,
    /// Whether it is there; otherwise it was taken away.
    pub exists: bool,
    /// Whether this is about its place in a bridge alone.
    pub of_bridge: bool,
    /// Whether it is up, and so is its carrier.
    pub is_up: bool,
    /// Its name.
    pub name: Option<String>,
    /// The largest packet that it takes, in bytes.
    pub mtu: Option<u32>,
}

/// What the kernel reports of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressReport {
    /// The number of its interface.
    pub index: u32,
    /// Whether it is there; otherwise it was taken away.
    pub exists: bool,
    /// The address: of a point-to-point link the local one.
    pub address: IpAddr,
}

/// A socket on which nothing blocks, and which receives reports of the calling thread's network
/// namespace. Needs no privilege.
///
/// # Errors
/// When the kernel has no rtnetlink, or the process may open no more sockets.
pub fn watch() -> io::Result<OwnedFd> {
    let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    super::open(
        rustix::net::SocketFlags::NONBLOCK,
        libc::NETLINK_ROUTE,
        groups as u32,
    )
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

impl Report {
    /// Reads a message; none where it is no report, or does not fit its format.
    #[must_use]
    pub fn read(message: Message<'_>) -> Option<Report> {
        match message.kind {
            libc::RTM_NEWLINK => LinkReport::read(message, true).map(Report::Link),
            libc::RTM_DELLINK => LinkReport::read(message, false).map(Report::Link),
            libc::RTM_NEWADDR => AddressReport::read(message, true).map(Report::Address),
            libc::RTM_DELADDR => AddressReport::read(message, false).map(Report::Address),
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
        Some(AddressReport {
            index: u32_at(message.body, 4)?,
            exists,
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Socket;
    use super::*;

    /// The interface that every network namespace has, with the address that Linux gives it.
    #[test]
    fn the_loopback_interface_is_listed_with_its_address() {
        let mut socket = Socket::open(libc::NETLINK_ROUTE).expect("a socket");
        let mut reports = Vec::new();
        for request in [links(), addresses()] {
            let listed = socket.exchange(request, |message| reports.extend(Report::read(message)));
            listed.expect("the kernel lists them");
        }
        let loopback = reports.iter().find_map(|report| match report {
            Report::Link(link) if link.name.as_deref() == Some("lo") => Some(link),
            _ => None,
        });
        let loopback = loopback.expect("a loopback interface");
        assert!(loopback.exists && !loopback.of_bridge && loopback.mtu.is_some());
        let address = Report::Address(AddressReport {
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
                let message = Message {
                    kind,
                    sequence: 0,
                    body: &[0; 8][..length],
                };
                assert_eq!(Report::read(message), None, "{kind} {length}");
            }
        }
    }
}
