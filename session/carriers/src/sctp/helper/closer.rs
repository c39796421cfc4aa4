//! The thread that ends and closes sockets.
//!
//! Closing a socket of the library while its association lives can deadlock with the thread that receives for
//! it (usrsctp#187, #711). An association is therefore ended first, by SHUTDOWN or ABORT, and its socket is
//! closed when the association is gone. This happens in a thread of its own, where no other work waits.
//!
//! `usrsctp_finish` is never called. It refuses while any socket is left (usrsctp#28), and races with the
//! threads that it stops (usrsctp#325, #461). A process that exits does not need it, as it does not need to
//! free its memory.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::abi::{self, Status, option};
use super::library::{ReceiveResult, Socket};
use super::wakers::WakerRegistration;

/// The time after which an orderly end becomes an abort.
const ORDERLY: Duration = Duration::from_secs(10);
/// The interval at which ending sockets are examined.
const INTERVAL: Duration = Duration::from_millis(10);
/// The number of messages of an ending socket that are dropped at once.
const DRAINED: usize = 64;

/// A socket that is to be ended.
pub(crate) struct Ending {
    pub(crate) socket: Socket,
    /// The registration of its wakers, which is dropped after it.
    pub(crate) _registration: WakerRegistration,
    /// True to end it at once, even if data is lost.
    pub(crate) at_once: bool,
}

/// The channel to the thread.
pub(crate) struct SocketCloser {
    queue: Sender<Ending>,
    /// The number of sockets that have been handed over and are not closed.
    left: watch::Sender<usize>,
}

impl SocketCloser {
    pub(crate) fn start() -> io::Result<Self> {
        let (queue, endings) = channel();
        let left = watch::Sender::new(0);
        let count = left.clone();
        // The thread starts before the process confines itself, because starting a thread needs more rights
        // than running it.
        let (begun, begins) = channel();
        std::thread::Builder::new()
            .name("sctp-closer".into())
            .spawn(move || {
                let _ = begun.send(());
                close_ended(&endings, &count);
            })?;
        begins.recv().map_err(io::Error::other)?;
        Ok(Self { queue, left })
    }

    pub(crate) fn end(&self, ending: Ending) {
        self.left.send_modify(|left| *left += 1);
        // The thread runs permanently. If it does not, the socket is dropped with the error.
        if self.queue.send(ending).is_err() {
            self.left.send_modify(|left| *left -= 1);
        }
    }

    /// Waits until all have ended.
    pub(crate) async fn idle(&self) {
        // The sender belongs to `self`, so it still exists.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }
}

fn close_ended(endings: &Receiver<Ending>, left: &watch::Sender<usize>) {
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
    // Either call fails if the association no longer exists; then there is nothing to end.
    if ending.at_once {
        let _ = ending.socket.send(&[], 0, abi::SEND_ABORT);
    } else {
        let _ = ending.socket.shut_down();
    }
}

/// Returns true if the association still exists.
fn goes_on(ending: &Ending, deadline: Instant) -> bool {
    // A peer that waits for room in our buffer could not end, either.
    let mut buffer = [0; 16_384];
    for _ in 0..DRAINED {
        if !matches!(
            ending.socket.receive(&mut buffer),
            Ok(ReceiveResult::Data { .. } | ReceiveResult::Notification { .. })
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
