//! A stream: its sending half, its receiving half, and its pending control segments.

use hawser_time::Instant;

use crate::receive::Receive;
use crate::send::{Send, Slots};
use crate::window::Window;

/// The priority of a stream: 0 first, 7 last. Streams of the same level take turns if they are incremental;
/// otherwise the lower number goes first (after RFC 9218).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The level, 0 to 7.
    pub level: u8,
    /// True if its bytes are useful as they arrive, so that it shares with streams of its level.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { level: 3, incremental: true }
    }
}

/// A position in the sending order: level, turn, number.
pub(crate) type Rank = (u8, u64, u32);

/// A control segment that must arrive. It is sent again when its carriers are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingControl {
    pub(crate) code: u64,
    /// The carriers on which it was sent; 0 if it is still to be sent.
    pub(crate) on: Slots,
}

/// The state of the pending acknowledgement for the receiving half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckState {
    /// The latest time at which it leaves.
    pub(crate) due: Option<Instant>,
    /// The arrival of the first byte that it will acknowledge.
    pub(crate) since: Instant,
    /// Bytes that arrived since the last acknowledgement.
    pub(crate) bytes: u64,
    /// The slot of the carrier that took the last acknowledgement.
    pub(crate) on: Option<u32>,
}

/// One stream of a session.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) send: Send,
    pub(crate) receive: Receive,
    /// The offset up to which the peer lets this side send.
    pub(crate) send_credit: u64,
    /// The offset up to which this side lets the peer send, and the window that determines how far that lies
    /// beyond the bytes read.
    pub(crate) receive_credit: u64,
    pub(crate) window: Window,
    pub(crate) priority: Priority,
    /// Orders streams of one level; the stream with the lowest value goes next.
    pub(crate) turn: u64,
    /// Its position among the streams that have data to send.
    pub(crate) queued: Option<Rank>,
    pub(crate) ack: AckState,
    /// The time since when the peer lacks the lowest outstanding byte although it has later ones.
    pub(crate) stalled_since: Option<Instant>,
    /// Set if this side abandoned the sending half; `send` has the final offset.
    pub(crate) reset: Option<PendingControl>,
    /// Set if this side asks the peer to abandon its half.
    pub(crate) stop: Option<PendingControl>,
    /// The peer's code, if the peer abandoned its half.
    pub(crate) was_reset: Option<u64>,
    /// True if the application was notified of data to read and has not read all of it.
    pub(crate) readable_notified: bool,
    /// True if a write had to wait; the application is notified when there is room.
    pub(crate) wants_room: bool,
    /// True if the application has read to the end, or was notified of the reset.
    pub(crate) read_out: bool,
    /// True if the application no longer holds it.
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

    /// Returns the number of bytes that a write may add: the room left in `buffer`, or the peer's credit if
    /// that is more.
    pub(crate) fn room(&self, buffer: u64) -> u64 {
        let credit = self.send_credit.saturating_sub(self.send.written());
        buffer.saturating_sub(self.send.kept()).max(credit)
    }

    /// Returns its position in the sending order.
    pub(crate) fn rank(&self, id: u32) -> Rank {
        (
            self.priority.level,
            if self.priority.incremental { self.turn } else { 0 },
            id,
        )
    }

    /// Returns true if it is finished in all respects and may be forgotten.
    pub(crate) fn is_over(&self) -> bool {
        self.send.is_acked() && self.reset.is_none() && self.read_out && self.ack.due.is_none()
    }

    /// Returns true if both halves were completely received and sent. The peer may then have all data, and
    /// know that this side does.
    pub(crate) fn may_be_over_there(&self) -> bool {
        let sent = self.send.is_finished() && self.send.unsent() == 0;
        (self.receive.complete() || self.was_reset.is_some()) && sent
    }

    /// Handles the loss or suspicion of slot `slot`: whatever only it carried is pending again. Returns true
    /// if that includes an acknowledgement.
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
