//! Streams within a connection, at one of its ends.
//!
//! Both ends know all streams ([`plan`]), and each end checks the data that it reads and the notices that it
//! receives ([`live`]). An end opens its own streams, a limited number at a time. It opens the last one after
//! all others are over. The other end then knows that no more follow, even if it never learned of a stream
//! that was reset.

mod content;
mod live;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::{Direction, Handle, Notice, RequestError, Stack};
use hawser_time::Instant;
use serde::Serialize;

use self::content::HEAD;
use self::live::{LiveStream, PlannedEntry, Reading, Sending, name, word};
use self::plan::{DirectionEnd, Half};
use super::FlowSide;
use crate::trace::Trace;

pub use self::plan::{Agreed, Settings};

/// The number of bytes that are handed over at a time.
const CHUNK: usize = 16 * 1024;

/// The streams of one direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamsReport {
    /// The number of streams on which the sender has handed over everything, and which it has closed.
    pub sent: u64,
    /// The number of streams that the receiving application read to their end.
    pub received: u64,
    /// The number of streams for which the receiver was notified of a reset.
    pub reset: u64,
    /// The number of streams for which the sender was notified that the receiver stopped them.
    pub stopped: u64,
}

/// The streams of a connection at one of its ends.
pub(crate) struct ConnectionStreams {
    agreed: Arc<Agreed>,
    side: FlowSide,
    /// The flow, for the trace.
    flow: usize,
    /// The number of its own streams that it has opened.
    opened: usize,
    /// True if the peer, as far as known, allows more streams.
    may_open: bool,
    /// The number of its own streams that are over.
    over: usize,
    /// True for each of the peer's streams that has arrived.
    seen: Vec<bool>,
    live: BTreeMap<Handle, LiveStream>,
    /// Streams that have work to do.
    due: BTreeSet<Handle>,
    /// Handles that were added (`true`) or released (`false`).
    changes: Vec<(Handle, bool)>,
    /// Bytes that a slow reader has left for later.
    left: u64,
    sent: u64,
    received: u64,
    /// The counts of streams on which it sends, and on which it receives.
    counts: [StreamsReport; 2],
    times: Vec<Duration>,
    /// A broken promise.
    wrong: Option<String>,
    /// A stream that failed, or whose request was refused.
    failed: Option<String>,
    buffer: Vec<u8>,
}

/// The context in which an end works on its streams.
pub(crate) struct Around<'a> {
    pub(crate) now: Instant,
    pub(crate) stack: &'a mut Stack,
    /// The connection, while it exists.
    pub(crate) connection: Option<Handle>,
    pub(crate) buffer: &'a mut [u8],
    /// The number of bytes that the reader may take now.
    pub(crate) budget: u64,
}

impl ConnectionStreams {
    /// Creates the streams of one end; `flow` is for the trace.
    pub(crate) fn new(agreed: Arc<Agreed>, side: FlowSide, flow: usize) -> ConnectionStreams {
        ConnectionStreams {
            seen: vec![false; agreed.of[side.other() as usize].len()],
            agreed,
            side,
            flow,
            opened: 0,
            may_open: true,
            over: 0,
            live: BTreeMap::new(),
            due: BTreeSet::new(),
            changes: Vec::new(),
            left: 0,
            sent: 0,
            received: 0,
            counts: [StreamsReport::default(); 2],
            times: Vec::new(),
            wrong: None,
            failed: None,
            buffer: vec![0; CHUNK],
        }
    }

