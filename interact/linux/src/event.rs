//! The events of Linux's TCP: numbers, names, fields. The numbers are those of `enum event` in
//! `bpf/maps.bpf.h`; names and fields are the ones that our own TCP publishes.

use crate::State;

/// What happens to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum Event {
    /// The handshake is complete.
    Established,
    /// Text was acknowledged for the first time.
    Acked,
    /// Text left for the first time.
    Sent,
    /// The retransmission timer expired.
    Timeout,
    /// A duplicate acknowledgment, as RFC 5681, section 2, defines it.
    DuplicateAck,
    /// Fast recovery began.
    RecoveryBegan,
    /// Fast recovery ended, not by a timeout.
    RecoveryEnded,
    /// Text left again.
    Retransmitted,
    /// The window reached the slow start threshold.
    AvoidanceBegan,
    /// The connection is gone, or was never established.
    Closed,
    /// The connection went from one state of RFC 9293 to another.
    StateChanged,
    /// A round trip was measured.
    RoundTrip,
    /// Segments were taken for lost.
    SegmentLost,
    /// The peer's window closed.
    PeerWindowClosed,
}

/// The maximum number of fields that an event has.
pub const FIELDS: usize = 3;

impl Event {
    /// All, in the order of their numbers.
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

    /// Its name, without the provider's (`kernel.tcp`) before it.
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

    /// The names of its fields, in the order of [`crate::Record::values`]. A reason is an `errno`, 0: none. Spans are nanoseconds, amounts
    /// bytes, places sequence numbers; states are numbered as in `state_t` of `transports/tcp/state.mtp`,
    /// 0 is no connection.
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

    /// The event of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Event> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// The event of a number.
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
    /// When it happened: CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// What happened.
    pub event: Event,
    /// For which subscription.
    pub subscription: crate::SubscriptionId,
    /// How many records of this subscription have found no room so far, modulo 2^32.
    pub lost: u32,
    /// The event's fields, in the order of [`Event::fields`]; the rest is 0.
    pub values: [u64; FIELDS],
    /// How the flow stood then. Under our congestion control an ACK's has what was decided on it; under
    /// others `acked`, `duplicate_ack` and `peer_window_closed` have what was before the segment. `None`: no
    /// reading was possible (`sent`, before Linux 6.2).
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
