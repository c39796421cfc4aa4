//! What a congestion controller is given of a connection, and what it decides.

use hawser_time::Instant;

use crate::arithmetic::mul_div;

/// The largest window that a controller gives, bytes: what a window field with the largest scale can express
/// (RFC 7323, 2.3).
pub const MAX_WINDOW: u64 = 1 << 30;

/// New data was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// When, by any clock that does not go backwards.
    pub now: Instant,
    /// The round-trip time that this acknowledgement shows, nanoseconds; 0: none.
    pub rtt: u64,
    /// Bytes newly acknowledged. A subscriber that does not receive each acknowledgement counts those
    /// since the last that it received.
    pub bytes: u64,
    /// Bytes outstanding before it.
    pub flight: u64,
    /// The connection's window, bytes. If it is not what the controller last decided, someone else has set it,
    /// and the controller goes on from there.
    pub window: u64,
    /// Bytes of a full segment.
    pub mss: u64,
}

/// What a connection is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Bytes that may be in flight.
    pub window: u64,
    /// Bytes a second at which to send, for a transport that can pace; nothing while no round-trip
    /// time is known.
    pub pacing: Option<u64>,
}

/// A congestion controller: the T-wares of the paper's Table 2, a method for each event. One
/// value serves one connection, from [`Controller::established`] to [`Controller::closed`].
pub trait Controller {
    /// T1, `established` (the paper's TCP_INIT): the handshake is complete. `rtt` is its round-trip
    /// time in nanoseconds, 0 if unknown; `again`: a SYN was lost (RFC 5681, 3.1).
    fn established(&mut self, rtt: u64, again: bool, mss: u64) -> Decision;

    /// T2, `sent` (SEG SEND): so many bytes of new text went out.
    fn sent(&mut self, now: Instant, bytes: u64);

    /// T3, `acked` (ACK).
    fn acked(&mut self, acked: Acked) -> Decision;

    /// T4, `timeout` (TIMEOUT): the retransmission timer fired; `again`: for a segment that had been
    /// sent again before.
    fn timeout(&mut self, flight: u64, again: bool, mss: u64) -> Decision;

    /// T5, `recovery_began` (DACK(3)): a segment is lost, with so much outstanding. Until
    /// [`Controller::recovery_ended`] acknowledgements do not move the window.
    fn recovery_began(&mut self, flight: u64, mss: u64) -> Decision;

    /// `recovery_ended`: everything that was outstanding when it began is acknowledged.
    fn recovery_ended(&mut self);

    /// T6, `closed` (TCP_FIN): forgets the connection.
    fn closed(&mut self);
}

/// RFC 6928, 2.
pub(crate) fn initial_window(mss: u64) -> u64 {
    (10 * mss).min((2 * mss).max(14_600))
}

/// Half of what was under way, two segments at least (RFC 5681, 3.1 (4)).
pub(crate) fn half(flight: u64, mss: u64) -> u64 {
    (flight / 2).max(2 * mss).min(MAX_WINDOW)
}

/// `window` in a round trip of `rtt`, sped up by a quarter, so that the window and not the pace
/// decides; 2: while the window doubles in a round trip.
pub(crate) fn pace(window: u64, rtt: u64, doubling: bool) -> Option<u64> {
    let billion = if doubling { 2_000_000_000 } else { 1_250_000_000 };
    (rtt > 0).then(|| mul_div(window, billion, rtt))
}

/// A segment has at least a byte, and windows of two fit.
pub(crate) fn segment(mss: u64) -> u64 {
    mss.clamp(1, 65_535)
}
