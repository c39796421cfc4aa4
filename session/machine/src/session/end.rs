//! How a session ends. CLOSE alone ends one; the end of a carrier never does.

use std::time::Duration;

use super::{Instruction, Loss, Notice, Phase, Session, code};
use crate::segment::{Close, MAX_FINALS, Segment};

/// How long an unanswered CLOSE is repeated.
const PATIENCE: Duration = Duration::from_secs(3);

/// CLOSE was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closing {
    code: u64,
    /// When it is said again.
    again_at: Duration,
    /// When no answer is waited for any more, once everything has been sent.
    give_up_at: Option<Duration>,
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
    pub fn close(&mut self, code: u64, now: Duration) {
        match &self.phase {
            Phase::Opening | Phase::Open => {}
            Phase::Closing(closing) if closing.delivers() && code != code::DONE => {}
            Phase::Closing(_) | Phase::Closed => return,
        }
        for stream in self.streams.values_mut() {
            stream.send.finish();
        }
        self.queue_all();
        self.pump(now);
        let give_up_at = (code != code::DONE).then_some(now + PATIENCE);
        self.phase = Phase::Closing(Closing {
            code,
            again_at: now,
            give_up_at,
            answered: false,
        });
        self.close_again(now);
        self.settle(now);
    }

    /// Ends a session that the application does not accept: at once, and with all that it holds. The
    /// peer learns that a limit was reached.
    pub fn reject(&mut self, now: Duration) {
        if self.phase != Phase::Closed {
            self.say_close(code::LIMIT, now);
            self.end(code::LIMIT, false);
            self.streams.clear();
            self.pieces = 0;
            self.received = self.read;
            self.kept = 0;
        }
    }

    /// The peer broke a rule: the session ends at once, and the peer is told why.
    pub(super) fn fail(&mut self, code: u64, now: Duration) {
        self.counters.violations += 1;
        self.say_close(code, now);
        self.end(code, false);
    }

    /// Says CLOSE on every carrier that lives.
    fn say_close(&mut self, code: u64, now: Duration) {
        let unfinished = |(&id, stream): (&u32, &crate::stream::Stream)| {
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
        joined.into_iter().for_each(|slot| self.say(slot, &close, now));
    }

    /// Repeats CLOSE when its time has come.
    pub(super) fn close_again(&mut self, now: Duration) {
        let Phase::Closing(closing) = &self.phase else {
            return;
        };
        let (code, again_at, give_up_at) = (closing.code, closing.again_at, closing.give_up_at);
        if give_up_at.is_some_and(|at| at <= now) {
            return self.end(code, false);
        }
        if again_at > now {
            return;
        }
        self.say_close(code, now);
        let pause = self.live().map(|(_, path)| path.statistics.silence()).max();
        if let Phase::Closing(closing) = &mut self.phase {
            closing.again_at = now
                + pause
                    .unwrap_or(Duration::from_millis(250))
                    .max(Duration::from_millis(50));
        }
        self.check_closed(now);
    }

    pub(super) fn closes_again_at(&self) -> Option<Duration> {
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
    pub(super) fn take_close(&mut self, close: Close, now: Duration) {
        if close.code != code::DONE {
            self.answer_close(now);
            return self.end(close.code, true);
        }
        for (id, end) in close.finals {
            // CLOSE may overtake the first data of a stream.
            if !self.ensure(id, now) {
                return;
            }
            let stream = self.streams.get_mut(&id);
            if stream.is_some_and(|stream| stream.receive.end_at(end).is_err()) {
                return self.fail(code::FINAL_SIZE, now);
            }
        }
        self.peer_close = Some(close.code);
        self.check_peer_close(now);
    }

    /// Answers the peer's CLOSE once everything it promised is here.
    pub(super) fn check_peer_close(&mut self, now: Duration) {
        let Some(code) = self.peer_close else { return };
        if !self.is_complete() {
            return;
        }
        self.answer_close(now);
        match &self.phase {
            Phase::Closing(closing) if closing.delivers() => self.check_closed(now),
            _ => self.end(code, true),
        }
    }

    /// Whether everything is here that the peer's CLOSE promised, if it has come.
    fn is_complete(&self) -> bool {
        let incomplete = |stream: &crate::stream::Stream| {
            stream.receive.end().is_some() && !stream.receive.complete() && stream.was_reset.is_none()
        };
        self.peer_close.is_none() || !self.streams.values().any(incomplete)
    }

    /// Whether the peer has everything that was written.
    pub(super) fn is_delivered(&self) -> bool {
        self.streams.values().all(|stream| stream.send.is_acked())
    }

    /// A side that closes, too, says so before it answers: whoever has the answer knows what is
    /// still to come.
    fn answer_close(&mut self, now: Duration) {
        if let Phase::Closing(closing) = &self.phase {
            self.say_close(closing.code, now);
        }
        let joined: Vec<usize> = self.live().map(|(slot, _)| slot).collect();
        joined
            .into_iter()
            .for_each(|slot| self.say(slot, &Segment::Closed, now));
    }

    /// The peer has everything, and knows that this is the end.
    pub(super) fn take_closed(&mut self, now: Duration) {
        if let Phase::Closing(closing) = &mut self.phase {
            closing.answered = true;
            self.check_closed(now);
        }
    }

    /// Nothing is left of the session but what the application has not read.
    pub(super) fn end(&mut self, code: u64, by_peer: bool) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        for path in self.paths.iter_mut().filter_map(Option::take) {
            if let Some(left) = path.quota {
                self.quotas.insert(path.way, left);
            }
            self.out.push_back(Instruction::Close {
                carrier: path.id,
                abort: false,
            });
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
        self.notify(Notice::Closed { code, by_peer });
    }

    /// Ends a session that closes: when the peer has answered, or has everything and closes, too;
    /// not before what the peer promised is here. Everything acknowledged is as good as an answer to
    /// wait for.
    pub(super) fn check_closed(&mut self, now: Duration) {
        let Phase::Closing(closing) = &self.phase else {
            return;
        };
        let (code, answered, waits) = (closing.code, closing.answered, closing.give_up_at.is_none());
        if code != code::DONE {
            if answered {
                self.end(code, false);
            }
            return;
        }
        let (complete, delivered) = (self.is_complete(), self.is_delivered());
        if complete && (answered || (delivered && self.peer_close.is_some())) {
            return self.end(code, false);
        }
        if complete
            && delivered
            && waits
            && let Phase::Closing(closing) = &mut self.phase
        {
            closing.give_up_at = Some(now + PATIENCE);
        }
    }

    /// Whether the session has ended. What came before the end can still be read.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
