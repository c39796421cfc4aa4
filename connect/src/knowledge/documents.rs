//! The nodes as a provider of documents on the bus: clients of the interactive layer's socket list, put,
//! delete and watch them.
//!
//! The requests and answers are in `docs/knowledge.md`.

use std::sync::Arc;

use hawser_bus::{DocumentWatch, Documents, Fault, NextEvent, WatchEnd};
use hawser_policy::document::Diagnostic;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::base::{KnowledgeBase, now};
use super::event::{KnowledgeEvent, KnownNode, NodeOrigin};

/// The nodes of a base.
pub(super) struct Nodes(pub(super) Arc<KnowledgeBase>);

impl Documents for Nodes {
    fn name(&self) -> &'static str {
        "knowledge.nodes"
    }

    fn list(&self, filter: &str) -> Result<String, Vec<Fault>> {
        let filter = Filter::parse(filter)?;
        let mut all = self.0.list(now());
        all.retain(|known| filter.takes(known));
        Ok(json!({ "done": "list", "nodes": all }).to_string())
    }

    fn put(&self, document: &str) -> Result<String, Vec<Fault>> {
        let put = self.0.put(document, now()).map_err(faults)?;
        let nodes: Vec<Value> = put
            .nodes
            .iter()
            .map(|known| json!({ "uid": &*known.uid, "until": known.until }))
            .collect();
        let warnings: Vec<String> = put.warnings.iter().map(ToString::to_string).collect();
        Ok(json!({ "done": "put", "nodes": nodes, "warnings": warnings }).to_string())
    }

    fn delete(&self, uid: &str) -> Result<String, Vec<Fault>> {
        let origin = self.0.delete(uid, now()).map_err(|one| faults(vec![one]))?;
        Ok(json!({ "done": "delete", "uid": uid, "source": origin }).to_string())
    }

    fn watch(&self, filter: &str) -> Result<Box<dyn DocumentWatch>, Vec<Fault>> {
        let filter = Filter::parse(filter)?;
        let events = self.0.subscribe();
        Ok(Box::new(ClientEvents { events, filter }))
    }
}

fn faults(diagnostics: Vec<Diagnostic>) -> Vec<Fault> {
    let fault = |diagnostic: Diagnostic| Fault {
        path: diagnostic.path,
        message: diagnostic.message,
        hint: diagnostic.hint,
    };
    diagnostics.into_iter().map(fault).collect()
}

/// The events for one client.
struct ClientEvents {
    events: Receiver<KnowledgeEvent>,
    filter: Filter,
}

impl DocumentWatch for ClientEvents {
    fn next(&mut self) -> NextEvent<'_> {
        Box::pin(async {
            loop {
                match self.events.recv().await {
                    Ok(event) if self.filter.takes_event(&event) => {
                        return Ok(event.to_json().to_string());
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => return Err(WatchEnd::Missed(missed)),
                    Err(RecvError::Closed) => return Err(WatchEnd::Gone),
                }
            }
        })
    }
}

/// A filter of nodes; all of its conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// The origin of the nodes.
    source: Option<NodeOrigin>,
    /// The beginning of their names.
    uid: Option<String>,
    /// The interface that they are about.
    interface: Option<String>,
}

impl Filter {
    fn parse(text: &str) -> Result<Filter, Vec<Fault>> {
        hawser_documents::json(text).map_err(|fault| {
            vec![Fault {
                path: fault.path,
                message: fault.message,
                hint: Some("write an object of `source`, `uid` and `interface`, or {} for all nodes".into()),
            }]
        })
    }

    fn takes_event(&self, event: &KnowledgeEvent) -> bool {
        match event {
            KnowledgeEvent::Put(known) => self.takes(known),
            KnowledgeEvent::Deleted { uid, origin } | KnowledgeEvent::Expired { uid, origin } => {
                self.takes_name(*origin, uid)
            }
            KnowledgeEvent::Loaded { .. } | KnowledgeEvent::Refused(_) | KnowledgeEvent::Trouble(_) => {
                *self == Filter::default()
            }
        }
    }

    fn takes(&self, known: &KnownNode) -> bool {
        self.takes_name(known.origin, &known.uid)
            && self
                .interface
                .as_deref()
                .is_none_or(|wanted| is_about(&known.node, wanted))
    }

    /// Judges a node that is gone, of which only the name and the origin are known.
    fn takes_name(&self, origin: NodeOrigin, uid: &str) -> bool {
        self.source.is_none_or(|wanted| wanted == origin)
            && self.uid.as_deref().is_none_or(|prefix| uid.starts_with(prefix))
    }
}

/// Returns whether `interface` has this value in a node's matches or properties.
fn is_about(node: &Value, wanted: &str) -> bool {
    fn within(value: &Value, wanted: &str) -> bool {
        match value {
            Value::Array(all) => all.iter().any(|one| within(one, wanted)),
            Value::Object(properties) => {
                match &properties.get("interface").map(|property| &property["value"]) {
                    Some(Value::String(name)) => name == wanted,
                    Some(Value::Array(names)) => names.iter().any(|name| name == wanted),
                    _ => false,
                }
            }
            _ => false,
        }
    }
    within(&node["properties"], wanted) || within(&node["match"], wanted)
}

#[cfg(test)]
mod tests;
