//! The thread in which sockets end.
//!
//! A socket of the library that is closed while its association lives can lock against the thread that
//! receives for it (usrsctp#187, #711). So an association is ended first, by SHUTDOWN or ABORT, and its
//! socket closed when it is gone; and that happens here, where nothing else waits.
//!
//! `usrsctp_finish` is never called: it refuses while any socket is left (usrsctp#28), races with the
//! threads that it stops (usrsctp#325, #461), and a process that ends needs it as little as it needs to
//! free its memory.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::abi::{self, Status, option};
use super::bell::Rope;
use super::library::{Received, Socket};

/// How long an orderly end may take before it becomes an abort.
const ORDERLY: Duration = Duration::from_secs(10);
/// How often those that end are looked at.
const INTERVAL: Duration = Duration::from_millis(10);
/// Messages that are thrown away at once of a socket that ends.
const DRAINED: usize = 64;

/// A socket that is to end.
pub(crate) struct Ending {
    pub(crate) socket: Socket,
    /// Its bell goes after it.
    pub(crate) _rope: Rope,
    /// At once, whatever is lost.
    pub(crate) at_once: bool,
}

/// The channel to the thread.
pub(crate) struct Reaper {
    queue: Sender<Ending>,
    /// Sockets that have been handed over and are not closed.
    left: watch::Sender<usize>,
}

impl Reaper {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (queue, endings) = channel();
        let left = watch::Sender::new(0);
        let count = left.clone();
        // The process confines itself after this, and a thread that begins needs more than one that works.
        let (begun, begins) = channel();
        std::thread::Builder::new()
            .name("sctp-reaper".into())
            .spawn(move || {
                let _ = begun.send(());
                reap(&endings, &count);
            })?;
        begins.recv().map_err(io::Error::other)?;
        Ok(Self { queue, left })
    }

    /// Ends a socket.
    pub(crate) fn end(&self, ending: Ending) {
        self.left.send_modify(|left| *left += 1);
        // The thread is there for good; if it is not, the socket is dropped with the error.
        if self.queue.send(ending).is_err() {
            self.left.send_modify(|left| *left -= 1);
        }
    }

    /// Waits until all have ended.
    pub(crate) async fn idle(&self) {
        // The sender is `self`: it cannot be gone.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }
}

fn reap(endings: &Receiver<Ending>, left: &watch::Sender<usize>) {
    let mut open: Vec<(Ending, Instant)> = Vec::new();
    loop {
        let next = if open.is_empty() {
            endings.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            endings.recv_timeout(INTERVAL)
        };
        match next {
            Ok(ending) => {
                begin(&ending);
                open.push((ending, Instant::now() + ORDERLY));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let before = open.len();
        open.retain(|(ending, deadline)| goes_on(ending, *deadline));
        let closed = before - open.len();
        if closed > 0 {
            left.send_modify(|left| *left -= closed);
        }
    }
}

fn begin(ending: &Ending) {
    // Either fails when there is no association any more: then there is nothing to end.
    if ending.at_once {
        let _ = ending.socket.send(&[], 0, abi::SEND_ABORT);
    } else {
        let _ = ending.socket.shut_down();
    }
}

/// Whether there is still an association.
fn goes_on(ending: &Ending, deadline: Instant) -> bool {
    // A peer that waits for room in our buffer could not end either.
    let mut buffer = [0; 16_384];
    for _ in 0..DRAINED {
        if !matches!(
            ending.socket.receive(&mut buffer),
            Ok(Received::Data { .. } | Received::Notification { .. })
        ) {
            break;
        }
    }
    if ending.socket.get(option::STATUS, Status::default()).is_err() {
        return false;
    }
    if Instant::now() >= deadline {
        let _ = ending.socket.send(&[], 0, abi::SEND_ABORT);
        return false;
    }
    true
}
