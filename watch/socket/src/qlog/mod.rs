//! A recording as qlog: the log format of the IETF's QUIC working group, which qvis draws.
//!
//! The version is 0.3 (draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events of 2022 and
//! 2023), because it is the last one that qvis loads. Signals for which those drafts define an event have its
//! name. All others are in the namespace `hawser:`, with their fields unchanged. Each flow has one trace,
//! with times in milliseconds of the wall clock. The types of `reference_time` and `protocol_type` differ
//! between the drafts and qvis, so both are left out. `docs/schemas/qlog.json` has the format, and tests
//! check the output against it.
//!
//! There are two forms: JSON, complete at the end ([`Document`]), and JSON text sequences (RFC 7464), written
//! as events come ([`Sequence`]).

mod events;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::record::{FlowRecord, Header, LineContent, Modification, Named, RecordLine, Sample, Signal};
use events::Mapped;
use metrics::Metrics;

/// The maximum number of flows; events of further flows are counted, not kept.
const MAX_FLOWS: usize = 4096;
/// The maximum number of events of a [`Document`]; further ones are counted.
const MAX_EVENTS: usize = 1 << 20;
/// The version that is written.
const VERSION: &str = "0.3";

/// An event, before it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct QlogEvent {
    /// The name of the flow.
    pub flow: String,
    /// The time since the recording began, in nanoseconds.
    pub time: u64,
    /// Category and type: `recovery:metrics_updated`.
    pub name: String,
    /// The fields of the event.
    pub data: Value,
}

/// A flow, as far as it is known.
#[derive(Debug, Default)]
struct FlowInfo {
    metrics: Metrics,
    /// The last written state of the congestion controller.
    congestion: Option<&'static str>,
    /// True if its start was written, which happens as soon as its addresses are known.
    is_started: bool,
}

/// Converts lines of a recording to events.
#[derive(Debug, Default)]
pub struct Exporter {
    flows: BTreeMap<String, FlowInfo>,
    addresses: BTreeMap<String, FlowRecord>,
    /// The fields of events, by the event's name.
    fields: BTreeMap<String, Vec<Named>>,
    /// The reading of each source's clock at the start of the recording.
    clocks: BTreeMap<String, u64>,
    /// The time of the last written modification, by flow, variable and writer.
    modified: BTreeMap<(String, String, String), u64>,
    dropped: u64,
}

impl Exporter {
    /// Returns the number of events dropped because their flows were beyond the maximum.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the events that a line stands for.
    pub fn line(&mut self, line: &RecordLine) -> Vec<QlogEvent> {
        match &line.what {
            LineContent::Offers(offers) => {
                for event in offers.iter().flat_map(|offer| &offer.events).take(MAX_FLOWS) {
                    self.fields.insert(event.name.clone(), event.fields.clone());
                }
                Vec::new()
            }
            LineContent::Flows(flows) => {
                let known = flows
                    .iter()
                    .take(MAX_FLOWS)
                    .map(|flow| (flow.flow.clone(), flow.clone()));
                self.addresses = known.collect();
                Vec::new()
            }
            LineContent::Sample(sample) => self.sample(line.at, sample),
            LineContent::Signal(signal) => self.signal(line.at, signal),
            LineContent::Audit(entries) => entries
                .iter()
                .flat_map(|entry| self.modification(line.at, entry))
                .collect(),
            LineContent::Header(_) | LineContent::Statistics(_) => Vec::new(),
        }
    }

    /// Converts a provider's time to the time since the recording began. The first line of a source fixes the
    /// offset of its clock.
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

    /// Returns a flow's state; adds the event of its start once its addresses are known.
    fn flow(&mut self, time: u64, flow: &str, out: &mut Vec<QlogEvent>) -> Option<&mut FlowInfo> {
        if !self.flows.contains_key(flow) {
            if self.flows.len() >= MAX_FLOWS {
                self.dropped += 1;
                return None;
            }
            self.flows.insert(flow.to_owned(), FlowInfo::default());
        }
        let known = self.flows.get_mut(flow)?;
        if !known.is_started
            && let Some(data) = self.addresses.get(flow).and_then(events::started)
        {
            known.is_started = true;
            let name = "connectivity:connection_started".to_owned();
            out.push(QlogEvent { flow: flow.to_owned(), time, name, data });
        }
        Some(known)
    }

    fn sample(&mut self, at: u64, sample: &Sample) -> Vec<QlogEvent> {
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
            out.push(QlogEvent { flow: sample.flow.clone(), time, name, data });
        }
        out
    }

    fn signal(&mut self, at: u64, signal: &Signal) -> Vec<QlogEvent> {
        let time = self.time(at, &signal.flow, signal.time);
        let mut out = Vec::new();
        let kinds = self.fields.get(&signal.event).cloned().unwrap_or_default();
        let Some(known) = self.flow(time, &signal.flow, &mut out) else {
            return out;
        };
        for Mapped { name, data } in events::map(signal, &kinds, &mut known.congestion) {
            out.push(QlogEvent { flow: signal.flow.clone(), time, name, data });
        }
        out
    }

    fn modification(&mut self, at: u64, entry: &Modification) -> Vec<QlogEvent> {
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
        out.push(QlogEvent {
            flow: entry.flow.clone(),
            time,
            name: "hawser:modification".into(),
            data,
        });
        out
    }
}

/// Converts to milliseconds, with the resolution of a nanosecond.
fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn common_fields() -> Value {
    json!({ "time_format": "absolute" })
}

/// Writes the event at `time`, in nanoseconds since the recording began. As a double, milliseconds since 1970
/// are exact to a quarter of a microsecond.
fn written(header: &Header, event: &QlogEvent, time: u64) -> Value {
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
    traces: BTreeMap<String, Vec<QlogEvent>>,
    kept: usize,
    dropped: u64,
}

impl Document {
    /// Makes an empty document for the recording of this header.
    #[must_use]
    pub fn new(header: Header) -> Document {
        Document { header, traces: BTreeMap::new(), kept: 0, dropped: 0 }
    }

    /// Adds an event. At the limit it is only counted.
    pub fn push(&mut self, event: QlogEvent) {
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

    /// Returns the number of events that were not kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the document. Each trace is in order of time, as the draft requires.
    #[must_use]
    pub fn finish(self) -> Value {
        let trace = |(flow, mut events): (String, Vec<QlogEvent>)| {
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

/// Returns an unknown vantage point: it is not known whether the watched process connected or accepted.
fn vantage() -> Value {
    json!({ "name": "hawser", "type": "unknown" })
}

/// A JSON text sequence, record by record.
#[derive(Debug)]
pub struct Sequence {
    header: Header,
    /// The time of the last event, by flow.
    latest: BTreeMap<String, u64>,
}

impl Sequence {
    /// Makes a sequence for the recording of this header.
    #[must_use]
    pub fn new(header: Header) -> Sequence {
        Sequence { header, latest: BTreeMap::new() }
    }

    /// Returns the first record.
    #[must_use]
    pub fn first(&self) -> Value {
        json!({
            "qlog_version": VERSION,
            "qlog_format": "JSON-SEQ",
            "title": title(&self.header),
            "trace": { "vantage_point": vantage(), "common_fields": common_fields() },
        })
    }

    /// Returns a further record. Times of one flow never go back.
    pub fn event(&mut self, event: &QlogEvent) -> Value {
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
