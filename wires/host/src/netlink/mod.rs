//! Netlink: requests to the kernel and its messages, for all users in this crate. They are links, addresses
//! and routes ([`netns`](crate::netns)), interfaces that come and go, and sockets (INET_DIAG).

pub mod interfaces;
mod message;

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, Protocol, SocketFlags, SocketType};

pub use message::{Attributes, Message, NestedAttribute, Request, messages, u16_at, u32_at, u64_at};

/// The maximum length of a datagram from the kernel, in bytes: NLMSG_GOODSIZE, and the size of a list's part.
pub const DATAGRAM: usize = 32 * 1024;

fn open(flags: SocketFlags, protocol: c_int, groups: u32) -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(protocol as u32).map(Protocol::from_raw);
    let flags = flags | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// A connection to the kernel for requests. It belongs to the network namespace of the thread that opened it,
/// whichever thread uses it.
#[derive(Debug)]
pub struct NetlinkSocket {
    file: File,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetlinkSocket {
    /// Opens a socket of a netlink protocol.
    ///
    /// # Errors
    /// Fails if the kernel has no such protocol, or if the process may open no more sockets.
    pub fn open(protocol: c_int) -> io::Result<NetlinkSocket> {
        Ok(NetlinkSocket {
            file: File::from(open(SocketFlags::empty(), protocol, 0)?),
            sequence: 0,
            buffer: vec![0; DATAGRAM],
        })
    }

    /// Opens a socket for links, addresses and routes.
    ///
    /// # Errors
    /// As [`NetlinkSocket::open`].
    pub fn open_route() -> io::Result<NetlinkSocket> {
        NetlinkSocket::open(libc::NETLINK_ROUTE)
    }

    /// Sends a request and waits for its end.
    ///
    /// # Errors
    /// Fails if the kernel rejects it.
    pub fn request(&mut self, request: Request) -> io::Result<()> {
        self.exchange(request, |_| ())
    }

    /// Sends a request, passes the messages that answer it to `each`, and waits for its end.
    ///
    /// # Errors
    /// Fails if the kernel rejects it.
    pub fn exchange(&mut self, request: Request, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.sequence += 1;
        self.file.write_all(&request.finish(self.sequence))?;
        loop {
            let length = self.file.read(&mut self.buffer)?;
            for message in messages(&self.buffer[..length]) {
                if message.sequence != self.sequence {
                    continue;
                }
                match message.outcome() {
                    Some(outcome) => return outcome,
                    None => each(message),
                }
            }
        }
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
