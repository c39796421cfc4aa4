//! A stream that is under half at one end: how far it is, and what its notices may be.

use hawser_engine::{Errno, Notice};
use hawser_time::Instant;

use super::content::HEAD;
use super::plan::{Fate, Half, Planned};
use crate::app::Side;

/// How sending stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// This end does not send on it.
    Never,
    Open,
    /// It has closed.
    Closed,
    /// It has given it up.
    Reset,
    /// The peer did not want more.
    Stopped,
}

/// How reading stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The other end does not send on it.
    Never,
    Open,
    /// Its end was reported, after so many bytes.
    Ended(u64),
    /// The peer has given it up.
    Reset,
    /// This end did not want more.
    Stopped,
}

/// One of the agreed streams.
pub(super) struct Known {
    pub(super) opener: Side,
    pub(super) index: usize,
    pub(super) planned: Planned,
}

/// A stream at one end.
pub(super) struct Live {
    /// Which one it is; of one that the peer has opened, once its first bytes have come.
    pub(super) known: Option<Known>,
    /// What has come of them.
    pub(super) head: Vec<u8>,
    pub(super) sending: Sending,
    pub(super) reading: Reading,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// CLOSED or FAILED was reported.
    pub(super) over: Option<Result<(), Errno>>,
    /// The reason for which the peer stopped it.
    pub(super) stopped_for: Option<u64>,
    pub(super) since: Instant,
}

/// What a notice was that could not be.
pub(super) type Blame = Option<String>;

impl Live {
    /// What this end sends on it.
    pub(super) fn outgoing(&self, side: Side) -> Option<Half> {
        let known = self.known.as_ref()?;
        match known.opener == side {
            true => Some(known.planned.there),
            false => known.planned.back,
        }
    }

    /// What it receives.
    pub(super) fn incoming(&self, side: Side) -> Option<Half> {
        let known = self.known.as_ref()?;
        match known.opener == side {
            true => known.planned.back,
            false => Some(known.planned.there),
        }
    }

    /// What it is called.
    pub(super) fn name(&self, side: Side) -> String {
        match &self.known {
            Some(known) => name(known.opener, known.index),
            None => format!("a stream that the {} has opened", word(side.other())),
        }
    }

    /// Takes a notice; `readable` bytes wait.
    pub(super) fn on_notice(&mut self, side: Side, notice: Notice, readable: u64) -> Blame {
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

    fn on_end(&mut self, side: Side, len: u64) -> Blame {
        match self.reading {
            Reading::Open => {
                self.reading = Reading::Ended(len);
                self.check_end(side)
            }
            // The notice was under half.
            Reading::Stopped => None,
            Reading::Never => Some("EOF was reported where only this end sends".to_owned()),
            Reading::Ended(_) => Some("EOF was reported twice".to_owned()),
            Reading::Reset => Some("EOF was reported after RESET".to_owned()),
        }
    }

    /// At its end all bytes are there, once it is known how many those are.
    pub(super) fn check_end(&self, side: Side) -> Blame {
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
            Fate::Reset { after, .. } if after < half.total => {
                Some("EOF was reported, and the stream was reset before its end".to_owned())
            }
            Fate::Reset { .. } | Fate::Whole | Fate::Stop { .. } => None,
        }
    }

    fn on_reset(&mut self, side: Side, reason: u64) -> Blame {
        match self.reading {
            Reading::Open => {}
            Reading::Stopped => return None,
            Reading::Never => return Some("RESET was reported where only this end sends".to_owned()),
            Reading::Ended(_) => return Some("RESET was reported after EOF".to_owned()),
            Reading::Reset => return Some("RESET was reported twice".to_owned()),
        }
        self.reading = Reading::Reset;
        match self.incoming(side).map(|half| half.fate) {
            // Its reason says which one it is.
            None => None,
            Some(Fate::Reset { reason: wanted, .. }) if wanted == reason => None,
            Some(Fate::Reset { reason: wanted, .. }) => Some(format!(
                "RESET was reported with reason {reason}, and it was {wanted}"
            )),
            Some(Fate::Whole | Fate::Stop { .. }) => {
                Some("RESET was reported, and nobody has reset it".to_owned())
            }
        }
    }

    fn on_stopped(&mut self, side: Side, reason: u64) -> Blame {
        if self.stopped_for.is_some() {
            return Some("STOPPED was reported twice".to_owned());
        }
        self.sending = Sending::Stopped;
        self.stopped_for = Some(reason);
        // A stream may be stopped before its first bytes have come.
        self.known.as_ref().and_then(|_| self.check_stopped(side))
    }

    /// The peer stopped it as it had to, if it did, once it is known which one it is.
    pub(super) fn check_stopped(&self, side: Side) -> Blame {
        let reason = self.stopped_for?;
        match self.outgoing(side).map(|half| half.fate) {
            Some(Fate::Stop { reason: wanted, .. }) if wanted == reason => None,
            Some(Fate::Stop { reason: wanted, .. }) => Some(format!(
                "STOPPED was reported with reason {reason}, and it was {wanted}"
            )),
            Some(Fate::Whole | Fate::Reset { .. }) => {
                Some("STOPPED was reported, and the other end has not stopped it".to_owned())
            }
            None => Some("STOPPED was reported where only the other end sends".to_owned()),
        }
    }

    fn check_closed(&self) -> Blame {
        if self.sending == Sending::Open {
            return Some("CLOSED was reported, and this end still sends".to_owned());
        }
        let is_open = self.reading == Reading::Open;
        is_open.then(|| "CLOSED was reported before the end of what comes".to_owned())
    }

    /// Whether nothing is missing of it, should its connection be over: the other end may be done with it already.
    pub(super) fn is_settled(&self, side: Side) -> bool {
        if self.known.is_none() {
            // It is one of those that are reset, or that one's absence is noticed.
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

    /// Whether its reader can still give it up.
    pub(super) fn is_stoppable(&self) -> bool {
        self.reading == Reading::Open && self.over.is_none()
    }

    /// What it waits for.
    pub(super) fn waits_for(&self, side: Side) -> String {
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

/// What a stream is called.
pub(super) fn name(opener: Side, index: usize) -> String {
    format!("stream {index} of the {}", word(opener))
}

pub(super) fn word(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}
