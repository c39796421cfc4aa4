//! System calls that the standard library does not offer, and where rustix does not either, each wrapped so that it cannot be
//! misused by safe code.

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hawser_time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::OpenError;

/// Types of C whose every bit pattern is a value, so that the kernel may read and write them as
/// bytes.
///
/// # Safety
/// An implementor is `repr(C)`, without references, and valid for any bytes, all zero included.
pub(crate) unsafe trait Plain: Copy {
    /// All bytes zero.
    fn zeroed() -> Self {
        // SAFETY: zero bytes are valid by the trait's contract.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! plain {
    ($($name:ty),* $(,)?) => {
        $(
            // SAFETY: a C structure or integer without references; any bytes are valid.
            unsafe impl Plain for $name {}
        )*
    };
}

plain!(
    c_int,
    libc::tcp_info,
    libc::tpacket_stats,
    libc::packet_mreq,
    libc::tpacket_req,
    InterfaceRequest,
);

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The time by CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sleeps until the descriptor is readable, or writable where `or_writable`, or the time is over.
/// A signal may end it early.
///
/// # Errors
/// When the descriptor cannot be waited for.
pub fn wait(fd: BorrowedFd<'_>, or_writable: bool, limit: Option<Duration>) -> io::Result<()> {
    sleep(&mut [awaited(fd, or_writable)], limit)
}

/// The same, or until `bell` is readable.
///
/// # Errors
/// When one of them cannot be waited for.
pub fn wait_for_either(
    fd: BorrowedFd<'_>,
    or_writable: bool,
    bell: BorrowedFd<'_>,
    limit: Option<Duration>,
) -> io::Result<()> {
    sleep(&mut [awaited(fd, or_writable), awaited(bell, false)], limit)
}

fn awaited(fd: BorrowedFd<'_>, or_writable: bool) -> PollFd<'_> {
    let mut events = PollFlags::IN;
    events.set(PollFlags::OUT, or_writable);
    PollFd::from_borrowed_fd(fd, events)
}

fn sleep(awaited: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    // A limit that the kernel's type has no room for is none.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(awaited, limit.as_ref()) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// A packet socket, closed on exec, that takes part in nothing yet and does not block.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        flags,
        None,
    )?)
}

/// Starts reception of all protocols from an interface, by its number.
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, interface: c_int) -> io::Result<()> {
    // SAFETY: integers; zero is a value of all.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let at = std::ptr::from_ref(&address).cast();
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), at, len) }).map(drop)
}

/// Has a bound packet socket share what its interface receives with others of a group, by a program; the first socket makes
/// the group. Returns the group's number.
pub(crate) fn join_fanout(
    socket: BorrowedFd<'_>,
    group: Option<u16>,
    program: &[libc::sock_filter],
) -> io::Result<u16> {
    // Numbers of <linux/if_packet.h>.
    const PACKET_FANOUT: c_int = 18;
    const PACKET_FANOUT_DATA: c_int = 22;
    const CBPF: u32 = 6;
    const UNIQUE_ID: u32 = 0x2000;
    const IGNORE_OUTGOING: u32 = 0x4000;
    let unique = if group.is_none() { UNIQUE_ID } else { 0 };
    let kind = CBPF | IGNORE_OUTGOING | unique;
    let wanted = u32::from(group.unwrap_or(0)) | kind << 16;
    set_option(socket, libc::SOL_PACKET, PACKET_FANOUT, &(wanted as c_int))?;
    if let Some(group) = group {
        return Ok(group);
    }
    set_program(socket, libc::SOL_PACKET, PACKET_FANOUT_DATA, program)?;
    let joined: c_int = option(socket, libc::SOL_PACKET, PACKET_FANOUT)?;
    Ok(joined as u16)
}

