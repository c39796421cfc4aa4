//! The schema of Linux's TCP, with the names of our own.

use crate::{Capability, CapabilitySubject, FlowEvent};
use hawser_bus::{Access, EventType, Field, Schema, ValueKind, Variable};
use rustix::io::Errno;

/// The states of a connection, numbered as in our own TCP.
const STATES: [&str; 10] = [
    "CLOSED",
    "SYN_SENT",
    "SYN_RECEIVED",
    "ESTABLISHED",
    "FIN_WAIT_1",
    "FIN_WAIT_2",
    "CLOSE_WAIT",
    "CLOSING",
    "LAST_ACK",
    "TIME_WAIT",
];

/// The errors that end a connection, by their numbers (errno(3)).
const REASONS: [(u64, &str); 10] = [
    (0, "none"),
    (Errno::PIPE.raw_os_error() as u64, "EPIPE"),
    (Errno::NETUNREACH.raw_os_error() as u64, "ENETUNREACH"),
    (Errno::CONNABORTED.raw_os_error() as u64, "ECONNABORTED"),
    (Errno::CONNRESET.raw_os_error() as u64, "ECONNRESET"),
    (Errno::TIMEDOUT.raw_os_error() as u64, "ETIMEDOUT"),
    (Errno::CONNREFUSED.raw_os_error() as u64, "ECONNREFUSED"),
    (Errno::HOSTDOWN.raw_os_error() as u64, "EHOSTDOWN"),
    (Errno::HOSTUNREACH.raw_os_error() as u64, "EHOSTUNREACH"),
    (Errno::PROTO.raw_os_error() as u64, "EPROTO"),
];

/// Descriptions of events, fields and variables, for people.
const ABOUT: [(&str, &str); 52] = [
    ("established", "the handshake is complete"),
    (
        "established.rtt",
        "the handshake's round trip, whole microseconds",
    ),
    ("acked", "data was acknowledged for the first time"),
    ("acked.bytes", "bytes acknowledged"),
    ("acked.rtt", "the round trip that was measured, 0: none"),
    ("acked.flight", "bytes outstanding before"),
    ("sent", "data left for the first time"),
    ("sent.at", "sequence number of the first byte"),
    ("sent.bytes", "bytes of payload"),
    ("timeout", "the retransmission timer expired"),
    (
        "timeout.again",
        "it has expired since the last acknowledgment already",
    ),
    ("duplicate_ack", "a duplicate ACK (RFC 5681, 2)"),
    ("duplicate_ack.count", "number of consecutive ones"),
    ("recovery_began", "fast recovery began"),
    ("recovery_began.flight", "bytes outstanding"),
    ("recovery_ended", "fast recovery ended, not by a timeout"),
    ("retransmitted", "data left again"),
    ("retransmitted.at", "sequence number of the first byte"),
    ("retransmitted.bytes", "bytes of payload"),
    ("avoidance_began", "the window reached the slow start threshold"),
    ("closed", "the connection is gone, or was never established"),
    ("closed.reason", "the error that ended it"),
    ("closed.duration", "how long it lasted, 0: unknown"),
    ("closed.established", "whether the handshake was ever complete"),
    (
        "state_changed",
        "the connection went from one state of RFC 9293 to another",
    ),
    ("state_changed.from", "the state before"),
    ("state_changed.to", "the state from now on"),
    ("round_trip", "a round trip was measured"),
    ("round_trip.sample", "how long it took"),
    ("segment_lost", "segments were marked as lost"),
    (
        "segment_lost.at",
        "sequence number of the oldest byte not acknowledged",
    ),
    (
        "segment_lost.by_timeout",
        "by the retransmission timer, not by acknowledgments",
    ),
    ("peer_window_closed", "the peer announced a window of 0"),
    (
        "peer_window_closed.at",
        "sequence number that it acknowledged with it",
    ),
    ("conn.state", "state of RFC 9293"),
    ("conn.cc.cwnd", "congestion window, bytes"),
    (
        "conn.cc.ssthresh",
        "slow start threshold, bytes; the largest number: none",
    ),
    ("conn.srtt", "smoothed round-trip time"),
    ("conn.rttvar", "its mean deviation"),
    ("conn.rto", "retransmission timeout"),
    ("conn.rack.min_rtt", "least round-trip time of late"),
    ("conn.smss", "payload bytes of a full segment"),
    ("conn.flight", "bytes sent and not acknowledged"),
    (
        "conn.snd_una",
        "oldest byte not acknowledged, counted from the first one",
    ),
    ("conn.snd_nxt", "next byte to be sent, counted from the first one"),
    ("conn.snd_wnd", "the peer's window, bytes"),
    ("conn.delivered", "bytes delivered, retransmissions included"),
    ("conn.retransmissions", "segments sent again"),
    ("conn.lost_bytes", "bytes marked as lost and not sent again"),
    ("conn.cc.pacing_rate", "bytes per second at which it is paced"),
    ("conn.delivery_rate", "bytes per second of late"),
    ("conn.received", "bytes received"),
];

