//! The end of a session. Only CLOSE ends a session; the end of a carrier never does.

use std::time::Duration;

use hawser_time::Instant;

use super::{INTERRUPTED, Instruction, Loss, Notice, Phase, Session, code};
use crate::segment::{Close, MAX_FINALS, Refusal, Segment};

/// The time for which an unanswered CLOSE is repeated.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The way in which a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// This side closed it with this code. 0: everything was delivered.
    #[error("this side closed the session with code {0}")]
    Closed(u64),
    /// The peer closed it with this code (`docs/session-protocol.md`, "CLOSE").
    #[error("the peer closed the session{}", reason(*.0))]
    ByPeer(u64),
    /// The server refuses every carrier of the session (client).
    #[error("the server refused the session: {0}")]
    Refused(Refusal),
    /// The peer broke a rule of the protocol and received this code.
    #[error("the peer violated the protocol: code {0}")]
    Violation(u64),
    /// The application did not accept it in time, or the session held too much memory before that (server).
    #[error("the session was not accepted")]
    Rejected,
    /// It had no carrier, or received no segment, for longer than the configuration allows.
    #[error("the session was idle for too long")]
    Idle,
    /// No carrier could be opened (client).
    #[error("the session could not open a carrier")]
    Unreachable,
    /// It has no handle any more, and the peer does not acknowledge the written data.
    #[error("the session was abandoned")]
    Abandoned,
}

/// Describes the code of a peer's CLOSE: a limit by its name, most others by their number.
fn reason(code: u64) -> String {
    match code {
        code::LIMIT => ": it has reached a limit (LIMIT)".to_owned(),
        INTERRUPTED => ": it was interrupted".to_owned(),
        code => format!(" with code {code}"),
    }
}

impl SessionEnd {
    /// Returns the code of CLOSE. This side never sends 5 and 6.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Self::Closed(code) | Self::ByPeer(code) | Self::Violation(code) => code,
            Self::Rejected => code::LIMIT,
            Self::Refused(_) => code::PROTOCOL,
            Self::Idle => 5,
            Self::Unreachable | Self::Abandoned => 6,
        }
    }

    /// Returns true if the peer ended it.
    #[must_use]
    pub fn is_by_peer(self) -> bool {
        matches!(self, Self::ByPeer(_) | Self::Refused(_))
    }
}

/// The state after CLOSE was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closing {
    code: u64,
    /// The time at which it is sent again.
    again_at: Instant,
    /// The time at which the wait for an answer ends. Set once everything has been sent.
    give_up_at: Option<Instant>,
    /// True if the peer has confirmed that it has everything.
    answered: bool,
}

impl Closing {
    /// Returns true if written data is delivered first.
    pub(super) fn delivers(&self) -> bool {
        self.code == code::DONE
    }
}

impl Session {
    /// Ends the session. With code 0, all written data is delivered first. With another code (256 and above
    /// are the application's), data in flight is dropped, even if the session was already closing in order.
    pub fn close(&mut self, code: u64, now: Instant) {
        match &self.phase {
            Phase::Opening | Phase::Open => {}
            Phase::Closing(closing) if closing.delivers() && code != code::DONE => {}
            Phase::Closing(_) | Phase::Closed => return,
        }
        // A stream's end states that the stream is complete, so a stream cut off by an error gets no end.
        if code == code::DONE {
            for (_, stream) in self.streams.iter_mut() {
                stream.send.finish();
            }
            self.queue_all();
            self.pump(now);
        }
        let give_up_at = (code != code::DONE).then_some(now + CLOSE_TIMEOUT);
        self.phase = Phase::Closing(Closing { code, again_at: now, give_up_at, answered: false });
        self.close_again(now);
        self.settle(now);
    }

    /// Ends a session that the application does not accept, at once, and drops all that it holds. The peer
    /// learns that a limit was reached.
    pub fn reject(&mut self, now: Instant) {
        if self.phase != Phase::Closed {
            self.send_close(code::LIMIT, now);
            self.end(SessionEnd::Rejected);
            self.streams.clear();
            self.pieces = 0;
            self.received = self.read;
            self.kept = 0;
        }
    }

    /// Ends the session at once because the peer broke a rule, and sends the peer the reason.
    pub(super) fn fail(&mut self, code: u64, now: Instant) {
        self.counters.violations += 1;
        self.send_close(code, now);
        self.end(SessionEnd::Violation(code));
    }

    /// Sends CLOSE on every live carrier.
    fn send_close(&mut self, code: u64, now: Instant) {
        let unfinished = |(id, stream): (u32, &crate::stream::Stream)| {
            (stream.send.is_finished() && !stream.send.is_acked()).then_some((id, stream.send.written()))
        };
        let finals: Vec<_> = match code {
            code::DONE => self.streams.iter().filter_map(unfinished).collect(),
            _ => Vec::new(),
        };
        // Streams that are not listed could be lost, so CLOSE waits until one segment can list all.
        if finals.len() > MAX_FINALS {
            return;
        }
        let close = Segment::Close(Close { code, finals });
        let joined: Vec<usize> = self
            .live()
            .filter(|(_, path)| path.state == crate::path::CarrierState::Live && !path.is_choked())
            .map(|(slot, _)| slot)
            .collect();
        joined
            .into_iter()
            .for_each(|slot| self.send_control(slot, &close, now));
    }

