//! A recording as qlog: the log format of the IETF's QUIC working group, which qvis draws.
//!
//! Version 0.3 (draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events of 2022 and 2023),
//! because that is the last one that qvis loads. What those drafts have an event for goes by that name;
//! all else is in the namespace `hawser:`, with its fields as they are. One trace for each flow, times in
//! milliseconds of the wall clock: of the drafts' `reference_time` and `protocol_type` qvis's types have
//! others, so both are left out. `docs/schemas/qlog.json` has the format, and tests hold what is written to it.
//!
//! Two forms: JSON, complete at the end ([`Document`]), and JSON text sequences (RFC 7464), written as
//! events come ([`Sequence`]).

mod events;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::record::{Flow, Header, Line, Modification, Named, Sample, Signal, What};
use events::Mapped;
use metrics::Metrics;

/// Flows that are kept apart; events of more are counted, not kept.
const MAX_FLOWS: usize = 4096;
/// Events of a [`Document`]; more are counted.
const MAX_EVENTS: usize = 1 << 20;
/// The version that is written.
const VERSION: &str = "0.3";

/// An event, before it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Of which flow.
    pub flow: String,
    /// Nanoseconds since listening began.
    pub time: u64,
    /// Category and type: `recovery:metrics_updated`.
    pub name: String,
    /// Its particulars.
    pub data: Value,
}

/// A flow, as far as it is known.
#[derive(Debug, Default)]
struct Known {
    metrics: Metrics,
    /// The congestion controller's state that was written last.
    congestion: Option<&'static str>,
    /// That it is there was written: as soon as its addresses are known.
    is_started: bool,
}

/// Makes events of lines.
#[derive(Debug, Default)]
pub struct Exporter {
    flows: BTreeMap<String, Known>,
    addresses: BTreeMap<String, Flow>,
    /// By name of event: its fields.
    fields: BTreeMap<String, Vec<Named>>,
    /// By source: its clock when listening began.
    clocks: BTreeMap<String, u64>,
    /// By flow, variable and writer: when a modification was written last.
    modified: BTreeMap<(String, String, String), u64>,
    dropped: u64,
}

impl Exporter {
    /// Events of flows beyond those that are kept apart.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The events that a line stands for.
    pub fn line(&mut self, line: &Line) -> Vec<Event> {
        match &line.what {
            What::Offers(offers) => {
                for event in offers.iter().flat_map(|offer| &offer.events).take(MAX_FLOWS) {
                    self.fields.insert(event.name.clone(), event.fields.clone());
                }
                Vec::new()
            }
            What::Flows(flows) => {
                let known = flows
                    .iter()
                    .take(MAX_FLOWS)
                    .map(|flow| (flow.flow.clone(), flow.clone()));
                self.addresses = known.collect();
                Vec::new()
            }
            What::Sample(sample) => self.sample(line.at, sample),
            What::Signal(signal) => self.signal(line.at, signal),
            What::Audit(entries) => entries
                .iter()
                .flat_map(|entry| self.modification(line.at, entry))
                .collect(),
            What::Header(_) | What::Statistics(_) => Vec::new(),
        }
    }

    /// A provider's time, counted from when listening began. The first thing received of a source shows
    /// how its clock stands.
    fn time(&mut self, at: u64, flow: &str, time: u64) -> u64 {
        let source = flow.split(':').next().unwrap_or_default();
        let begin = match self.clocks.get(source) {
            Some(begin) => *begin,
            None => {
                let begin = time.saturating_sub(at);
                if self.clocks.len() < MAX_FLOWS {
                    self.clocks.insert(source.to_owned(), begin);
                }
                begin
            }
        };
        time.saturating_sub(begin)
    }

    /// The flow; once its addresses are known, the event that it is there.
    fn flow(&mut self, time: u64, flow: &str, out: &mut Vec<Event>) -> Option<&mut Known> {
        if !self.flows.contains_key(flow) {
            if self.flows.len() >= MAX_FLOWS {
                self.dropped += 1;
                return None;
            }
            self.flows.insert(flow.to_owned(), Known::default());
        }
        let known = self.flows.get_mut(flow)?;
        if !known.is_started
            && let Some(data) = self.addresses.get(flow).and_then(events::started)
        {
            known.is_started = true;
            let name = "connectivity:connection_started".to_owned();
            out.push(Event { flow: flow.to_owned(), time, name, data });
        }
        Some(known)
    }

    fn sample(&mut self, at: u64, sample: &Sample) -> Vec<Event> {
        let mut out = Vec::new();
        if !metrics::any(&sample.values) {
            return out;
        }
        let time = self.time(at, &sample.flow, sample.time);
        let Some(known) = self.flow(time, &sample.flow, &mut out) else {
            return out;
        };
        if let Some(data) = known.metrics.update(&sample.values) {
            let name = "recovery:metrics_updated".to_owned();
            out.push(Event { flow: sample.flow.clone(), time, name, data });
        }
        out
    }

