//! The process's sign of life: as long as it continues, the programs in the kernel honour the process's
//! leases.
//!
//! A dedicated thread writes it, so that a busy reader of the ring is not taken for dead. A process that is
//! killed or frozen writes none, and its leases are over within a second (`LIFE` in `bpf/maps.bpf.h`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::KernelError;
use crate::leases::now;

/// The time between two signs of life: a quarter of the time for which the programs wait for one.
const INTERVAL: Duration = Duration::from_millis(200);

/// After a pause of this length between two signs of life, the programs may have ignored leases in between.
const LATE: Duration = Duration::from_millis(500);

/// Writes signs of life until it is dropped.
pub(super) struct Heartbeat {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    was_late: Arc<AtomicBool>,
}

impl Heartbeat {
    /// Begins to write the time, by `beat`, to a map that the programs read.
    ///
    /// # Errors
    /// When it cannot be written, or the thread cannot be started.
    pub(super) fn start(
        beat: impl Fn(u64) -> Result<(), KernelError> + Send + 'static,
    ) -> Result<Heartbeat, KernelError> {
        beat(now())?;
        let (over, is_over) = channel();
        let was_late = Arc::new(AtomicBool::new(false));
        let noted = was_late.clone();
        let body = move || {
            let mut last = Instant::now();
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A sign of life that cannot be written now is written the next time.
                if beat(now()).is_ok() {
                    if last.elapsed() >= LATE {
                        noted.store(true, Ordering::Relaxed);
                    }
                    last = Instant::now();
                }
            }
            let _ = beat(0);
        };
        let thread = std::thread::Builder::new()
            .name("kernel-heartbeat".into())
            .spawn(body)
            .map_err(|error| KernelError::system("start a thread", error))?;
        Ok(Heartbeat { over: Some(over), thread: Some(thread), was_late })
    }

    /// Returns whether a sign of life was late since the last call.
    pub(super) fn was_late(&self) -> bool {
        self.was_late.swap(false, Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sign_of_life_is_noted_once() {
        let late = Arc::new(AtomicBool::new(true));
        let delays = late.clone();
        let heartbeat = Heartbeat::start(move |time| {
            // The first sign of life is written at the start; the thread waits for a processor to write the
            // next.
            if time > 0 && delays.swap(false, Ordering::Relaxed) {
                std::thread::sleep(LATE);
            }
            Ok(())
        })
        .expect("a thread");
        late.store(true, Ordering::Relaxed);
        std::thread::sleep(INTERVAL / 2);
        assert!(!heartbeat.was_late());
        std::thread::sleep(INTERVAL + LATE);
        assert!(heartbeat.was_late());
        assert!(!heartbeat.was_late());
    }
}
