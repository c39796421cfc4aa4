//! A process tree of its own that ends as a whole.
//!
//! [`contain`] starts this command once more as the first process of new user, process and network
//! namespaces, and waits for it. When that first process ends, the kernel kills all its descendants. The
//! first process in turn is killed when the waiting process ends, for whatever reason. A command of the lab
//! therefore leaves no process behind, even if it is killed itself.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use hawser_host::netns::{enter_user_namespace, unshare};
use rustix::process::Signal;
use rustix::thread::UnshareFlags;

use crate::LabError;
use crate::sys::{self, Signals};

/// The time for which the terminal's interrupt, which reaches all processes of the lab, may work by itself.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);
/// The time that processes have to end after they are asked to.
const END_GRACE: Duration = Duration::from_secs(3);

/// Runs `command` in namespaces of its own, as the first process of a tree that ends with it, and with the
/// calling process. Interrupts and termination signals are passed on. Returns the same value as a shell: the
/// exit code, or 128 plus the signal's number.
///
/// It must be called before any thread is started.
///
/// # Errors
/// The system does not permit namespaces, or the command could not be started.
pub fn contain(mut command: Command) -> Result<u8, LabError> {
    enter_user_namespace()?;
    unshare(UnshareFlags::NEWPID).map_err(LabError::io("make a process namespace"))?;
    let signals = Signals::take().map_err(LabError::io("take the signals over"))?;
    sys::prepare_child(&mut command, None);
    let child = command
        .spawn()
        .map_err(LabError::io("start the lab's first process"))?;
    watch(child, &signals)
        .map(code)
        .map_err(LabError::io("wait for the lab's first process"))
}

/// Converts an exit status as a shell does.
pub(crate) fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => u8::MAX,
    }
}

/// Waits for the child, and ends it when this process is asked to end.
fn watch(mut child: Child, signals: &Signals) -> io::Result<ExitStatus> {
    let handle = sys::handle_of(&child)?;
    // The next signal to send, with its time.
    let mut next: Option<(Instant, Signal)> = None;
    loop {
        let limit = next.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        sys::wait([handle.as_fd(), signals.as_fd()], limit)?;
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        while let Some(signal) = signals.next() {
            let grace = if signal == libc::SIGINT {
                INTERRUPT_GRACE
            } else {
                Duration::ZERO
            };
            next = next.or(Some((Instant::now() + grace, Signal::TERM)));
        }
        if let Some((at, signal)) = next
            && at <= Instant::now()
        {
            sys::signal(&child, signal);
            next = Some((Instant::now() + END_GRACE, Signal::KILL));
        }
    }
}
