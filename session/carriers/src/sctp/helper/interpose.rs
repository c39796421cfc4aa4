//! Redirects system calls of the C library to functions of this file.
//!
//! The library opens its UDP sockets itself, at all addresses, and reads all datagrams. Its interface for
//! packets from elsewhere (`AF_CONN`) does not keep the addresses of several paths, because its INIT has
//! none. Therefore the entries of its global offset table for `socket`, `bind`, `setsockopt`, `recvmsg` and
//! `nanosleep` are set to functions of this file. The library gets sockets that we have bound, and receives
//! from them only datagrams that [`packet::check`] accepts.
//!
//! Invariants: the library opens no socket for packets but the two that it is given. It never sees a datagram
//! that was not checked, nor one to an address on which we do not listen. No other code in the process calls
//! the functions of this file.
#![allow(unsafe_code)] // The tables of a loaded library, and functions that C calls.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{IntoRawFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{IPPROTO_UDP, iovec, msghdr, socklen_t, ssize_t, timespec};

use crate::sctp::packet;
use crate::sctp::udp::Sockets;

/// The maximum length of a UDP datagram, in bytes.
const LONGEST: usize = 65_535;

static SOCKETS: OnceLock<Sockets> = OnceLock::new();

/// Signs of life of the library's threads. Each number grows at least ten times a second.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    pub(crate) receives: [AtomicU64; 2],
    pub(crate) timer: AtomicU64,
    /// The number of dropped datagrams.
    pub(crate) dropped: AtomicU64,
}

impl Pulse {
    /// Returns how often each thread has asked for more.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let sockets = SOCKETS.get();
        let has = [
            sockets.is_some_and(|sockets| sockets.v4.is_some()),
            sockets.is_some_and(|sockets| sockets.v6.is_some()),
        ];
        let receives = self
            .receives
            .iter()
            .zip(has)
            .filter(|(_, has)| *has)
            .map(|(count, _)| count);
        receives
            .chain([&self.timer])
            .map(|count| count.load(Ordering::Relaxed))
            .collect()
    }
}

pub(crate) static PULSE: Pulse = Pulse {
    receives: [AtomicU64::new(0), AtomicU64::new(0)],
    timer: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
};

