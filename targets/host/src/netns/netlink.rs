//! Links, addresses and routes of a network namespace, by rtnetlink.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;

use crate::sys::{self, InterfaceRequest, Plain};

use super::message::{self, Message};
use super::{Namespace, NamespaceError};
use std::os::fd::AsFd;

/// VETH_INFO_PEER of <linux/veth.h>.
const VETH_INFO_PEER: u16 = 1;
/// Bytes enough for an acknowledgement, which quotes its request.
const ANSWER: usize = 8192;

/// A connection to the kernel about the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netlink {
    socket: File,
    sequence: u32,
}

impl Netlink {
    /// Connects, for the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no rtnetlink.
    pub fn open() -> Result<Netlink, NamespaceError> {
        let connect = || {
            let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
            let mut address = libc::sockaddr_nl::zeroed();
            address.nl_family = libc::AF_NETLINK as u16;
            sys::bind(socket.as_fd(), &address)?;
            Ok(File::from(socket))
        };
        let socket = connect().map_err(NamespaceError::new("open a netlink socket"))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Lays a cable: a pair of Ethernet interfaces, `name` here and `peer` in another namespace,
    /// both down.
    ///
    /// # Errors
    /// When it is not permitted, or a name is taken.
    pub fn add_veth(&mut self, name: &str, peer: &str, to: &Namespace) -> Result<(), NamespaceError> {
        let mut message = Message::new(libc::RTM_NEWLINK, create());
        message.put_link(0, 0, 0);
        message.string(libc::IFLA_IFNAME, name);
        let info = message.open(libc::IFLA_LINKINFO);
        message.string(libc::IFLA_INFO_KIND, "veth");
        let data = message.open(libc::IFLA_INFO_DATA);
        let other = message.open(VETH_INFO_PEER);
        message.put_link(0, 0, 0);
        message.string(libc::IFLA_IFNAME, peer);
        message.attribute(libc::IFLA_NET_NS_FD, &to.handle().to_ne_bytes());
        message.close(other);
        message.close(data);
        message.close(info);
        self.ask(message).map_err(NamespaceError::new(format!("lay a cable from {name} to {peer}")))
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// When there is none of that name, or it is not permitted.
    pub fn bring_up(&mut self, name: &str) -> Result<(), NamespaceError> {
        self.set_flags(name, libc::IFF_UP as u32).map_err(NamespaceError::new(format!("bring {name} up")))
    }

    /// Takes an interface down.
    ///
    /// # Errors
    /// When there is none of that name, or it is not permitted.
    pub fn take_down(&mut self, name: &str) -> Result<(), NamespaceError> {
        self.set_flags(name, 0).map_err(NamespaceError::new(format!("take {name} down")))
    }

    /// Sets the largest packet that an interface sends, in bytes.
    ///
    /// # Errors
    /// When there is no such interface, or it cannot have that.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), NamespaceError> {
        let mut set = || {
            let mut message = Message::new(libc::RTM_NEWLINK, 0);
            message.put_link(self.index(name)?, 0, 0);
            message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
            self.ask(message)
        };
        set().map_err(NamespaceError::new(format!("set the MTU of {name} to {mtu}")))
    }

    /// Sets how many packets wait at most to leave by an interface, or, at a TUN device, to be
    /// read.
    ///
    /// # Errors
    /// When there is no such interface, or it is not permitted.
    pub fn set_queue(&mut self, name: &str, packets: u32) -> Result<(), NamespaceError> {
        let mut set = || {
            let mut message = Message::new(libc::RTM_NEWLINK, 0);
            message.put_link(self.index(name)?, 0, 0);
            message.attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes());
            self.ask(message)
        };
        set().map_err(NamespaceError::new(format!("set the queue of {name} to {packets} packets")))
    }

    /// Gives an interface an address of the kernel's, at once usable, with the prefix length of
    /// its subnet.
    ///
    /// # Errors
    /// When there is no such interface, or it has the address already.
    pub fn add_address(&mut self, name: &str, ip: IpAddr, prefix: u8) -> Result<(), NamespaceError> {
        let mut add = || {
            let mut message = Message::new(libc::RTM_NEWADDR, create());
            message.put_address(family(ip), prefix, self.index(name)?);
            let bytes = octets(ip);
            message.attribute(libc::IFA_LOCAL, &bytes);
            message.attribute(libc::IFA_ADDRESS, &bytes);
            self.ask(message)
        };
        add().map_err(NamespaceError::new(format!("give {name} the address {ip}/{prefix}")))
    }

    /// Sends what is for `to` (`0.0.0.0` or `::` with prefix 0: everything) by way of a router.
    ///
    /// # Errors
    /// When the router is on no subnet, or the route is there already.
    pub fn add_route(&mut self, to: IpAddr, prefix: u8, gateway: IpAddr) -> Result<(), NamespaceError> {
        let mut message = Message::new(libc::RTM_NEWROUTE, create());
        message.put_route(family(to), prefix);
        message.attribute(libc::RTA_DST, &octets(to));
        message.attribute(libc::RTA_GATEWAY, &octets(gateway));
        self.ask(message).map_err(NamespaceError::new(format!("add a route to {to}/{prefix} by {gateway}")))
    }

    fn set_flags(&mut self, name: &str, flags: u32) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.put_link(self.index(name)?, flags, libc::IFF_UP as u32);
        self.ask(message)
    }

    /// The number of the interface `name`, in the socket's namespace.
    fn index(&self, name: &str) -> io::Result<u32> {
        let mut request = InterfaceRequest::new(name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        sys::interface_ioctl(self.socket.as_fd(), libc::SIOCGIFINDEX as libc::c_ulong, &mut request)?;
        Ok(request.number() as u32)
    }

    /// Sends a request and waits for its acknowledgement.
    fn ask(&mut self, message: Message) -> io::Result<()> {
        self.sequence += 1;
        let request = message.finish(self.sequence);
        self.socket.write_all(&request)?;
        let mut answer = vec![0; ANSWER];
        loop {
            let len = self.socket.read(&mut answer)?;
            match message::acknowledgement(&answer[..len], self.sequence) {
                Some(0) => return Ok(()),
                Some(error) => return Err(io::Error::from_raw_os_error(error)),
                // The answer to an earlier request whose reading was cut short.
                None => {}
            }
        }
    }
}

fn create() -> u16 {
    (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16
}

fn family(ip: IpAddr) -> u8 {
    let family: c_int = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    family as u8
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
