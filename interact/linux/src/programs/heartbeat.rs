//! The process's sign of life: while it lives, the programs in the kernel heed its leases.
//!
//! The thread that shows it does nothing else, so that a busy reader of the ring is not taken for dead. A process that
//! is killed or frozen shows none, and its leases are over within a second (`LIFE` in `bpf/maps.bpf.h`).

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::KernelError;
use crate::leases::now;

/// The time between two signs of life: a quarter of what the programs wait for one.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows that the process lives, until it is dropped.
pub(super) struct Heartbeat {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Begins to write the time, by `beat`, where the programs find it.
    ///
    /// # Errors
    /// When it cannot be written, or no thread be started.
    pub(super) fn start(
        beat: impl Fn(u64) -> Result<(), KernelError> + Send + 'static,
    ) -> Result<Heartbeat, KernelError> {
        beat(now())?;
        let (over, is_over) = channel();
        let body = move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // What cannot be written now is written the next time.
                let _ = beat(now());
            }
            let _ = beat(0);
        };
        let thread = std::thread::Builder::new()
            .name("kernel-heartbeat".into())
            .spawn(body)
            .map_err(|error| KernelError::system("start a thread", error))?;
        Ok(Heartbeat {
            over: Some(over),
            thread: Some(thread),
        })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}
