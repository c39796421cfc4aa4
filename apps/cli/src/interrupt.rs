//! Signals that end a command cleanly: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! An interrupted command drops its work, together with any partial output; the peers of its session are
//! notified at once. SIGHUP stays ignored if the process inherited it as ignored, as under `nohup`.

use std::future::Future;
use std::time::Duration;

use hawser::session::{INTERRUPTED, Session};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{Exit, Outcome};

/// The maximum time spent on notifying the peer that the session ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// The signals that end this command. Clones wait for the same signals.
#[derive(Clone)]
pub(crate) struct Interrupts(watch::Receiver<Option<Signal>>);

#[derive(Clone, Copy)]
struct Signal {
    name: &'static str,
    number: u8,
}

const SIGNALS: [(SignalKind, Signal); 3] = [
    (SignalKind::interrupt(), Signal { name: "SIGINT", number: 2 }),
    (SignalKind::terminate(), Signal { name: "SIGTERM", number: 15 }),
    (SignalKind::hangup(), Signal { name: "SIGHUP", number: 1 }),
];

impl Interrupts {
    /// Handles signals from now on. It must be called within a runtime.
    pub(crate) fn new() -> Result<Interrupts, Exit> {
        let (sender, receiver) = watch::channel(None);
        let ignored = ignored();
        for (kind, which) in SIGNALS {
            if which.name == "SIGHUP" && ignored & 1 << (which.number - 1) != 0 {
                continue;
            }
            let mut signals = signal(kind).map_err(Exit::environment)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                signals.recv().await;
                sender.send_replace(Some(which));
                // A second signal ends the command at once.
                signals.recv().await;
                std::process::exit(i32::from(128 + which.number));
            });
        }
        Ok(Interrupts(receiver))
    }

    /// Waits for a signal, and returns the exit that it causes.
    pub(crate) async fn next(&self) -> Exit {
        let mut receiver = self.0.clone();
        let came = receiver.wait_for(Option::is_some).await;
        match came.ok().and_then(|came| *came) {
            Some(which) => Exit::interrupted(which.name, which.number),
            None => std::future::pending().await,
        }
    }

    /// Runs `work` until it completes or a signal ends it.
    pub(crate) async fn end<T>(&self, work: impl Future<Output = Result<T, Exit>>) -> Result<T, Exit> {
        tokio::select! {
            biased;
            exit = self.next() => Err(exit),
            done = work => done,
        }
    }

    /// Runs `work` on a session like `end`, and notifies the session's peer when a signal ends
    /// it.
    pub(crate) async fn end_session(
        &self,
        session: &Session,
        work: impl Future<Output = Outcome>,
    ) -> Outcome {
        // `work` keeps its streams until the session is closed: dropping a stream would end it as if all data
        // had been written.
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            exit = self.next() => {
                let _ = tokio::time::timeout(FAREWELL, session.close(INTERRUPTED)).await;
                Err(exit)
            }
            done = &mut work => done,
        }
    }
}

/// Returns the set of signals that this process ignores, as bits (proc(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
