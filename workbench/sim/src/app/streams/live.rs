//! A stream in progress at one end: its state, and the notices that are valid in that state.

use hawser_engine::{Errno, Notice};
use hawser_time::Instant;

use super::content::HEAD;
use super::plan::{DirectionEnd, Half, PlannedStream};
use crate::app::FlowSide;

/// The state of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// This end does not send on the stream.
    Never,
    Open,
    /// This end has closed it.
    Closed,
    /// This end has reset it.
    Reset,
    /// The peer has stopped it.
    Stopped,
}

/// The state of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The other end does not send on the stream.
    Never,
    Open,
    /// The end of the stream was reported, after this many bytes.
    Ended(u64),
    /// The peer has reset it.
    Reset,
    /// This end has stopped it.
    Stopped,
}

/// A stream's entry in the plan.
pub(super) struct PlannedEntry {
    pub(super) opener: FlowSide,
    pub(super) index: usize,
    pub(super) planned: PlannedStream,
}

/// A stream at one end.
pub(super) struct LiveStream {
    /// Its entry in the plan. For a stream that the peer has opened, it is set once the first bytes have
    /// arrived.
    pub(super) known: Option<PlannedEntry>,
    /// The identifying bytes that have arrived so far.
    pub(super) head: Vec<u8>,
    pub(super) sending: Sending,
    pub(super) reading: Reading,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Set once CLOSED or FAILED was reported.
    pub(super) over: Option<Result<(), Errno>>,
    /// The reason with which the peer stopped it.
    pub(super) stopped_for: Option<u64>,
    pub(super) since: Instant,
}

/// Describes an invalid notice.
pub(super) type Blame = Option<String>;

impl LiveStream {
    /// Returns the data that this end sends on the stream.
    pub(super) fn outgoing(&self, side: FlowSide) -> Option<Half> {
        let known = self.known.as_ref()?;
        match known.opener == side {
            true => Some(known.planned.there),
            false => known.planned.back,
        }
    }

    /// Returns the data that this end receives.
    pub(super) fn incoming(&self, side: FlowSide) -> Option<Half> {
        let known = self.known.as_ref()?;
        match known.opener == side {
            true => known.planned.back,
            false => Some(known.planned.there),
        }
    }

    /// Returns the stream's name for messages.
    pub(super) fn name(&self, side: FlowSide) -> String {
        match &self.known {
            Some(known) => name(known.opener, known.index),
            None => format!("a stream that the {} has opened", word(side.other())),
        }
    }

    /// Processes a notice; `readable` bytes wait.
    pub(super) fn on_notice(&mut self, side: FlowSide, notice: Notice, readable: u64) -> Blame {
        let what = match notice {
            Notice::Eof => "EOF",
            Notice::Closed => "CLOSED",
            Notice::Failed(_) => "FAILED",
            Notice::Reset(_) => "RESET",
            Notice::Stopped(_) => "STOPPED",
            Notice::Connected => return Some("CONNECTED was reported of a stream".to_owned()),
            Notice::Accepted(_) => return Some("a stream was reported to have one of its own".to_owned()),
            Notice::Readable | Notice::Writable | Notice::Message(_) => return None,
        };
        if let Some(over) = self.over {
            let last = if over.is_ok() { "CLOSED" } else { "FAILED" };
            return Some(format!("{what} was reported after {last}"));
        }
        match notice {
            Notice::Eof => self.on_end(side, self.received + readable),
            Notice::Closed => {
                self.over = Some(Ok(()));
                self.check_closed()
            }
            Notice::Failed(errno) => {
                self.over = Some(Err(errno));
                None
            }
            Notice::Reset(reason) => self.on_reset(side, reason),
            Notice::Stopped(reason) => self.on_stopped(side, reason),
            Notice::Connected
            | Notice::Accepted(_)
            | Notice::Readable
            | Notice::Writable
            | Notice::Message(_) => None,
        }
    }

    fn on_end(&mut self, side: FlowSide, len: u64) -> Blame {
        match self.reading {
            Reading::Open => {
                self.reading = Reading::Ended(len);
                self.check_end(side)
            }
            // The notice was already pending when the stream was stopped.
            Reading::Stopped => None,
            Reading::Never => Some("EOF was reported where only this end sends".to_owned()),
            Reading::Ended(_) => Some("EOF was reported twice".to_owned()),
            Reading::Reset => Some("EOF was reported after RESET".to_owned()),
        }
    }

    /// Checks that all bytes are present at the end of the stream, once their number is known.
    pub(super) fn check_end(&self, side: FlowSide) -> Blame {
        let Reading::Ended(len) = self.reading else {
            return None;
        };
        let Some(half) = self.incoming(side) else {
            let is_short = self.known.is_none() && len < HEAD as u64;
            return is_short
                .then(|| format!("EOF was reported after {len} bytes, which do not say which stream it is"));
        };
        if len != half.total {
            return Some(format!("EOF was reported after {len} of {} bytes", half.total));
        }
        match half.fate {
            DirectionEnd::Reset { after, .. } if after < half.total => {
                Some("EOF was reported, and the stream was reset before its end".to_owned())
            }
            DirectionEnd::Reset { .. } | DirectionEnd::Whole | DirectionEnd::Stop { .. } => None,
        }
    }