/// The replaced functions of the library's table, by the names under which the library calls them.
fn replacements() -> [(&'static CStr, *const c_void); 5] {
    [
        (c"socket", socket as *const c_void),
        (c"bind", bind as *const c_void),
        (c"setsockopt", setsockopt as *const c_void),
        (c"recvmsg", recvmsg as *const c_void),
        (c"nanosleep", nanosleep as *const c_void),
    ]
}

/// Puts our functions into the table of the library that was loaded as `handle`, and gives it the sockets. To
/// be called before the library starts.
pub(crate) fn interpose(handle: *mut c_void, sockets: Sockets) -> io::Result<()> {
    let unknown = |what: &str| io::Error::other(format!("the library's table of calls: {what}"));
    let table = Table::from_handle(handle).ok_or_else(|| unknown("not found"))?;
    for (name, function) in replacements() {
        if table.replace(name, function)? == 0 {
            return Err(unknown(&format!("no {}", name.to_string_lossy())));
        }
    }
    SOCKETS.set(sockets).map_err(|_| unknown("taken"))
}

/// `struct link_map` of link.h: its public part.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

/// `Elf64_Dyn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: usize,
    information: u64,
    addend: i64,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    information: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Tags of the dynamic section (elf.h): DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_JMPREL.
const SIZE: i64 = 2;
const STRINGS: i64 = 5;
const SYMBOLS: i64 = 6;
const RELOCATIONS: i64 = 23;

/// A loaded library's table of calls to other libraries.
struct Table {
    base: usize,
    strings: usize,
    symbols: usize,
    relocations: usize,
    count: usize,
}

impl Table {
    fn from_handle(handle: *mut c_void) -> Option<Self> {
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: the handle is that of a loaded library; the call stores the address of its map in `map`.
        let found = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        if found != 0 || map.is_null() {
            return None;
        }
        // SAFETY: the map exists for as long as the library is loaded, and the library is never unloaded.
        let map = unsafe { &*map };
        let entry = |wanted: i64| {
            let mut at = map.dynamic;
            loop {
                // SAFETY: the dynamic section ends with an entry of tag 0, which the loop does not pass.
                let Dynamic { tag, value } = unsafe { *at };
                match tag {
                    0 => return None,
                    tag if tag == wanted => return Some(value),
                    // SAFETY: it was not the last entry.
                    _ => at = unsafe { at.add(1) },
                }
            }
        };
        // The loader has converted the file's offsets to addresses, except on some machines.
        let address =
            |wanted| entry(wanted).map(|value| if value < map.base { value + map.base } else { value });
        Some(Self {
            base: map.base,
            strings: address(STRINGS)?,
            symbols: address(SYMBOLS)?,
            relocations: address(RELOCATIONS)?,
            count: entry(SIZE)? / size_of::<Relocation>(),
        })
    }

    /// Sets every entry of this name. Returns the number of entries.
    fn replace(&self, name: &CStr, function: *const c_void) -> io::Result<usize> {
        let mut replaced = 0;
        for index in 0..self.count {
            // SAFETY: the table holds `count` relocations. Each refers to a symbol whose name is a string of
            // the library (elf(5)).
            let (offset, named) = unsafe {
                let relocation = *(self.relocations as *const Relocation).add(index);
                let symbol = *(self.symbols as *const Symbol).add((relocation.information >> 32) as usize);
                let named = CStr::from_ptr((self.strings as *const c_char).add(symbol.name as usize));
                (relocation.offset, named)
            };
            if named == name {
                write((self.base + offset) as *mut *const c_void, function)?;
                replaced += 1;
            }
        }
        Ok(replaced)
    }
}

/// Sets one entry of a table, which the loader may have made read-only.
fn write(entry: *mut *const c_void, function: *const c_void) -> io::Result<()> {
    // SAFETY: sysconf reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = (entry as usize / page * page) as *mut c_void;
    // SAFETY: an entry is aligned, so it lies in one page, which is the library's data. No thread of the
    // library runs yet.
    unsafe {
        if libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return Err(io::Error::last_os_error());
        }
        entry.write(function);
    }
    Ok(())
}

fn fail(error: c_int) -> c_int {
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Gives the library a socket that we have bound. It gets no raw IP sockets.
extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let sockets = SOCKETS.get();
    match (domain, kind, protocol) {
        (libc::AF_INET, libc::SOCK_DGRAM, IPPROTO_UDP) => give(sockets.and_then(|all| all.v4.as_ref())),
        (libc::AF_INET6, libc::SOCK_DGRAM, IPPROTO_UDP) => give(sockets.and_then(|all| all.v6.as_ref())),
        (_, libc::SOCK_RAW, _) => fail(libc::EACCES),
        // The library queries the MTU of an interface with such a socket.
        // SAFETY: the arguments are three numbers.
        _ => unsafe { libc::socket(domain, kind, protocol) },
    }
}

fn give(socket: Option<&UdpSocket>) -> c_int {
    match socket.map(UdpSocket::try_clone) {
        Some(Ok(socket)) => socket.into_raw_fd(),
        _ => fail(libc::EAFNOSUPPORT),
    }
}

/// Succeeds without effect, because the sockets are already bound.
extern "C" fn bind(_: c_int, _: *const c_void, _: socklen_t) -> c_int {
    0
}

/// Sets the option that the library asks for, except buffer sizes, which are already larger.
extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if level == libc::SOL_SOCKET && matches!(name, libc::SO_RCVBUF | libc::SO_SNDBUF) {
        return 0;
    }
    // SAFETY: the arguments are the library's own.
    unsafe { libc::setsockopt(fd, level, name, value, length) }
}

