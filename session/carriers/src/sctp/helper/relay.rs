//! The process's end of one association, which passes bytes between the library and the program's stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::association::Association;
use super::reports::Reports;
use crate::sctp::protocol::{CloseCause, ProcessReport, View};

/// The maximum number of bytes in one read from the program.
const READ: usize = 16_384;
/// The time without an acknowledgement after which an association that the program has released is ended.
const PARTING: Duration = Duration::from_secs(10);
/// The interval at which changes are reported to the program while bytes are in flight.
const INTERVAL: Duration = Duration::from_millis(25);
/// The minimum interval per existing association, so that many associations report less often.
const REPORT: Duration = Duration::from_millis(2);
/// The interval for an idle association, whose paths may still change.
const AT_REST: Duration = Duration::from_secs(1);

/// The program's latest order for an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssociationOrder {
    GoOn,
    /// This direction ends with the stream.
    Finish,
    /// The association ends after the written data.
    End,
    /// The association ends at once.
    Abort,
}

pub(crate) type OrderReceiver = watch::Receiver<AssociationOrder>;

/// The number of existing associations.
static RELAYS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Relay {
    id: u64,
    association: Association,
    stream: UnixStream,
    reports: Reports,
    /// Bytes read from the program that the library has not yet taken.
    outbound: VecDeque<Bytes>,
    /// Bytes read from the library that the program has not yet taken.
    inbound: Bytes,
    /// True if the program's stream has ended.
    read_all: bool,
    /// True if the program has ended its direction.
    finishing: bool,
    finished: bool,
    /// True if the peer has ended its direction, or the program reads no more.
    ended: bool,
    last: Option<View>,
    progress: StallDetector,
}

impl Relay {
    pub(crate) fn new(
        id: u64,
        association: Association,
        stream: OwnedFd,
        reports: Reports,
        idle_timeout: Duration,
    ) -> io::Result<Self> {
        let stream = std::os::unix::net::UnixStream::from(stream);
        stream.set_nonblocking(true)?;
        Ok(Self {
            id,
            association,
            stream: UnixStream::from_std(stream)?,
            reports,
            outbound: VecDeque::new(),
            inbound: Bytes::new(),
            read_all: false,
            finishing: false,
            finished: false,
            ended: false,
            last: None,
            progress: StallDetector::new(idle_timeout),
        })
    }

    /// Runs until the program has ended the association, or the association itself is over.
    pub(crate) async fn run(mut self, mut end: OrderReceiver) {
        RELAYS.fetch_add(1, Ordering::Relaxed);
        let view = self.association.view();
        self.reports
            .send(&ProcessReport::Up { id: self.id, view: view.clone() });
        self.last = Some(view);
        let cause = self.carry(&mut end).await;
        self.report_view();
        if let Some(cause) = cause {
            self.reports
                .send(&ProcessReport::Ended { id: self.id, cause: Some(cause) });
        }
        // Dropping the value ends the association, in order or at once.
        drop(self);
        RELAYS.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the cause, if the association is over and the program has not ended it.
    async fn carry(&mut self, end: &mut OrderReceiver) -> Option<CloseCause> {
        let (mut dropped, mut over) = (false, false);
        // Set once the program has released the association: the number of acknowledged bytes, and the time
        // of their last increase.
        let mut parting: Option<(u64, Instant)> = None;
        while !(dropped && over) {
            let wait = if self.progress.waits() {
                interval()
            } else {
                AT_REST
            };
            tokio::select! {
                error = poll_fn(|cx| self.poll_step(cx)), if !over => match error {
                    Some(error) => return Some(error.kind().into()),
                    None => over = true,
                },
                changed = end.changed(), if !dropped => {
                    let word = match changed {
                        Ok(()) => *end.borrow_and_update(),
                        // The program is gone, after all of its data or before.
                        Err(_) if self.finishing => AssociationOrder::End,
                        Err(_) => AssociationOrder::Abort,
                    };
                    match word {
                        AssociationOrder::GoOn => {}
                        AssociationOrder::Finish => self.finishing = true,
                        // Bytes already written are still sent; bytes that arrive are no longer read.
                        AssociationOrder::End => {
                            (dropped, self.finishing, self.ended) = (true, true, true);
                            self.inbound = Bytes::new();
                        }
                        AssociationOrder::Abort => {
                            self.association.abort();
                            return None;
                        }
                    }
                }
                () = tokio::time::sleep(wait) => {
                    self.report_view();
                    let now = Instant::now();
                    let statistics = self.last.as_ref().map(|view| &view.statistics);
                    let acknowledged = statistics.map_or(0, |statistics| statistics.acked);
                    match parting {
                        Some((before, since)) if before == acknowledged => {
                            if now.duration_since(since) >= PARTING {
                                self.association.abort();
                                return None;
                            }
                        }
                        _ => parting = dropped.then_some((acknowledged, now)),
                    }
                    if statistics.is_some_and(|statistics| self.progress.has_stalled(now, statistics)) {
                        tracing::debug!(id = self.id, "an association makes no progress");
                        self.association.abort();
                        return Some(CloseCause::TimedOut);
                    }
                }
            }
        }
        None
    }

    fn report_view(&mut self) {
        let view = self.association.view();
        self.progress.waiting = view.statistics.outstanding() > 0 || !self.outbound.is_empty();
        if self.last.as_ref() != Some(&view) {
            self.reports
                .send(&ProcessReport::Changed { id: self.id, view: view.clone() });
            self.last = Some(view);
        }
    }

    /// Moves as many bytes as possible. Ready when the association is over, with its error, or when both
    /// directions have ended.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Error>> {
        loop {
            let moved = match self.step(cx) {
                Ok(moved) => moved,
                Err(error) => return Poll::Ready(Some(error)),
            };
            if self.finished && self.ended && self.inbound.is_empty() {
                return Poll::Ready(None);
            }
            if !moved {
                return Poll::Pending;
            }
            self.progress.waiting = true;
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let outwards = self.step_outwards(cx)?;
        let inwards = self.step_inwards(cx)?;
        Ok(outwards || inwards)
    }

    fn step_outwards(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let waiting: usize = self.outbound.iter().map(Bytes::len).sum();
        let mut moved = false;
        if !self.read_all && waiting < READ {
            let mut buffer = [0; READ];
            match read(&self.stream, cx, &mut buffer)? {
                None => {}
                Some(0) => (self.read_all, moved) = (true, true),
                Some(length) => {
                    self.outbound.push_back(Bytes::copy_from_slice(&buffer[..length]));
                    moved = true;
                }
            }
        }
        if !self.outbound.is_empty() {
            return match self.association.poll_write(cx, &mut self.outbound) {
                Poll::Ready(written) => written.map(|written| moved || written > 0),
                Poll::Pending => Ok(moved),
            };
        }
        if !self.read_all || !self.finishing {
            return Ok(moved);
        }
        if self.finished || self.association.poll_finish(cx).is_pending() {
            return Ok(false);
        }
        self.finished = true;
        self.report_view();
        self.reports.send(&ProcessReport::Finished { id: self.id });
        Ok(true)
    }

    fn step_inwards(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.inbound.is_empty() {
            let Some(written) = write(&self.stream, cx, &self.inbound)? else {
                return Ok(false);
            };
            self.inbound.advance(written);
            return Ok(true);
        }
        if self.ended {
            return Ok(false);
        }
        match self.association.poll_read(cx) {
            Poll::Pending => Ok(false),
            Poll::Ready(bytes) => {
                self.inbound = bytes?;
                if self.inbound.is_empty() {
                    self.ended = true;
                    self.reports
                        .send(&ProcessReport::Ended { id: self.id, cause: None });
                    rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write)?;
                }
                Ok(true)
            }
        }
    }
}

