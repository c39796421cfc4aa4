//! The metadata of a datagram: addresses, and control messages (cmsg(3)) as bytes.
//!
//! Addresses have the engine's form: 16 bytes, with IPv4 mapped into IPv6.

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::size_of;
use std::os::fd::BorrowedFd;

use hawser_engine::net::is_ipv4;

use crate::sys;

/// The size of `struct cmsghdr` with its padding, which is also the alignment of control messages.
const HEADER: usize = size_of::<usize>() + 2 * size_of::<c_int>();
const ALIGN: usize = size_of::<usize>();
/// The room in bytes for all requested control messages, including those of the error queue.
const ROOM: usize = 512;
/// The size of the longest socket address in use, `struct sockaddr_in6`, in bytes.
const NAME: usize = 28;
/// The size of `struct sockaddr_in`, in bytes.
const NAME_V4: usize = 16;
/// A constant of <linux/udp.h> that libc lacks: the socket option that merges received datagrams.
const UDP_GRO: c_int = 104;

/// One end of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DatagramEnd {
    pub(crate) ip: [u8; 16],
    pub(crate) port: u16,
}

/// The metadata of a datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) remote: DatagramEnd,
    /// The source address. With zero, the kernel chooses it.
    pub(crate) local: [u8; 16],
    /// The index of the interface. With 0, the routing table decides.
    pub(crate) interface: u32,
    /// The TOS byte: DSCP and ECN.
    pub(crate) tos: u8,
    /// The hop limit. With 0, the kernel's default applies.
    pub(crate) ttl: u8,
    /// The size in bytes of each datagram except the last, if there are several; 0 for a single datagram.
    pub(crate) segment: u16,
}

/// The metadata of a received datagram, or of an error from the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// The sender. For an error, the destination of the datagram that caused it.
    pub(crate) remote: DatagramEnd,
    pub(crate) local: Option<[u8; 16]>,
    pub(crate) interface: u32,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) segment: u16,
    /// The number of bytes received.
    pub(crate) len: usize,
    /// True if the data did not fit the buffers.
    pub(crate) is_cut: bool,
    pub(crate) error: Option<Failure>,
}

/// The content of `struct sock_extended_err`, and the host that reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: u32,
    pub(crate) origin: u8,
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// The MTU, for EMSGSIZE.
    pub(crate) info: u32,
    pub(crate) offender: Option<[u8; 16]>,
}

/// Calls `sendmsg` with one datagram, or several of the same length, on a socket of the family.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    is_v6: bool,
    to: &Outgoing,
    pieces: &[IoSlice<'_>],
) -> io::Result<usize> {
    let (name, name_len) = write_name(is_v6, to);
    let mut control = Writer::default();
    control.addresses(is_v6, to);
    sys::send_message(socket, &name[..name_len], pieces, control.written())
}

/// Calls `recvmsg`; with `errors`, on the error queue.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
    errors: bool,
) -> io::Result<Incoming> {
    let (mut name, mut control) = ([0; NAME], [0; ROOM]);
    let flags = if errors { libc::MSG_ERRQUEUE } else { 0 };
    let received = sys::receive_message(socket, &mut name, pieces, &mut control, flags)?;
    let mut incoming = Incoming {
        remote: read_name(&name[..received.name.min(NAME)]).unwrap_or(DatagramEnd { ip: [0; 16], port: 0 }),
        local: None,
        interface: 0,
        tos: 0,
        ttl: 0,
        segment: 0,
        len: received.len,
        is_cut: received.flags & libc::MSG_TRUNC != 0,
        error: None,
    };
    for (level, kind, value) in messages(&control[..received.control.min(ROOM)]) {
        incoming.note(level, kind, value);
    }
    Ok(incoming)
}

impl Incoming {
    /// Reads one control message.
    fn note(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let number = |value: &[u8]| {
            value
                .first_chunk()
                .map_or(0, |bytes| c_int::from_ne_bytes(*bytes))
        };
        match (level, kind) {
            (libc::SOL_IP, libc::IP_PKTINFO) => {
                // The interface, the local address of the route, and the destination in the header.
                if let (index, Some(address)) = (number(value), value.get(8..12)) {
                    self.interface = index.unsigned_abs();
                    self.local = address.first_chunk().map(|octets| mapped(*octets));
                }
            }
            (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                self.local = value.first_chunk().copied();
                self.interface = number(value.get(16..).unwrap_or(&[])).unsigned_abs();
            }
            (libc::SOL_IP, libc::IP_TOS) => self.tos = value.first().copied().unwrap_or(0),
            (libc::SOL_IPV6, libc::IPV6_TCLASS) => self.tos = number(value) as u8,
            (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = number(value) as u8;
            }
            (libc::SOL_UDP, UDP_GRO) => self.segment = u16::try_from(number(value)).unwrap_or(0),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                self.error = failure(value);
            }
            _ => {}
        }
    }
}

fn failure(value: &[u8]) -> Option<Failure> {
    let fixed: &[u8; 16] = value.first_chunk()?;
    Some(Failure {
        errno: u32::from_ne_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]),
        origin: fixed[4],
        kind: fixed[5],
        code: fixed[6],
        info: u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        offender: read_name(&value[16..]).map(|end| end.ip),
    })
}