    /// Repeats CLOSE when it is due.
    pub(super) fn close_again(&mut self, now: Instant) {
        let Phase::Closing(closing) = &self.phase else {
            return;
        };
        let (code, again_at, give_up_at) = (closing.code, closing.again_at, closing.give_up_at);
        if give_up_at.is_some_and(|at| at <= now) {
            return self.end(SessionEnd::Closed(code));
        }
        if again_at > now {
            return;
        }
        self.send_close(code, now);
        let pause = self.live().map(|(_, path)| path.statistics.probe_timeout()).max();
        if let Phase::Closing(closing) = &mut self.phase {
            closing.again_at = now
                + pause
                    .unwrap_or(Duration::from_millis(250))
                    .max(Duration::from_millis(50));
        }
        self.check_closed(now);
    }

    pub(super) fn closes_again_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Closing(closing) => Some(
                closing
                    .give_up_at
                    .map_or(closing.again_at, |at| at.min(closing.again_at)),
            ),
            _ => None,
        }
    }

    /// Handles the peer's CLOSE.
    pub(super) fn take_close(&mut self, close: Close, now: Instant) {
        if close.code != code::DONE {
            self.answer_close(now);
            return self.end(SessionEnd::ByPeer(close.code));
        }
        for (id, end) in close.finals {
            // CLOSE may overtake the first data of a stream.
            if !self.ensure(id, now) {
                return;
            }
            let stream = self.streams.get_mut(id);
            if stream.is_some_and(|stream| stream.receive.end_at(end).is_err()) {
                return self.fail(code::FINAL_SIZE, now);
            }
        }
        self.peer_close = Some(close.code);
        self.check_peer_close(now);
    }

    /// Answers the peer's CLOSE once everything it promised has arrived.
    pub(super) fn check_peer_close(&mut self, now: Instant) {
        let Some(code) = self.peer_close else { return };
        if !self.is_complete() {
            return;
        }
        self.answer_close(now);
        match &self.phase {
            Phase::Closing(closing) if closing.delivers() => self.check_closed(now),
            _ => self.end(SessionEnd::ByPeer(code)),
        }
    }

    /// Returns true if everything that the peer's CLOSE promised has arrived, or if no CLOSE has arrived.
    fn is_complete(&self) -> bool {
        let incomplete = |stream: &crate::stream::Stream| {
            stream.receive.end().is_some() && !stream.receive.complete() && stream.was_reset.is_none()
        };
        self.peer_close.is_none() || !self.streams.iter().any(|(_, stream)| incomplete(stream))
    }

    /// Returns true if the peer has all written data.
    pub(super) fn is_delivered(&self) -> bool {
        self.streams.iter().all(|(_, stream)| stream.send.is_acked())
    }

    /// Answers the peer's CLOSE. If this side closes, too, it announces that first, so that the peer knows
    /// what is still to come.
    fn answer_close(&mut self, now: Instant) {
        if let Phase::Closing(closing) = &self.phase {
            self.send_close(closing.code, now);
        }
        let joined: Vec<usize> = self.live().map(|(slot, _)| slot).collect();
        joined
            .into_iter()
            .for_each(|slot| self.send_control(slot, &Segment::Closed, now));
    }

    /// Handles CLOSED: the peer has everything, and knows that the session ends.
    pub(super) fn take_closed(&mut self, now: Instant) {
        if let Phase::Closing(closing) = &mut self.phase {
            closing.answered = true;
            self.check_closed(now);
        }
    }

    /// Ends the session. It keeps only data that the application has not read.
    pub(super) fn end(&mut self, end: SessionEnd) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        for path in self.paths.iter_mut().filter_map(Option::take) {
            if let Some(left) = path.quota {
                self.quotas.insert(path.number, left);
            }
            self.out
                .push_back(Instruction::Close { carrier: path.id, abort: false });
            let (reason, counts) = (Loss::Closed, path.counts);
            self.out.push_back(Instruction::Notify(Notice::PathLost {
                carrier: path.id,
                reason,
                counts,
            }));
        }
        self.sendable.clear();
        self.held_up.clear();
        self.due.clear();
        self.notify(Notice::Closed(end));
    }

    /// Ends a session that is closing, once everything that the peer promised has arrived. The peer must have
    /// answered, or have everything and be closing, too. If the peer has acknowledged everything, the answer
    /// is awaited only for a limited time.
    pub(super) fn check_closed(&mut self, now: Instant) {
        let Phase::Closing(closing) = &self.phase else {
            return;
        };
        let (code, answered, waits) = (closing.code, closing.answered, closing.give_up_at.is_none());
        if code != code::DONE {
            if answered {
                self.end(SessionEnd::Closed(code));
            }
            return;
        }
        if !answered && self.kept > 0 {
            return;
        }
        let (complete, delivered) = (self.is_complete(), self.is_delivered());
        if complete && (answered || (delivered && self.peer_close.is_some())) {
            return self.end(SessionEnd::Closed(code));
        }
        if complete
            && delivered
            && waits
            && let Phase::Closing(closing) = &mut self.phase
        {
            closing.give_up_at = Some(now + CLOSE_TIMEOUT);
        }
    }

    /// Returns true if the session has ended. Data that arrived before can still be read.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
