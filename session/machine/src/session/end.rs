//! How a session ends. CLOSE alone ends one; the end of a carrier never does.

use std::time::Duration;

use hawser_time::Instant;

use super::{INTERRUPTED, Instruction, Loss, Notice, Phase, Session, code};
use crate::segment::{Close, MAX_FINALS, Refusal, Segment};

/// How long an unanswered CLOSE is repeated.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// This side closed it with this code; 0: everything was delivered.
    #[error("this side closed the session with code {0}")]
    Closed(u64),
    /// The peer closed it with this code: `docs/session-protocol.md`, "CLOSE".
    #[error("the peer closed the session{}", reason(*.0))]
    ByPeer(u64),
    /// The server refuses every carrier of the session (client).
    #[error("the server refuses the session: {0}")]
    Refused(Refusal),
    /// The peer broke a rule of the protocol, for which it received this code.
    #[error("the peer broke the protocol: code {0}")]
    Violation(u64),
    /// The application did not accept it in time, or it held too much memory before (server).
    #[error("the session was not accepted")]
    Rejected,
    /// There was no carrier, or nothing was received, for longer than the configuration allows.
    #[error("the session was idle for too long")]
    Idle,
    /// No carrier could be opened (client).
    #[error("no carrier could be opened")]
    Unreachable,
    /// No handle of it is left, and the peer does not acknowledge what was written.
    #[error("the session was abandoned")]
    Abandoned,
}

/// The reason of a peer's CLOSE: a limit by its name, others by their number.
fn reason(code: u64) -> String {
    match code {
        code::LIMIT => ": it has reached a limit (LIMIT)".to_owned(),
        INTERRUPTED => ": it was interrupted".to_owned(),
        code => format!(" with code {code}"),
    }
}

impl SessionEnd {
    /// The code of CLOSE. 5 and 6 are never on the wire.
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

    /// Whether the peer ended it.
    #[must_use]
    pub fn is_by_peer(self) -> bool {
        matches!(self, Self::ByPeer(_) | Self::Refused(_))
    }
}

/// CLOSE was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closing {
    code: u64,
    /// When it is sent again.
    again_at: Instant,
    /// When no answer is waited for any more, once everything has been sent.
    give_up_at: Option<Instant>,
    /// The peer has everything.
    answered: bool,
}

impl Closing {
    /// Whether what was written is delivered first.
    pub(super) fn delivers(&self) -> bool {
        self.code == code::DONE
    }
}

impl Session {
    /// Ends the session. With code 0 everything written is delivered first; with another code (256
    /// and above are the application's) what is under way is dropped, also by a session that was
    /// closing in order.
    pub fn close(&mut self, code: u64, now: Instant) {
        match &self.phase {
            Phase::Opening | Phase::Open => {}
            Phase::Closing(closing) if closing.delivers() && code != code::DONE => {}
            Phase::Closing(_) | Phase::Closed => return,
        }
        // The end of a stream says that it is whole: what an error cuts off has none.
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

    /// Ends a session that the application does not accept: at once, and with all that it holds. The
    /// peer learns that a limit was reached.
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

    /// The peer broke a rule: the session ends at once, and the peer receives the reason.
    pub(super) fn fail(&mut self, code: u64, now: Instant) {
        self.counters.violations += 1;
        self.send_close(code, now);
        self.end(SessionEnd::Violation(code));
    }

    /// Sends CLOSE on every carrier that lives.
    fn send_close(&mut self, code: u64, now: Instant) {
        let unfinished = |(id, stream): (u32, &crate::stream::Stream)| {
            (stream.send.is_finished() && !stream.send.is_acked()).then_some((id, stream.send.written()))
        };
        let finals: Vec<_> = match code {
            code::DONE => self.streams.iter().filter_map(unfinished).collect(),
            _ => Vec::new(),
        };
        // What is not promised could be lost: CLOSE waits until one has room for all.
        if finals.len() > MAX_FINALS {
            return;
        }
        let close = Segment::Close(Close { code, finals });
        let joined: Vec<usize> = self
            .live()
            .filter(|(_, path)| path.state == crate::path::State::Live && !path.is_choked())
            .map(|(slot, _)| slot)
            .collect();
        joined
            .into_iter()
            .for_each(|slot| self.send_control(slot, &close, now));
    }

    /// Repeats CLOSE when its time has come.
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

    /// The peer ends the session.
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

    /// Answers the peer's CLOSE once everything it promised is here.
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

    /// Whether everything is here that the peer's CLOSE promised, if it has come.
    fn is_complete(&self) -> bool {
        let incomplete = |stream: &crate::stream::Stream| {
            stream.receive.end().is_some() && !stream.receive.complete() && stream.was_reset.is_none()
        };
        self.peer_close.is_none() || !self.streams.iter().any(|(_, stream)| incomplete(stream))
    }

    /// Whether the peer has everything that was written.
    pub(super) fn is_delivered(&self) -> bool {
        self.streams.iter().all(|(_, stream)| stream.send.is_acked())
    }

    /// A side that closes, too, announces it before it answers: whoever has the answer knows what is
    /// still to come.
    fn answer_close(&mut self, now: Instant) {
        if let Phase::Closing(closing) = &self.phase {
            self.send_close(closing.code, now);
        }
        let joined: Vec<usize> = self.live().map(|(slot, _)| slot).collect();
        joined
            .into_iter()
            .for_each(|slot| self.send_control(slot, &Segment::Closed, now));
    }

    /// The peer has everything, and knows that this is the end.
    pub(super) fn take_closed(&mut self, now: Instant) {
        if let Phase::Closing(closing) = &mut self.phase {
            closing.answered = true;
            self.check_closed(now);
        }
    }

    /// Nothing is left of the session but what the application has not read.
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

    /// Ends a session that closes: when the peer has answered, or has everything and closes, too;
    /// not before what the peer promised is here. Everything acknowledged is as good as an answer to
    /// wait for.
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

    /// Whether the session has ended. What came before the end can still be read.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