fn mapped(octets: [u8; 4]) -> [u8; 16] {
    std::net::Ipv4Addr::from(octets).to_ipv6_mapped().octets()
}

/// Parses a socket address of either family.
fn read_name(name: &[u8]) -> Option<DatagramEnd> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(*name.get(2..)?.first_chunk()?);
    let ip = match c_int::from(family) {
        libc::AF_INET => mapped(*name.get(4..)?.first_chunk()?),
        libc::AF_INET6 => *name.get(8..)?.first_chunk()?,
        _ => return None,
    };
    Some(DatagramEnd { ip, port })
}

/// Writes the destination for a socket of the family. On an IPv6 socket an IPv4 address is mapped.
fn write_name(is_v6: bool, to: &Outgoing) -> ([u8; NAME], usize) {
    let mut name = [0; NAME];
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    name[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    name[2..4].copy_from_slice(&to.remote.port.to_be_bytes());
    if !is_v6 {
        name[4..8].copy_from_slice(&to.remote.ip[12..]);
        return (name, NAME_V4);
    }
    name[8..24].copy_from_slice(&to.remote.ip);
    if is_link_local(&to.remote.ip) {
        name[24..].copy_from_slice(&to.interface.to_ne_bytes());
    }
    (name, NAME)
}

/// Returns whether the address is in fe80::/10 (RFC 4291, 2.4), where an address needs an interface.
fn is_link_local(ip: &[u8; 16]) -> bool {
    ip[0] == 0xfe && ip[1] & 0xc0 == 0x80
}

/// A writer of control messages.
struct Writer {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { bytes: [0; ROOM], len: 0 }
    }
}

impl Writer {
    fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let at = self.len;
        let end = at + HEADER + value.len();
        let word = size_of::<usize>();
        self.bytes[at..at + word].copy_from_slice(&(HEADER + value.len()).to_ne_bytes());
        self.bytes[at + word..at + word + 4].copy_from_slice(&level.to_ne_bytes());
        self.bytes[at + word + 4..at + HEADER].copy_from_slice(&kind.to_ne_bytes());
        self.bytes[at + HEADER..end].copy_from_slice(value);
        self.len = end.next_multiple_of(ALIGN);
    }

    fn addresses(&mut self, is_v6: bool, to: &Outgoing) {
        let is_to_v4 = is_ipv4(&to.remote.ip);
        if to.local != [0; 16] || to.interface != 0 {
            if is_v6 {
                // This also holds for an IPv4 destination, because the kernel accepts a mapped source.
                let mut info = [0; 20];
                info[..16].copy_from_slice(&to.local);
                info[16..].copy_from_slice(&to.interface.to_ne_bytes());
                self.put(libc::SOL_IPV6, libc::IPV6_PKTINFO, &info);
            } else {
                let mut info = [0; 12];
                info[..4].copy_from_slice(&to.interface.to_ne_bytes());
                info[4..8].copy_from_slice(&to.local[12..]);
                self.put(libc::SOL_IP, libc::IP_PKTINFO, &info);
            }
        }
        let (level, tos, ttl) = if is_to_v4 {
            (libc::SOL_IP, libc::IP_TOS, libc::IP_TTL)
        } else {
            (libc::SOL_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
        };
        if to.tos != 0 {
            self.put(level, tos, &c_int::from(to.tos).to_ne_bytes());
        }
        if to.ttl != 0 {
            self.put(level, ttl, &c_int::from(to.ttl).to_ne_bytes());
        }
        if to.segment != 0 {
            self.put(libc::SOL_UDP, libc::UDP_SEGMENT, &to.segment.to_ne_bytes());
        }
    }
}

/// Returns the level, type and value of the control messages in these bytes.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
    std::iter::from_fn(move || {
        let word = size_of::<usize>();
        let len = usize::from_ne_bytes(*bytes.first_chunk()?);
        let value = bytes.get(HEADER..len)?;
        let level = c_int::from_ne_bytes(*bytes.get(word..)?.first_chunk()?);
        let kind = c_int::from_ne_bytes(*bytes.get(word + 4..)?.first_chunk()?);
        bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((level, kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_as_they_were_written() {
        let mut writer = Writer::default();
        writer.put(1, 2, &[7]);
        writer.put(3, 4, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let read: Vec<_> = messages(writer.written()).collect();
        assert_eq!(read, [(1, 2, &[7][..]), (3, 4, &[1, 2, 3, 4, 5, 6, 7, 8])]);
        let space = |len| HEADER + usize::next_multiple_of(len, ALIGN);
        assert_eq!(writer.len, space(1) + space(8));
    }

    #[test]
    fn malformed_control_messages_end_the_list() {
        for (len, held) in [
            (0usize, HEADER),
            (HEADER - 1, HEADER),
            (HEADER + 9, HEADER + 8),
            (usize::MAX, 64),
        ] {
            let mut bytes = vec![0; held];
            bytes[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(messages(&bytes).count(), 0, "{len} of {held}");
        }
    }
}
