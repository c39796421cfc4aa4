//! Bytes and segments received on carriers.

use std::time::Duration;

use bytes::Bytes;
use hawser_time::Instant;

use super::{Counters, Loss, MAX_PIECES, Notice, PIECES_BEFORE_ACCEPT, Phase, Session, code};
use crate::CarrierId;
use crate::path::{CarrierState, Suspicion};
use crate::segment::{Ack, Incoming, PathStatus, Segment};
use crate::stream::{PendingControl, Priority};

/// The ratio of streams that are kept to streams that may be open. The others may already be over for the
/// peer.
const LINGERING: u64 = 4;

/// The time for which the peer may lack the lowest byte of a stream while it acknowledges later ones. After
/// it, other carriers send the data of the carrier that holds that byte.
const STALL: Duration = Duration::from_millis(500);

impl Session {
    /// Takes bytes that arrived on a carrier, in pieces of any size.
    pub fn received(&mut self, carrier: CarrierId, bytes: Bytes, now: Instant) {
        let Some(slot) = self.slot_of(carrier) else { return };
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        path.counts.received += bytes.len() as u64;
        path.charge(bytes.len() as u64);
        path.received_at = now;
        self.received_at = now;
        path.decoder.push(bytes);
        // A segment may end the carrier, or the session, with more bytes behind it.
        while let Some(path) = self.paths[slot].as_mut().filter(|path| path.id == carrier) {
            match path.decoder.next() {
                Ok(Some(incoming)) => self.take(slot, incoming, now),
                Ok(None) => break,
                Err(malformed) => {
                    self.counters.malformed += 1;
                    self.drop_path(slot, Loss::Malformed(malformed), true, now);
                }
            }
        }
        self.settle(now);
    }

    /// Handles one segment. Until a carrier has proved that it belongs to the session, only the segments of
    /// joining have an effect.
    fn take(&mut self, slot: usize, incoming: Incoming, now: Instant) {
        let joined = self
            .path(slot)
            .is_some_and(|path| path.state == CarrierState::Live);
        match incoming {
            Incoming::Data { stream, offset, bytes, end } if joined => {
                self.take_data(slot, stream, offset, bytes, end, now);
            }
            Incoming::Control(segment, bytes) if joined || segment.is_opening() => {
                self.confirmed |= joined && !segment.is_opening();
                self.take_control(slot, segment, &bytes, now);
            }
            Incoming::Data { .. } | Incoming::Control(..) => {
                self.counters.unproven += 1;
                self.drop_path(slot, Loss::Proof, true, now);
            }
        }
    }

    fn take_control(&mut self, slot: usize, segment: Segment, bytes: &[u8], now: Instant) {
        match segment {
            Segment::Accept(accept) => self.take_accept(slot, &accept, bytes, now),
            Segment::Joined { number, proof } => self.take_joined(slot, number, &proof, now),
            Segment::Challenge(nonce) => self.take_challenge(slot, nonce, now),
            Segment::Refused { refusal, .. } => self.take_refused(slot, refusal, now),
            // These may only be the first segment of a carrier, which the acceptor takes.
            Segment::Hello(_) | Segment::Join(_) => {
                self.counters.malformed += 1;
                self.drop_path(slot, Loss::Proof, true, now);
            }
            Segment::Ack(ack) => self.take_ack(&ack, now),
            Segment::Priority { stream, level, incremental } => {
                self.set_priority(stream, Priority { level, incremental });
            }
            Segment::Reset { stream, code, end } => self.take_reset(stream, code, end, now),
            Segment::Stop { stream, code } => {
                if self.ensure(stream, now) && self.streams.contains(stream) {
                    self.notify(Notice::Stopped { stream, code });
                }
            }
            Segment::Ping { token } if self.path(slot).is_some_and(|path| !path.is_choked()) => {
                self.send_control(slot, &Segment::Pong { token, held: Duration::ZERO }, now);
            }
            Segment::Ping { .. } => {}
            Segment::Pong { token, .. } => {
                if let Some(path) = &mut self.paths[slot] {
                    path.ping.take_if(|(sent, _)| *sent == token);
                    path.answered_at = now;
                }
            }
            Segment::PathStatus { number, status, sequence } => {
                self.take_status(CarrierId(number), status, sequence, now);
            }
            Segment::Close(close) => self.take_close(close, now),
            Segment::Closed => self.take_closed(now),
        }
    }

    /// Handles data. A stream that is not known is opened, or was complete and has been forgotten.
    fn take_data(&mut self, slot: usize, id: u32, offset: u64, bytes: Bytes, end: bool, now: Instant) {
        if !self.ensure(id, now) {
            return;
        }
        let length = bytes.len() as u64;
        let Some(stream) = self.streams.get_mut(id) else {
            self.counters.duplicate += length;
            return self.acknowledge_gone(id, now);
        };
        let higher = (offset + length).saturating_sub(stream.receive.highest());
        if offset + length > stream.receive_credit || self.received + higher > self.given {
            return self.fail(code::CREDIT_OVERRUN, now);
        }
        let before = stream.receive.pieces();
        let Ok(gain) = stream.receive.take(offset, bytes, end) else {
            return self.fail(code::FINAL_SIZE, now);
        };
        self.pieces = self.pieces + stream.receive.pieces() - before;
        self.received += gain.higher;
        let complete = stream.receive.complete();
        let readable = gain.readable && !stream.readable_notified && stream.was_reset.is_none();
        stream.readable_notified |= readable;
        if self.pieces
            > if self.accepted {
                MAX_PIECES
            } else {
                PIECES_BEFORE_ACCEPT
            }
        {
            return self.fail(code::LIMIT, now);
        }
        self.counters.delivered += length - gain.again;
        self.counters.duplicate += gain.again;
        if let Some(path) = &mut self.paths[slot] {
            path.counts.delivered += length - gain.again;
            path.counts.duplicate += gain.again;
        }
        if readable {
            self.notify(Notice::Readable(id));
        }
        self.schedule_ack(id, length, gain.again > 0 || complete, now);
        self.drain_released(id, now);
        self.check_peer_close(now);
    }

