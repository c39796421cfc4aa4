//! An Ethernet interface, for wires that attach a stack as another host on its link.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use hawser_time::Instant;
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::sockopt;

use crate::sys::{self, InterfaceRequest};
use crate::{Clock, OpenError};

/// ARPHRD_ETHER of <linux/if_arp.h>.
const HARDWARE_ETHERNET: u16 = 1;
/// SPEED_UNKNOWN of <linux/ethtool.h>, which is -1 in C.
const UNKNOWN_SPEED: u32 = u32::MAX;
/// The interval at which a wire without arrivals checks that its interface exists.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The properties of an Ethernet interface of the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index.
    pub index: c_int,
    /// The interface's own Ethernet address, which is the kernel's.
    pub mac: [u8; 6],
    /// The largest IP packet that it carries, in bytes.
    pub mtu: u32,
}

impl Interface {
    /// Reads the properties of the interface `name`, which must be Ethernet and up. Any user may read them.
    /// Users who may not open a packet socket therefore also get an accurate error for a wrong name.
    ///
    /// # Errors
    /// [`OpenError::Name`], [`OpenError::Missing`], [`OpenError::Down`], [`OpenError::Kind`].
    pub fn read(name: &str) -> Result<Interface, OpenError> {
        let request = InterfaceRequest::new(name)?;
        let socket = ask_by()?;
        let ask = |which: libc::c_ulong| {
            let mut request = request;
            sys::interface_ioctl(socket.as_fd(), which, &mut request)
                .map(|()| request)
                .map_err(OpenError::io("read the interface's properties"))
        };
        let index = {
            let mut request = request;
            sys::interface_ioctl(socket.as_fd(), libc::SIOCGIFINDEX as libc::c_ulong, &mut request)
                .map_err(|_| OpenError::Missing(name.to_owned()))?;
            request.number()
        };
        if ask(libc::SIOCGIFFLAGS as libc::c_ulong)?.flags() & libc::IFF_UP == 0 {
            return Err(OpenError::Down(name.to_owned()));
        }
        let (kind, mac) = ask(libc::SIOCGIFHWADDR as libc::c_ulong)?.hardware_address();
        if kind != HARDWARE_ETHERNET {
            return Err(OpenError::Kind { name: name.to_owned(), wanted: "an Ethernet interface" });
        }
        let mtu = ask(libc::SIOCGIFMTU as libc::c_ulong)?.number();
        Ok(Interface { name: name.to_owned(), index, mac, mtu: mtu as u32 })
    }

    /// Returns the link rate of the interface `name` in bits per second, as its driver reports it (ethtool).
    /// Returns `None` if it has no line or no carrier.
    #[must_use]
    pub fn line_rate(name: &str) -> Option<u64> {
        let socket = ask_by().ok()?;
        let megabits = sys::line_speed(socket.as_fd(), name).ok()?;
        (megabits != 0 && megabits != UNKNOWN_SPEED).then_some(u64::from(megabits) * 1_000_000)
    }

    /// Like [`Interface::read`], for the interface with this index.
    ///
    /// # Errors
    /// As [`Interface::read`]; [`OpenError::Io`] if no interface has this index.
    pub fn numbered(index: u32) -> Result<Interface, OpenError> {
        let name = index_to_name(ask_by()?, index)
            .map_err(|errno| OpenError::io("find the interface's name")(errno.into()))?;
        Interface::read(&name)
    }

    /// Returns an Ethernet address for a stack beside the interface's own, always the same. It is locally
    /// administered (IEEE 802, 8.2.2) and differs from the interface's address in the last byte.
    #[must_use]
    pub fn neighbour(&self) -> [u8; 6] {
        let [a, b, c, d, e, f] = self.mac;
        [(a | 2) & !1, b, c, d, e, f ^ 0x5a]
    }

    /// Returns the number of receive queues, or 1 if the driver does not report it.
    ///
    /// # Errors
    /// Fails if no socket for the query can be opened.
    pub fn receive_queues(&self) -> Result<u32, OpenError> {
        let queues = sys::receive_queues(ask_by()?.as_fd(), &self.name);
        Ok(queues.unwrap_or(1).max(1))
    }

    /// Returns whether the interface is an end of a veth pair, according to its driver.
    ///
    /// # Errors
    /// Fails if no socket for the query can be opened.
    pub fn is_veth(&self) -> Result<bool, OpenError> {
        let driver = sys::driver(ask_by()?.as_fd(), &self.name);
        Ok(driver.is_ok_and(|driver| driver == "veth"))
    }

    /// Opens a socket that receives no frames. While it is open, the interface accepts frames for any
    /// address.
    ///
    /// # Errors
    /// [`OpenError::Permission`] without CAP_NET_RAW.
    pub fn promiscuous(&self) -> Result<OwnedFd, OpenError> {
        let failed = || OpenError::needs("CAP_NET_RAW", "have the interface receive frames for any address");
        let socket = sys::packet_socket().map_err(failed())?;
        sys::set_promiscuous(socket.as_fd(), self.index).map_err(failed())?;
        Ok(socket)
    }
}

/// The interface of a wire, which may be removed.
#[derive(Debug)]
pub struct Presence {
    name: String,
    index: c_int,
    /// The time of the last query to the kernel.
    asked: Instant,
}

impl Presence {
    /// Starts with an interface that exists now.
    #[must_use]
    pub fn new(interface: &Interface) -> Presence {
        Presence {
            name: interface.name.clone(),
            index: interface.index,
            asked: Clock.now(),
        }
    }

    /// Queries the kernel for the interface, at most every 0.1 s, through a socket of its network. An
    /// interface that went down may come up again. The query also clears the socket's error, which would keep
    /// the socket readable.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn check(&mut self, socket: impl AsFd) -> io::Result<()> {
        let now = Clock.now();
        if now - self.asked < ASK_EVERY {
            return Ok(());
        }
        self.asked = now;
        // Reading a socket's error does not fail.
        let _ = sockopt::socket_error(&socket);
        match index_to_name(&socket, self.index as u32) {
            Err(Errno::NODEV) => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("the interface '{}' was removed", self.name),
            )),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Opens a socket of no network, through which any user may query interfaces.
fn ask_by() -> Result<UnixDatagram, OpenError> {
    UnixDatagram::unbound()
        .map_err(|error: io::Error| OpenError::io("open a socket to read the interface's properties")(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_its_own_mac_address() {
        for mac in [[0x52, 0x54, 0, 1, 2, 3], [0, 0x1b, 0x21, 0, 0, 0x5a]] {
            let interface = Interface { name: "eth0".to_owned(), index: 2, mac, mtu: 1500 };
            let own = interface.neighbour();
            assert_ne!(own, mac);
            assert_eq!(own[0] & 3, 2, "locally administered, one host's");
            assert_eq!(own, interface.neighbour());
        }
    }
}
