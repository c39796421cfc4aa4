//! Races as a provider of the interactive layer: a race's reports are events, and each running race is a
//! flow.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hawser_bus::ring::Waker;
use hawser_bus::{
    Access, Bus, EventId, EventType, Field, FlowId, FlowInfo, ProviderState, Schema, Source, ValueKind,
    Variable, VariableId,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::candidate::Description;
use super::report::RaceEvent;
use hawser_race::Failure;

/// The events, in the order of [`event_of`]'s numbers.
const EVENTS: [(&str, &[&str]); 9] = [
    ("race.began", &[]),
    ("race.answered", &["addresses"]),
    ("race.unanswered", &["failure"]),
    ("race.started", &["transport"]),
    ("race.probed", &["transport"]),
    ("race.failed", &["transport", "failure"]),
    ("race.cancelled", &["transport"]),
    ("race.won", &["transport", "took"]),
    ("race.all_failed", &["failure"]),
];

/// The names of the transports; the first stands for any other name.
const TRANSPORTS: [&str; 8] = [
    "other",
    "tcp",
    "mptcp",
    "sctp",
    "quic",
    "session",
    "tls/tcp",
    "tls/mptcp",
];

const VARIABLES: [&str; 5] = [
    "race.race.age",
    "race.race.started",
    "race.race.failed",
    "race.race.cancelled",
    "race.race.won",
];

/// The descriptions of events, fields and variables.
const ABOUT: [(&str, &str); 24] = [
    ("began", "a connection is requested, and its name is resolved"),
    ("answered", "addresses of the name arrived"),
    ("answered.addresses", "number of addresses"),
    ("unanswered", "a query for the name failed"),
    ("unanswered.failure", "why"),
    ("started", "a candidate was started"),
    ("started.transport", "transport of the candidate"),
    ("probed", "a candidate answered, and others may still win"),
    ("probed.transport", "transport of the candidate"),
    ("failed", "a candidate failed"),
    ("failed.transport", "transport of the candidate"),
    ("failed.failure", "why"),
    ("cancelled", "a candidate was cancelled because another one won"),
    ("cancelled.transport", "transport of the candidate"),
    ("won", "a candidate won"),
    ("won.transport", "transport of the candidate"),
    ("won.took", "since its start"),
    ("all_failed", "all candidates have failed"),
    ("all_failed.failure", "reason of the last failure"),
    ("race.age", "since the race began"),
    ("race.started", "candidates started"),
    ("race.failed", "candidates that failed"),
    ("race.cancelled", "candidates cancelled"),
    ("race.won", "1 once one has won"),
];

/// Makes the schema of races.
fn schema() -> Schema {
    let field = |name: &&str| Field {
        name: (*name).to_owned(),
        kind: match *name {
            "took" => ValueKind::Duration,
            "transport" => ValueKind::Enum((0..).zip(TRANSPORTS.map(str::to_owned)).collect()),
            "failure" => ValueKind::Enum((0..).zip(Failure::ALL.map(word)).collect()),
            _ => ValueKind::Number,
        },
    };
    let event = |(name, fields): (&str, &[&str])| EventType {
        name: name.to_owned(),
        fields: fields.iter().map(field).collect(),
    };
    let variable = |name: &str| Variable {
        name: name.to_owned(),
        kind: if name.ends_with("age") {
            ValueKind::Duration
        } else {
            ValueKind::Number
        },
        access: Access::Observable,
    };
    let about = ABOUT.map(|(name, text)| (format!("race.{name}"), text.to_owned()));
    Schema::new("race", EVENTS.map(event).into(), VARIABLES.map(variable).into())
        .expect("the tables are within a provider's bounds")
        .described(about)
}

/// Returns the name of a failure in documents: `no-such-name`.
fn word(failure: Failure) -> String {
    serde_json::to_value(failure)
        .ok()
        .and_then(|word| Some(word.as_str()?.to_owned()))
        .unwrap_or_default()
}

/// Converts a report to an event: its number and its fields.
fn event_of(what: &RaceEvent) -> (u16, Vec<u64>) {
    let failure = |f: &Failure| vec![*f as u64];
    match what {
        RaceEvent::Answered { addresses, .. } => (1, vec![addresses.len() as u64]),
        RaceEvent::Unanswered { failure: f, .. } => (2, failure(f)),
        RaceEvent::Started { candidate, .. } => (3, vec![transport(candidate)]),
        RaceEvent::Probed { candidate } => (4, vec![transport(candidate)]),
        RaceEvent::Failed { candidate, failure, .. } => (5, vec![transport(candidate), *failure as u64]),
        RaceEvent::Cancelled { candidate } => (6, vec![transport(candidate)]),
        RaceEvent::Won { candidate, took } => (7, vec![transport(candidate), took.as_nanos() as u64]),
        RaceEvent::AllFailed { failure: f, .. } => (8, failure(f)),
    }
}

/// Returns the index of a candidate's transport in [`TRANSPORTS`].
fn transport(candidate: &Description) -> u64 {
    TRANSPORTS
        .iter()
        .position(|name| *name == &*candidate.transport)
        .unwrap_or(0) as u64
}

/// The counts of a running race.
#[derive(Debug)]
struct RunningRace {
    began: Instant,
    to: String,
    /// The numbers of candidates that started, failed, were cancelled, and won.
    counts: [u64; 4],
}

#[derive(Debug, Default)]
struct Races(BTreeMap<u64, RunningRace>);

impl ProviderState for Races {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        let race = self.0.get(&flow.0)?;
        match variable.0 {
            0 => Some(race.began.elapsed().as_nanos() as u64),
            n => race.counts.get(usize::from(n) - 1).copied(),
        }
    }

    fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
        false
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        let race = self.0.get(&flow.0)?;
        Some(FlowInfo { kind: "race".to_owned(), label: race.to.clone(), ..FlowInfo::default() })
    }

    fn flows(&self) -> Vec<FlowId> {
        self.0.keys().map(|number| FlowId(*number)).collect()
    }
}