/// Makes the schema of Linux's TCP. It has only the events that this machine's kernel provides, so that a
/// subscription to another is refused. Variables that cannot be modified here are observable.
///
/// # Panics
/// Never: the events and variables of this crate are within a provider's bounds, as a test checks.
#[must_use]
pub fn schema(capabilities: &[Capability]) -> Schema {
    let is_missing = |subject: CapabilitySubject| {
        let mut of_it = capabilities.iter().filter(|it| it.subject == subject);
        of_it.any(|capability| capability.missing.is_some())
    };
    let events = FlowEvent::ALL
        .into_iter()
        .filter(|event| !is_missing(CapabilitySubject::Event(*event)));
    let states = || ValueKind::Enum((0..).zip(STATES.map(str::to_owned)).collect());
    let field = |name: &&str| Field {
        name: (*name).to_owned(),
        kind: match *name {
            "rtt" | "sample" | "duration" => ValueKind::Duration,
            "again" | "by_timeout" | "established" => ValueKind::Bool,
            "reason" => ValueKind::Enum(REASONS.map(|(number, name)| (number, name.to_owned())).into()),
            "from" | "to" => states(),
            _ => ValueKind::Number,
        },
    };
    let event = |event: FlowEvent| EventType {
        name: format!("kernel.tcp.{}", event.name()),
        fields: event.fields().iter().map(field).collect(),
    };
    let access = |name: &str| {
        let mut all = crate::Variable::ALL.into_iter();
        let modifiable = all.find(|v| v.name() == name && !is_missing(CapabilitySubject::Variable(*v)));
        modifiable.map_or(Access::Observable, |variable| {
            let (min, max) = variable.bounds().into_inner();
            Access::Modifiable { min, max }
        })
    };
    let variable = |name: &str| Variable {
        name: format!("kernel.tcp.{name}"),
        kind: match name {
            "conn.srtt" | "conn.rttvar" | "conn.rto" | "conn.rack.min_rtt" => ValueKind::Duration,
            "conn.state" => states(),
            _ => ValueKind::Number,
        },
        access: access(name),
    };
    let variables = crate::FlowState::NAMES.map(variable).into();
    let about = ABOUT.map(|(name, text)| (format!("kernel.tcp.{name}"), text.to_owned()));
    Schema::new("kernel.tcp", events.map(event).collect(), variables)
        .expect("the lists are within bounds")
        .described(about)
}

#[cfg(test)]
mod tests {
    use crate::Missing;

    use super::*;

    #[test]
    fn kernel_and_program_use_the_same_names() {
        let (theirs, program) = (
            schema(&[]),
            hawser_load::programs::resolve_with("tcp", &[]).expect("it is built in"),
        );
        let ours = hawser_engine::schema(program.module()).expect("a schema");
        assert_eq!(theirs.undescribed(), [""; 0]);
        for event in theirs.events() {
            let name = event.name.strip_prefix("kernel.").expect("the provider's name");
            let same = ours.event(name).and_then(|id| ours.event_type(id)).expect(name);
            let fields = |e: &EventType| e.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
            // Acts of a peer or a network have further names in our own program's notice to its application.
            let more: &[&str] = match name {
                "tcp.closed" => &["reason", "duration", "established"],
                _ => &[],
            };
            let want: Vec<_> = fields(same)
                .into_iter()
                .chain(more.iter().map(ToString::to_string))
                .collect();
            assert_eq!(fields(event), want, "{name}");
        }
        let alike = theirs.variables().iter().filter(|variable| {
            ours.variable(
                variable
                    .name
                    .strip_prefix("kernel.")
                    .expect("the provider's name"),
            )
            .is_some()
        });
        assert!(alike.count() >= 15);
    }

    #[test]
    fn events_the_kernel_lacks_are_not_offered() {
        let missing = Some(Missing::Hook("tp_btf/net_dev_queue"));
        let gone = Capability { subject: CapabilitySubject::Event(FlowEvent::Sent), missing, note: "" };
        let given = Capability {
            subject: CapabilitySubject::Event(FlowEvent::Acked),
            missing: None,
            note: "",
        };
        let variable = CapabilitySubject::Variable(crate::Variable::Cwnd);
        let held = Capability { subject: variable, missing: Some(Missing::CongestionControl), note: "" };
        let schema = schema(&[gone, given, held]);
        let access = |name| {
            schema
                .variable(name)
                .map(|id| &schema.variables()[usize::from(id.0)].access)
        };
        assert_eq!(access("kernel.tcp.conn.cc.cwnd"), Some(&Access::Observable));
        assert!(matches!(
            access("kernel.tcp.conn.cc.ssthresh"),
            Some(Access::Modifiable { .. })
        ));
        assert_eq!(schema.event("kernel.tcp.sent"), None);
        assert!(schema.event("kernel.tcp.acked").is_some());
        assert_eq!(schema.events().len(), FlowEvent::ALL.len() - 1);
    }
}
