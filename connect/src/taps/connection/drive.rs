//! A Connection's task: it hands messages to the transport, reports their outcomes, and closes.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use tokio::io::AsyncWrite;
use tokio::time::Sleep;

use super::event::ConnectionEvent;
use super::queue::SendOutcome;
use super::rate::Bucket;
use super::state::{ConnectionState, Core, Ending, SendRecord, SharedState};
use crate::Duplex;
use crate::taps::framer::MessagePart;
use crate::taps::property::Property;
use crate::taps::{ConnectionError, SendError, log};

/// The number of bytes that are framed ahead of the transport.
const AHEAD: u64 = 256 << 10;
/// The interval at which a transport is asked whether all data has been acknowledged.
const ASKING: Duration = Duration::from_millis(5);
/// The time that closing may take without progress in delivery, if `connTimeout` is not set.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that only the task uses.
struct ConnectionDriver {
    core: Arc<Core>,
    sleep: Option<Pin<Box<Sleep>>>,
    bucket: Bucket,
    /// The time at which the transport last took data, or had no data to take.
    progress: Instant,
    /// The progress of closing, once it has begun.
    closing: Option<Closing>,
}

/// The state of delivery while a Connection closes.
struct Closing {
    /// The time of the last progress, or of the beginning.
    since: Instant,
    /// The number of bytes that the transport had taken then, and the number of those not acknowledged.
    written: u64,
    left: Option<u64>,
}

impl Closing {
    /// Restarts the timeout if delivery has progressed.
    fn update(&mut self, written: u64, left: Option<u64>, now: Instant) {
        if written > self.written || left < self.left {
            self.since = now;
        }
        (self.written, self.left) = (written, left);
    }
}

/// Drives a Connection that [`begin`] has made, to its end.
pub(super) async fn drive(core: Arc<Core>) {
    let now = Instant::now();
    let mut driver = ConnectionDriver {
        core,
        sleep: None,
        bucket: Bucket::new(now),
        progress: now,
        closing: None,
    };
    poll_fn(|cx| driver.poll(cx)).await;
    driver.core.group.left(&driver.core);
}

/// Takes the established stream: the Connection is established.
pub(super) fn begin(core: &Arc<Core>, stream: Box<dyn Duplex>, is_initiated: bool) {
    let tuning = core.group.tuning();
    let mut state = core.lock();
    (state.features, state.about) = (stream.features(), stream.about());
    (state.inbox.context.local, state.inbox.context.remote) = (state.about.local, state.about.peer);
    // If the system refuses a setting, the promised services are not affected.
    let _ = stream.tune(&tuning);
    stream.prioritize(state.priority);
    log::established(&state.about, is_initiated);
    state.stream = Some(stream);
    state.phase = if state.ending.is_some() {
        ConnectionState::Closing
    } else {
        ConnectionState::Established
    };
    if is_initiated {
        state.notify(ConnectionEvent::Ready);
    }
    match state.stack.greeting() {
        Ok(greeting) => {
            state.encoded += greeting.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            state.wire.extend(greeting);
        }
        Err(error) => state.failure = Some(error.into()),
    }
    state.wake_waiting();
    if let Some(reader) = state.reader.take() {
        reader.wake();
    }
}

