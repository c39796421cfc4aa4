//! Watches the stream of a race's winner until it has delivered data.
//!
//! A handshake shows that a peer is present, but not that data passes. A winner is remembered as a failure in
//! two cases, so that the next race prefers other candidates (NEAT, issue 126). The first is that it fails,
//! ends or is dropped before its first byte. The second is that no byte answers the written data for a while.
//! A byte that arrives later makes it a winner again.
//!
//! A stream to which no data was written may be idle: only errors count for it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use hawser_race::Failure;

use super::{About, Duplex, Features, SharedStreams, Tuning};

/// The time after the last written byte within which the peer's first byte must arrive. By then lost data has
/// been sent again, after 1 s (RFC 6298, 2.1), and could be answered.
const STALLED: Duration = Duration::from_secs(2);
/// The minimum time for an answer before its absence counts if the caller ends the stream.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(1);
const GIVEN_UP: &str = "the probe was cancelled without an answer";

/// The outcome of a winner's stream, for the memory of outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamOutcome {
    /// The stream is unusable, for this reason.
    Failed(Failure, String),
    /// The stream stalled, and then delivered data.
    Recovered,
}

pub(super) type OutcomeCallback = Box<dyn FnMut(StreamOutcome) + Send>;

/// A winner's stream.
pub(super) struct Winner {
    stream: Box<dyn Duplex>,
    /// `None` once a byte was received, or once the stream has failed permanently.
    trial: Option<Trial>,
}

struct Trial {
    report: OutcomeCallback,
    /// The times of the first and of the last write.
    written: Option<(Instant, Instant)>,
    is_shut_down: bool,
    has_stalled: bool,
    /// The timer of the next check for a stall.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Winner {
    pub(super) fn new(stream: Box<dyn Duplex>, report: OutcomeCallback) -> Winner {
        let trial = Trial {
            report,
            written: None,
            is_shut_down: false,
            has_stalled: false,
            alarm: None,
        };
        Winner { stream, trial: Some(trial) }
    }

    /// Judges by the result of a read of `count` bytes.
    fn has_read(&mut self, polled: &Poll<io::Result<()>>, count: usize, cx: &mut Context<'_>) {
        let Some(trial) = &mut self.trial else { return };
        let is_judged = match polled {
            Poll::Ready(Ok(())) if count > 0 => trial.has_answered(),
            Poll::Ready(Ok(())) => trial.has_ended(),
            Poll::Ready(Err(error)) => trial.has_broken(error),
            Poll::Pending => trial.watch(cx),
        };
        if is_judged {
            self.trial = None;
        }
    }

    fn has_written(&mut self, polled: &Poll<io::Result<usize>>, cx: &mut Context<'_>) {
        let Some(trial) = &mut self.trial else { return };
        let is_judged = match polled {
            Poll::Ready(Ok(0)) | Poll::Pending => false,
            Poll::Ready(Ok(_)) => {
                let now = Instant::now();
                trial.written = Some((trial.written.map_or(now, |(first, _)| first), now));
                trial.watch(cx)
            }
            Poll::Ready(Err(error)) => trial.has_broken(error),
        };
        if is_judged {
            self.trial = None;
        }
    }
}

/// Each method returns whether the trial is over.
impl Trial {
    fn has_answered(&mut self) -> bool {
        if self.has_stalled {
            (self.report)(StreamOutcome::Recovered);
        }
        self.acquit()
    }

    /// Handles the end of the peer's direction. An end that follows that of this side is in order.
    fn has_ended(&mut self) -> bool {
        match self.written.is_some() && !self.is_shut_down {
            true => self.fail(
                Failure::Reset,
                "the connection ended before it delivered data".to_owned(),
            ),
            false => self.acquit(),
        }
    }

    fn has_broken(&mut self, error: &io::Error) -> bool {
        let failure = match error.kind() {
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Failure::Reset,
            ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                Failure::Stalled
            }
            // The error is this host's own, or the caller's.
            _ => return self.acquit(),
        };
        self.fail(failure, error.to_string())
    }

    /// Returns whether the caller has waited long enough since that time.
    fn has_waited(&self, since: Option<Instant>) -> bool {
        since.is_some_and(|since| since.elapsed() >= MIN_ANSWER_TIME)
    }

    fn watch(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((_, last)) = self.written.filter(|_| !self.has_stalled) else {
            return false;
        };
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(sleep_until(last + STALLED)));
        while alarm.as_mut().poll(cx).is_ready() {
            if last + STALLED <= Instant::now() {
                let why = format!("the connection delivered no data for {} s", STALLED.as_secs());
                self.has_stalled = true;
                (self.report)(StreamOutcome::Failed(Failure::Stalled, why));
                return false;
            }
            alarm.as_mut().reset(last + STALLED);
        }
        false
    }

    fn fail(&mut self, failure: Failure, why: String) -> bool {
        if !self.has_stalled {
            (self.report)(StreamOutcome::Failed(failure, why));
        }
        self.acquit()
    }

    /// Clears the trial, so that its drop reports no failure.
    fn acquit(&mut self) -> bool {
        self.written = None;
        true
    }
}

/// The caller has dropped the stream.
impl Drop for Trial {
    fn drop(&mut self) {
        if self.has_waited(self.written.map(|(first, _)| first)) {
            self.fail(Failure::Stalled, GIVEN_UP.to_owned());
        }
    }
}

impl AsyncRead for Winner {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, has_room) = (buf.filled().len(), buf.remaining() > 0);
        let polled = Pin::new(&mut *self.stream).poll_read(cx, buf);
        if self.trial.is_some() && has_room {
            self.has_read(&polled, buf.filled().len() - before, cx);
        }
        polled
    }
}

impl AsyncWrite for Winner {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut *self.stream).poll_write(cx, buf);
        self.has_written(&polled, cx);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut *self.stream).poll_write_vectored(cx, bufs);
        self.has_written(&polled, cx);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(trial) = &mut self.trial {
            trial.is_shut_down = true;
            // The end of an upload may follow its last byte at once, which proves nothing about the path.
            if trial.has_waited(trial.written.map(|(_, last)| last)) {
                trial.fail(Failure::Stalled, GIVEN_UP.to_owned());
                self.trial = None;
            }
        }
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}

impl Duplex for Winner {
    fn abort(self: Box<Self>) {
        let Winner { stream, trial } = *self;
        drop(trial);
        stream.abort();
    }

    fn about(&self) -> About {
        self.stream.about()
    }

    fn features(&self) -> Features {
        self.stream.features()
    }

    fn streams(&self) -> Option<SharedStreams> {
        self.stream.streams()
    }

    fn unacknowledged(&mut self) -> Option<u64> {
        self.stream.unacknowledged()
    }

    fn tune(&self, tuning: &Tuning) -> io::Result<()> {
        self.stream.tune(tuning)
    }

    fn prioritize(&self, priority: u64) {
        self.stream.prioritize(priority);
    }

    fn poll_write_queue(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        let polled = self.stream.poll_write_queue(cx, queue);
        self.has_written(&polled, cx);
        polled
    }
}

#[cfg(test)]
mod tests;
