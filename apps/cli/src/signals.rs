//! Signals that end a serving command: uses [`Interrupts`] in threads without a runtime.

use std::sync::mpsc::Sender;

use crate::device::runtime;
use crate::exit::Outcome;
use crate::interrupt::Interrupts;

/// Sends the outcome of the command when a terminating signal arrives: an interrupt, a hangup, or a request
/// to terminate. A shell starts background commands with interrupts ignored; this command handles them
/// nevertheless.
pub(crate) fn end_by(ended: Sender<Outcome>) -> Outcome {
    // A command that has already ended no longer receives.
    at_end(move || drop(ended.send(Ok(()))))
}

/// Calls `act` on a thread of its own when a terminating signal arrives.
pub(crate) fn at_end(act: impl FnOnce() + Send + 'static) -> Outcome {
    let runtime = runtime()?;
    let interrupts = {
        let _inside = runtime.enter();
        Interrupts::new()?
    };
    std::thread::spawn(move || {
        runtime.block_on(interrupts.next());
        act();
        // The runtime keeps running, so that a second signal ends the command at once.
        runtime.block_on(std::future::pending::<()>());
    });
    Ok(())
}
