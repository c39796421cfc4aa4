//! A process tree of its own, of which nothing survives.
//!
//! [`contain`] starts this very command once more as the first process of new user, process and
//! network namespaces, and waits for it. When that first process ends, the kernel kills whatever it
//! or its descendants have started; and it is killed when the one that waits ends, however that
//! happens. So a command of the lab leaves nothing behind, even when it is killed itself.

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

/// How long the terminal's interrupt, which everything in the lab gets, has to work by itself.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);
/// How long what is asked to end has for it.
const END_GRACE: Duration = Duration::from_secs(3);

/// Runs `command` in namespaces of its own, as the first process of a tree that ends with it, and
/// with the calling process. Interrupts and requests to end are passed on. Returns what a shell
/// would: the exit code, or 128 and the signal's number.
///
/// Call it before any thread is started.
///
/// # Errors
/// When the system does not allow namespaces, or the command cannot be started.
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

/// What a shell makes of how a process ended.
pub(crate) fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => u8::MAX,
    }
}

/// Waits for the child, and sees to it that it ends when this process is asked to.
fn watch(mut child: Child, signals: &Signals) -> io::Result<ExitStatus> {
    let handle = sys::handle_of(&child)?;
    // What is done when the time has come.
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
