//! Claims to the addresses of stacks beside the kernel's. Each address belongs to one process and never to
//! the kernel.
//!
//! A claim is a socket in the abstract namespace, which belongs to the network namespace and ends with its
//! process. A socket of another ordinary user does not count, because that user cannot open the device.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::netlink::NetlinkSocket;
use crate::netlink::interfaces::{self, InterfaceReport};

/// The maximum number of bytes of a device's name in the name of a claim.
const MAX_DEVICE: usize = 48;
/// The pause before checking again whether a bound claim listens.
const LISTENING: Duration = Duration::from_millis(5);

/// The right to an address on a device, for the lifetime of this value.
#[derive(Debug)]
pub struct Claim {
    _socket: OwnedFd,
}

/// An address on a device could not be claimed.
#[derive(Debug)]
pub enum ClaimError {
    /// Another process holds the claim.
    Taken,
    /// The kernel reported an error.
    Io(io::Error),
}

impl Claim {
    /// Claims an address on a device for this process.
    ///
    /// # Errors
    /// Fails if another process of this user or of root holds the claim.
    pub fn new(device: &str, address: IpAddr) -> Result<Claim, ClaimError> {
        let first = device.len().saturating_sub(MAX_DEVICE);
        let device = device.as_bytes().get(first..).unwrap_or_default();
        let name = [
            &b"hawser/address/"[..],
            device,
            b"/",
            address.to_string().as_bytes(),
        ]
        .concat();
        let name = SocketAddrUnix::new_abstract_name(&name).map_err(io)?;
        let socket = stream().map_err(io)?;
        match bind(&socket, &name) {
            Ok(()) => listen(&socket, 1).map_err(io)?,
            Err(rustix::io::Errno::ADDRINUSE) if is_trusted(&name) => return Err(ClaimError::Taken),
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(errno) => return Err(io(errno)),
        }
        Ok(Claim { _socket: socket })
    }
}

/// Returns whether the process behind a claim belongs to this user or to root. An honest process listens
/// immediately after it has bound. Another user's socket could refuse for ever and does not count.
fn is_trusted(name: &SocketAddrUnix) -> bool {
    for _ in 0..10 {
        let Ok(socket) = stream() else { return true };
        match connect(&socket, name).and_then(|()| socket_peercred(&socket)) {
            Ok(peer) => return peer.uid.is_root() || peer.uid == rustix::process::geteuid(),
            Err(rustix::io::Errno::CONNREFUSED) => std::thread::sleep(LISTENING),
            Err(_) => return true,
        }
    }
    false
}

fn stream() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn io(errno: rustix::io::Errno) -> ClaimError {
    ClaimError::Io(errno.into())
}

/// Returns whether the kernel of the calling thread's network namespace has an address, on any interface.
///
/// # Errors
/// Fails if the kernel does not list its addresses.
pub fn kernel_has(address: IpAddr) -> io::Result<bool> {
    let mut found = false;
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.exchange(interfaces::addresses(), |message| {
        if let Some(InterfaceReport::Address(report)) = InterfaceReport::read(message) {
            found |= report.address == address;
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_a_device_is_claimed_once_at_a_time() {
        // All processes of a network namespace share these names.
        let device = format!("claimed{}", std::process::id());
        let address = IpAddr::from([192, 0, 2, 77]);
        let first = Claim::new(&device, address).expect("it is free");
        let again = Claim::new(&device, address);
        assert!(matches!(again, Err(ClaimError::Taken)), "{again:?}");
        let beside = Claim::new(&device, IpAddr::from([192, 0, 2, 78]));
        let elsewhere = Claim::new(&format!("{device}b"), address);
        assert!(beside.is_ok() && elsewhere.is_ok());
        drop(first);
        assert!(Claim::new(&device, address).is_ok());
        let long =
            "dpdk-device-with-a-name-that-is-longer-than-an-abstract-socket-takes,iface=hawser0,queues=4";
        assert!(Claim::new(long, address).is_ok());
    }

    #[test]
    fn the_kernel_has_the_loopback_address_and_none_of_the_examples() {
        assert!(kernel_has(IpAddr::from([127, 0, 0, 1])).expect("it answers"));
        assert!(!kernel_has(IpAddr::from([192, 0, 2, 77])).expect("it answers"));
    }
}