    /// Returns true if a handle belongs to one of the streams.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.live.contains_key(&handle)
    }

    /// Accepts a stream that the peer has opened.
    pub(crate) fn accept(&mut self, now: Instant, handle: Handle, stack: &Stack) {
        let sending = match stack.sends_on(handle) {
            true => Sending::Open,
            false => Sending::Never,
        };
        self.enter(now, handle, None, (sending, Reading::Open));
    }

    /// Records that the connection has room for another stream again.
    pub(crate) fn try_again(&mut self) {
        self.may_open = true;
    }

    /// Processes a notice about one of the streams.
    pub(crate) fn on_notice(
        &mut self,
        now: Instant,
        handle: Handle,
        notice: Notice,
        stack: &Stack,
        trace: &mut Trace,
    ) {
        let readable = stack.readable(handle) as u64;
        let Some(stream) = self.live.get_mut(&handle) else {
            return;
        };
        let (what, value) = match notice {
            Notice::Eof => ("stream eof", stream.received + readable),
            Notice::Closed => ("stream closed", stream.received),
            Notice::Failed(errno) => ("stream failed", u64::from(errno.0)),
            Notice::Reset(reason) => ("stream reset", reason),
            Notice::Stopped(reason) => ("stream stopped", reason),
            _ => ("", 0),
        };
        if !what.is_empty() {
            trace.event(now, self.flow, what, value);
        }
        let before = (stream.sending, stream.reading);
        let blame = stream.on_notice(self.side, notice, readable);
        let now_stopped = before.0 != Sending::Stopped && stream.sending == Sending::Stopped;
        let now_reset = before.1 != Reading::Reset && stream.reading == Reading::Reset;
        self.counts[0].stopped += u64::from(now_stopped);
        self.counts[1].reset += u64::from(now_reset);
        let name = stream.name(self.side);
        if let Some(blame) = blame {
            self.blame(|| format!("{name}: {blame}"));
        }
        if let Notice::Reset(reason) = notice {
            self.know_by_reason(handle, reason);
        }
        self.due.insert(handle);
    }

    /// Does all possible work.
    pub(crate) fn drive(&mut self, around: &mut Around<'_>) {
        let due = std::mem::take(&mut self.due);
        self.left = 0;
        for handle in due {
            self.attend(around, handle);
        }
        self.open(around);
    }

    /// Returns the handles that were added or released since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<(Handle, bool)> {
        std::mem::take(&mut self.changes)
    }

    /// Forgets all streams, because the host has lost its state.
    pub(crate) fn forget(&mut self) {
        self.live.clear();
        self.due.clear();
        self.changes.clear();
    }

    /// Releases all streams after the connection was given up.
    pub(crate) fn release(&mut self, stack: &mut Stack) {
        for handle in self.live.keys() {
            stack.release(*handle);
            self.changes.push((*handle, false));
        }
        self.live.clear();
    }

    /// Returns true if all streams have been opened and are over.
    pub(crate) fn is_done(&self) -> bool {
        self.over == self.mine()
            && self.seen.last() != Some(&false)
            && self.is_empty()
            && self.failed.is_none()
    }

    /// Returns true if all its own streams have been opened, and all data has been handed over.
    pub(crate) fn has_sent(&self) -> bool {
        let is_sent = |stream: &LiveStream| !matches!(stream.sending, Sending::Open);
        self.opened == self.mine() && self.live.values().all(is_sent)
    }

    /// Returns true if no data is missing, now that the connection is over.
    pub(crate) fn is_settled(&self) -> bool {
        self.missing().is_none()
    }

    /// Returns true if no stream is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Returns the number of bytes handed over.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of bytes received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of bytes that a slow reader has left for later.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the broken promise, if any.
    pub(crate) fn wrong(&self) -> Option<&String> {
        self.wrong.as_ref()
    }

    /// Returns the duration of each stream that it opened.
    pub(crate) fn times(&self) -> &[Duration] {
        &self.times
    }

    /// Returns the counts of streams on which it sends, and on which it receives.
    pub(crate) fn counts(&self) -> [StreamsReport; 2] {
        self.counts
    }

    /// Returns the maximum number of bytes that it sends, and that it receives.
    pub(crate) fn limit(&self) -> [u64; 2] {
        let sum = |side: FlowSide, of: fn(&plan::PlannedStream) -> Option<Half>| -> u64 {
            let halves = self.agreed.of[side as usize].iter().filter_map(of);
            halves.map(|half| half.to_send()).sum()
        };
        [self.side, self.side.other()]
            .map(|side| sum(side, |planned| Some(planned.there)) + sum(side.other(), |planned| planned.back))
    }

    /// Describes missing data or a failed stream, if any.
    pub(crate) fn missing(&self) -> Option<String> {
        if let Some(failed) = &self.failed {
            return Some(failed.clone());
        }
        let unsettled = self.live.values().find(|stream| !stream.is_settled(self.side));
        if let Some(stream) = unsettled {
            return Some(stream.waits_for(self.side));
        }
        if self.opened < self.mine() {
            return Some(format!("{} of {} streams opened", self.opened, self.mine()));
        }
        let peer = self.side.other();
        let planned = self.agreed.of[peer as usize].iter().zip(&self.seen);
        let absent = planned
            .enumerate()
            .find(|(_, (planned, seen))| !**seen && !planned.there.is_reset());
        absent.map(|(index, _)| format!("{} did not come", name(peer, index)))
    }

    /// Describes the events that it waits for: those of the first streams that are not over.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        let streams = self.live.values().map(|stream| stream.waits_for(self.side));
        let mut waits: Vec<String> = self.failed.iter().cloned().chain(streams).take(3).collect();
        let more = self.live.len().saturating_sub(3);
        if more > 0 {
            waits.push(format!("{more} more streams"));
        }
        if self.opened < self.mine() {
            let (opened, all) = (self.opened, self.mine());
            waits.push(match self.may_open {
                true => format!("the end of one of its {opened} streams of {all}"),
                false => format!("more streams to be allowed than the {opened} of {all}"),
            });
        }
        let peer = self.side.other();
        if self.seen.last() == Some(&false) {
            let (seen, all) = (self.seen.iter().filter(|seen| **seen).count(), self.seen.len());
            waits.push(format!(
                "streams of the {}: {seen} of {all} have come",
                word(peer)
            ));
        }
        waits
    }

    /// Returns the number of streams that it opens.
    fn mine(&self) -> usize {
        self.agreed.of[self.side as usize].len()
    }

    fn blame(&mut self, what: impl FnOnce() -> String) {
        self.wrong.get_or_insert_with(what);
    }

    fn enter(
        &mut self,
        now: Instant,
        handle: Handle,
        known: Option<PlannedEntry>,
        (sending, reading): (Sending, Reading),
    ) {
        let stream = LiveStream {
            known,
            head: Vec::new(),
            sending,
            reading,
            sent: 0,
            received: 0,
            over: None,
            stopped_for: None,
            since: now,
        };
        self.live.insert(handle, stream);
        self.due.insert(handle);
        self.changes.push((handle, true));
    }

    /// Opens as many streams as are allowed; the last one only after all others are over.
    fn open(&mut self, around: &mut Around<'_>) {
        let Some(connection) = around.connection else {
            return;
        };
        while self.may_open && self.failed.is_none() && self.opened < self.mine() {
            let is_last = self.opened + 1 == self.mine();
            let open = self.opened - self.over;
            if open >= self.agreed.concurrent || is_last && open > 0 {
                return;
            }
            let planned = self.agreed.of[self.side as usize][self.opened].clone();
            let (direction, reading) = match planned.back {
                Some(_) => (Direction::Both, Reading::Open),
                None => (Direction::One, Reading::Never),
            };
            match around.stack.open_stream(around.now, connection, direction) {
                Ok(Some(handle)) => {
                    let known = PlannedEntry { opener: self.side, index: self.opened, planned };
                    self.opened += 1;
                    self.enter(around.now, handle, Some(known), (Sending::Open, reading));
                    self.due.remove(&handle);
                    self.attend(around, handle);
                }
                Ok(None) | Err(RequestError::WouldBlock) => self.may_open = false,
                // A notice gives the reason.
                Err(RequestError::NotConnected) => return,
                Err(error) => {
                    self.failed
                        .get_or_insert_with(|| format!("a stream was not opened: {error}"));
                }
            }
        }
    }

    /// Reads from a stream, writes to it, and releases it once it is over.
    fn attend(&mut self, around: &mut Around<'_>, handle: Handle) {
        let Some(mut stream) = self.live.remove(&handle) else {
            return;
        };
        let left = self.read(around, handle, &mut stream);
        if around.connection.is_some() && stream.over.is_none() {
            self.write(around, handle, &mut stream);
        }
        if left {
            self.left += around.stack.readable(handle) as u64;
            self.due.insert(handle);
        }
        if stream.over.is_none() || left {
            self.live.insert(handle, stream);
            return;
        }
        self.due.remove(&handle);
        self.changes.push((handle, false));
        around.stack.release(handle);
        self.end(around.now, &stream);
    }

    /// Ends a stream that is over and read to its end.
    fn end(&mut self, now: Instant, stream: &LiveStream) {
        let is_settled = stream.is_settled(self.side);
        match stream.over {
            Some(Err(errno)) if !is_settled => {
                let name = stream.name(self.side);
                self.failed
                    .get_or_insert_with(|| format!("{name} failed: {errno}"));
            }
            _ => {}
        }
        self.counts[1].received += u64::from(matches!(stream.reading, Reading::Ended(_)));
        if stream
            .known
            .as_ref()
            .is_some_and(|known| known.opener == self.side)
        {
            self.over += 1;
            self.times.push(now - stream.since);
        }
    }

    /// Reads the available data; returns true if the budget was too small for it.
    fn read(&mut self, around: &mut Around<'_>, handle: Handle, stream: &mut LiveStream) -> bool {
        loop {
            if matches!(stream.reading, Reading::Stopped) {
                return false;
            }
            if self.stop(around, handle, stream) {
                return false;
            }
            let waiting = around.stack.readable(handle);
            if waiting == 0 {
                return false;
            }
            let wanted = match (&stream.known, stream.incoming(self.side)) {
                (None, _) => (HEAD - stream.head.len()) as u64,
                (_, Some(half)) => match half.fate {
                    DirectionEnd::Stop { after, .. } if stream.is_stoppable() => after - stream.received,
                    _ => u64::MAX,
                },
                // The plan has no data in this direction: any bytes are read, and detected below.
                (_, None) => u64::MAX,
            };
            let room = waiting.min(around.buffer.len()) as u64;
            let room = room.min(around.budget).min(wanted) as usize;
            if room == 0 {
                return true;
            }
            let count = match around.stack.recv(around.now, handle, &mut around.buffer[..room]) {
                Ok(count) => count,
                Err(error) => {
                    let name = stream.name(self.side);
                    self.failed
                        .get_or_insert_with(|| format!("{name} was not read: {error}"));
                    return false;
                }
            };
            if count == 0 {
                return false;
            }
            around.budget -= count as u64;
            self.received += count as u64;
            self.take(stream, &around.buffer[..count]);
        }
    }

    /// Checks received bytes.
    fn take(&mut self, stream: &mut LiveStream, bytes: &[u8]) {
        let offset = stream.received;
        stream.received += bytes.len() as u64;
        if stream.known.is_none() {
            stream.head.extend_from_slice(bytes);
            if let Ok(head) = stream.head[..].try_into() {
                self.know(stream, self.agreed.named(head));
            }
            return;
        }
        let name = stream.name(self.side);
        let Some(half) = stream.incoming(self.side) else {
            return self.blame(|| format!("{name}: bytes have come, and only this end sends on it"));
        };
        if stream.received > half.limit() {
            let (received, limit) = (stream.received, half.limit());
            self.blame(|| format!("{name}: {received} bytes have come, and {limit} were sent"));
        }
        if let Some(at) = half.text.differs_at(offset, bytes) {
            self.blame(|| format!("{name}: byte {at} is not what was sent there"));
        }
    }

    /// Identifies a stream that the peer has opened by its first bytes.
    fn know(&mut self, stream: &mut LiveStream, named: Option<(FlowSide, usize)>) {
        let Some((opener, index)) = named.filter(|(opener, _)| *opener != self.side) else {
            stream.known = None;
            stream.reading = Reading::Stopped;
            let peer = word(self.side.other());
            return self
                .blame(|| format!("a stream has come whose first bytes are of none that the {peer} opens"));
        };
        if std::mem::replace(&mut self.seen[index], true) {
            stream.reading = Reading::Stopped;
            return self.blame(|| format!("{} has come twice", name(opener, index)));
        }
        let planned = self.agreed.of[opener as usize][index].clone();
        // A stream that was stopped at once may have no sending side left when it is accepted.
        let may_send = planned.back.is_some();
        let has_to = planned.back.is_some_and(|half| !half.is_stopped());
        stream.known = Some(PlannedEntry { opener, index, planned });
        let sends = stream.sending != Sending::Never;
        if sends && !may_send || has_to && !sends {
            let is = if may_send {
                "both directions"
            } else {
                "one direction"
            };
            let name = name(opener, index);
            self.blame(|| format!("{name} is of {is}, and came as one that is not"));
        }
        let stopped = stream.check_stopped(self.side);
        if let Some(blame) = stream.check_end(self.side).or(stopped) {
            self.blame(|| format!("{}: {blame}", name(opener, index)));
        }
    }

    /// Identifies a stream that the peer reset before its first bytes arrived, by the reason of the reset.
    fn know_by_reason(&mut self, handle: Handle, reason: u64) {
        let Some(mut stream) = self.live.remove(&handle) else {
            return;
        };
        if stream.known.is_none() && stream.reading == Reading::Reset {
            let opener = self.side.other();
            match self.agreed.reset_for(opener, reason) {
                Some(index) => {
                    self.know(&mut stream, Some((opener, index)));
                    self.check_head(&stream);
                }
                None => self.blame(|| format!("a stream was reset with reason {reason}, which no end gave")),
            }
        }
        self.live.insert(handle, stream);
    }

    /// Checks the bytes that arrived before the stream was identified: they must be its first ones.
    fn check_head(&mut self, stream: &LiveStream) {
        let half = stream.incoming(self.side);
        if let Some(at) = half.and_then(|half| half.text.differs_at(0, &stream.head)) {
            let name = stream.name(self.side);
            self.blame(|| format!("{name}: byte {at} is not what was sent there"));
        }
    }

    /// Stops a stream once it has read as much as planned.
    fn stop(&mut self, around: &mut Around<'_>, handle: Handle, stream: &mut LiveStream) -> bool {
        let Some(Half { fate: DirectionEnd::Stop { after, reason, .. }, .. }) = stream.incoming(self.side)
        else {
            return false;
        };
        if !stream.is_stoppable() || stream.received < after {
            return false;
        }
        stream.reading = Reading::Stopped;
        let result = around.stack.stop(around.now, handle, reason);
        self.note(stream, "stopped", result);
        true
    }

    /// Hands over as much as there is room for; closes or resets the stream after the last byte.
    fn write(&mut self, around: &mut Around<'_>, handle: Handle, stream: &mut LiveStream) {
        let Some(half) = stream
            .outgoing(self.side)
            .filter(|_| stream.sending == Sending::Open)
        else {
            return;
        };
        while stream.sent < half.to_send() {
            let count = (half.to_send() - stream.sent).min(self.buffer.len() as u64) as usize;
            let bytes = &mut self.buffer[..count];
            half.text.fill(stream.sent, bytes);
            let taken = match around.stack.send(around.now, handle, bytes) {
                Ok(taken) => taken.min(count),
                // The peer may have stopped it; a notice reports that.
                Err(_) if half.is_stopped() => return,
                Err(error) => return self.note(stream, "written", Err(error)),
            };
            if taken == 0 {
                return;
            }
            stream.sent += taken as u64;
            self.sent += taken as u64;
        }
        if stream.sent == half.total {
            stream.sending = Sending::Closed;
            self.counts[0].sent += 1;
            around.stack.close(around.now, handle);
        }
        if let DirectionEnd::Reset { reason, .. } = half.fate {
            stream.sending = Sending::Reset;
            let result = around.stack.reset(around.now, handle, reason);
            self.note(stream, "reset", result);
        }
    }

    /// Records the first refused request. If the connection is gone, a notice reports that.
    fn note(&mut self, stream: &LiveStream, what: &str, result: Result<(), RequestError>) {
        match result {
            Ok(()) | Err(RequestError::WouldBlock | RequestError::NotConnected) => {}
            Err(error) => {
                let name = stream.name(self.side);
                self.failed
                    .get_or_insert_with(|| format!("{name} was not {what}: {error}"));
            }
        }
    }
}
