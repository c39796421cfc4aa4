//! The inputs of a congestion controller about a connection, and its decisions.

use hawser_time::Instant;

use crate::twares::arithmetic::mul_div;

/// The largest window that a controller decides, in bytes: the maximum that a window field with the largest
/// scale can express (RFC 7323, 2.3).
pub const MAX_WINDOW: u64 = 1 << 30;

/// New data was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// The time, by any clock that does not go backwards.
    pub now: Instant,
    /// The round-trip time measured by this acknowledgement, in nanoseconds; 0 if there is none.
    pub rtt: u64,
    /// Bytes newly acknowledged. A subscriber that does not receive each acknowledgement counts the bytes
    /// since the last that it received.
    pub bytes: u64,
    /// Bytes outstanding before the acknowledgement.
    pub flight: u64,
    /// The connection's window, in bytes. If it differs from the controller's last decision, another program
    /// has set it, and the controller continues from there.
    pub window: u64,
    /// The size of a full segment, in bytes.
    pub mss: u64,
}

/// The decision of a controller for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The number of bytes that may be in flight.
    pub window: u64,
    /// The pacing rate in bytes per second, for a transport that can pace; `None` while no round-trip time is
    /// known.
    pub pacing: Option<u64>,
}

/// A congestion controller: the T-wares of the paper's Table 2, with a method for each event. One value
/// serves one connection, from [`Controller::established`] to [`Controller::closed`].
pub trait Controller {
    /// T1, `established` (the paper's TCP_INIT): the handshake is complete. `rtt` is its round-trip time in
    /// nanoseconds, 0 if unknown. `again`: a SYN was lost (RFC 5681, 3.1).
    fn established(&mut self, rtt: u64, again: bool, mss: u64) -> Decision;

    /// T2, `sent` (SEG SEND): this many bytes of new data were sent.
    fn sent(&mut self, now: Instant, bytes: u64);

    /// T3, `acked` (ACK).
    fn acked(&mut self, acked: Acked) -> Decision;

    /// T4, `timeout` (TIMEOUT): the retransmission timer fired. `again`: the segment had been retransmitted
    /// before.
    fn timeout(&mut self, flight: u64, again: bool, mss: u64) -> Decision;

    /// T5, `recovery_began` (DACK(3)): a segment is lost, with `flight` bytes outstanding. Until
    /// [`Controller::recovery_ended`] acknowledgements do not move the window.
    fn recovery_began(&mut self, flight: u64, mss: u64) -> Decision;

    /// `recovery_ended`: all data that was outstanding when the recovery began is acknowledged.
    fn recovery_ended(&mut self);

    /// T6, `closed` (TCP_FIN): forgets the connection.
    fn closed(&mut self);
}

/// Returns the initial window (RFC 6928, 2).
pub(crate) fn initial_window(mss: u64) -> u64 {
    (10 * mss).min((2 * mss).max(14_600))
}

/// Returns half of the bytes in flight, two segments at least (RFC 5681, 3.1 (4)).
pub(crate) fn half(flight: u64, mss: u64) -> u64 {
    (flight / 2).max(2 * mss).min(MAX_WINDOW)
}

/// Returns the rate of `window` in a round trip of `rtt`, increased by a quarter. The window, and not the
/// pacing rate, is then the limit. The factor is 2 while the window doubles in a round trip.
pub(crate) fn pace(window: u64, rtt: u64, doubling: bool) -> Option<u64> {
    let billion = if doubling { 2_000_000_000 } else { 1_250_000_000 };
    (rtt > 0).then(|| mul_div(window, billion, rtt))
}

/// Limits a segment size: at least one byte, and small enough for a window of two segments.
pub(crate) fn segment(mss: u64) -> u64 {
    mss.clamp(1, 65_535)
}
