//! System calls that the standard library does not offer, each wrapped so that it cannot be
//! misused by safe code.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

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
    libc::sockaddr_ll,
    libc::tpacket_stats,
    libc::sockaddr_nl,
    libc::packet_mreq,
    libc::tpacket_req,
    libc::timespec,
    InterfaceRequest,
);

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec::zeroed();
    // SAFETY: `time` is writable; the clock exists on every Linux, so that the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until the descriptor is readable, or writable where `or_writable`, or the time is over.
/// A signal may end it early.
pub(crate) fn wait(fd: BorrowedFd<'_>, or_writable: bool, limit: Option<Duration>) -> io::Result<()> {
    let events = if or_writable {
        libc::POLLIN | libc::POLLOUT
    } else {
        libc::POLLIN
    };
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    let time = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one pollfd, a timespec that lives as long as the call or none, no signal mask.
    match check(unsafe { libc::ppoll(&mut poll, 1, time, std::ptr::null()) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// A socket, closed on exec.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `bind` with an address structure of the socket's family.
pub(crate) fn bind<A: Plain>(socket: BorrowedFd<'_>, address: &A) -> io::Result<()> {
    let len = size_of::<A>() as libc::socklen_t;
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), len) }).map(drop)
}

/// `send`, which for a socket is less work than `write`. It does not block where the socket does not.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is readable for its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// `sendmsg` of these pieces alone, likewise.
pub(crate) fn send_pieces(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: numbers and pointers; zero is a value of all.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // The kernel does not write to them: `IoSlice` is laid out as `iovec` is.
    message.msg_iov = pieces.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: the message describes memory that is readable, and has neither address nor control
    // data.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
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

/// `getsockopt` of an integer.
pub(crate) fn int_option(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    get_option(socket, level, name, &mut value)?;
    Ok(value)
}

/// `getsockopt`; what the kernel does not fill in stays as it is.
pub(crate) fn get_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = std::ptr::from_mut(value).cast();
    // SAFETY: `value` is writable for `len` bytes, and valid whatever is written.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &mut len) }).map(drop)
}

/// Attaches a classic BPF program to a socket.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    let size = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let at = std::ptr::from_ref(&program).cast();
    let fd = socket.as_raw_fd();
    // SAFETY: the kernel reads `len` instructions and copies them; it writes nothing.
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, size) }).map(drop)
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
    let mut request = InterfaceRequest::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut value = [command, value];
    let at = value.as_mut_ptr() as usize;
    request.value[..size_of::<usize>()].copy_from_slice(&at.to_ne_bytes());
    let (fd, which) = (socket.as_raw_fd(), libc::SIOCETHTOOL as libc::c_ulong);
    // SAFETY: the request points to two writable integers, as these commands want, which live as
    // long as the call; the pointer is not used afterwards.
    check(unsafe { libc::ioctl(fd, which as _, std::ptr::from_mut(&mut request)) }).map(drop)
}

/// Moves the calling thread into new namespaces.
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the calling thread into the network namespace that `namespace` stands for.
pub(crate) fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// The effective user and group of this process.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls always succeed and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
