//! The session's interface for applications.

use bytes::Bytes;
use hawser_time::Instant;

use super::{Notice, Phase, Session};
use crate::send::Send;
use crate::stream::{Priority, Stream};
use crate::window::Window;

/// The reason why an operation on a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The stream does not exist, or is over.
    #[error("stream {0} no longer exists")]
    Unknown(u32),
    /// The peer does not allow more streams at once.
    #[error("the peer allows only {0} streams at once")]
    Limit(u32),
    /// The stream's sending half was finished or abandoned.
    #[error("stream {0} was finished")]
    Finished(u32),
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
}

/// The reason why a read returned no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No data is available yet.
    #[error("no data has arrived yet")]
    Blocked,
    /// The peer abandoned its half, with this code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The stream does not exist, or its end was read.
    #[error("stream {0} no longer exists")]
    Unknown(u32),
    /// The session ended before the stream did.
    #[error("the session ended before the stream")]
    Closed,
}

impl Session {
    /// Records that the application has accepted the session (server). Before that, the session ends with its
    /// last carrier and keeps few pieces out of order.
    pub fn accept(&mut self) {
        self.accepted = true;
    }

    /// Returns true if the application has accepted the session. A client's session is always accepted.
    pub fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Opens a stream of this side.
    pub fn open(&mut self) -> Result<u32, StreamError> {
        if !matches!(self.phase, Phase::Opening | Phase::Open) {
            return Err(StreamError::Closed);
        }
        let id = self.next_ours;
        let open = self
            .streams
            .iter()
            .filter(|(stream, _)| stream % 2 == id % 2)
            .count();
        if open as u64 >= u64::from(self.peer_streams) || id >> 31 != 0 {
            return Err(StreamError::Limit(self.peer_streams));
        }
        self.next_ours += 2;
        let stream = self.new_stream();
        self.streams.insert(id, stream);
        Ok(id)
    }

    /// Creates a stream of either side, with the current terms.
    pub(super) fn new_stream(&self) -> Stream {
        let window = Window::new(
            self.config.stream_credit,
            self.config.max_credit,
            self.received_at,
        );
        Stream::new(self.peer_stream_credit, window, self.turn)
    }

    /// Writes to a stream, and returns how many bytes were taken. If fewer than given, `Notice::Writable`
    /// follows when there is room. Pieces of 16 KiB and more are kept without a copy, smaller ones are
    /// copied.
    pub fn write(&mut self, id: u32, mut bytes: Bytes, now: Instant) -> Result<usize, StreamError> {
        self.write_with(id, bytes.len(), now, |send, taken| {
            send.write(bytes.split_to(taken))
        })
    }

    /// Like [`Session::write`], but copies all bytes.
    pub fn write_slice(&mut self, id: u32, bytes: &[u8], now: Instant) -> Result<usize, StreamError> {
        self.write_with(id, bytes.len(), now, |send, taken| {
            send.write_slice(&bytes[..taken])
        })
    }

    /// Has `write` put as many of `length` bytes into a stream as there is room for.
    fn write_with(
        &mut self,
        id: u32,
        length: usize,
        now: Instant,
        write: impl FnOnce(&mut Send, usize),
    ) -> Result<usize, StreamError> {
        if !matches!(self.phase, Phase::Opening | Phase::Open) {
            return Err(StreamError::Closed);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Err(StreamError::Unknown(id));
        };
        if stream.send.is_finished() {
            return Err(StreamError::Finished(id));
        }
        let of_all = self.config.send_memory.saturating_sub(self.kept);
        let room = stream.room(self.config.send_buffer).min(of_all);
        let taken = length.min(usize::try_from(room).unwrap_or(usize::MAX));
        stream.wants_room = taken < length;
        if stream.wants_room && room == of_all {
            self.blocked_on_memory.insert(id);
        }
        write(&mut stream.send, taken);
        self.unsent += taken as u64;
        self.kept += taken as u64;
        self.queue(id);
        self.pump(now);
        Ok(taken)
    }

    /// Returns the number of bytes that [`Session::write`] would take now.
    pub fn capacity(&self, id: u32) -> usize {
        let room = self
            .streams
            .get(id)
            .map_or(0, |stream| stream.room(self.config.send_buffer));
        let of_all = self.config.send_memory.saturating_sub(self.kept);
        usize::try_from(room.min(of_all)).unwrap_or(usize::MAX)
    }

    /// Notifies streams that wait for send memory once at least a sixteenth of it is free.
    pub(super) fn notify_blocked_on_memory(&mut self) {
        let free = self.config.send_memory.saturating_sub(self.kept);
        if free < self.config.send_memory / 16 {
            return;
        }
        for id in std::mem::take(&mut self.blocked_on_memory) {
            let stream = self.streams.get_mut(id);
            if stream.is_some_and(|stream| std::mem::take(&mut stream.wants_room)) {
                self.notify(Notice::Writable(id));
            }
        }
    }

