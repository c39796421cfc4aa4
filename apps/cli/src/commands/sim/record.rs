//! A simulated run as `hawser watch --replay` reads it: variables of its connections over time.

use std::collections::BTreeMap;

use hawser::interact::record::{Flow, Header, Line, Named, Offer, SCHEMA, Sample, What};
use hawser::sim::Picture;

use crate::exit::Exit;

/// Changes of a connection's variables within so many nanoseconds are one sample, as a person can see no more.
const STEP: u64 = 20_000_000;

/// A connection: its name, and the part of variables' names that is its kind's.
struct Connection {
    flow: Flow,
    prefix: String,
}

/// All lines of the recording. Variables are the picture's fields, all of them from its beginning on.
pub(super) fn recording(picture: &Picture) -> Result<String, Exit> {
    let provider = picture.program.rsplit('/').next().unwrap_or_default();
    let provider = provider.strip_suffix(".mtp").unwrap_or(provider);
    let mut connections: Vec<Connection> = Vec::new();
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    // By time and connection: what changed.
    let mut samples: BTreeMap<(u64, usize), BTreeMap<String, u64>> = BTreeMap::new();
    for field in &picture.fields {
        let (kind, ends) = field.context.split_once(' ').unwrap_or((&field.context, ""));
        let (local, remote) = ends.split_once(" > ").unwrap_or((ends, ""));
        let host = picture.hosts.get(field.host).map_or("", String::as_str);
        let number = connections.iter().position(|known| {
            known.flow.label == host
                && known.flow.kind == kind
                && known.flow.local.as_deref() == Some(local)
                && known.flow.remote.as_deref() == Some(remote)
        });
        let number = number.unwrap_or_else(|| {
            connections.push(Connection {
                flow: Flow {
                    flow: format!("{}:{}", field.host, connections.len() + 1),
                    provider: provider.to_owned(),
                    kind: kind.to_owned(),
                    local: Some(local.to_owned()),
                    remote: Some(remote.to_owned()),
                    label: host.to_owned(),
                },
                prefix: format!("{provider}.{kind}"),
            });
            connections.len() - 1
        });
        let name = format!("{}.{}", connections[number].prefix, field.name);
        let unit = if field.unit == "span" {
            "duration"
        } else {
            "number"
        };
        variables.insert(name.clone(), unit);
        for (at, value) in field.points.points() {
            let bucket = samples.entry((at / STEP * STEP, number)).or_default();
            bucket.insert(name.clone(), *value);
        }
    }
    let header = Header {
        schema: SCHEMA.to_owned(),
        pattern: "*".to_owned(),
        ..Header::default()
    };
    let offer = |source: u64| Offer {
        source,
        provider: provider.to_owned(),
        events: Vec::new(),
        variables: variables
            .iter()
            .map(|(name, kind)| Named {
                name: name.clone(),
                kind: (*kind).to_owned(),
                values: Vec::new(),
            })
            .collect(),
    };
    let offers = (0..picture.hosts.len() as u64).map(offer).collect();
    let flows = connections.iter().map(|known| known.flow.clone()).collect();
    let first = [What::Header(header), What::Offers(offers), What::Flows(flows)];
    let mut lines: Vec<Line> = first.into_iter().map(|what| Line { at: 0, what }).collect();
    // A sample has all variables: those that did not change keep their values.
    let mut values: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); connections.len()];
    for ((at, number), changed) in samples {
        values[number].extend(changed);
        let sample = Sample {
            flow: connections[number].flow.flow.clone(),
            time: at,
            values: values[number].clone(),
        };
        lines.push(Line {
            at,
            what: What::Sample(sample),
        });
    }
    let lines: Result<Vec<String>, _> = lines.iter().map(serde_json::to_string).collect();
    Ok(lines.map_err(Exit::failed)?.join("\n") + "\n")
}
