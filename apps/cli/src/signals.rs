//! Signals that end a serving command: [`Interrupts`] for threads without a runtime.

use std::sync::mpsc::Sender;

use crate::device::runtime;
use crate::exit::Outcome;
use crate::interrupt::Interrupts;

/// Sends the end of a command when the terminal is interrupted or ends, or when the command is asked to end. A
/// shell that starts a command in the background has it ignore interrupts: this command ends all the same.
pub(crate) fn end_by(ended: Sender<Outcome>) -> Outcome {
    // A command that has ended by itself does not wait for it.
    at_end(move || drop(ended.send(Ok(()))))
}

/// Calls `act` on a thread of its own when such a signal comes.
pub(crate) fn at_end(act: impl FnOnce() + Send + 'static) -> Outcome {
    let runtime = runtime()?;
    let interrupts = {
        let _inside = runtime.enter();
        Interrupts::new()?
    };
    std::thread::spawn(move || {
        runtime.block_on(interrupts.next());
        act();
        // The runtime goes on: a second signal ends the command at once.
        runtime.block_on(std::future::pending::<()>());
    });
    Ok(())
}
