//! System calls that the standard library does not offer. Calls that rustix does not offer either are wrapped
//! so that safe code cannot misuse them.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the cores that this process may run on, in order.
///
/// # Errors
/// The kernel did not report them.
pub(crate) fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Pins the calling thread, and the threads that it starts, to one core.
///
/// # Errors
/// The core does not exist, or this process may not use it.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the processor time of this process so far: in user space, and in the kernel on its behalf.
#[must_use]
pub(crate) fn cpu_time() -> (Duration, Duration) {
    // SAFETY: plain numbers; zero is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: `usage` is writable; RUSAGE_SELF always exists, so that the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// Returns the processor time of all threads of another process so far, including that in the kernel.
///
/// # Errors
/// The process does not exist.
pub(crate) fn process_time(process: u32) -> io::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is writable.
    let error = unsafe { libc::clock_getcpuclockid(process as libc::pid_t, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: plain numbers; zero is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: `time` is writable.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the processor time of this thread so far, including that in the kernel.
#[must_use]
pub(crate) fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the peak memory of this process, in KiB.
#[must_use]
pub(crate) fn memory_peak_kib() -> u64 {
    // SAFETY: plain numbers; zero is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: `usage` is writable; RUSAGE_SELF always exists, so that the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_maxrss as u64
}

/// Makes the kernel split writes to a UDP socket into datagrams of this many bytes (`UDP_SEGMENT`).
///
/// # Errors
/// The kernel does not support this.
pub(crate) fn cut_datagrams(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    let (fd, value) = (socket.as_fd().as_raw_fd(), libc::c_int::from(bytes));
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` is readable for its length.
    match unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast(),
            length,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends this process when `limit` has passed, or when its parent ends, so that a hanging side does not
/// outlive its measurement.
pub(crate) fn do_not_outlive(limit: Duration) {
    // If this fails, the time limit remains.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // SAFETY: no memory is involved.
    unsafe { libc::alarm(limit.as_secs().clamp(1, 86_400) as u32) };
}

/// Returns the bytes that the allocator has handed out and not received back.
#[must_use]
pub(crate) fn allocated_bytes() -> u64 {
    // SAFETY: no arguments; the result is plain numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

/// Waits for several descriptors at once (epoll(7), level triggered).
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// The largest number of events that one wait reports.
const EVENTS: usize = 256;

impl Poller {
    /// Makes an empty poller.
    ///
    /// # Errors
    /// There are too few descriptors.
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Watches a descriptor, under a number of the caller's choice, for input, and for output if requested.
    ///
    /// # Errors
    /// The descriptor cannot be watched.
    pub(crate) fn add(&self, fd: impl AsFd, number: u64, output: bool) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            epoll::EventData::new_u64(number),
            events(output),
        )?)
    }

    /// Changes whether the poller waits for output.
    ///
    /// # Errors
    /// The descriptor is not watched.
    pub(crate) fn change(&self, fd: impl AsFd, number: u64, output: bool) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            fd,
            epoll::EventData::new_u64(number),
            events(output),
        )?)
    }

    /// Sleeps until a descriptor is ready, or `limit` has passed, and appends the numbers of the ready ones.
    ///
    /// # Errors
    /// Waiting failed.
    pub(crate) fn wait(&mut self, limit: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        // A limit that exceeds the kernel's type counts as no limit.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref()) {
            Err(error) if error != Errno::INTR => return Err(error.into()),
            _ => ready.extend(self.events.iter().map(|event| event.data.u64())),
        }
        Ok(())
    }
}

fn events(output: bool) -> epoll::EventFlags {
    let mut events = epoll::EventFlags::IN;
    events.set(epoll::EventFlags::OUT, output);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows() {
        let (user, system) = cpu_time();
        let mut sum = 0u64;
        while cpu_time() == (user, system) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let (user2, system2) = cpu_time();
        assert!(user2 + system2 > user + system);
    }

    #[test]
    fn processor_time_of_another_process_is_read() {
        let mut idle = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let time = process_time(idle.id());
        idle.kill().unwrap();
        idle.wait().unwrap();
        assert!(time.unwrap() < Duration::from_secs(1));
        assert!(process_time(std::process::id()).unwrap() >= thread_time());
        assert!(process_time(idle.id()).is_err());
    }

    #[test]
    fn memory_in_use_is_reported() {
        let before = allocated_bytes();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        // Other tests also allocate and free memory at the same time, but less than half of this.
        assert!(allocated_bytes() >= before + (32 << 20));
        drop(held);
    }

    #[test]
    fn a_thread_can_be_pinned_to_an_own_core() {
        let cores = cores().unwrap();
        assert!(!cores.is_empty());
        std::thread::spawn(move || pin(cores[0]).unwrap()).join().unwrap();
    }

    #[test]
    fn a_ready_socket_is_reported() {
        use std::io::Write;
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&ours, 7, false).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        theirs.write_all(b"x").unwrap();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [7]);
    }
}
