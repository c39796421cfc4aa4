//! Links, addresses and routes of a network namespace, by rtnetlink.

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::netlink::{NetlinkSocket, Request};
use crate::sys::{self, InterfaceRequest};

use super::{Namespace, NamespaceError};

/// VETH_INFO_PEER of <linux/veth.h>.
const VETH_INFO_PEER: u16 = 1;
/// The offset of the type in `struct rtmsg`.
const ROUTE_TYPE: usize = 7;
/// The maximum time that [`Netlink::settle`] waits.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);
/// The maximum time until a connected interface can use its addresses.
const CONNECTED_LIMIT: Duration = Duration::from_millis(300);
/// The pause between two queries.
const SETTLE_STEP: Duration = Duration::from_millis(2);

/// A connection to the kernel. It acts on the network namespace in which it was opened, whichever thread uses
/// it.
#[derive(Debug)]
pub struct Netlink {
    pub(super) socket: NetlinkSocket,
    /// The IPv6 addresses that it has assigned, with their interfaces.
    given: Vec<(String, IpAddr)>,
}

impl Netlink {
    /// Connects for the calling thread's network namespace.
    ///
    /// # Errors
    /// Fails if the kernel has no rtnetlink.
    pub fn open() -> Result<Netlink, NamespaceError> {
        let socket =
            NetlinkSocket::open(libc::NETLINK_ROUTE).map_err(NamespaceError::new("open a netlink socket"))?;
        Ok(Netlink { socket, given: Vec::new() })
    }

    /// Creates a virtual cable: a pair of Ethernet interfaces, `name` here and `peer` in another namespace,
    /// both down.
    ///
    /// # Errors
    /// Fails if it is not permitted, or if a name is taken.
    pub fn add_veth(&mut self, name: &str, peer: &str, to: &Namespace) -> Result<(), NamespaceError> {
        self.add_numbered_veth(name, 0, peer, to)
    }

    /// Like `add_veth`, with the index that `name` is to have; 0 means any.
    ///
    /// If both ends have the same index, each in its namespace, the kernel does not recognise the pair as
    /// connected. It may take a second to notice the connection.
    ///
    /// # Errors
    /// Fails if it is not permitted, or if a name or the index is taken.
    pub fn add_numbered_veth(
        &mut self,
        name: &str,
        number: u32,
        peer: &str,
        to: &Namespace,
    ) -> Result<(), NamespaceError> {
        let mut request = Request::new(libc::RTM_NEWLINK, create());
        request.put_link(number, 0, 0);
        request.string(libc::IFLA_IFNAME, name);
        let info = request.open(libc::IFLA_LINKINFO);
        request.string(libc::IFLA_INFO_KIND, "veth");
        let data = request.open(libc::IFLA_INFO_DATA);
        let other = request.open(VETH_INFO_PEER);
        request.put_link(0, 0, 0);
        request.string(libc::IFLA_IFNAME, peer);
        request.attribute(libc::IFLA_NET_NS_FD, &to.handle().to_ne_bytes());
        request.close(other);
        request.close(data);
        request.close(info);
        self.socket
            .request(request)
            .map_err(NamespaceError::new(format!("lay a cable from {name} to {peer}")))
    }

