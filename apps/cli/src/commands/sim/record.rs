//! Converts a simulated run to a recording for `hawser watch --replay`: variables of its connections over
//! time, and signals.

use std::collections::BTreeMap;

use hawser::interact::record::{
    EventSchema, FlowRecord, Header, Label, LineContent, Named, RecordLine, SCHEMA, Sample, Signal,
    SourceSchema,
};
use hawser::runs::{Picture, SignalField};

use crate::exit::Exit;

/// The period, in nanoseconds, in which changes of a connection's variables form one sample. People cannot
/// see shorter ones.
const STEP: u64 = 20_000_000;

/// A connection: its name, and the prefix of its kind in the names of variables.
struct Connection {
    flow: FlowRecord,
    prefix: String,
}

/// The connections of a run, without duplicates.
struct Connections {
    provider: String,
    known: Vec<Connection>,
}

impl Connections {
    /// Returns the index of the connection that a picture names with a host and a context.
    fn place(&mut self, picture: &Picture, host: usize, context: &str) -> usize {
        let (kind, ends) = context.split_once(' ').unwrap_or((context, ""));
        let (local, remote) = ends.split_once(" > ").unwrap_or((ends, ""));
        let label = picture.hosts.get(host).map_or("", String::as_str);
        let is_it = |known: &Connection| {
            let flow = &known.flow;
            flow.label == label
                && flow.kind == kind
                && flow.local.as_deref() == Some(local)
                && flow.remote.as_deref() == Some(remote)
        };
        self.known.iter().position(is_it).unwrap_or_else(|| {
            self.known.push(Connection {
                flow: FlowRecord {
                    flow: format!("{host}:{}", self.known.len() + 1),
                    provider: self.provider.clone(),
                    kind: kind.to_owned(),
                    local: Some(local.to_owned()),
                    remote: Some(remote.to_owned()),
                    label: label.to_owned(),
                },
                prefix: format!("{}.{kind}", self.provider),
            });
            self.known.len() - 1
        })
    }
}

/// Returns all lines of the recording. The variables are the picture's fields, all of them from the start.
pub(super) fn recording(picture: &Picture) -> Result<String, Exit> {
    let provider = picture.program.rsplit('/').next().unwrap_or_default();
    let provider = provider.strip_suffix(".mtp").unwrap_or(provider);
    let mut connections = Connections { provider: provider.to_owned(), known: Vec::new() };
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    // The changed values, by time and connection.
    let mut changes: BTreeMap<(u64, usize), BTreeMap<String, u64>> = BTreeMap::new();
    for field in &picture.fields {
        let number = connections.place(picture, field.host, &field.context);
        let name = format!("{}.{}", connections.known[number].prefix, field.name);
        let unit = if field.unit == "span" {
            "duration"
        } else {
            "number"
        };
        variables.insert(name.clone(), unit);
        for (at, value) in field.points.points() {
            let bucket = changes.entry((at / STEP * STEP, number)).or_default();
            bucket.insert(name.clone(), *value);
        }
    }
    let signals = picture.signals.iter().map(|signal| {
        let number = connections.place(picture, signal.host, &signal.context);
        let what = LineContent::Signal(Signal {
            event: format!("{provider}.{}", signal.name),
            flow: connections.known[number].flow.flow.clone(),
            time: signal.at_ns,
            fields: signal.fields.iter().cloned().collect(),
            lost: 0,
        });
        RecordLine { at: signal.at_ns, what }
    });
    let mut happened: Vec<RecordLine> = signals.collect();
    // A sample has all variables. Unchanged ones keep their values.
    let mut values: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); connections.known.len()];
    for ((at, number), changed) in changes {
        values[number].extend(changed);
        let what = LineContent::Sample(Sample {
            flow: connections.known[number].flow.flow.clone(),
            time: at,
            values: values[number].clone(),
        });
        happened.push(RecordLine { at, what });
    }
    happened.sort_by_key(|line| line.at);
    let header = Header {
        schema: SCHEMA.to_owned(),
        pattern: "*".to_owned(),
        ..Header::default()
    };
    let offers = (0..picture.hosts.len()).map(|host| offer(picture, provider, host, &variables));
    let offers = offers.collect();
    let flows = connections.known.iter().map(|known| known.flow.clone()).collect();
    let first = [
        LineContent::Header(header),
        LineContent::Offers(offers),
        LineContent::Flows(flows),
    ];
    let first = first.into_iter().map(|what| RecordLine { at: 0, what });
    let lines: Result<Vec<String>, _> = first
        .chain(happened)
        .map(|line| serde_json::to_string(&line))
        .collect();
    Ok(lines.map_err(Exit::failed)?.join("\n") + "\n")
}

/// Returns the offer of a host.
fn offer(picture: &Picture, provider: &str, host: usize, variables: &BTreeMap<String, &str>) -> SourceSchema {
    let field = |field: &SignalField| Named {
        name: field.name.clone(),
        kind: field.kind.to_owned(),
        values: field
            .labels
            .iter()
            .map(|(value, name)| label(*value, name))
            .collect(),
    };
    let types = picture.signal_types.get(host).into_iter().flatten();
    let events = types.map(|signal| EventSchema {
        name: format!("{provider}.{}", signal.name),
        fields: signal.fields.iter().map(field).collect(),
    });
    let variables = variables.iter().map(|(name, kind)| Named {
        name: name.clone(),
        kind: (*kind).to_owned(),
        values: Vec::new(),
    });
    SourceSchema {
        source: host as u64,
        provider: provider.to_owned(),
        events: events.collect(),
        variables: variables.collect(),
    }
}

fn label(value: u64, name: &str) -> Label {
    Label { value, name: name.to_owned() }
}