#[derive(Debug)]
struct Inner {
    source: Source,
    races: Races,
    next: u64,
}

/// A racer's end of the bus.
#[derive(Debug)]
pub(super) struct RaceProvider {
    inner: Mutex<Inner>,
    began: Instant,
    notify: Arc<Notify>,
}

impl RaceProvider {
    /// Puts a racer's races on a bus. A task serves the bus's orders for as long as the racer lives.
    pub(super) fn new(bus: &Bus) -> Arc<RaceProvider> {
        let notify = Arc::new(Notify::new());
        let ring = notify.clone();
        let waker: Waker = Arc::new(move || ring.notify_one());
        let source = bus.source(Arc::new(schema()), Some(waker));
        let inner = Mutex::new(Inner { source, races: Races::default(), next: 0 });
        let provider = Arc::new(RaceProvider { inner, began: Instant::now(), notify: notify.clone() });
        tokio::spawn(serve(Arc::downgrade(&provider), notify));
        provider
    }

    /// Registers a race that begins.
    pub(super) fn begin(self: &Arc<RaceProvider>, to: String) -> RaceFlow {
        let number = {
            let mut inner = self.lock();
            inner.next += 1;
            let number = inner.next;
            inner
                .races
                .0
                .insert(number, RunningRace { began: Instant::now(), to, counts: [0; 4] });
            number
        };
        let flow = RaceFlow { provider: self.clone(), number };
        flow.publish(0, &[]);
        flow
    }

    fn now(&self) -> hawser_time::Instant {
        hawser_time::Instant::after(self.began.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Takes orders; returns the time until there is work again.
    fn poll(&self) -> Option<Duration> {
        let now = self.now();
        let Inner { source, races, .. } = &mut *self.lock();
        source.poll(now, races);
        source.next_deadline().map(|at| at - now)
    }
}

async fn serve(provider: Weak<RaceProvider>, notify: Arc<Notify>) {
    while let Some(next) = provider.upgrade().map(|provider| provider.poll()) {
        let sleep = async {
            match next {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = notify.notified() => {}
            () = sleep => {}
        }
    }
}

impl Drop for RaceProvider {
    fn drop(&mut self) {
        self.notify.notify_one();
    }
}

/// A race on the bus. Dropping it ends the flow.
#[derive(Debug)]
pub(super) struct RaceFlow {
    provider: Arc<RaceProvider>,
    number: u64,
}

impl RaceFlow {
    /// Publishes a report as an event.
    pub(super) fn report(&self, what: &RaceEvent) {
        let (event, fields) = event_of(what);
        if let Some(race) = self.provider.lock().races.0.get_mut(&self.number) {
            let count = match what {
                RaceEvent::Started { .. } | RaceEvent::Probed { .. } => Some(0),
                RaceEvent::Failed { .. } => Some(1),
                RaceEvent::Cancelled { .. } => Some(2),
                RaceEvent::Won { .. } => Some(3),
                _ => None,
            };
            if let Some(count) = count {
                race.counts[count] += 1;
            }
        }
        self.publish(event, &fields);
    }

    fn publish(&self, event: u16, fields: &[u64]) {
        let now = self.provider.now();
        let Inner { source, races, .. } = &mut *self.provider.lock();
        source.poll(now, races);
        if source.wants(EventId(event)) {
            source.publish(now, FlowId(self.number), EventId(event), fields, races);
        }
    }
}

impl Drop for RaceFlow {
    fn drop(&mut self) {
        let now = self.provider.now();
        let Inner { source, races, .. } = &mut *self.provider.lock();
        source.ended(now, FlowId(self.number), races);
        races.0.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_and_variable_tables_form_a_schema() {
        let schema = schema();
        assert_eq!(schema.undescribed(), [""; 0]);
        assert!(
            Failure::ALL
                .iter()
                .enumerate()
                .all(|(at, failure)| *failure as usize == at)
        );
        assert_eq!(word(Failure::NoSuchName), "no-such-name");
        let numbers = ["sctp", "tls/tcp", "pigeon"].map(|name| {
            transport(&Description { transport: name.into(), remote: "r".into(), interface: "".into() })
        });
        assert_eq!(numbers, [3, 6, 0]);
        assert_eq!(
            (schema.events().len(), schema.variables().len()),
            (EVENTS.len(), VARIABLES.len())
        );
    }
}
