//! System calls that the standard library does not offer, each wrapped so that safe code cannot
//! misuse it. With `forward::ring` it is the only place of `unsafe`.

use std::ffi::{CStr, CString, c_int, c_ulong};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use hawser_engine::wire::Nanos;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn clock(which: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; both clocks used exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn monotonic() -> Nanos {
    clock(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds.
pub(crate) fn realtime() -> Nanos {
    clock(libc::CLOCK_REALTIME)
}

/// Descriptors to wait for, until they can be read.
#[derive(Default)]
pub(crate) struct Sleepers {
    list: Vec<libc::pollfd>,
}

impl Sleepers {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds one; it must stay open for as long as it is waited for.
    pub(crate) fn add(&mut self, fd: BorrowedFd<'_>) {
        self.list.push(libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
    }

    /// Waits until one is readable, or the time is over, or a signal comes.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let time = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (list, count) = (self.list.as_mut_ptr(), self.list.len() as libc::nfds_t);
        // SAFETY: `count` pollfds, a timespec that lives as long as the call or none, no mask.
        match check(unsafe { libc::ppoll(list, count, time, std::ptr::null()) }) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// A packet socket that takes part in nothing yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Values of socket options: C structures and integers without references.
///
/// # Safety
/// An implementor is `repr(C)` without references and without padding that matters.
pub(crate) unsafe trait OptionValue: Copy {}
// SAFETY: an integer.
unsafe impl OptionValue for c_int {}
// SAFETY: four integers.
unsafe impl OptionValue for libc::tpacket_req {}

/// `setsockopt`.
pub(crate) fn set_option<T: OptionValue>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    let at = std::ptr::from_ref(&value).cast();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` bytes.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, len) }).map(drop)
}

/// What a packet socket has received and what it had no room for, since the last question.
pub(crate) fn packet_drops(socket: BorrowedFd<'_>) -> u64 {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let at = std::ptr::from_mut(&mut statistics).cast();
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    // SAFETY: the structure is writable for `len` bytes.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &mut len) };
    if result == 0 {
        u64::from(statistics.tp_drops)
    } else {
        0
    }
}

/// Takes note of what went wrong with a socket, so that it is not reported again.
pub(crate) fn clear_error(socket: BorrowedFd<'_>) {
    let mut error: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    let at = std::ptr::from_mut(&mut error).cast();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: an integer, writable for `len` bytes. The call cannot fail for a socket.
    unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &mut len) };
}

/// Starts reception of all protocols from an interface, by its number.
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    // SAFETY: integers; zero is a value of all.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let at = std::ptr::from_ref(&address).cast();
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), at, len) }).map(drop)
}

/// The number of an interface of the calling thread's network namespace.
pub(crate) fn interface_number(name: &CStr) -> io::Result<u32> {
    // SAFETY: a string with its end.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

/// Frames that [`send_all`] hands over in one system call, at most.
pub(crate) const SEND_BATCH: usize = 64;

/// Sends frames, each as one message; returns how many were taken from the front.
pub(crate) fn send_all<'a>(
    socket: BorrowedFd<'_>,
    frames: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    // SAFETY: integers and pointers; zero is a value of all, and `count` is how many are used.
    let mut messages: [libc::mmsghdr; SEND_BATCH] = unsafe { std::mem::zeroed() };
    let mut pieces = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; SEND_BATCH];
    let mut count = 0;
    for (i, frame) in frames.take(SEND_BATCH).enumerate() {
        pieces[i] = libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        };
        messages[i].msg_hdr.msg_iov = &raw mut pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        count = i + 1;
    }
    // SAFETY: `count` messages of one piece each, which are readable and outlive the call; the
    // kernel writes to the lengths in `messages` alone.
    check(unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as _, 0) })
        .map(|sent| sent as usize)
}

/// A counter that wakes who waits for it.
pub(crate) fn event() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The calling thread's timers fire when they are due, not when it suits the kernel (50 µs later
/// by default).
pub(crate) fn demand_exact_timers() {
    let nanos: c_ulong = 1;
    // SAFETY: no memory is involved. If it fails, timers are as coarse as before.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) };
}

/// Has a command, before it runs, enter this mount namespace, act upon all signals again, and be
/// killed when the thread that started it ends.
pub(crate) fn prepare_child(command: &mut Command, view: Option<File>) {
    let prepare = move || {
        if let Some(view) = &view {
            keeping_directory(|| enter(view.as_fd(), libc::CLONE_NEWNS))?;
        }
        accept_signals()?;
        die_with_parent()
    };
    // SAFETY: between fork and exec the closure makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// The calling process is killed when the thread that started it ends.
fn die_with_parent() -> io::Result<()> {
    let signal = libc::SIGKILL as c_ulong;
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }).map(drop)
}

/// Moves the calling thread into new namespaces.
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the calling thread into a namespace of this kind.
pub(crate) fn enter(namespace: BorrowedFd<'_>, kind: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }).map(drop)
}

/// `mount`; without a source or a kind, as for changes of what is mounted.
pub(crate) fn mount(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: c_ulong,
) -> io::Result<()> {
    let text = |text: Option<&str>| text.map(CString::new).transpose();
    let (source, kind, target) = (text(source)?, text(kind)?, CString::new(target)?);
    let at = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: strings with their ends, or none, that outlive the call; no data.
    let result = unsafe { libc::mount(at(&source), target.as_ptr(), at(&kind), flags, std::ptr::null()) };
    check(result).map(drop)
}

/// Takes a file system away from where it is mounted; it goes when nobody uses it any more.
pub(crate) fn unmount_lazily(target: &str) -> io::Result<()> {
    let target = CString::new(target)?;
    // SAFETY: a string with its end.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Does something that changes the working directory, and goes back to where it was. Between fork
/// and exec it is as good as anywhere: it allocates nothing.
pub(crate) fn keeping_directory(act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length; the path in it has its end.
    if unsafe { libc::getcwd(path.as_mut_ptr().cast(), path.len()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    act()?;
    // SAFETY: a string with its end.
    check(unsafe { libc::chdir(path.as_ptr().cast()) }).map(drop)
}

/// Signals that are read instead of being acted upon.
pub(crate) struct Signals {
    file: File,
}

/// Those that ask a process to end.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

impl Signals {
    /// From now on the signals that ask to end are read here. The calling thread's later threads
    /// and commands inherit that; [`prepare_child`] undoes it.
    pub(crate) fn take() -> io::Result<Signals> {
        let set = Signals::hold()?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` is readable during the call.
        let fd = check(unsafe { libc::signalfd(-1, &set, flags) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Signals { file: file.into() })
    }

    /// Lets the signals that ask to end wait; gives their set.
    pub(crate) fn hold() -> io::Result<libc::sigset_t> {
        // SAFETY: a set of bits; the calls write to it alone, and fail for no valid signal.
        let set = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ENDING {
                libc::sigaddset(&mut set, signal);
            }
            set
        };
        // SAFETY: `set` is readable; no old mask is asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(set),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The next signal that came, if any.
    pub(crate) fn next(&self) -> Option<c_int> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        io::Read::read_exact(&mut &self.file, &mut bytes).ok()?;
        bytes
            .first_chunk()
            .map(|number| u32::from_ne_bytes(*number) as c_int)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The calling thread acts upon all signals again.
fn accept_signals() -> io::Result<()> {
    // SAFETY: a set of bits that the first call writes and the second reads.
    let result = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(result))
    }
}

/// A handle of a child that can be waited for with others; it becomes readable when the child ends.
pub(crate) fn handle_of(child: &std::process::Child) -> io::Result<OwnedFd> {
    let pid = child.id() as libc::pid_t;
    // SAFETY: no memory is involved; the child has not been waited for, so the number is its own.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = check(c_int::try_from(fd).unwrap_or(-1))?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a child a signal; without effect when it has ended.
pub(crate) fn signal(child: &std::process::Child, signal: c_int) {
    // SAFETY: no memory is involved; the child has not been waited for, so the number is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}
