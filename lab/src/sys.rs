//! System calls that the standard library does not offer, each wrapped so that safe code cannot
//! misuse it. It is the only place of `unsafe`.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use hawser_time::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn time(clock: ClockId) -> Instant {
    let time = clock_gettime(clock);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The time by CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Instant {
    time(ClockId::Monotonic)
}

/// The time by CLOCK_REALTIME.
pub(crate) fn realtime() -> Instant {
    time(ClockId::Realtime)
}

/// A poll set: descriptors to wait for, time after time. The kernel keeps the list.
pub(crate) struct Watch {
    epoll: OwnedFd,
}

impl Watch {
    /// Watches the descriptors until they are closed.
    pub(crate) fn new<'a>(readable: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<Watch> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in readable {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Watch { epoll })
    }

    /// Waits until one of the descriptors is readable, or the time is over, or a signal comes.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        // Before Linux 5.11 epoll counts in milliseconds, so that the set is polled in its turn.
        wait([self.epoll.as_fd()], limit)
    }
}

/// Waits until one of the descriptors is readable, or the time is over, or a signal comes.
pub(crate) fn wait<const N: usize>(readable: [BorrowedFd<'_>; N], limit: Option<Duration>) -> io::Result<()> {
    let mut list = readable.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // A limit that the kernel's type has no room for is none.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut list, limit.as_ref()) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Makes the mount at a path and all below it read-only.
pub(crate) fn make_read_only(path: &Path) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    const AT_RECURSIVE: libc::c_uint = 0x8000;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = MountAttributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path has its end, the attributes are readable for the size that is given, and the call keeps
    // neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A counter that wakes who waits for it.
pub(crate) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// The calling thread's timers fire when they are due, not when it suits the kernel (50 µs later
/// by default).
pub(crate) fn demand_exact_timers() {
    // If it fails, timers are as coarse as before.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Has a command, before it runs, enter this mount namespace, act upon all signals again, and be
/// killed when the thread that started it ends.
pub(crate) fn prepare_child(command: &mut Command, view: Option<File>) {
    let prepare = move || {
        if let Some(view) = &view {
            keeping_directory(|| enter_mounts(view.as_fd()))?;
        }
        accept_signals()?;
        Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
    };
    // SAFETY: between fork and exec the closure makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Moves the calling thread into a mount namespace.
pub(crate) fn enter_mounts(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace,
        Some(LinkNameSpaceType::Mount),
    )?)
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
pub(crate) fn handle_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// Sends a child a signal; without effect when it has ended.
pub(crate) fn signal(child: &Child, signal: Signal) {
    let _ = kill_process(Pid::from_child(child), signal);
}