impl ConnectionDriver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let core = Arc::clone(&self.core);
        loop {
            let now = Instant::now();
            let mut state = core.lock();
            state.driver = Some(cx.waker().clone());
            if state.ending == Some(Ending::Abort) {
                return self.cut(&mut state, ConnectionError::LocalAbort);
            }
            if let Some(error) = state.failure.take() {
                return self.cut(&mut state, error);
            }
            let expires = state.queue.expire(now);
            let late = match self.write(&mut state, cx, now) {
                Ok(late) => late,
                Err(error) => return self.cut(&mut state, error.into()),
            };
            let ends = match self.close(&mut state, cx, now) {
                Ok(Close::Open) => None,
                Ok(Close::Ask(when)) => Some(when),
                Ok(Close::Over) => {
                    state.finish(ConnectionEvent::Closed, false);
                    state.stream = None;
                    return Poll::Ready(());
                }
                Err(error) => return self.cut(&mut state, error),
            };
            let stalls = match self.stalls(&state, now) {
                Some(when) if when <= now => return self.cut(&mut state, ConnectionError::Timeout),
                other => other,
            };
            drop(state);
            let next = [expires, late, ends, stalls].into_iter().flatten().min();
            if !self.is_due(next, cx) {
                return Poll::Pending;
            }
        }
    }

    /// Returns whether a time has come; if not, the task is woken then.
    fn is_due(&mut self, when: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(when) = when else {
            self.sleep = None;
            return false;
        };
        let when = tokio::time::Instant::from_std(when);
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                if sleep.deadline() != when {
                    sleep.as_mut().reset(when);
                }
                sleep
            }
            None => self.sleep.insert(Box::pin(tokio::time::sleep_until(when))),
        };
        sleep.as_mut().poll(cx).is_ready()
    }

    /// Hands queued data to the transport. Returns the time at which it may take more, if the rate limits it.
    fn write(
        &mut self,
        state: &mut SharedState,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        let limit = self.core.group.properties().number(Property::MaxSendRate);
        loop {
            if state.wire.is_empty() {
                // The timeout of data that is framed now starts now.
                self.progress = now;
            }
            if !state.is_batching || state.is_crowded {
                frame(state);
                state.is_crowded &= !state.queue.is_empty();
            }
            if state.wire.is_empty() {
                break;
            }
            if let Some(later) = self.bucket.waits_until(limit, now) {
                return Ok(Some(later));
            }
            let SharedState { stream, wire, .. } = state;
            let Some(stream) = stream else { return Ok(None) };
            match poll_write(stream, cx, wire, limit) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.progress = now;
                    self.bucket.take(count as u64);
                    state.written += count as u64;
                    state.is_flushed = false;
                    sent(state);
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(None),
            }
        }
        if let (false, Some(stream)) = (state.is_flushed, &mut state.stream)
            && let Poll::Ready(result) = Pin::new(stream).poll_flush(cx)
        {
            result?;
            state.is_flushed = true;
            state.wake_waiting();
        }
        Ok(None)
    }

    /// Ends the sending direction when no more data is to be sent, and the Connection when all data is
    /// delivered.
    fn close(
        &mut self,
        state: &mut SharedState,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<Close, ConnectionError> {
        let is_closing = state.ending == Some(Ending::Close);
        let timeout = self
            .core
            .group
            .properties()
            .time(Property::ConnTimeout)
            .unwrap_or(CLOSE_TIMEOUT);
        if is_closing {
            let left = state.stream.as_mut().and_then(|stream| stream.unacknowledged());
            let begun = Closing { since: now, written: state.written, left };
            self.closing.get_or_insert(begun).update(state.written, left, now);
        }
        let gives_up = self
            .closing
            .as_ref()
            .and_then(|closing| closing.since.checked_add(timeout));
        if gives_up.is_some_and(|when| when <= now) {
            return Err(ConnectionError::Timeout);
        }
        let waits = || gives_up.map_or(Close::Open, Close::Ask);
        let is_empty = state.queue.is_empty() && state.wire.is_empty() && state.is_flushed;
        if !is_empty || !is_closing && !state.is_final_given {
            return Ok(waits());
        }
        let Some(stream) = &mut state.stream else {
            return Ok(Close::Over);
        };
        if !state.is_shut {
            match Pin::new(&mut *stream).poll_shutdown(cx) {
                Poll::Pending => return Ok(waits()),
                Poll::Ready(result) => {
                    // A peer that has already closed has received all acknowledged data.
                    let is_late = |error: &io::Error| error.kind() == io::ErrorKind::NotConnected;
                    if let Some(error) = result.err().filter(|error| !is_late(error)) {
                        return Err(error.into());
                    }
                    state.is_shut = true;
                }
            }
        }
        if !is_closing && !state.is_received {
            return Ok(Close::Open);
        }
        match stream.unacknowledged() {
            None | Some(0) => Ok(Close::Over),
            Some(_) => Ok(Close::Ask(
                gives_up.map_or(now + ASKING, |when| when.min(now + ASKING)),
            )),
        }
    }

    /// Returns the time at which the transport has taken no data for `connTimeout` (RFC 9622, 8.1.3).
    fn stalls(&self, state: &SharedState, now: Instant) -> Option<Instant> {
        let timeout = self.core.group.properties().time(Property::ConnTimeout)?;
        if state.wire.is_empty() {
            return None;
        }
        Some(self.progress.checked_add(timeout).unwrap_or(now))
    }

    fn cut(&self, state: &mut SharedState, error: ConnectionError) -> Poll<()> {
        state.finish(ConnectionEvent::ConnectionError(error), false);
        if let Some(stream) = state.stream.take() {
            stream.abort();
        }
        Poll::Ready(())
    }
}

