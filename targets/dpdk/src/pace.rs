//! How one waits for a port that has no interrupts: it is polled, without pause while there is something to do and for a
//! while after, and now and then else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hawser_host::Clock;
use hawser_time::Instant;
use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// How long a port that has nothing to do is polled without pause: the time that it takes to wake a thread.
const EAGER: Duration = Duration::from_micros(100);
/// How often it is polled then.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// A timer.
#[derive(Debug)]
pub(crate) struct Pace {
    timer: OwnedFd,
    /// When there was something to do last.
    last: Instant,
    /// No later than this the timer becomes readable, and that is news to who waits for it.
    due: Instant,
}

impl Pace {
    pub(crate) fn new() -> io::Result<Pace> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Pace {
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            last: Clock.now(),
            due: Instant::ORIGIN,
        })
    }

    /// There was something to do.
    pub(crate) fn busy(&mut self, now: Instant) {
        self.last = now;
    }

    /// There was nothing to do: the timer runs once more, if it is not still running.
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

    /// Waits until the port is to be polled.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        if Clock.now() - self.last < EAGER {
            return Ok(());
        }
        hawser_host::wait(self.timer.as_fd(), false, limit)
    }
}

impl AsFd for Pace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