    /// Ensures that the stream was opened, if the peer may open it. Returns true if processing goes on.
    pub(super) fn ensure(&mut self, id: u32, now: Instant) -> bool {
        let ours = id % 2 == self.next_ours % 2;
        if ours {
            if id >= self.next_ours {
                self.fail(code::PROTOCOL, now);
                return false;
            }
            return true;
        }
        if id < self.next_theirs {
            return true;
        }
        let new = u64::from((id - self.next_theirs) / 2) + 1;
        // A stream counts while data of either half is missing or unsent. The peer may learn earlier than
        // this side that it has our end, or that the application has read to the peer's end. For the peer,
        // such a stream is over. The number of those that are kept is limited, too.
        let theirs = self.streams.iter().filter(|(stream, _)| stream % 2 == id % 2);
        let (mut kept, mut open) = (0, 0);
        for (_, stream) in theirs {
            kept += 1;
            open += u64::from(!stream.may_be_over_there());
        }
        let max_streams = u64::from(self.config.streams);
        if open + new > max_streams || kept + new > LINGERING * max_streams {
            self.fail(code::LIMIT, now);
            return false;
        }
        while self.next_theirs <= id {
            let stream = self.new_stream();
            self.streams.insert(self.next_theirs, stream);
            self.notify(Notice::StreamOpened(self.next_theirs));
            self.next_theirs += 2;
        }
        true
    }

    fn take_ack(&mut self, ack: &Ack, now: Instant) {
        // Streams that wait for the session's credit are kept in a set of their own. An acknowledgement
        // therefore costs the same for any number of streams.
        self.credit = self.credit.max(ack.session_credit);
        let Some(stream) = self.streams.get_mut(ack.stream) else {
            return;
        };
        stream.send_credit = stream.send_credit.max(ack.stream_credit);
        let freed = if ack.gone {
            // A stream that is complete at the peer was finished and sent here.
            let sent = stream.send.is_finished() && stream.send.unsent() == 0;
            sent.then(|| stream.send.ack_all())
        } else {
            stream.send.ack(ack.cumulative, &ack.ranges, ack.end)
        };
        let Some(freed) = freed else {
            return self.fail(code::PROTOCOL, now);
        };
        if stream.send.pieces() > MAX_PIECES {
            return self.fail(code::LIMIT, now);
        }
        let since = stream.stalled_since.filter(|_| freed == 0).unwrap_or(now);
        stream.stalled_since = (!ack.ranges.is_empty()).then_some(since);
        let is_stalled = stream.stalled_since.is_some_and(|since| now - since >= STALL);
        let holder = stream.send.lowest_alone_on().filter(|_| is_stalled);
        self.counters.acknowledged += freed;
        self.kept -= freed;
        if (ack.end || ack.gone) && stream.send.is_acked() {
            stream.reset = None;
        }
        let room = stream.room(self.config.send_buffer) > 0 && !stream.send.is_finished();
        if stream.wants_room && room {
            stream.wants_room = false;
            self.notify(Notice::Writable(ack.stream));
        }
        self.queue(ack.stream);
        self.forget_if_over(ack.stream);
        if freed > 0 {
            self.notify_blocked_on_memory();
        }
        if let Some(slot) = holder.filter(|_| self.config.reinject) {
            self.mark_doubted_if_late(slot, now);
        }
    }

    fn take_reset(&mut self, id: u32, reason: u64, end: u64, now: Instant) {
        if !self.ensure(id, now) {
            return;
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return self.acknowledge_gone(id, now);
        };
        if end > stream.receive_credit || stream.receive.end_at(end).is_err() {
            return self.fail(code::FINAL_SIZE, now);
        }
        if stream.was_reset.replace(reason).is_none() {
            self.pieces -= stream.receive.pieces();
            // Bytes that will never arrive count as received and read, so that their credit returns.
            self.received += end - stream.receive.highest();
            self.read += end - stream.receive.read_to();
            stream.receive.give_up(end);
            stream.readable_notified = true;
            stream.stop = None;
            self.notify(Notice::Readable(id));
        }
        self.schedule_ack(id, 0, true, now);
        self.check_peer_close(now);
    }

    fn take_status(&mut self, carrier: CarrierId, status: PathStatus, sequence: u64, now: Instant) {
        let Some(slot) = self.slot_of(carrier) else { return };
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        if sequence <= path.theirs.1 {
            return;
        }
        path.theirs = (status, sequence);
        if status == PathStatus::Failing {
            self.suspect(slot, Suspicion::Failing, now);
        } else if path.suspicion == Some(Suspicion::Failing) && path.ours.0 != PathStatus::Failing {
            self.restore(slot, now);
        }
    }

    /// Returns the session's counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Creates a control segment with this code that has not been sent yet.
    pub(super) fn pending_control(code: u64) -> PendingControl {
        PendingControl { code, on: 0 }
    }

    /// Returns true if data may be sent at all.
    pub(super) fn may_send(&self) -> bool {
        !matches!(self.phase, Phase::Closed)
    }
}
