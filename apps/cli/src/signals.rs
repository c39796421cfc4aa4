//! Signals that end a command.

use std::sync::mpsc::Sender;

use tokio::signal::unix::{SignalKind, signal};

use crate::device::runtime;
use crate::exit::{Exit, Outcome};

/// Sends the end of a command when the terminal is interrupted or ends, or when the command is asked to end. A
/// shell that starts a command in the background has it ignore interrupts: this command ends all the same.
pub(crate) fn end_by(ended: Sender<Outcome>) -> Outcome {
    let runtime = runtime()?;
    let listen = |kind| {
        let _inside = runtime.enter();
        signal(kind).map_err(Exit::environment)
    };
    let mut interrupted = listen(SignalKind::interrupt())?;
    let mut terminated = listen(SignalKind::terminate())?;
    let mut hung_up = listen(SignalKind::hangup())?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
                _ = hung_up.recv() => {}
            }
        });
        // A command that has ended by itself does not wait for it.
        let _ = ended.send(Ok(()));
    });
    Ok(())
}