    fn on_reset(&mut self, side: FlowSide, reason: u64) -> Blame {
        match self.reading {
            Reading::Open => {}
            Reading::Stopped => return None,
            Reading::Never => return Some("RESET was reported where only this end sends".to_owned()),
            Reading::Ended(_) => return Some("RESET was reported after EOF".to_owned()),
            Reading::Reset => return Some("RESET was reported twice".to_owned()),
        }
        self.reading = Reading::Reset;
        match self.incoming(side).map(|half| half.fate) {
            // The reason will identify the stream.
            None => None,
            Some(DirectionEnd::Reset { reason: wanted, .. }) if wanted == reason => None,
            Some(DirectionEnd::Reset { reason: wanted, .. }) => Some(format!(
                "RESET was reported with reason {reason}, and it was {wanted}"
            )),
            Some(DirectionEnd::Whole | DirectionEnd::Stop { .. }) => {
                Some("RESET was reported, but the stream was not reset".to_owned())
            }
        }
    }

    fn on_stopped(&mut self, side: FlowSide, reason: u64) -> Blame {
        if self.stopped_for.is_some() {
            return Some("STOPPED was reported twice".to_owned());
        }
        self.sending = Sending::Stopped;
        self.stopped_for = Some(reason);
        // A stream may be stopped before its first bytes have arrived.
        self.known.as_ref().and_then(|_| self.check_stopped(side))
    }

    /// Checks that the peer stopped the stream as planned, if it did, once the stream is identified.
    pub(super) fn check_stopped(&self, side: FlowSide) -> Blame {
        let reason = self.stopped_for?;
        match self.outgoing(side).map(|half| half.fate) {
            Some(DirectionEnd::Stop { reason: wanted, .. }) if wanted == reason => None,
            Some(DirectionEnd::Stop { reason: wanted, .. }) => Some(format!(
                "STOPPED was reported with reason {reason}, and it was {wanted}"
            )),
            Some(DirectionEnd::Whole | DirectionEnd::Reset { .. }) => {
                Some("STOPPED was reported, but the other end has not stopped it".to_owned())
            }
            None => Some("STOPPED was reported where only the other end sends".to_owned()),
        }
    }

    fn check_closed(&self) -> Blame {
        if self.sending == Sending::Open {
            return Some("CLOSED was reported, but this end still sends".to_owned());
        }
        let is_open = self.reading == Reading::Open;
        is_open.then(|| "CLOSED was reported before the end of what comes".to_owned())
    }

    /// Returns true if no data is missing in case the connection is over. The other end may already be done
    /// with the stream.
    pub(super) fn is_settled(&self, side: FlowSide) -> bool {
        if self.known.is_none() {
            // It is one of the streams that are reset; otherwise, the absence of its planned stream is
            // detected.
            return true;
        }
        let (out, back) = (self.outgoing(side), self.incoming(side));
        let is_sent = self.sending != Sending::Open || out.is_none_or(|half| half.is_stopped());
        let is_read = match self.reading {
            Reading::Never | Reading::Stopped | Reading::Reset => true,
            Reading::Ended(len) => self.received >= len,
            Reading::Open => back.is_none_or(|half| half.is_reset()),
        };
        is_sent && is_read
    }

    /// Returns true if its reader can still stop it.
    pub(super) fn is_stoppable(&self) -> bool {
        self.reading == Reading::Open && self.over.is_none()
    }

    /// Describes the events that it waits for.
    pub(super) fn waits_for(&self, side: FlowSide) -> String {
        let mut waits = Vec::new();
        if let Some(half) = self.outgoing(side).filter(|_| self.sending == Sending::Open) {
            waits.push(match (self.sent, half.to_send()) {
                (sent, limit) if sent < limit => format!("{sent} of {limit} bytes handed over"),
                _ => "STOPPED did not come".to_owned(),
            });
        }
        match (self.reading, self.incoming(side)) {
            (Reading::Open, Some(half)) if self.received < half.limit() => {
                waits.push(format!("{} of {} bytes received", self.received, half.limit()));
            }
            (Reading::Open, _) => waits.push(format!("its end after {} bytes did not come", self.received)),
            (Reading::Ended(len), _) if self.received < len => {
                waits.push(format!("{} of {len} bytes read", self.received));
            }
            _ => {}
        }
        if waits.is_empty() {
            waits.push("CLOSED did not come".to_owned());
        }
        format!("{}: {}", self.name(side), waits.join(", "))
    }
}

/// Returns the name of a stream.
pub(super) fn name(opener: FlowSide, index: usize) -> String {
    format!("stream {index} of the {}", word(opener))
}

pub(super) fn word(side: FlowSide) -> &'static str {
    match side {
        FlowSide::Client => "client",
        FlowSide::Server => "server",
    }
}