    /// Ends a stream; no more data is written to it.
    pub fn finish(&mut self, id: u32, now: Instant) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Err(StreamError::Unknown(id));
        };
        stream.send.finish();
        self.queue(id);
        self.pump(now);
        self.forget_if_over(id);
        Ok(())
    }

    /// Abandons a stream's sending half. Data that has not reached the peer may be dropped.
    pub fn reset(&mut self, id: u32, code: u64, now: Instant) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Err(StreamError::Unknown(id));
        };
        if stream.reset.is_none() && !stream.send.is_acked() {
            self.unsent -= stream.send.unsent();
            self.kept -= stream.send.kept();
            stream.send.abandon();
            stream.reset = Some(Self::pending_control(code));
            self.notify_blocked_on_memory();
        }
        self.send_pending_controls(now);
        Ok(())
    }

    /// Asks the peer to abandon its half of a stream.
    pub fn stop(&mut self, id: u32, code: u64, now: Instant) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Err(StreamError::Unknown(id));
        };
        if !stream.receive.complete() && stream.was_reset.is_none() {
            stream.stop = Some(Self::pending_control(code));
        }
        self.send_pending_controls(now);
        Ok(())
    }

    /// Reads at most `max` bytes of a stream, in order. An empty result, given once, marks the stream's end.
    pub fn read(&mut self, id: u32, max: usize, now: Instant) -> Result<Bytes, ReadError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Err(ReadError::Unknown(id));
        };
        if let Some(code) = stream.was_reset {
            stream.read_out = true;
            self.forget_if_over(id);
            return Err(ReadError::Reset(code));
        }
        if let Some(bytes) = stream.receive.read(max) {
            self.read += bytes.len() as u64;
            self.give_credit(id, now);
            self.acknowledge(now);
            return Ok(bytes);
        }
        if stream.receive.at_end() {
            if stream.read_out {
                return Err(ReadError::Unknown(id));
            }
            stream.read_out = true;
            self.forget_if_over(id);
            return Ok(Bytes::new());
        }
        stream.readable_notified = false;
        Err(if self.phase == Phase::Closed {
            ReadError::Closed
        } else {
            ReadError::Blocked
        })
    }

    /// Sets the stream's priority on this side, and asks the peer to use it for its half.
    pub fn prioritize(&mut self, id: u32, priority: Priority, now: Instant) -> Result<(), StreamError> {
        if !self.streams.contains(id) {
            return Err(StreamError::Unknown(id));
        }
        self.set_priority(id, priority);
        if let Some(slot) = self.quickest() {
            let Priority { level, incremental } = priority;
            let word = crate::segment::Segment::Priority { stream: id, level: level.min(7), incremental };
            self.send_control(slot, &word, now);
        }
        Ok(())
    }

    pub(super) fn set_priority(&mut self, id: u32, priority: Priority) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let before = stream.rank(id);
        stream.priority = Priority { level: priority.level.min(7), ..priority };
        let (rank, is_queued) = (stream.rank(id), stream.queued.is_some());
        for path in self.paths.iter_mut().flatten() {
            if path.copies.remove(&before) {
                path.copies.insert(rank);
            }
        }
        if is_queued {
            self.queue(id);
        }
    }

    /// Returns the number of written bytes that the peer's session has not acknowledged.
    pub fn unacknowledged(&self, id: u32) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.send.kept())
    }

    /// Releases the application's hold on a stream. Written data is still delivered, and data that arrives is
    /// dropped.
    pub fn release(&mut self, id: u32, now: Instant) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.send.finish();
        if !stream.read_out && !stream.receive.complete() && stream.was_reset.is_none() {
            stream.stop = Some(Self::pending_control(0));
        }
        stream.released = true;
        self.drain_released(id, now);
        self.queue(id);
        self.pump(now);
        self.send_pending_controls(now);
        self.forget_if_over(id);
    }

    /// Reads and drops a released stream's data, so that its credit returns.
    pub(super) fn drain_released(&mut self, id: u32, now: Instant) {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.released) else {
            return;
        };
        while let Some(bytes) = stream.receive.read(usize::MAX) {
            self.read += bytes.len() as u64;
        }
        if stream.receive.at_end() || stream.was_reset.is_some() {
            stream.read_out = true;
        }
        self.give_credit(id, now);
    }

    /// Returns true if [`Session::poll`] has an instruction.
    pub fn has_instructions(&self) -> bool {
        !self.out.is_empty()
    }

    /// Forgets a stream that is over.
    pub(super) fn forget_if_over(&mut self, id: u32) {
        if let Some(stream) = self.streams.get(id).filter(|stream| stream.is_over()) {
            let rank = stream.rank(id);
            for path in self.paths.iter_mut().flatten() {
                path.copies.remove(&rank);
            }
            if let Some(rank) = stream.queued {
                self.sendable.remove(&rank);
                self.held_up.remove(&rank);
            }
            self.under_way.remove(&id);
            self.streams.remove(id);
        }
    }
}
