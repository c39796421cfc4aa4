//! A client's requests to a provider of documents, within its rights.

use std::sync::Arc;

use hawser_bus::{BusError, DocumentWatch, Documents, Fault, Subscriber, WatchEnd};
use serde_json::{Value, json};

use super::connection::RequestRefusal;
use crate::local::MAX_ANSWER;

/// The kinds of access that the rights distinguish.
#[derive(Clone, Copy)]
enum Access {
    Observe,
    Modify,
}

pub(super) fn list(subscriber: &Subscriber, filter: &str) -> Result<Value, RequestRefusal> {
    let provider = provider(subscriber, Access::Observe)?;
    answer("list", provider.list(filter))
}

pub(super) fn put(subscriber: &Subscriber, document: &str) -> Result<Value, RequestRefusal> {
    let provider = provider(subscriber, Access::Modify)?;
    answer("put", provider.put(document))
}

pub(super) fn delete(subscriber: &Subscriber, name: &str) -> Result<Value, RequestRefusal> {
    let provider = provider(subscriber, Access::Modify)?;
    answer("delete", provider.delete(name))
}

pub(super) fn watch(subscriber: &Subscriber, filter: &str) -> Result<Box<dyn DocumentWatch>, RequestRefusal> {
    let provider = provider(subscriber, Access::Observe)?;
    provider
        .watch(filter)
        .map_err(|faults| RequestRefusal::Faults("watch", faults))
}

/// Waits for the next event of a watch; never returns without a watch.
pub(super) async fn next_event(watch: &mut Option<Box<dyn DocumentWatch>>) -> Result<String, WatchEnd> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

/// Returns the provider of documents, if there is one and this client has the right to use it.
fn provider(subscriber: &Subscriber, access: Access) -> Result<Arc<dyn Documents>, RequestRefusal> {
    let provider = subscriber.bus().documents().ok_or(RequestRefusal::NoDocuments)?;
    let rights = subscriber.rights().ok_or(RequestRefusal::NoSubscriber)?;
    let name = provider.name();
    let (is_allowed, verb) = match access {
        Access::Observe => (rights.may_observe(name), "observe"),
        Access::Modify => (rights.may_put(name), "modify"),
    };
    if is_allowed {
        return Ok(provider);
    }
    let (who, what) = (subscriber.name().to_owned(), format!("{verb} {name}"));
    Err(BusError::NoRight { who, what }.into())
}

fn answer(word: &'static str, answer: Result<String, Vec<Fault>>) -> Result<Value, RequestRefusal> {
    let text = answer.map_err(|faults| RequestRefusal::Faults(word, faults))?;
    if text.len() >= MAX_ANSWER {
        return Err(RequestRefusal::LongAnswer);
    }
    Ok(hawser_documents::json(&text)?)
}

/// Writes the faults of a request for its answer. Paths begin with the request's keyword.
pub(super) fn diagnostics(word: &str, faults: &[Fault]) -> Value {
    let path = |path: &str| match path {
        "" => word.to_owned(),
        path if path.starts_with('[') => format!("{word}{path}"),
        path => format!("{word}.{path}"),
    };
    let diagnostic =
        |fault: &Fault| json!({ "path": path(&fault.path), "message": fault.message, "hint": fault.hint });
    faults.iter().map(diagnostic).collect()
}
