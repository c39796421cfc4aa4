//! Acknowledgements with credit, and other control segments that must arrive.

use std::time::Duration;

use hawser_time::Instant;

use super::Session;
use crate::segment::{Ack, MAX_RANGES, Segment};

/// The maximum time that an acknowledgement waits for further data.
const DELAY: Duration = Duration::from_millis(25);
/// An acknowledgement leaves at once when the credit divided by this number has arrived.
const SHARE: u64 = 4;

impl Session {
    /// Schedules an acknowledgement for `bytes` that arrived on a stream, at once if `now_please`.
    pub(super) fn schedule_ack(&mut self, id: u32, bytes: u64, now_please: bool, now: Instant) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let ack = &mut stream.ack;
        if ack.due.is_none() {
            ack.since = now;
        }
        ack.bytes += bytes;
        let share = stream.window.size().min(self.window.size()) / SHARE;
        let at = if now_please || ack.bytes >= share {
            now
        } else {
            now + DELAY
        };
        let at = ack.due.map_or(at, |due| due.min(at));
        if let Some(before) = ack.due.replace(at) {
            self.due.remove(&(before, id));
        }
        self.due.insert((at, id));
    }

    /// Gives more credit after the application has read, if the increase is worth a segment.
    pub(super) fn give_credit(&mut self, id: u32, now: Instant) {
        let round_trips = self.live().map(|(_, path)| path.statistics.srtt);
        let max_round_trip = round_trips.max().unwrap_or_default();
        self.window.read(self.read, max_round_trip, now);
        let window = self.window.size();
        let session_grows = self.read + window - self.given >= window / SHARE;
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.window.read(stream.receive.read_to(), max_round_trip, now);
        let window = stream.window.size();
        let wanted = stream.receive.read_to() + window;
        let stream_grows =
            stream.receive.end().is_none() && wanted.saturating_sub(stream.receive_credit) >= window / SHARE;
        if session_grows || stream_grows {
            self.schedule_ack(id, 0, true, now);
        }
    }

    /// Sends the acknowledgements that are due.
    pub(super) fn acknowledge(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.due.first() {
            if at > now {
                return;
            }
            let Some(slot) = self.quickest() else { return };
            self.due.pop_first();
            self.send_ack(slot, id, now);
            self.forget_if_over(id);
        }
    }

    fn send_ack(&mut self, slot: usize, id: u32, now: Instant) {
        self.given = self.given.max(self.read + self.window.size());
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let wanted = stream.receive.read_to() + stream.window.size();
        stream.receive_credit = stream.receive_credit.max(wanted);
        let ack = Ack {
            stream: id,
            delay: now - stream.ack.since,
            cumulative: stream.receive.next(),
            stream_credit: stream.receive_credit,
            session_credit: self.given,
            end: stream.receive.complete(),
            gone: false,
            ranges: stream.receive.ranges(MAX_RANGES),
        };
        stream.ack.due = None;
        stream.ack.bytes = 0;
        stream.ack.on = Some(slot as u32);
        self.counters.acks += 1;
        self.send_control(slot, &Segment::Ack(ack), now);
    }

    /// Acknowledges data for a stream that was complete and has been forgotten.
    pub(super) fn acknowledge_gone(&mut self, id: u32, now: Instant) {
        let Some(slot) = self.quickest() else { return };
        let ack = Ack {
            stream: id,
            delay: Duration::ZERO,
            cumulative: 0,
            stream_credit: 0,
            session_credit: self.given,
            end: true,
            gone: true,
            ranges: Vec::new(),
        };
        self.counters.acks += 1;
        self.send_control(slot, &Segment::Ack(ack), now);
    }

    /// Repeats control segments that were lost with a carrier, or never sent because there was none.
    pub(super) fn repeat_all(&mut self, now: Instant) {
        let Some(slot) = self.quickest() else { return };
        let statuses: Vec<_> = self
            .live()
            .filter(|(_, path)| path.ours.1 > 0)
            .map(|(_, path)| (path.id.0, path.ours.0, path.ours.1))
            .collect();
        for (number, status, sequence) in statuses {
            self.send_control(slot, &Segment::PathStatus { number, status, sequence }, now);
        }
        self.send_pending_controls(now);
    }

    /// Sends pending RESET and STOP segments that no living carrier has taken.
    pub(super) fn send_pending_controls(&mut self, now: Instant) {
        let Some(slot) = self.quickest() else { return };
        let mut segments = Vec::new();
        for (stream, state) in self.streams.iter_mut() {
            if let Some(pending) = state.reset.as_mut().filter(|pending| pending.on == 0) {
                pending.on = 1 << slot;
                segments.push(Segment::Reset { stream, code: pending.code, end: state.send.fresh() });
            }
            if let Some(pending) = state.stop.as_mut().filter(|pending| pending.on == 0) {
                pending.on = 1 << slot;
                segments.push(Segment::Stop { stream, code: pending.code });
            }
        }
        segments
            .iter()
            .for_each(|segment| self.send_control(slot, segment, now));
    }

    /// Returns the time at which the next acknowledgement is due.
    pub(super) fn next_ack(&self) -> Option<Instant> {
        self.due
            .first()
            .map(|&(at, _)| at)
            .filter(|_| self.quickest().is_some())
    }
}
