//! A session as a provider of the interactive layer. Its notices become events, and its reports become
//! variables. Its flows are the session itself, of the kind `total`, and its carriers, of the kind `path`.
//!
//! A client's change is handled like a request of the application or the peer. For example, a path that is
//! made a backup becomes one for the peer, too, and its data moves to other paths.

use hawser_bus::{
    Access, EventId, EventType, Field, FlowId, FlowInfo, ProviderState, Schema, Source, ValueKind, Variable,
    VariableId,
};
use hawser_time::Instant;

use crate::CarrierId;
use crate::segment::PathStatus;
use crate::session::{Loss, Notice, PathReport, PathState, Session};

/// The flow of the session itself.
const TOTAL: FlowId = FlowId(0);

/// A variable of a path: its name, its kind, and its reader.
type OfPath = (&'static str, ValueKind, fn(&PathReport) -> u64);
/// A variable of the session: its name and its reader.
type OfTotal = (&'static str, fn(&Session) -> u64);

const STATUS: &str = "session.path.status";

fn of_total() -> [OfTotal; 11] {
    [
        ("session.total.paths", |s| s.paths().count() as u64),
        ("session.total.streams", |s| s.held().streams as u64),
        ("session.total.delivered", |s| s.counters().delivered),
        ("session.total.duplicate", |s| s.counters().duplicate),
        ("session.total.acknowledged", |s| s.counters().acknowledged),
        ("session.total.unacknowledged", |s| s.held().unacknowledged),
        ("session.total.unread", |s| s.held().unread),
        ("session.total.reinjected", |s| s.counters().reinjected),
        ("session.total.acks", |s| s.counters().acks),
        ("session.total.lost", |s| s.counters().lost),
        ("session.total.violations", |s| s.counters().violations),
    ]
}

fn of_path() -> [OfPath; 15] {
    let named = |names: [&str; 4]| ValueKind::Enum((0..).zip(names.map(str::to_owned)).collect());
    [
        (STATUS, named(["active", "backup", "failing", "closing"]), |p| {
            p.status as u64
        }),
        (
            "session.path.state",
            named(["joining", "live", "suspect", "failing"]),
            |p| state(p.state),
        ),
        ("session.path.srtt", ValueKind::Duration, |p| {
            p.statistics.srtt.as_nanos() as u64
        }),
        ("session.path.rttvar", ValueKind::Duration, |p| {
            p.statistics.rttvar.as_nanos() as u64
        }),
        ("session.path.cwnd", ValueKind::Number, |p| p.statistics.window),
        ("session.path.flight", ValueKind::Number, |p| {
            p.statistics.in_flight
        }),
        ("session.path.queued", ValueKind::Number, |p| p.statistics.queued),
        ("session.path.rate", ValueKind::Number, |p| p.statistics.rate),
        ("session.path.retransmitted", ValueKind::Number, |p| {
            p.statistics.retransmitted
        }),
        ("session.path.sent", ValueKind::Number, |p| p.counts.sent),
        ("session.path.received", ValueKind::Number, |p| p.counts.received),
        ("session.path.delivered", ValueKind::Number, |p| {
            p.counts.delivered
        }),
        ("session.path.again", ValueKind::Number, |p| p.counts.again),
        ("session.path.suspected", ValueKind::Number, |p| {
            p.counts.suspected
        }),
        ("session.path.quota", ValueKind::Number, |p| {
            p.quota.unwrap_or(u64::MAX)
        }),
    ]
}

fn state(state: PathState) -> u64 {
    match state {
        PathState::Joining => 0,
        PathState::Live => 1,
        PathState::Suspect => 2,
        PathState::Failing => 3,
    }
}

/// The events, in the order of the numbers that [`event_of`] returns.
const EVENTS: [(&str, &[&str]); 11] = [
    ("session.opened", &[]),
    ("session.stream_opened", &["stream"]),
    ("session.stream_stopped", &["stream", "code"]),
    ("session.path.up", &[]),
    ("session.path.suspect", &[]),
    ("session.path.live", &[]),
    ("session.path.lost", &["reason", "sent", "received"]),
    ("session.quota_spent", &["path"]),
    ("session.stalled", &[]),
    ("session.resumed", &[]),
    ("session.closed", &["code", "by_peer"]),
];

/// Returns the schema that every session offers.
///
/// # Panics
/// Never: a test checks that the tables above are within a provider's bounds.
#[must_use]
pub fn schema() -> Schema {
    let field = |name: &&str| {
        let kind = match *name {
            "by_peer" => ValueKind::Bool,
            "reason" => ValueKind::Enum((0..).zip(REASONS.map(str::to_owned)).collect()),
            _ => ValueKind::Number,
        };
        Field { name: (*name).to_owned(), kind }
    };
    let event = |(name, fields): (&str, &[&str])| EventType {
        name: name.to_owned(),
        fields: fields.iter().map(field).collect(),
    };
    let total = of_total().map(|(name, _)| (name, ValueKind::Number));
    let paths = of_path().map(|(name, kind, _)| (name, kind));
    let variable = |(name, kind): (&str, ValueKind)| Variable {
        name: name.to_owned(),
        kind,
        access: match name {
            STATUS => Access::Modifiable { min: 0, max: PathStatus::Failing as u64 },
            _ => Access::Observable,
        },
    };
    let variables = total.into_iter().chain(paths).map(variable).collect();
    let about = ABOUT.map(|(name, text)| (format!("session.{name}"), text.to_owned()));
    Schema::new("session", EVENTS.map(event).into(), variables)
        .expect("the tables are within bounds")
        .described(about)
}

/// Descriptions of events, fields and variables for people.
const ABOUT: [(&str, &str); 46] = [
    ("opened", "the session is open"),
    ("stream_opened", "a stream was opened"),
    ("stream_opened.stream", "its number"),
    ("stream_stopped", "a stream was stopped"),
    ("stream_stopped.stream", "its number"),
    ("stream_stopped.code", "the application's code"),
    ("path.up", "a path carries data"),
    ("path.suspect", "no data was received on the path for too long"),
    ("path.live", "the path is live again"),
    ("path.lost", "the path was lost"),
    ("path.lost.reason", "why"),
    ("path.lost.sent", "bytes sent on it"),
    ("path.lost.received", "bytes received on it"),
    ("quota_spent", "a path's quota is used up"),
    ("quota_spent.path", "the path's number"),
    ("stalled", "the last path was lost"),
    ("resumed", "a path is available again"),
    ("closed", "the session is closed"),
    ("closed.code", "the application's code"),
    ("closed.by_peer", "whether the peer closed it"),
    ("total.paths", "number of paths"),
    ("total.streams", "number of streams"),
    ("total.delivered", "bytes delivered to the application"),
    ("total.duplicate", "bytes received more than once"),
    ("total.acknowledged", "bytes that the peer has acknowledged"),
    ("total.unacknowledged", "bytes kept until they are acknowledged"),
    ("total.unread", "bytes received and not read"),
    ("total.reinjected", "bytes sent again on another path"),
    ("total.acks", "acknowledgments sent"),
    ("total.lost", "paths lost"),
    ("total.violations", "segments that violated the protocol"),
    ("path.status", "state of the path: carries data, waits, or ends"),
    ("path.state", "what is known of it"),
    ("path.srtt", "smoothed round-trip time"),
    ("path.rttvar", "its mean deviation"),
    ("path.cwnd", "congestion window, bytes"),
    ("path.flight", "bytes sent and not acknowledged"),
    ("path.queued", "bytes that wait in the carrier"),
    ("path.rate", "recent bytes per second"),
    ("path.retransmitted", "bytes that the transport has retransmitted"),
    ("path.sent", "bytes sent"),
    ("path.received", "bytes received"),
    ("path.delivered", "bytes of it delivered to the application"),
    ("path.again", "bytes of other paths sent again here"),
    ("path.suspected", "number of times it was suspected"),
    ("path.quota", "bytes left of its quota; the largest number: none"),
];

const REASONS: [&str; 7] = [
    "transport",
    "silent",
    "refused",
    "malformed",
    "proof",
    "closed",
    "unanswered",
];

fn reason(loss: &Loss) -> u64 {
    match loss {
        Loss::Transport(_) => 0,
        Loss::TimedOut => 1,
        Loss::Refused(_) => 2,
        Loss::Malformed(_) => 3,
        Loss::Proof => 4,
        Loss::Closed => 5,
        Loss::Unanswered => 6,
    }
}

/// Returns the flow of a carrier.
fn path(carrier: CarrierId) -> FlowId {
    FlowId(1 + u64::from(carrier.0))
}

/// Converts a notice to an event: its number, its flow and its fields. Notices about readable and writable
/// streams are not events.
fn event_of(notice: &Notice) -> Option<(u16, FlowId, Vec<u64>)> {
    Some(match notice {
        Notice::Opened(_) => (0, TOTAL, vec![]),
        Notice::StreamOpened(stream) => (1, TOTAL, vec![u64::from(*stream)]),
        Notice::Stopped { stream, code } => (2, TOTAL, vec![u64::from(*stream), *code]),
        Notice::PathUp(carrier) => (3, path(*carrier), vec![]),
        Notice::PathSuspect(carrier) => (4, path(*carrier), vec![]),
        Notice::PathLive(carrier) => (5, path(*carrier), vec![]),
        Notice::PathLost { carrier, reason: why, counts } => {
            (6, path(*carrier), vec![reason(why), counts.sent, counts.received])
        }
        Notice::QuotaSpent(path) => (7, TOTAL, vec![u64::from(*path)]),
        Notice::Stalled => (8, TOTAL, vec![]),
        Notice::Resumed => (9, TOTAL, vec![]),
        Notice::Closed(end) => (10, TOTAL, vec![end.code(), u64::from(end.is_by_peer())]),
        Notice::Readable(_) | Notice::Writable(_) => return None,
    })
}

/// A session as a source sees it, together with the description of its carriers, which only the surroundings
/// know.
pub struct View<'a> {
    /// The session.
    pub session: &'a mut Session,
    /// The session's current time.
    pub now: Instant,
    /// Returns a carrier's addresses and its label for people.
    pub describe: &'a dyn Fn(CarrierId) -> Option<FlowInfo>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl View<'_> {
    fn report(&self, flow: FlowId) -> Option<PathReport> {
        let number = u32::try_from(flow.0.checked_sub(1)?).ok()?;
        self.session.paths().find(|report| report.carrier.0 == number)
    }
}

impl ProviderState for View<'_> {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        let (at, totals) = (usize::from(variable.0), of_total());
        match totals.get(at) {
            Some((_, read)) if flow == TOTAL => Some(read(self.session)),
            Some(_) => None,
            None => {
                let report = self.report(flow)?;
                of_path().get(at - totals.len()).map(|(_, _, read)| read(&report))
            }
        }
    }

    fn write(&mut self, flow: FlowId, variable: VariableId, value: u64) -> bool {
        let status = match value {
            0 => PathStatus::Active,
            1 => PathStatus::Backup,
            2 => PathStatus::Failing,
            _ => return false,
        };
        let is_status = usize::from(variable.0) == of_total().len();
        match self.report(flow).filter(|_| is_status) {
            Some(report) => {
                self.session.set_status(report.carrier, status, self.now);
                true
            }
            None => false,
        }
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        if flow == TOTAL {
            return Some(FlowInfo { kind: "total".to_owned(), ..FlowInfo::default() });
        }
        let report = self.report(flow)?;
        let known = (self.describe)(report.carrier).unwrap_or_default();
        Some(FlowInfo { kind: "path".to_owned(), ..known })
    }

    fn flows(&self) -> Vec<FlowId> {
        std::iter::once(TOTAL)
            .chain(self.session.paths().map(|report| path(report.carrier)))
            .collect()
    }
}