/// Has sockets that share a port (SO_REUSEPORT) share what comes by a program, which returns a socket's number in the order
/// in which they were bound.
pub(crate) fn share_port(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    set_program(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// `setsockopt` of a classic BPF program.
fn set_program(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let len = size_of_val(&program) as libc::socklen_t;
    let value = std::ptr::from_ref(&program).cast();
    // SAFETY: `value` is readable for `len` bytes, and the kernel copies the steps, of which there are so many.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) }).map(drop)
}

/// Has the interface of this number receive frames for any address for as long as the packet socket is open.
pub(crate) fn set_promiscuous(socket: BorrowedFd<'_>, interface: c_int) -> io::Result<()> {
    let mut membership = libc::packet_mreq::zeroed();
    membership.mr_ifindex = interface;
    membership.mr_type = libc::PACKET_MR_PROMISC as u16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Received frames that a packet socket had no room for since this was last asked.
pub(crate) fn packet_drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let statistics: libc::tpacket_stats = option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(statistics.tp_drops.into())
}

/// What the kernel charges a packet socket for frames that have not left: SIOCOUTQ, which has TIOCOUTQ's number.
pub(crate) fn unsent(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    let at = std::ptr::from_mut(&mut bytes);
    // SAFETY: the kernel writes one integer during the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, at) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// `send`, which for a socket is less work than `write`. It does not block where the socket does not.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(net::send(socket, bytes, SendFlags::empty())?)
}

/// `sendmsg` of these pieces alone, likewise.
pub(crate) fn send_pieces(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    Ok(net::sendmsg(socket, pieces, &mut control, SendFlags::empty())?)
}

/// What `recvmsg` brought: bytes in each of its buffers, and its flags.
pub(crate) struct Received {
    pub(crate) len: usize,
    pub(crate) name: usize,
    pub(crate) control: usize,
    pub(crate) flags: c_int,
}

/// `recvmsg` into these buffers. It does not block where the socket does not.
pub(crate) fn receive_message(
    socket: BorrowedFd<'_>,
    name: &mut [u8],
    pieces: &mut [IoSliceMut<'_>],
    control: &mut [u8],
    flags: c_int,
) -> io::Result<Received> {
    // SAFETY: null pointers and zero lengths are values of the structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len() as libc::socklen_t;
    // `IoSliceMut` has the layout of `struct iovec`, as the standard library promises.
    header.msg_iov = pieces.as_mut_ptr().cast();
    header.msg_iovlen = pieces.len() as _;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len() as _;
    // SAFETY: each pointer is writable for the length beside it during the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), std::ptr::from_mut(&mut header), flags) };
    Ok(Received {
        len: usize::try_from(len).map_err(|_| io::Error::last_os_error())?,
        name: header.msg_namelen as usize,
        control: header.msg_controllen as usize,
        flags: header.msg_flags,
    })
}

/// `sendmsg` to an address, with control messages. It does not block where the socket does not.
pub(crate) fn send_message(
    socket: BorrowedFd<'_>,
    name: &[u8],
    pieces: &[IoSlice<'_>],
    control: &[u8],
) -> io::Result<usize> {
    // SAFETY: null pointers and zero lengths are values of the structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = name.len() as libc::socklen_t;
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    header.msg_control = control.as_ptr().cast_mut().cast();
    header.msg_controllen = control.len() as _;
    // SAFETY: the call reads through each pointer, as far as the length beside it says, and writes through none.
    let len = unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            std::ptr::from_ref(&header),
            libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// `getsockopt`; what the kernel does not fill is zero.
pub(crate) fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the value is writable for `len` bytes, and valid whatever is written.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &mut len) })?;
    Ok(value)
}

/// `setsockopt`.
pub(crate) fn set_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` is readable for `len` bytes.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) }).map(drop)
}

/// Has system calls on a socket poll its device's queue themselves for up to `limit`, rather than wait for its interrupts
/// (`socket(7)`).
///
/// # Errors
/// When the kernel knows no busy polling, or the process lacks CAP_NET_ADMIN.
pub fn set_busy_poll(socket: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let limit = c_int::try_from(limit.as_micros()).unwrap_or(c_int::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &limit)
}

/// The part of `struct ifreq` behind the name, as the requests used here see it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

impl InterfaceRequest {
    /// A request about the interface `name`.
    pub(crate) fn new(name: &str) -> Result<InterfaceRequest, OpenError> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
            return Err(OpenError::Name(name.to_owned()));
        }
        let mut request = InterfaceRequest::zeroed();
        request.name[..bytes.len()].copy_from_slice(bytes);
        Ok(request)
    }

    /// The name, as the kernel may have completed it.
    pub(crate) fn name(&self) -> String {
        let len = self.name.iter().position(|b| *b == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }

    /// The same with a short value: flags.
    pub(crate) fn with_flags(mut self, flags: u16) -> InterfaceRequest {
        self.value[..2].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    /// The value read as an integer.
    pub(crate) fn number(&self) -> c_int {
        c_int::from_ne_bytes([self.value[0], self.value[1], self.value[2], self.value[3]])
    }

    /// The value read as flags.
    pub(crate) fn flags(&self) -> c_int {
        c_int::from(u16::from_ne_bytes([self.value[0], self.value[1]]))
    }

    /// The value read as a hardware address: its type, and its first six bytes.
    pub(crate) fn hardware_address(&self) -> (u16, [u8; 6]) {
        let v = &self.value;
        (
            u16::from_ne_bytes([v[0], v[1]]),
            [v[2], v[3], v[4], v[5], v[6], v[7]],
        )
    }
}

/// An `ioctl` that reads and writes an [`InterfaceRequest`].
///
/// The callers pass constants whose argument is a `struct ifreq` alone: the SIOC… family and
/// TUNSETIFF.
pub(crate) fn interface_ioctl(
    fd: BorrowedFd<'_>,
    request: libc::c_ulong,
    argument: &mut InterfaceRequest,
) -> io::Result<()> {
    // SAFETY: the argument has the size of `struct ifreq` (40 bytes on 64-bit Linux, and more than
    // on 32-bit), and none of these requests keeps a pointer to it.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(argument)) }).map(drop)
}

/// An `ioctl` whose argument is a number: TUNSETOFFLOAD.
pub(crate) fn number_ioctl(
    fd: BorrowedFd<'_>,
    request: libc::c_ulong,
    number: libc::c_ulong,
) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, number) }).map(drop)
}

/// An `ioctl` whose argument points to an integer that it reads: TUNSETVNETHDRSZ.
pub(crate) fn pointer_ioctl(fd: BorrowedFd<'_>, request: libc::c_ulong, number: c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one integer during the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_ref(&number)) }).map(drop)
}

/// `SIOCETHTOOL` with a command that reads a `struct ethtool_value`, the ETHTOOL_S… family.
pub(crate) fn ethtool_set(socket: BorrowedFd<'_>, name: &str, command: u32, value: u32) -> io::Result<()> {
    // SAFETY: these commands want two integers.
    unsafe { ethtool(socket, name, &mut [command, value]) }
}

/// How many queues an interface receives by: `struct ethtool_channels`, which ETHTOOL_GCHANNELS fills.
pub(crate) fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = [0; 9];
    channels[0] = GET_CHANNELS;
    // SAFETY: the structure is nine integers.
    unsafe { ethtool(socket, name, &mut channels) }?;
    // Those that receive alone, and those that send as well.
    Ok(channels[5] + channels[8])
}

/// The speed of an interface's line in Mbit/s: `struct ethtool_cmd`, which ETHTOOL_GSET fills.
pub(crate) fn line_speed(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    const GET_SETTINGS: u32 = 0x1;
    let mut settings = [0; 11];
    settings[0] = GET_SETTINGS;
    // SAFETY: the structure is 44 bytes.
    unsafe { ethtool(socket, name, &mut settings) }?;
    let first_half = |word: u32| {
        let [a, b, ..] = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([a, b]))
    };
    Ok(first_half(settings[7]) << 16 | first_half(settings[3]))
}

/// The name of an interface's driver: `struct ethtool_drvinfo`, which ETHTOOL_GDRVINFO fills.
pub(crate) fn driver(socket: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    const GET_DRIVER: u32 = 0x3;
    let mut info = [0; 49];
    info[0] = GET_DRIVER;
    // SAFETY: the structure is the command and 192 bytes.
    unsafe { ethtool(socket, name, &mut info) }?;
    let bytes = info[1..9].iter().flat_map(|word| word.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// `SIOCETHTOOL`.
///
/// # Safety
/// `argument` is as long as its command, which is the first of it, reads and writes.
unsafe fn ethtool(socket: BorrowedFd<'_>, name: &str, argument: &mut [u32]) -> io::Result<()> {
    let mut request = InterfaceRequest::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let at = argument.as_mut_ptr() as usize;
    request.value[..size_of::<usize>()].copy_from_slice(&at.to_ne_bytes());
    let (fd, which) = (socket.as_raw_fd(), libc::SIOCETHTOOL as libc::c_ulong);
    // SAFETY: the request points to writable integers, as many as the caller promises, which live as long as the call; the
    // pointer is not used afterwards.
    check(unsafe { libc::ioctl(fd, which as _, std::ptr::from_mut(&mut request)) }).map(drop)
}

/// Moves the calling thread into new namespaces, or gives it a working directory of its own.
///
/// # Errors
/// When the system does not allow it.
///
/// # Panics
/// For [`UnshareFlags::FILES`], which would take descriptors away from other threads' sight.
pub fn unshare(what: UnshareFlags) -> io::Result<()> {
    assert!(!what.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: it is the table of descriptors alone that may not be unshared carelessly.
    Ok(unsafe { unshare_unsafe(what) }?)
}

/// Moves the calling thread into the network namespace that `namespace` stands for.
pub(crate) fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace,
        Some(LinkNameSpaceType::Network),
    )?)
}
