//! The kernel's end of a TUN device or a veth pair, for callers that play the peer of a stack at the other end.
//!
//! A packet socket there sees the stack's packets, and the stack receives the packets that it sends. The
//! kernel sees the same packets and drops them, because they are not for its addresses.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

use crate::OpenError;
use crate::sys::{self, InterfaceRequest};

/// The length of the longest IP packet with an Ethernet header, in bytes.
const MAX_PACKET: usize = 65_535 + 14;

/// A packet socket. Its packets begin with the device's header: IP's on a TUN device, Ethernet's on a veth
/// pair.
#[derive(Debug)]
pub struct Peer {
    socket: File,
    buffer: Vec<u8>,
}

impl Peer {
    /// Opens the kernel's end of a cable, the device `name`, which must be up.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(name: &str) -> Result<Peer, OpenError> {
        let mut request = InterfaceRequest::new(name)?;
        let socket = sys::packet_socket().map_err(OpenError::needs("CAP_NET_RAW", "open a packet socket"))?;
        sys::interface_ioctl(socket.as_fd(), libc::SIOCGIFINDEX as libc::c_ulong, &mut request)
            .map_err(|_| OpenError::Missing(name.to_owned()))?;
        sys::bind_packet(socket.as_fd(), request.number())
            .map_err(OpenError::io("bind the packet socket"))?;
        Ok(Peer { socket: File::from(socket), buffer: vec![0; MAX_PACKET] })
    }

    /// Sends a packet, no longer than the device's MTU allows, to the stack.
    ///
    /// # Errors
    /// Fails if the device does not accept it.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.socket.write(packet).map(drop)
    }

    /// Returns the next packet that the stack, or on a veth pair the kernel, has sent. Returns `None` if no
    /// packet waits.
    ///
    /// # Errors
    /// Fails if the device has failed permanently.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        match self.socket.read(&mut self.buffer) {
            Ok(len) => Ok(Some(&self.buffer[..len])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