/// Publishes a notice of the session as a signal.
pub fn publish(source: &mut Source, notice: &Notice, view: &mut View<'_>) {
    let Some((number, flow, fields)) = event_of(notice) else {
        return;
    };
    let now = view.now;
    if source.wants(EventId(number)) {
        source.publish(now, flow, EventId(number), &fields, view);
    }
    if let Notice::PathLost { carrier, .. } = notice {
        source.ended(now, path(*carrier), view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionEnd;

    #[test]
    fn event_and_variable_tables_form_a_schema() {
        let schema = schema();
        assert_eq!(schema.undescribed(), [""; 0]);
        assert_eq!(schema.events().len(), EVENTS.len());
        assert_eq!(schema.variables().len(), of_total().len() + of_path().len());
        let status = schema.variable(STATUS).expect("it is there");
        assert_eq!(usize::from(status.0), of_total().len(), "write relies on it");
    }

    #[test]
    fn every_notice_is_an_event() {
        let carrier = CarrierId(4);
        let lost = Notice::PathLost { carrier, reason: Loss::TimedOut, counts: Default::default() };
        let (number, flow, fields) = event_of(&lost).expect("an event");
        assert_eq!(
            (EVENTS[usize::from(number)].0, flow, fields),
            ("session.path.lost", FlowId(5), vec![1, 0, 0])
        );
        let closed = event_of(&Notice::Closed(SessionEnd::ByPeer(3))).expect("an event");
        assert_eq!(
            (EVENTS[usize::from(closed.0)].0, closed.2),
            ("session.closed", vec![3, 1])
        );
        assert!(event_of(&Notice::Readable(1)).is_none());
    }
}