/// Writes as much of `wire` as the transport takes; under a rate limit, at most the data of a fiftieth of a
/// second.
fn poll_write(
    stream: &mut Box<dyn Duplex>,
    cx: &mut Context<'_>,
    wire: &mut VecDeque<Bytes>,
    limit: Option<u64>,
) -> Poll<io::Result<usize>> {
    let (Some(rate), Some(front)) = (limit, wire.front_mut()) else {
        return stream.poll_write_queue(cx, wire);
    };
    let max_piece = usize::try_from(rate / 8 / 50).unwrap_or(usize::MAX).max(1);
    let mut piece = VecDeque::from([front.slice(..front.len().min(max_piece))]);
    let written = ready!(stream.poll_write_queue(cx, &mut piece))?;
    front.advance(written);
    if front.is_empty() {
        wire.pop_front();
    }
    Poll::Ready(Ok(written))
}

/// The state of closing.
enum Close {
    /// No timer is needed.
    Open,
    /// The state must be checked again at this time.
    Ask(Instant),
    /// All data was delivered.
    Over,
}

/// Frames messages, as far as the transport is to have them ready.
fn frame(state: &mut SharedState) {
    while state.encoded - state.written < AHEAD {
        let Some(entry) = state.queue.take() else { break };
        if entry.fate != SendOutcome::Send {
            // Its position is after the data that is already framed.
            let end = state.encoded;
            state
                .sent
                .push_back(SendRecord { end, ..SendRecord::from(entry) });
            continue;
        }
        let part = MessagePart { data: entry.data, is_end: entry.is_end };
        let fate = match state.stack.encode(part, &entry.context) {
            Ok(bytes) => {
                state.encoded += bytes.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
                state
                    .wire
                    .extend(bytes.into_iter().filter(|bytes| !bytes.is_empty()));
                SendOutcome::Send
            }
            Err(error) => {
                let why = SendError::Framing(error);
                state.queue.refuse(entry.context.id(), &why);
                SendOutcome::Refused(why)
            }
        };
        let (end, is_quiet) = (state.encoded, entry.is_quiet);
        state
            .sent
            .push_back(SendRecord { end, id: entry.id, context: entry.context, fate, is_quiet });
    }
    sent(state);
}

/// Reports the Sends that the transport has taken.
fn sent(state: &mut SharedState) {
    let mut was_reported = false;
    while state
        .sent
        .front()
        .is_some_and(|record| record.end <= state.written)
    {
        let Some(record) = state.sent.pop_front() else {
            break;
        };
        state.reported(record);
        was_reported = true;
    }
    if was_reported || state.queue.is_empty() {
        state.wake_waiting();
    }
}
