//! System calls that the standard library does not offer, each wrapped so that safe code cannot misuse it.
//! This is the only module with `unsafe`.

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

/// Returns the time by CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Instant {
    time(ClockId::Monotonic)
}

/// Returns the time by CLOCK_REALTIME.
pub(crate) fn realtime() -> Instant {
    time(ClockId::Realtime)
}

/// A set of descriptors to wait for repeatedly. The kernel keeps the list.
pub(crate) struct Epoll {
    epoll: OwnedFd,
}

impl Epoll {
    /// Watches the descriptors until they are closed.
    pub(crate) fn new<'a>(readable: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in readable {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Epoll { epoll })
    }

    /// Waits until one of the descriptors is readable, the time limit has passed, or a signal comes.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        // Before Linux 5.11, epoll counts in milliseconds, so the set itself is polled.
        wait([self.epoll.as_fd()], limit)
    }
}

/// Waits until one of the descriptors is readable, the time limit has passed, or a signal comes.
pub(crate) fn wait<const N: usize>(readable: [BorrowedFd<'_>; N], limit: Option<Duration>) -> io::Result<()> {
    let mut list = readable.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // A limit that exceeds the kernel's type counts as no limit.
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
    // SAFETY: the path is terminated, the attributes are readable for the given size, and the call keeps
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

/// Makes an eventfd, which wakes its waiters.
pub(crate) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Makes the calling thread's timers fire when they are due, not at the kernel's convenience (50 µs later by
/// default).
pub(crate) fn demand_exact_timers() {
    // If this fails, timers are as coarse as before.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Makes a command, before it runs, enter this mount namespace and unblock all signals. The command is killed
/// when the thread that started it ends.
pub(crate) fn prepare_child(command: &mut Command, view: Option<File>) {
    let prepare = move || {
        if let Some(view) = &view {
            keeping_directory(|| enter_mounts(view.as_fd()))?;
        }
        accept_signals()?;
        Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
    };
    // SAFETY: between fork and exec, the closure only makes system calls, and does not allocate.
    unsafe { command.pre_exec(prepare) };
}

/// Moves the calling thread into a mount namespace.
pub(crate) fn enter_mounts(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace,
        Some(LinkNameSpaceType::Mount),
    )?)
}

/// Executes an operation that changes the working directory, and restores the directory. It does not
/// allocate, so it may run between fork and exec.
pub(crate) fn keeping_directory(act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length; the path in it is terminated.
    if unsafe { libc::getcwd(path.as_mut_ptr().cast(), path.len()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    act()?;
    // SAFETY: the string is terminated.
    check(unsafe { libc::chdir(path.as_ptr().cast()) }).map(drop)
}

/// Signals that are read from a descriptor instead of being handled.
pub(crate) struct Signals {
    file: File,
}

/// The signals that ask a process to end.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

impl Signals {
    /// Reads the signals that ask the process to end from a descriptor from now on. Threads and commands that
    /// the calling thread starts later inherit this; [`prepare_child`] undoes it.
    pub(crate) fn take() -> io::Result<Signals> {
        let set = Signals::hold()?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` is readable during the call.
        let fd = check(unsafe { libc::signalfd(-1, &set, flags) })?;
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Signals { file: file.into() })
    }

    /// Blocks the signals that ask the process to end, and returns their set.
    pub(crate) fn hold() -> io::Result<libc::sigset_t> {
        // SAFETY: the set is plain bits; the calls only write to it, and do not fail for a valid signal.
        let set = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ENDING {
                libc::sigaddset(&mut set, signal);
            }
            set
        };
        // SAFETY: `set` is readable; the old mask is not requested.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(set),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns the next signal that came, if any.
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

/// Unblocks all signals of the calling thread.
fn accept_signals() -> io::Result<()> {
    // SAFETY: the first call writes a set of bits, which the second reads.
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

/// Returns a descriptor of a child that becomes readable when the child ends.
pub(crate) fn handle_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// Sends a child a signal. A child that has ended is not affected.
pub(crate) fn signal(child: &Child, signal: Signal) {
    let _ = kill_process(Pid::from_child(child), signal);
}
