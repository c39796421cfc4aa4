//! One carrier, as the task that drives a session sees it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hawser_carrier::Carrier;
use hawser_session::CarrierId;
use tokio::time::Sleep;

/// Bytes beyond which a carrier's queue takes no more data: two of the longest segments, so that
/// one is being written while the next one waits.
const QUEUE: usize = 131_072;
/// Reads in one turn, before others have theirs.
const READS: usize = 16;
/// How long a carrier that ends may take for what is still queued. Nothing that matters is: the last
/// words of a session, which its peer asks for again.
const FINISHING: Duration = Duration::from_secs(3);

/// A carrier with what waits to be written to it.
pub(super) struct Strand {
    pub(super) id: CarrierId,
    pub(super) carrier: Box<dyn Carrier>,
    queue: VecDeque<Bytes>,
    queued: usize,
    /// The transport took all that was given.
    hungry: bool,
    flushed: bool,
    /// It ends when the queue is written, or then.
    ending: Option<Pin<Box<Sleep>>>,
}

/// What a turn brought.
pub(super) enum Turn {
    /// Nothing more for now.
    Idle,
    /// There may be more at once.
    Busy,
    /// The carrier has ended; why.
    Over(String),
}

impl Strand {
    pub(super) fn new(id: CarrierId, carrier: Box<dyn Carrier>) -> Self {
        Self { id, carrier, queue: VecDeque::new(), queued: 0, hungry: true, flushed: true, ending: None }
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    /// Whether the transport has taken all that there was.
    pub(super) fn has_written(&self) -> bool {
        self.queue.is_empty() && self.flushed
    }

    /// Bytes of data that it takes now.
    pub(super) fn room(&self) -> usize {
        if self.hungry { QUEUE.saturating_sub(self.queued) } else { 0 }
    }

    /// Ends it when everything is written, or when its peer has not taken that for too long.
    pub(super) fn finish(&mut self) {
        self.ending = Some(Box::pin(tokio::time::sleep(FINISHING)));
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.ending.is_some()
    }

    /// Writes what waits, as far as the transport takes it.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.queue.is_empty() {
            match self.carrier.poll_write(cx, &mut self.queue) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => {
                    self.queued -= written;
                    self.flushed = false;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.hungry = false;
                    return Ok(());
                }
            }
        }
        self.hungry = true;
        if !self.flushed {
            if let Poll::Ready(result) = self.carrier.poll_flush(cx) {
                result?;
                self.flushed = true;
            } else {
                self.hungry = false;
            }
        }
        Ok(())
    }

    /// Reads what there is and hands it over.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(Bytes)) -> Turn {
        for _ in 0..READS {
            match self.carrier.poll_read(cx) {
                Poll::Ready(Ok(bytes)) if bytes.is_empty() => return Turn::Over("end of file".into()),
                Poll::Ready(Ok(bytes)) => take(bytes),
                Poll::Ready(Err(error)) => return Turn::Over(error.to_string()),
                Poll::Pending => return Turn::Idle,
            }
        }
        Turn::Busy
    }

    /// Goes on ending; true when it is over.
    pub(super) fn end(&mut self, cx: &mut Context<'_>) -> bool {
        if self.write(cx).is_err() || self.queue.is_empty() && self.carrier.poll_finish(cx).is_ready() {
            return true;
        }
        let is_late = self.ending.as_mut().is_some_and(|late| late.as_mut().poll(cx).is_ready());
        if is_late {
            self.carrier.abort();
        }
        is_late
    }
}