/// Counts a sign of life of the timer thread, and sleeps.
extern "C" fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    PULSE.timer.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the arguments are the library's own.
    unsafe { libc::nanosleep(wanted, left) }
}

thread_local! {
    static DATAGRAM: RefCell<Box<[u8]>> = RefCell::new(vec![0; LONGEST].into());
}

/// Receives one valid datagram into the library's buffers.
extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the message is the library's; its parts are valid, and no other thread uses it.
    let message = unsafe { &mut *message };
    DATAGRAM.with_borrow_mut(|datagram| receive(fd, message, flags, datagram))
}

fn receive(fd: RawFd, message: &mut msghdr, flags: c_int, datagram: &mut [u8]) -> ssize_t {
    let (name_length, control_length) = (message.msg_namelen, message.msg_controllen);
    loop {
        beat(fd);
        let mut part = iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() };
        let mut own = *message;
        (own.msg_namelen, own.msg_controllen) = (name_length, control_length);
        (own.msg_iov, own.msg_iovlen) = (&raw mut part, 1);
        // SAFETY: the address and the control data are written to the library's buffers, within its lengths,
        // and the datagram to `datagram`.
        let received = unsafe { libc::recvmsg(fd, &raw mut own, flags) };
        let Ok(length) = usize::try_from(received) else {
            return received;
        };
        (message.msg_namelen, message.msg_controllen) = (own.msg_namelen, own.msg_controllen);
        message.msg_flags = own.msg_flags;
        let fault = packet::check(&datagram[..length]).err();
        if fault.is_none() && listens_at(destination(message)) && scatter(&datagram[..length], message) {
            return received;
        }
        PULSE.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(fault) = fault {
            tracing::trace!(%fault, "a datagram was dropped");
        }
    }
}

/// Counts a sign of life of this socket's thread.
fn beat(fd: RawFd) {
    let index = usize::from(is_v6(fd));
    PULSE.receives[index].fetch_add(1, Ordering::Relaxed);
}

fn is_v6(fd: RawFd) -> bool {
    let mut address = libc::sockaddr { sa_family: 0, sa_data: [0; 14] };
    let mut length = size_of_val(&address) as socklen_t;
    // SAFETY: at most `length` bytes are written.
    let result = unsafe { libc::getsockname(fd, &raw mut address, &raw mut length) };
    result == 0 && c_int::from(address.sa_family) == libc::AF_INET6
}

fn listens_at(address: Option<IpAddr>) -> bool {
    let allowed = SOCKETS.get().map_or(&[][..], |sockets| &sockets.addresses);
    allowed.is_empty() || address.is_some_and(|address| allowed.contains(&address))
}

/// Returns the address to which a datagram was sent (ip(7), ipv6(7)).
fn destination(message: &msghdr) -> Option<IpAddr> {
    // SAFETY: the system has filled in the control data and its length.
    let first = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    // SAFETY: the header is followed by its data.
    let data = unsafe { libc::CMSG_DATA(first) };
    match (first.cmsg_level, first.cmsg_type) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // SAFETY: control data of this type has this structure.
            let information = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(information.ipi_addr.s_addr)).into())
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            // SAFETY: control data of this type has this structure.
            let information = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
            Some(Ipv6Addr::from(information.ipi6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Copies the datagram into the message's buffers. Returns false if they have too little room.
fn scatter(mut datagram: &[u8], message: &msghdr) -> bool {
    // SAFETY: the message has this number of parts.
    let parts = unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    for part in parts {
        let length = datagram.len().min(part.iov_len);
        let (now, later) = datagram.split_at(length);
        // SAFETY: the part has room for `iov_len` bytes, and its memory is the library's, not ours.
        unsafe { ptr::copy_nonoverlapping(now.as_ptr(), part.iov_base.cast(), length) };
        datagram = later;
    }
    datagram.is_empty()
}
