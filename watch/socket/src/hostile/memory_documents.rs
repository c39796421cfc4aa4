//! A provider of documents in memory: objects with a `uid`.

use std::collections::BTreeMap;

use hawser_bus::{DocumentWatch, Documents, Fault, NextEvent, WatchEnd};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{Receiver, Sender, channel, error::RecvError};

/// The maximum number of documents.
pub(super) const MAX_DOCUMENTS: usize = 4;
/// The maximum number of events that a client may lag behind.
const MAX_EVENTS: usize = 16;

pub(super) struct MemoryDocuments {
    documents: Mutex<BTreeMap<String, Value>>,
    events: Sender<Value>,
}

impl MemoryDocuments {
    pub(super) fn new() -> MemoryDocuments {
        MemoryDocuments { documents: Mutex::default(), events: channel(MAX_EVENTS).0 }
    }

    pub(super) fn len(&self) -> usize {
        self.documents.lock().len()
    }
}

impl Documents for MemoryDocuments {
    fn name(&self) -> &'static str {
        "shelf.nodes"
    }

    fn list(&self, filter: &str) -> Result<String, Vec<Fault>> {
        let prefix = prefix(filter)?;
        let documents = self.documents.lock();
        let nodes: Vec<Value> = documents
            .iter()
            .filter(|(uid, _)| uid.starts_with(&prefix))
            .map(|(_, node)| json!({ "source": "controller", "until": null, "node": node }))
            .collect();
        Ok(json!({ "done": "list", "nodes": nodes }).to_string())
    }

    fn put(&self, document: &str) -> Result<String, Vec<Fault>> {
        let node: Value = serde_json::from_str(document).map_err(|error| fault("", error))?;
        let uid = node["uid"]
            .as_str()
            .ok_or_else(|| fault("uid", "the node has no name"))?;
        let mut documents = self.documents.lock();
        if !documents.contains_key(uid) && documents.len() >= MAX_DOCUMENTS {
            return Err(fault("", "the store is full"));
        }
        documents.insert(uid.to_owned(), node.clone());
        let event = json!({ "event": "put", "source": "controller", "until": null, "node": node });
        let _ = self.events.send(event);
        let nodes = [json!({ "uid": uid, "until": null })];
        Ok(json!({ "done": "put", "nodes": nodes, "warnings": [] }).to_string())
    }

    fn delete(&self, name: &str) -> Result<String, Vec<Fault>> {
        let removed = self.documents.lock().remove(name);
        removed.ok_or_else(|| fault("", "the node does not exist"))?;
        let event = json!({ "event": "deleted", "source": "controller", "uid": name });
        let _ = self.events.send(event);
        Ok(json!({ "done": "delete", "uid": name, "source": "controller" }).to_string())
    }

    fn watch(&self, filter: &str) -> Result<Box<dyn DocumentWatch>, Vec<Fault>> {
        prefix(filter)?;
        Ok(Box::new(Events(self.events.subscribe())))
    }
}

struct Events(Receiver<Value>);

impl DocumentWatch for Events {
    fn next(&mut self) -> NextEvent<'_> {
        Box::pin(async {
            self.0
                .recv()
                .await
                .map(|event| event.to_string())
                .map_err(|end| match end {
                    RecvError::Lagged(missed) => WatchEnd::Missed(missed),
                    RecvError::Closed => WatchEnd::Gone,
                })
        })
    }
}

/// Parses a filter, which may give a prefix of names.
fn prefix(filter: &str) -> Result<String, Vec<Fault>> {
    let filter: Map<String, Value> = serde_json::from_str(filter).map_err(|error| fault("", error))?;
    let uid = filter.get("uid").and_then(Value::as_str).unwrap_or_default();
    Ok(uid.to_owned())
}

fn fault(path: &str, message: impl ToString) -> Vec<Fault> {
    vec![Fault { path: path.to_owned(), message: message.to_string(), hint: None }]
}