    /// Removes an interface. For one end of a cable, the other end is removed as well.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn remove(&mut self, name: &str) -> Result<(), NamespaceError> {
        let mut remove = || {
            let mut request = Request::new(libc::RTM_DELLINK, 0);
            request.put_link(self.index(name)?, 0, 0);
            self.socket.request(request)
        };
        remove().map_err(NamespaceError::new(format!("remove {name}")))
    }

    /// Brings an interface up. If it is connected at once, like a TUN device, its addresses are usable
    /// afterwards. A veth is connected when both ends are up; see [`Netlink::settle`].
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn bring_up(&mut self, name: &str) -> Result<(), NamespaceError> {
        self.set_flags(name, libc::IFF_UP as u32)
            .map_err(NamespaceError::new(format!("bring {name} up")))?;
        self.settle_if_connected(name)
    }

    /// Waits until an interface that is up is connected, and the IPv6 addresses that were assigned to it here
    /// are usable. The kernel completes both in the background. Until then it drops sent and received
    /// packets.
    ///
    /// # Errors
    /// Fails if that takes longer than three seconds.
    pub fn settle(&mut self, name: &str) -> Result<(), NamespaceError> {
        let mut settle = || {
            let end = Instant::now() + SETTLE_LIMIT;
            while self.flags(name)? & libc::IFF_RUNNING == 0 {
                pause(end)?;
            }
            self.await_given(name, SETTLE_LIMIT)
        };
        settle().map_err(NamespaceError::new(format!("use {name}; is it connected?")))
    }

    /// Takes an interface down.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn take_down(&mut self, name: &str) -> Result<(), NamespaceError> {
        self.set_flags(name, 0)
            .map_err(NamespaceError::new(format!("take {name} down")))
    }

    /// Sets the largest packet that an interface sends, in bytes.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it does not support that MTU.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), NamespaceError> {
        let mut set = || {
            let mut request = Request::new(libc::RTM_NEWLINK, 0);
            request.put_link(self.index(name)?, 0, 0);
            request.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
            self.socket.request(request)
        };
        set().map_err(NamespaceError::new(format!("set the MTU of {name} to {mtu}")))
    }

    /// Sets the maximum number of packets that wait to leave by an interface or, at a TUN device, to be read.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn set_queue(&mut self, name: &str, packets: u32) -> Result<(), NamespaceError> {
        let mut set = || {
            let mut request = Request::new(libc::RTM_NEWLINK, 0);
            request.put_link(self.index(name)?, 0, 0);
            request.attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes());
            self.socket.request(request)
        };
        set().map_err(NamespaceError::new(format!(
            "set the queue of {name} to {packets} packets"
        )))
    }

    /// Sets whether the kernel leaves checksums, and with them the cutting of super-segments, to an
    /// interface. If not, every packet on the cable is complete and no longer than the MTU.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn set_checksum_offload(&mut self, name: &str, on: bool) -> Result<(), NamespaceError> {
        /// ETHTOOL_STXCSUM of <linux/ethtool.h>.
        const SET_TRANSMIT_CHECKSUM: u32 = 0x17;
        sys::ethtool_set(self.socket.as_fd(), name, SET_TRANSMIT_CHECKSUM, u32::from(on))
            .map_err(NamespaceError::new(format!("set checksum offload of {name}")))
    }

    /// Sets whether received packets of one stream are merged before the kernel's protocols see them (generic
    /// receive offload).
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn set_receive_merging(&mut self, name: &str, on: bool) -> Result<(), NamespaceError> {
        /// ETHTOOL_SGRO of <linux/ethtool.h>.
        const SET_RECEIVE_OFFLOAD: u32 = 0x2c;
        sys::ethtool_set(self.socket.as_fd(), name, SET_RECEIVE_OFFLOAD, u32::from(on))
            .map_err(NamespaceError::new(format!("set receive merging of {name}")))
    }

    /// Sets whether segmentation is left to an interface, and whether its received packets are merged (TSO,
    /// GSO, GRO). Checksums are not affected.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn set_segmentation(&mut self, name: &str, on: bool) -> Result<(), NamespaceError> {
        /// ETHTOOL_STSO and ETHTOOL_SGSO of <linux/ethtool.h>.
        const SET_SEGMENTATION: [u32; 2] = [0x1f, 0x24];
        for command in SET_SEGMENTATION {
            sys::ethtool_set(self.socket.as_fd(), name, command, u32::from(on))
                .map_err(NamespaceError::new(format!("set segmentation offload of {name}")))?;
        }
        self.set_receive_merging(name, on)
    }

    /// Assigns an address of the kernel to an interface, with the prefix length of its subnet. The address is
    /// usable at once.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it has the address already.
    pub fn add_address(&mut self, name: &str, ip: IpAddr, prefix: u8) -> Result<(), NamespaceError> {
        let mut add = || {
            let mut request = Request::new(libc::RTM_NEWADDR, create());
            request.put_address(family(ip), prefix, self.index(name)?);
            let bytes = octets(ip);
            request.attribute(libc::IFA_LOCAL, &bytes);
            request.attribute(libc::IFA_ADDRESS, &bytes);
            self.socket.request(request)
        };
        add().map_err(NamespaceError::new(format!(
            "give {name} the address {ip}/{prefix}"
        )))?;
        if ip.is_ipv6() {
            self.given.push((name.to_owned(), ip));
        }
        self.settle_if_connected(name)
    }

    /// Routes packets for `to` through a router. `0.0.0.0` or `::` with prefix 0 stands for all destinations.
    ///
    /// # Errors
    /// Fails if the router is on no subnet, or if the route exists already.
    pub fn add_route(&mut self, to: IpAddr, prefix: u8, gateway: IpAddr) -> Result<(), NamespaceError> {
        let mut request = Request::new(libc::RTM_NEWROUTE, create());
        put_route(
            &mut request,
            family(to),
            prefix,
            libc::RT_TABLE_MAIN,
            libc::RT_SCOPE_UNIVERSE,
        );
        request.attribute(libc::RTA_DST, &octets(to));
        request.attribute(libc::RTA_GATEWAY, &octets(gateway));
        self.socket.request(request).map_err(NamespaceError::new(format!(
            "add a route to {to}/{prefix} by {gateway}"
        )))
    }

    fn set_flags(&mut self, name: &str, flags: u32) -> io::Result<()> {
        let mut request = Request::new(libc::RTM_NEWLINK, 0);
        request.put_link(self.index(name)?, flags, libc::IFF_UP as u32);
        self.socket.request(request)
    }

    /// Returns the index of the interface `name` in the socket's namespace.
    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        Ok(self.property(name, libc::SIOCGIFINDEX as libc::c_ulong)?.number() as u32)
    }

    fn flags(&self, name: &str) -> io::Result<c_int> {
        Ok(self.property(name, libc::SIOCGIFFLAGS as libc::c_ulong)?.flags())
    }

    fn property(&self, name: &str, which: libc::c_ulong) -> io::Result<InterfaceRequest> {
        let mut request = InterfaceRequest::new(name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        sys::interface_ioctl(self.socket.as_fd(), which, &mut request)?;
        Ok(request)
    }

    /// Waits for the addresses of an interface that appears connected. Right after a cable is created that
    /// may be wrong, so that a timeout is not an error.
    fn settle_if_connected(&mut self, name: &str) -> Result<(), NamespaceError> {
        let wait = |netlink: &mut Netlink| {
            if netlink.flags(name)? & libc::IFF_RUNNING == 0 {
                return Ok(());
            }
            match netlink.await_given(name, CONNECTED_LIMIT) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
                other => other,
            }
        };
        wait(self).map_err(NamespaceError::new(format!("use the addresses of {name}")))
    }

    /// Waits until the kernel has a local route to each address assigned to `name`.
    fn await_given(&mut self, name: &str, limit: Duration) -> io::Result<()> {
        let given = self.given.iter().filter(|(interface, _)| interface == name);
        let given: Vec<IpAddr> = given.map(|(_, ip)| *ip).collect();
        let end = Instant::now() + limit;
        for ip in given {
            while !self.is_local(ip)? {
                pause(end)?;
            }
        }
        Ok(())
    }

    /// Returns whether the kernel takes packets to `ip` as its own.
    fn is_local(&mut self, ip: IpAddr) -> io::Result<bool> {
        let mut request = Request::new(libc::RTM_GETROUTE, 0);
        put_route(
            &mut request,
            family(ip),
            if ip.is_ipv4() { 32 } else { 128 },
            libc::RT_TABLE_MAIN,
            libc::RT_SCOPE_UNIVERSE,
        );
        request.attribute(libc::RTA_DST, &octets(ip));
        let mut is_local = false;
        let answered = self.socket.exchange(request, |answer| {
            is_local |=
                answer.kind == libc::RTM_NEWROUTE && answer.body.get(ROUTE_TYPE) == Some(&libc::RTN_LOCAL);
        });
        match answered {
            Ok(()) => Ok(is_local),
            // The subnet's route does not exist yet either.
            Err(error) if error.raw_os_error() == Some(libc::ENETUNREACH) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Waits before another query, unless `end` has passed.
fn pause(end: Instant) -> io::Result<()> {
    if Instant::now() > end {
        return Err(io::ErrorKind::TimedOut.into());
    }
    std::thread::sleep(SETTLE_STEP);
    Ok(())
}

fn create() -> c_int {
    libc::NLM_F_CREATE | libc::NLM_F_EXCL
}

/// Appends a `struct rtmsg` for a unicast route of a table.
pub(super) fn put_route(request: &mut Request, family: u8, prefix: u8, table: u8, scope: u8) {
    request.put(&[
        family,
        prefix,
        0,
        0,
        table,
        libc::RTPROT_STATIC,
        scope,
        libc::RTN_UNICAST,
    ]);
    request.put(&[0; 4]);
}

pub(super) fn family(ip: IpAddr) -> u8 {
    let family: c_int = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    family as u8
}

pub(super) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
