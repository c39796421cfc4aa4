//! The events of Linux's TCP: numbers, names, fields. The numbers are those of `enum event` in
//! `bpf/maps.bpf.h`. Names and fields are the same as those of our own TCP.

use crate::State;

/// An event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum Event {
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

impl Event {
    /// All events, in the order of their numbers.
    pub const ALL: [Event; 14] = [
        Event::Established,
        Event::Acked,
        Event::Sent,
        Event::Timeout,
        Event::DuplicateAck,
        Event::RecoveryBegan,
        Event::RecoveryEnded,
        Event::Retransmitted,
        Event::AvoidanceBegan,
        Event::Closed,
        Event::StateChanged,
        Event::RoundTrip,
        Event::SegmentLost,
        Event::PeerWindowClosed,
    ];

    /// Returns its name, without the provider's (`kernel.tcp`) before it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Event::Established => "established",
            Event::Acked => "acked",
            Event::Sent => "sent",
            Event::Timeout => "timeout",
            Event::DuplicateAck => "duplicate_ack",
            Event::RecoveryBegan => "recovery_began",
            Event::RecoveryEnded => "recovery_ended",
            Event::Retransmitted => "retransmitted",
            Event::AvoidanceBegan => "avoidance_began",
            Event::Closed => "closed",
            Event::StateChanged => "state_changed",
            Event::RoundTrip => "round_trip",
            Event::SegmentLost => "segment_lost",
            Event::PeerWindowClosed => "peer_window_closed",
        }
    }

    /// Returns the names of its fields, in the order of [`crate::Record::values`]. A reason is an `errno`, or
    /// 0 for none. Times are nanoseconds, amounts are bytes, and positions are sequence numbers. States are
    /// numbered as in `state_t` of `transports/tcp/state.mtp`; 0 is no connection.
    #[must_use]
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Event::Established => &["rtt"],
            Event::Acked => &["bytes", "rtt", "flight"],
            Event::Sent | Event::Retransmitted => &["at", "bytes"],
            Event::Timeout => &["again"],
            Event::DuplicateAck => &["count"],
            Event::RecoveryBegan => &["flight"],
            Event::RecoveryEnded | Event::AvoidanceBegan => &[],
            Event::Closed => &["reason", "duration", "established"],
            Event::StateChanged => &["from", "to"],
            Event::RoundTrip => &["sample"],
            Event::SegmentLost => &["at", "by_timeout"],
            Event::PeerWindowClosed => &["at"],
        }
    }

    /// Finds an event by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Event> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Finds an event by its number.
    #[must_use]
    pub(crate) fn numbered(number: u8) -> Option<Event> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// One event, as it was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The flow: its socket's cookie.
    pub flow: u64,
    /// The time of the event: CLOCK_MONOTONIC, in nanoseconds.
    pub time: u64,
    /// The kind of event.
    pub event: Event,
    /// The subscription for which it was delivered.
    pub subscription: crate::SubscriptionId,
    /// The number of records of this subscription that found the ring full so far, modulo 2^32.
    pub lost: u32,
    /// The event's fields, in the order of [`Event::fields`]; the rest is 0.
    pub values: [u64; FIELDS],
    /// The state of the flow at that time. Under our congestion control, the state of an ACK includes the
    /// decisions made on it. Under others, `acked`, `duplicate_ack` and `peer_window_closed` have the state
    /// before the segment. `None` if the state could not be read (`sent`, before Linux 6.2).
    pub state: Option<State>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_convert_in_both_directions() {
        for (number, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, number);
            assert_eq!(Event::numbered(number as u8), Some(event));
            assert_eq!(Event::named(event.name()), Some(event));
            assert!(event.fields().len() <= FIELDS);
        }
        assert_eq!(Event::numbered(14), None);
        assert_eq!(Event::named("kernel.tcp.acked"), None);
    }
}