/// Waits until every association has been handed over to the closer.
pub(crate) async fn none_left() {
    while RELAYS.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the interval of reports for the present number of associations.
fn interval() -> Duration {
    INTERVAL.max(REPORT * RELAYS.load(Ordering::Relaxed))
}

/// Detects that bytes in flight no longer arrive.
///
/// usrsctp can stop an association permanently under heavy losses: data is outstanding, no timer runs for it,
/// and heartbeats are answered.
struct StallDetector {
    idle_timeout: Duration,
    /// True if bytes are in flight, or were at the last check.
    waiting: bool,
    acked: u64,
    since: Option<Instant>,
}

impl StallDetector {
    fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, waiting: true, acked: 0, since: None }
    }

    fn waits(&self) -> bool {
        self.waiting
    }

    /// Returns true if bytes are in flight, the peer has room for them, and none was acknowledged for too
    /// long.
    fn has_stalled(&mut self, now: Instant, statistics: &crate::Statistics) -> bool {
        let is_under_way = statistics.outstanding() > 0 && !statistics.blocked;
        if !is_under_way || statistics.acked != self.acked {
            (self.acked, self.since) = (statistics.acked, None);
        }
        is_under_way && now.duration_since(*self.since.get_or_insert(now)) >= self.idle_timeout
    }
}

/// Reads available bytes. Returns `None` if there are none now.
fn read(stream: &UnixStream, cx: &mut Context<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        if stream.poll_read_ready(cx)?.is_pending() {
            return Ok(None);
        }
        match stream.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result.map(Some),
        }
    }
}

/// Writes as many bytes as there is room for. Returns `None` if there is no room now.
fn write(stream: &UnixStream, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        if stream.poll_write_ready(cx)?.is_pending() {
            return Ok(None);
        }
        match stream.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Statistics;

    use super::*;

    #[test]
    fn unacknowledged_bytes_without_progress_are_a_stall() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let outstanding =
            |acked, blocked| Statistics { in_flight: 9, acked, blocked, ..Statistics::default() };
        let mut progress = StallDetector::new(Duration::from_secs(30));
        assert!(!progress.has_stalled(at(0), &outstanding(0, false)));
        assert!(!progress.has_stalled(at(29), &outstanding(0, false)));
        // An acknowledgement, a peer without room and an idle association each restart the timeout.
        assert!(!progress.has_stalled(at(31), &outstanding(1, false)));
        assert!(!progress.has_stalled(at(60), &outstanding(1, true)));
        assert!(!progress.has_stalled(at(91), &Statistics::default()));
        assert!(!progress.has_stalled(at(92), &outstanding(0, false)));
        assert!(progress.has_stalled(at(122), &outstanding(0, false)));
    }
}
