//! System calls that the standard library and rustix do not offer, each wrapped so that safe code cannot
//! misuse it.

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

/// C types for which every bit pattern is a valid value, so that the kernel may read and write them as bytes.
///
/// # Safety
/// An implementor is `repr(C)`, without references, and valid for any bytes, including all zeros.
pub(crate) unsafe trait Plain: Copy {
    /// Returns a value of zero bytes.
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

/// Returns the time of CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sleeps until the descriptor is readable (or writable, with `or_writable`), or until the time is over. A
/// signal may end the wait early.
///
/// # Errors
/// Fails if the descriptor cannot be polled.
pub fn wait(fd: BorrowedFd<'_>, or_writable: bool, limit: Option<Duration>) -> io::Result<()> {
    sleep(&mut [awaited(fd, or_writable)], limit)
}

/// Like `wait`, and also ends when `wakeup` is readable.
///
/// # Errors
/// Fails if one of them cannot be polled.
pub fn wait_for_either(
    fd: BorrowedFd<'_>,
    or_writable: bool,
    wakeup: BorrowedFd<'_>,
    limit: Option<Duration>,
) -> io::Result<()> {
    sleep(&mut [awaited(fd, or_writable), awaited(wakeup, false)], limit)
}

fn awaited(fd: BorrowedFd<'_>, or_writable: bool) -> PollFd<'_> {
    let mut events = PollFlags::IN;
    events.set(PollFlags::OUT, or_writable);
    PollFd::from_borrowed_fd(fd, events)
}

fn sleep(awaited: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    // A limit that exceeds the kernel's type means no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(awaited, limit.as_ref()) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// Opens a packet socket, closed on exec and non-blocking, that receives no frames yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        flags,
        None,
    )?)
}

/// Starts reception of all protocols from an interface, by its index.
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, interface: c_int) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let at = std::ptr::from_ref(&address).cast();
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), at, len) }).map(drop)
}