    fn signal(&mut self, at: u64, signal: &Signal) -> Vec<Event> {
        let time = self.time(at, &signal.flow, signal.time);
        let mut out = Vec::new();
        let kinds = self.fields.get(&signal.event).cloned().unwrap_or_default();
        let Some(known) = self.flow(time, &signal.flow, &mut out) else {
            return out;
        };
        for Mapped { name, data } in events::map(signal, &kinds, &mut known.congestion) {
            out.push(Event { flow: signal.flow.clone(), time, name, data });
        }
        out
    }

    fn modification(&mut self, at: u64, entry: &Modification) -> Vec<Event> {
        let time = self.time(at, &entry.flow, entry.last);
        let key = (
            entry.flow.clone(),
            entry.variable.clone(),
            format!("{} {}", entry.who, entry.act),
        );
        if self.modified.get(&key).is_some_and(|last| *last >= entry.last) {
            return Vec::new();
        }
        if self.modified.len() < MAX_FLOWS {
            self.modified.insert(key, entry.last);
        }
        let mut out = Vec::new();
        if self.flow(time, &entry.flow, &mut out).is_none() {
            return out;
        }
        let mut data = json!({ "who": entry.who, "variable": entry.variable, "act": entry.act });
        if let Some(value) = entry.value {
            data["value"] = value.into();
        }
        if let Some(why) = &entry.why {
            data["why"] = why.as_str().into();
        }
        out.push(Event {
            flow: entry.flow.clone(),
            time,
            name: "hawser:modification".into(),
            data,
        });
        out
    }
}

/// Milliseconds, as exact as a microsecond's thousandth.
fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn common_fields() -> Value {
    json!({ "time_format": "absolute" })
}

/// The event at `time`, nanoseconds since listening began. Milliseconds since 1970 have the fourth part
/// of a microsecond in a double.
fn written(header: &Header, event: &Event, time: u64) -> Value {
    let time = header.began as f64 + milliseconds(time);
    json!({ "time": time, "name": event.name, "data": event.data })
}

fn title(header: &Header) -> String {
    format!("process {}, watched by hawser", header.process)
}

/// All events, to be written at the end.
#[derive(Debug)]
pub struct Document {
    header: Header,
    traces: BTreeMap<String, Vec<Event>>,
    kept: usize,
    dropped: u64,
}

impl Document {
    /// A document of what this header begins.
    #[must_use]
    pub fn new(header: Header) -> Document {
        Document { header, traces: BTreeMap::new(), kept: 0, dropped: 0 }
    }

    /// Another event. At the limit it is counted only.
    pub fn push(&mut self, event: Event) {
        if self.kept >= MAX_EVENTS {
            self.dropped += 1;
            return;
        }
        self.kept += 1;
        match self.traces.get_mut(&event.flow) {
            Some(events) => events.push(event),
            None => {
                self.traces.insert(event.flow.clone(), vec![event]);
            }
        }
    }

    /// Events that were not kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The document. Each trace is in order of time, as the draft wants it.
    #[must_use]
    pub fn finish(self) -> Value {
        let trace = |(flow, mut events): (String, Vec<Event>)| {
            events.sort_by_key(|event| event.time);
            let mut common = common_fields();
            common["group_id"] = flow.clone().into();
            json!({
                "title": format!("flow {flow}"),
                "vantage_point": vantage(),
                "common_fields": common,
                "events": events.iter().map(|e| written(&self.header, e, e.time)).collect::<Vec<_>>(),
            })
        };
        json!({
            "qlog_version": VERSION,
            "qlog_format": "JSON",
            "title": title(&self.header),
            "description": format!("events {}; {} not kept", self.header.pattern, self.dropped),
            "traces": self.traces.into_iter().map(trace).collect::<Vec<_>>(),
        })
    }
}

/// Whether the process that is watched connected or accepted is unknown.
fn vantage() -> Value {
    json!({ "name": "hawser", "type": "unknown" })
}

/// A JSON text sequence, record by record.
#[derive(Debug)]
pub struct Sequence {
    header: Header,
    /// By flow: the time of its last event.
    latest: BTreeMap<String, u64>,
}

impl Sequence {
    /// A sequence of what this header begins.
    #[must_use]
    pub fn new(header: Header) -> Sequence {
        Sequence { header, latest: BTreeMap::new() }
    }

    /// The first record.
    #[must_use]
    pub fn first(&self) -> Value {
        json!({
            "qlog_version": VERSION,
            "qlog_format": "JSON-SEQ",
            "title": title(&self.header),
            "trace": { "vantage_point": vantage(), "common_fields": common_fields() },
        })
    }

    /// Any further record. Times of one flow never go back.
    pub fn event(&mut self, event: &Event) -> Value {
        let time = self
            .latest
            .get(&event.flow)
            .map_or(event.time, |last| event.time.max(*last));
        self.latest.insert(event.flow.clone(), time);
        let mut out = written(&self.header, event, time);
        out["group_id"] = event.flow.as_str().into();
        out
    }
}
