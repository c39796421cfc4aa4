//! The events of Linux's TCP: numbers, names, fields. The numbers are those of `enum event` in
//! `bpf/maps.bpf.h`. Names and fields are the same as those of our own TCP.

use crate::FlowState;

/// An event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum FlowEvent {
    /// The handshake is complete.
    Established,
    /// Data was acknowledged for the first time.
    Acked,
    /// Data was sent for the first time.
    Sent,
    /// The retransmission timer expired.
    Timeout,
    /// A duplicate acknowledgment, as RFC 5681, section 2, defines it.
    DuplicateAck,
    /// Fast recovery began.
    RecoveryBegan,
    /// Fast recovery ended, other than by a timeout.
    RecoveryEnded,
    /// Data was sent again.
    Retransmitted,
    /// The window reached the slow start threshold.
    AvoidanceBegan,
    /// The connection is gone, or was never established.
    Closed,
    /// The connection changed from one state of RFC 9293 to another.
    StateChanged,
    /// A round-trip time was measured.
    RoundTrip,
    /// Segments were considered lost.
    SegmentLost,
    /// The peer's window closed.
    PeerWindowClosed,
}

/// The maximum number of fields of an event.
pub const FIELDS: usize = 3;

impl FlowEvent {
    /// All events, in the order of their numbers.
    pub const ALL: [FlowEvent; 14] = [
        FlowEvent::Established,
        FlowEvent::Acked,
        FlowEvent::Sent,
        FlowEvent::Timeout,
        FlowEvent::DuplicateAck,
        FlowEvent::RecoveryBegan,
        FlowEvent::RecoveryEnded,
        FlowEvent::Retransmitted,
        FlowEvent::AvoidanceBegan,
        FlowEvent::Closed,
        FlowEvent::StateChanged,
        FlowEvent::RoundTrip,
        FlowEvent::SegmentLost,
        FlowEvent::PeerWindowClosed,
    ];

    /// Returns its name, without the provider's (`kernel.tcp`) before it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FlowEvent::Established => "established",
            FlowEvent::Acked => "acked",
            FlowEvent::Sent => "sent",
            FlowEvent::Timeout => "timeout",
            FlowEvent::DuplicateAck => "duplicate_ack",
            FlowEvent::RecoveryBegan => "recovery_began",
            FlowEvent::RecoveryEnded => "recovery_ended",
            FlowEvent::Retransmitted => "retransmitted",
            FlowEvent::AvoidanceBegan => "avoidance_began",
            FlowEvent::Closed => "closed",
            FlowEvent::StateChanged => "state_changed",
            FlowEvent::RoundTrip => "round_trip",
            FlowEvent::SegmentLost => "segment_lost",
            FlowEvent::PeerWindowClosed => "peer_window_closed",
        }
    }

    /// Returns the names of its fields, in the order of [`crate::EventRecord::values`]. A reason is an
    /// `errno`, or 0 for none. Times are nanoseconds, amounts are bytes, and positions are sequence numbers.
    /// States are numbered as in `state_t` of `transports/tcp/state.mtp`; 0 is no connection.
    #[must_use]
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            FlowEvent::Established => &["rtt"],
            FlowEvent::Acked => &["bytes", "rtt", "flight"],
            FlowEvent::Sent | FlowEvent::Retransmitted => &["at", "bytes"],
            FlowEvent::Timeout => &["again"],
            FlowEvent::DuplicateAck => &["count"],
            FlowEvent::RecoveryBegan => &["flight"],
            FlowEvent::RecoveryEnded | FlowEvent::AvoidanceBegan => &[],
            FlowEvent::Closed => &["reason", "duration", "established"],
            FlowEvent::StateChanged => &["from", "to"],
            FlowEvent::RoundTrip => &["sample"],
            FlowEvent::SegmentLost => &["at", "by_timeout"],
            FlowEvent::PeerWindowClosed => &["at"],
        }
    }

    /// Finds an event by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<FlowEvent> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Finds an event by its number.
    #[must_use]
    pub(crate) fn numbered(number: u8) -> Option<FlowEvent> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// One event, as it was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// The flow: its socket's cookie.
    pub flow: u64,
    /// The time of the event: CLOCK_MONOTONIC, in nanoseconds.
    pub time: u64,
    /// The kind of event.
    pub event: FlowEvent,
    /// The subscription for which it was delivered.
    pub subscription: crate::SubscriptionId,
    /// The number of records of this subscription that found the ring full so far, modulo 2^32.
    pub lost: u32,
    /// The event's fields, in the order of [`FlowEvent::fields`]; the rest is 0.
    pub values: [u64; FIELDS],
    /// The state of the flow at that time. Under our congestion control, the state of an ACK includes the
    /// decisions made on it. Under others, `acked`, `duplicate_ack` and `peer_window_closed` have the state
    /// before the segment. `None` if the state could not be read (`sent`, before Linux 6.2).
    pub state: Option<FlowState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_convert_in_both_directions() {
        for (number, event) in FlowEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, number);
            assert_eq!(FlowEvent::numbered(number as u8), Some(event));
            assert_eq!(FlowEvent::named(event.name()), Some(event));
            assert!(event.fields().len() <= FIELDS);
        }
        assert_eq!(FlowEvent::numbered(14), None);
        assert_eq!(FlowEvent::named("kernel.tcp.acked"), None);
    }
}