/// Makes a bound packet socket share its interface's frames with the other sockets of a group, by a program.
/// The first socket creates the group. Returns the group's number.
pub(crate) fn join_fanout(
    socket: BorrowedFd<'_>,
    group: Option<u16>,
    program: &[libc::sock_filter],
) -> io::Result<u16> {
    // Constants of <linux/if_packet.h>.
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

/// Makes sockets that share a port (SO_REUSEPORT) distribute arrivals by a program. The program returns a
/// socket's number in the order of binding.
pub(crate) fn share_port(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    set_program(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Sets a classic BPF program with `setsockopt`.
fn set_program(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let len = size_of_val(&program) as libc::socklen_t;
    let value = std::ptr::from_ref(&program).cast();
    // SAFETY: `value` is readable for `len` bytes, and the kernel copies the steps, whose count is correct.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) }).map(drop)
}

/// Makes the interface of this index receive frames for any address while the packet socket is open.
pub(crate) fn set_promiscuous(socket: BorrowedFd<'_>, interface: c_int) -> io::Result<()> {
    let mut membership = libc::packet_mreq::zeroed();
    membership.mr_ifindex = interface;
    membership.mr_type = libc::PACKET_MR_PROMISC as u16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Returns the number of received frames that a packet socket dropped for lack of room since the last call.
pub(crate) fn packet_drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let statistics: libc::tpacket_stats = option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(statistics.tp_drops.into())
}

/// Returns the kernel's charge to a packet socket for unsent frames: SIOCOUTQ, which has TIOCOUTQ's number.
pub(crate) fn unsent(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    let at = std::ptr::from_mut(&mut bytes);
    // SAFETY: the kernel writes one integer during the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, at) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Calls `send`, which is cheaper than `write` for a socket. It does not block on a non-blocking socket.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(net::send(socket, bytes, SendFlags::empty())?)
}

/// Calls `sendmsg` with only these pieces. It does not block on a non-blocking socket.
pub(crate) fn send_pieces(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    Ok(net::sendmsg(socket, pieces, &mut control, SendFlags::empty())?)
}

/// The result of `recvmsg`: the number of bytes in each of its buffers, and its flags.
pub(crate) struct RecvmsgResult {
    pub(crate) len: usize,
    pub(crate) name: usize,
    pub(crate) control: usize,
    pub(crate) flags: c_int,
}

/// Calls `recvmsg` with these buffers. It does not block on a non-blocking socket.
pub(crate) fn receive_message(
    socket: BorrowedFd<'_>,
    name: &mut [u8],
    pieces: &mut [IoSliceMut<'_>],
    control: &mut [u8],
    flags: c_int,
) -> io::Result<RecvmsgResult> {
    // SAFETY: null pointers and zero lengths are valid values of the structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len() as libc::socklen_t;
    // `IoSliceMut` has the layout of `struct iovec`, as the standard library guarantees.
    header.msg_iov = pieces.as_mut_ptr().cast();
    header.msg_iovlen = pieces.len() as _;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len() as _;
    // SAFETY: each pointer is writable for the length beside it during the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), std::ptr::from_mut(&mut header), flags) };
    Ok(RecvmsgResult {
        len: usize::try_from(len).map_err(|_| io::Error::last_os_error())?,
        name: header.msg_namelen as usize,
        control: header.msg_controllen as usize,
        flags: header.msg_flags,
    })
}

/// Calls `sendmsg` with an address and control messages. It does not block on a non-blocking socket.
pub(crate) fn send_message(
    socket: BorrowedFd<'_>,
    name: &[u8],
    pieces: &[IoSlice<'_>],
    control: &[u8],
) -> io::Result<usize> {
    // SAFETY: null pointers and zero lengths are valid values of the structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = name.len() as libc::socklen_t;
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    header.msg_control = control.as_ptr().cast_mut().cast();
    header.msg_controllen = control.len() as _;
    // SAFETY: the call reads through each pointer up to the length beside it, and writes through none.
    let len = unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            std::ptr::from_ref(&header),
            libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// Calls `getsockopt`. Bytes that the kernel does not fill are zero.
pub(crate) fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the value is writable for `len` bytes, and valid for any bytes written.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &mut len) })?;
    Ok(value)
}

/// Calls `setsockopt`.
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

/// Makes system calls on a socket poll its device's queue for up to `limit` instead of waiting for interrupts
/// (`socket(7)`).
///
/// # Errors
/// Fails if the kernel does not support busy polling, or if the process lacks CAP_NET_ADMIN.
pub fn set_busy_poll(socket: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let limit = c_int::try_from(limit.as_micros()).unwrap_or(c_int::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &limit)
}

/// The part of `struct ifreq` after the name, in the form of the requests used here.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

impl InterfaceRequest {
    /// Creates a request about the interface `name`.
    pub(crate) fn new(name: &str) -> Result<InterfaceRequest, OpenError> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
            return Err(OpenError::Name(name.to_owned()));
        }
        let mut request = InterfaceRequest::zeroed();
        request.name[..bytes.len()].copy_from_slice(bytes);
        Ok(request)
    }

    /// Returns the name, which the kernel may have completed.
    pub(crate) fn name(&self) -> String {
        let len = self.name.iter().position(|b| *b == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }

    /// Sets the value to flags, a short integer.
    pub(crate) fn with_flags(mut self, flags: u16) -> InterfaceRequest {
        self.value[..2].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    /// Returns the value as an integer.
    pub(crate) fn number(&self) -> c_int {
        c_int::from_ne_bytes([self.value[0], self.value[1], self.value[2], self.value[3]])
    }

    /// Returns the value as flags.
    pub(crate) fn flags(&self) -> c_int {
        c_int::from(u16::from_ne_bytes([self.value[0], self.value[1]]))
    }

    /// Returns the value as a hardware address: its type and its first six bytes.
    pub(crate) fn hardware_address(&self) -> (u16, [u8; 6]) {
        let v = &self.value;
        (
            u16::from_ne_bytes([v[0], v[1]]),
            [v[2], v[3], v[4], v[5], v[6], v[7]],
        )
    }
}

/// Calls an `ioctl` that reads and writes an [`InterfaceRequest`].
///
/// The callers only pass constants whose argument is a `struct ifreq`: the SIOC… family and TUNSETIFF.
pub(crate) fn interface_ioctl(
    fd: BorrowedFd<'_>,
    request: libc::c_ulong,
    argument: &mut InterfaceRequest,
) -> io::Result<()> {
    // SAFETY: the argument has the size of `struct ifreq` (40 bytes on 64-bit Linux, and more than on
    // 32-bit). These requests do not keep a pointer to it.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(argument)) }).map(drop)
}

/// Calls an `ioctl` whose argument is a number: TUNSETOFFLOAD.
pub(crate) fn number_ioctl(
    fd: BorrowedFd<'_>,
    request: libc::c_ulong,
    number: libc::c_ulong,
) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, number) }).map(drop)
}

