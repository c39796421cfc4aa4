//! A stream: a sending and a receiving half, and what is pending to the peer about them.

use hawser_time::Instant;

use crate::receive::Receive;
use crate::send::{Send, Slots};
use crate::window::Window;

/// How urgent a stream is: 0 first, 7 last. Streams of the same level take turns if they are
/// incremental, else the lower number goes first (RFC 9218's scheme).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 to 7.
    pub level: u8,
    /// Whether its bytes are of use as they come, so that it shares with its equals.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { level: 3, incremental: true }
    }
}

/// A place in the order of sending: level, turn, number.
pub(crate) type Rank = (u8, u64, u32);

/// A control segment that must arrive: sent again when its carriers are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingControl {
    pub(crate) code: u64,
    /// On which carriers it went; 0: it is still to be sent.
    pub(crate) on: Slots,
}

/// What the peer is to be notified of the receiving half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckState {
    /// When it leaves at the latest.
    pub(crate) due: Option<Instant>,
    /// When the first byte came that it will acknowledge.
    pub(crate) since: Instant,
    /// Bytes that came since the last one.
    pub(crate) bytes: u64,
    /// The slot of the carrier that took the last one; 64: none.
    pub(crate) on: Option<u32>,
}

/// One stream of a session.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) send: Send,
    pub(crate) receive: Receive,
    /// Up to where the peer lets us send.
    pub(crate) send_credit: u64,
    /// Up to where we let the peer send, and how far that is beyond what was read.
    pub(crate) receive_credit: u64,
    pub(crate) window: Window,
    pub(crate) priority: Priority,
    /// Orders streams of one level: whoever has the least goes next.
    pub(crate) turn: u64,
    /// Its place among those that have something to send.
    pub(crate) queued: Option<Rank>,
    pub(crate) ack: AckState,
    /// Since when the peer has later bytes and not the lowest that it lacks.
    pub(crate) stalled_since: Option<Instant>,
    /// We gave the sending half up; with the final offset in `send`.
    pub(crate) reset: Option<PendingControl>,
    /// We ask the peer to give its half up.
    pub(crate) stop: Option<PendingControl>,
    /// The peer gave its half up, with this code.
    pub(crate) was_reset: Option<u64>,
    /// The application was notified that there is something to read, and has not read it all.
    pub(crate) readable_notified: bool,
    /// Writing had to wait: the application is notified when there is room.
    pub(crate) wants_room: bool,
    /// The application has read to the end, or was notified of the reset.
    pub(crate) read_out: bool,
    /// The application holds it no longer.
    pub(crate) released: bool,
}

impl Stream {
    pub(crate) fn new(send_credit: u64, window: Window, turn: u64) -> Self {
        Self {
            send: Send::new(),
            receive: Receive::default(),
            send_credit,
            receive_credit: window.size(),
            window,
            priority: Priority::default(),
            turn,
            queued: None,
            ack: AckState::default(),
            stalled_since: None,
            reset: None,
            stop: None,
            was_reset: None,
            readable_notified: false,
            wants_room: false,
            read_out: false,
            released: false,
        }
    }

    /// How much of what is written it takes: what fits into `buffer`, or what the peer would take.
    pub(crate) fn room(&self, buffer: u64) -> u64 {
        let credit = self.send_credit.saturating_sub(self.send.written());
        buffer.saturating_sub(self.send.kept()).max(credit)
    }

    /// Where it stands in the order of sending.
    pub(crate) fn rank(&self, id: u32) -> Rank {
        (
            self.priority.level,
            if self.priority.incremental { self.turn } else { 0 },
            id,
        )
    }

    /// Nothing of it is left to do: it may be forgotten.
    pub(crate) fn is_over(&self) -> bool {
        self.send.is_acked() && self.reset.is_none() && self.read_out && self.ack.due.is_none()
    }

    /// Everything of both halves was sent: the peer may have all of it, and know that we do.
    pub(crate) fn may_be_over_there(&self) -> bool {
        let sent = self.send.is_finished() && self.send.unsent() == 0;
        (self.receive.complete() || self.was_reset.is_some()) && sent
    }

    /// Slot `slot` is gone or suspected: what only it carried is pending again. Whether an
    /// acknowledgement is among that.
    pub(crate) fn lost(&mut self, slot: u32) -> bool {
        self.send.lost(slot);
        for pending in [&mut self.reset, &mut self.stop].into_iter().flatten() {
            pending.on &= !(1 << slot);
        }
        let again = self.ack.on == Some(slot);
        if again {
            self.ack.on = None;
        }
        again
    }
}
