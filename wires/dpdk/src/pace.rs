//! Waiting for a port that has no interrupts. The port is polled without pause while there is work and for a
//! short time after, and at intervals otherwise.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hawser_host::Clock;
use hawser_time::Instant;
use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// The time for which an idle port is polled without pause: the time that it takes to wake a thread.
const EAGER: Duration = Duration::from_micros(100);
/// The interval between polls after that.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// A timer for polling.
#[derive(Debug)]
pub(crate) struct PollTimer {
    timer: OwnedFd,
    /// The time of the last work.
    last: Instant,
    /// The time by which the timer becomes readable, which wakes a waiting caller.
    due: Instant,
}

impl PollTimer {
    pub(crate) fn new() -> io::Result<PollTimer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(PollTimer {
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            last: Clock.now(),
            due: Instant::ORIGIN,
        })
    }

    /// Records that there was work.
    pub(crate) fn busy(&mut self, now: Instant) {
        self.last = now;
    }

    /// Records that there was no work: the timer is started again unless it is still running.
    pub(crate) fn idle(&mut self) -> io::Result<()> {
        let now = Clock.now();
        if now < self.due {
            return Ok(());
        }
        let once = Itimerspec { it_interval: Timespec::default(), it_value: INTERVAL };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.due = now + Duration::from_nanos(INTERVAL.tv_nsec as u64);
        Ok(())
    }

    /// Waits until the next poll is due.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        if Clock.now() - self.last < EAGER {
            return Ok(());
        }
        hawser_host::wait(self.timer.as_fd(), false, limit)
    }
}

impl AsFd for PollTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
