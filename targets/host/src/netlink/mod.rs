//! Netlink: requests to the kernel and its messages, for everything here that speaks it: links, addresses and
//! routes ([`netns`](crate::netns)), interfaces that come and go, and sockets (INET_DIAG).

pub mod interfaces;
mod message;

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, Protocol, SocketFlags, SocketType};

pub use message::{Attributes, Message, Nest, Request, messages, u16_at, u32_at, u64_at};

/// What the kernel sends at once is at most this long: NLMSG_GOODSIZE, and what a list may take.
pub const DATAGRAM: usize = 32 * 1024;

fn open(flags: SocketFlags, protocol: c_int, groups: u32) -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(protocol as u32).map(Protocol::from_raw);
    let flags = flags | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// A connection to the kernel for requests, in the network namespace of the thread that opened it,
/// from whatever thread it is used.
#[derive(Debug)]
pub struct Socket {
    file: File,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens one.
    ///
    /// # Errors
    /// When the kernel has no such protocol, or the process may open no more sockets.
    pub fn open(protocol: c_int) -> io::Result<Socket> {
        Ok(Socket {
            file: File::from(open(SocketFlags::empty(), protocol, 0)?),
            sequence: 0,
            buffer: vec![0; DATAGRAM],
        })
    }

    /// Opens one for links, addresses and routes.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn open_route() -> io::Result<Socket> {
        Socket::open(libc::NETLINK_ROUTE)
    }

    /// Sends a request and waits for its end.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn request(&mut self, request: Request) -> io::Result<()> {
        self.exchange(request, |_| ())
    }

    /// Sends a request, gives `each` the messages that answer it, and waits for its end.
    ///
    /// # Errors
    /// When the kernel refuses it.
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

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