/// Calls an `ioctl` whose argument points to an integer to read: TUNSETVNETHDRSZ.
pub(crate) fn pointer_ioctl(fd: BorrowedFd<'_>, request: libc::c_ulong, number: c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one integer during the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_ref(&number)) }).map(drop)
}

/// Calls `SIOCETHTOOL` with a command that reads a `struct ethtool_value`, of the ETHTOOL_S… family.
pub(crate) fn ethtool_set(socket: BorrowedFd<'_>, name: &str, command: u32, value: u32) -> io::Result<()> {
    // SAFETY: these commands take two integers.
    unsafe { ethtool(socket, name, &mut [command, value]) }
}

/// Returns the number of an interface's receive queues: `struct ethtool_channels`, which ETHTOOL_GCHANNELS
/// fills.
pub(crate) fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = [0; 9];
    channels[0] = GET_CHANNELS;
    // SAFETY: the structure is nine integers.
    unsafe { ethtool(socket, name, &mut channels) }?;
    // Receive-only queues, and combined queues.
    Ok(channels[5] + channels[8])
}

/// Returns the link speed of an interface in Mbit/s: `struct ethtool_cmd`, which ETHTOOL_GSET fills.
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

/// Returns the name of an interface's driver: `struct ethtool_drvinfo`, which ETHTOOL_GDRVINFO fills.
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

/// Calls `SIOCETHTOOL`.
///
/// # Safety
/// `argument` begins with the command, and is as long as the data that the command reads and writes.
unsafe fn ethtool(socket: BorrowedFd<'_>, name: &str, argument: &mut [u32]) -> io::Result<()> {
    let mut request = InterfaceRequest::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let at = argument.as_mut_ptr() as usize;
    request.value[..size_of::<usize>()].copy_from_slice(&at.to_ne_bytes());
    let (fd, which) = (socket.as_raw_fd(), libc::SIOCETHTOOL as libc::c_ulong);
    // SAFETY: the request points to writable integers, as many as the caller guarantees, which outlive the
    // call. The pointer is not used afterwards.
    check(unsafe { libc::ioctl(fd, which as _, std::ptr::from_mut(&mut request)) }).map(drop)
}

/// Moves the calling thread into new namespaces, or gives it a separate working directory.
///
/// # Errors
/// Fails if the system does not allow it.
///
/// # Panics
/// Panics for [`UnshareFlags::FILES`], which would hide descriptors from other threads.
pub fn unshare(what: UnshareFlags) -> io::Result<()> {
    assert!(!what.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: only the table of descriptors is unsafe to unshare.
    Ok(unsafe { unshare_unsafe(what) }?)
}

/// Moves the calling thread into the network namespace of `namespace`.
pub(crate) fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace,
        Some(LinkNameSpaceType::Network),
    )?)
}
