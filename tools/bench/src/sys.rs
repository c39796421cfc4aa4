//! System calls that the standard library does not offer, each wrapped so that safe code cannot
//! misuse it.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Whether this user is root, in its own eyes.
pub(crate) fn is_root() -> bool {
    // SAFETY: the call always succeeds and touches no memory.
    unsafe { libc::geteuid() == 0 }
}

/// The cores that this process may run on, in order.
///
/// # Errors
/// When the kernel does not say.
pub(crate) fn cores() -> io::Result<Vec<usize>> {
    // SAFETY: a set of bits; zero is a value.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: `set` is writable for its size.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    // SAFETY: the index is below the number of bits in the set.
    let has = |core: usize| unsafe { libc::CPU_ISSET(core, &set) };
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|core| has(*core))
        .collect())
}

/// Keeps the calling thread, and those that it starts, on one core.
///
/// # Errors
/// When there is no such core, or it is not ours.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of bits; zero is a value.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the index is below the number of bits in the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: `set` is readable for its size.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }).map(drop)
}

/// Processor time of this process so far: in user space, and in the kernel on its behalf.
#[must_use]
pub(crate) fn cpu_time() -> (Duration, Duration) {
    // SAFETY: plain numbers; zero is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: `usage` is writable; RUSAGE_SELF always exists, so that the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// Ends this process when `limit` is over, or when its parent ends: a side of a measurement that
/// hangs does not outlive it.
pub(crate) fn do_not_outlive(limit: Duration) {
    // SAFETY: no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::alarm(limit.as_secs().clamp(1, 86_400) as u32);
    }
}

/// Bytes that the allocator has given out and not got back.
#[must_use]
pub(crate) fn allocated_bytes() -> u64 {
    // SAFETY: no arguments; the result is plain numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

/// `struct ethtool_value` of <linux/ethtool.h>.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ifreq` with its pointer member.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut c_void,
    rest: [u8; 16],
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Commands of <linux/ethtool.h> that switch segmentation and merging: TSO, GSO, GRO.
const OFFLOADS: [u32; 3] = [0x1f, 0x24, 0x2c];

/// Switches an interface's segmentation and merging (TSO, GSO, GRO) on or off, in the calling
/// thread's network namespace. Checksums stay as they are.
///
/// # Errors
/// When there is no such interface, or it may not be changed.
pub(crate) fn set_offloads(interface: &str, on: bool) -> io::Result<()> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: no memory is involved; the descriptor is new and nobody else's.
    let socket = unsafe {
        OwnedFd::from_raw_fd(check(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?)
    };
    for command in OFFLOADS {
        let mut value = EthtoolValue {
            command,
            data: u32::from(on),
        };
        let mut request = InterfaceRequest {
            name: [0; libc::IFNAMSIZ],
            data: (&raw mut value).cast(),
            rest: [0; 16],
        };
        request.name[..interface.len()].copy_from_slice(interface.as_bytes());
        // SAFETY: the request is at least as large as `struct ifreq`, its pointer leads to a
        // `struct ethtool_value`, and both live as long as the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    }
    Ok(())
}

/// Waits for several descriptors at once (epoll(7), level triggered).
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// An empty one.
    ///
    /// # Errors
    /// When descriptors run out.
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: no memory is involved; the descriptor is new and nobody else's.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Poller {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; 256],
        })
    }

    /// Watches a descriptor, under a number of the caller's, for input, and output where wanted.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub(crate) fn add(&self, fd: RawFd, number: u64, output: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, output)
    }

    /// Changes whether output is waited for.
    ///
    /// # Errors
    /// When it is not watched.
    pub(crate) fn change(&self, fd: RawFd, number: u64, output: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, output)
    }

    fn control(&self, operation: c_int, fd: RawFd, number: u64, output: bool) -> io::Result<()> {
        let events = libc::EPOLLIN | if output { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: number,
        };
        // SAFETY: `event` is readable for the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) }).map(drop)
    }

    /// Sleeps until something is ready, or `limit` is over, and appends the numbers of what is.
    ///
    /// # Errors
    /// When waiting is impossible.
    pub(crate) fn wait(&mut self, limit: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        let timeout = limit.map_or(-1, |t| t.as_millis().min(60_000) as c_int);
        let (at, len) = (self.events.as_mut_ptr(), self.events.len() as c_int);
        // SAFETY: `at` is writable for `len` events.
        match check(unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), at, len, timeout) }) {
            Ok(n) => ready.extend(self.events[..n as usize].iter().map(|event| event.u64)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
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
    fn memory_in_use_is_reported() {
        let before = allocated_bytes();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        // Other tests allocate and free as well, at the same time, but not half of that.
        assert!(allocated_bytes() >= before + (32 << 20));
        drop(held);
    }

    #[test]
    fn some_core_is_ours() {
        let cores = cores().unwrap();
        assert!(!cores.is_empty());
        std::thread::spawn(move || pin(cores[0]).unwrap()).join().unwrap();
    }

    #[test]
    fn what_is_ready_is_reported() {
        use std::io::Write;
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(ours.as_raw_fd(), 7, false).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        theirs.write_all(b"x").unwrap();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [7]);
    }
}
