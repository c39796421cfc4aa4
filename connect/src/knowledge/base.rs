//! The nodes of all sources in one place: the manager's CIB, and the origin of each node.
//!
//! Locks are taken in a fixed order: the known nodes, then the manager. Both are held for one change or one
//! ranking, never across a wait. Invariants: each origin has at most [`NodeOrigin::max_nodes`] nodes. A
//! change takes effect as a whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hawser_policy::document::{self, Diagnostic, Format, node_json};
use hawser_policy::{Expiry, LIFETIME, Limit, Manager, Node, Policy, PolicyStage};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{Notify, broadcast};

use super::event::{KnowledgeEvent, KnownNode, NodeOrigin, Trouble};
use super::races;
use super::store::{ChangeQueue, StoredNode};

/// The maximum number of events that a listener may lag behind.
const MAX_EVENTS: usize = 1_024;
/// The maximum length of a name that a controller gives, in bytes.
const UID_BYTES: usize = 256;

/// The state that all sources share.
pub(super) struct KnowledgeBase {
    pub(super) manager: Arc<Mutex<Manager>>,
    known: Mutex<LearntNodes>,
    events: broadcast::Sender<KnowledgeEvent>,
    /// The events since the beginning, for the first subscriber.
    first: Mutex<Option<broadcast::Receiver<KnowledgeEvent>>>,
    /// Notified when the next node to expire may be another one.
    pub(super) changed: Notify,
    store: Option<ChangeQueue>,
}

/// The nodes from sources other than files.
#[derive(Default)]
struct LearntNodes {
    entries: BTreeMap<Arc<str>, NodeEntry>,
    /// The `order` of the next entry.
    next: u64,
    /// The network that this host is attached to.
    network: Arc<str>,
}

struct NodeEntry {
    origin: NodeOrigin,
    until: Option<f64>,
    /// Its position in the order in which entries became known.
    order: u64,
    json: Arc<Value>,
    /// Its statement about candidates, beside the row that it is.
    policy: Option<Policy>,
}

/// The effect of a controller's document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PutEffect {
    pub(super) nodes: Vec<KnownNode>,
    pub(super) warnings: Vec<Diagnostic>,
}

/// Returns the current time, in seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

impl KnowledgeBase {
    pub(super) fn new(manager: Arc<Mutex<Manager>>, store: Option<ChangeQueue>) -> Arc<KnowledgeBase> {
        let (events, first) = broadcast::channel(MAX_EVENTS);
        Arc::new(KnowledgeBase {
            manager,
            known: Mutex::default(),
            events,
            first: Mutex::new(Some(first)),
            changed: Notify::new(),
            store,
        })
    }

    /// Locks the manager. Every call leaves it consistent, so a panic in another thread does no harm.
    pub(super) fn manager(&self) -> MutexGuard<'_, Manager> {
        self.manager.lock()
    }

    fn known(&self) -> MutexGuard<'_, LearntNodes> {
        self.known.lock()
    }

    /// Subscribes to events from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<KnowledgeEvent> {
        self.events.subscribe()
    }

    /// Subscribes to events. The first subscriber also gets the events since the beginning, which may report
    /// early faults.
    pub(super) fn subscribe_first(&self) -> broadcast::Receiver<KnowledgeEvent> {
        let first = self.first.lock().take();
        first.unwrap_or_else(|| self.subscribe())
    }

    /// Logs an event, and sends it to every watcher.
    pub(super) fn publish(&self, event: KnowledgeEvent) {
        event.log();
        // An event without listeners is dropped.
        let _ = self.events.send(event);
    }

    /// Sets the network's name, which is stored with nodes that are learnt on it.
    pub(super) fn set_network(&self, name: Arc<str>) {
        self.known().network = name;
    }

    /// Changes the nodes of a source: first removes `gone`, then adds `nodes`. Nodes that do not fit are
    /// reported as trouble.
    pub(super) fn learn(&self, origin: NodeOrigin, gone: &[Arc<str>], nodes: Vec<Node>, now: f64) {
        let mut known = self.known();
        if let Err(limit) = self.apply(&mut known, origin, gone, nodes, now) {
            drop(known);
            self.publish(KnowledgeEvent::Trouble(Trouble::Limit { origin, limit }));
        }
    }

    /// Restores the nodes that an earlier process stored.
    pub(super) fn recall(&self, records: Vec<StoredNode>, network: &str, now: f64) {
        let mut known = self.known();
        for StoredNode { origin, network: of, node } in records {
            // Outcomes of another network do not apply to this one.
            if origin == NodeOrigin::Race && of.as_deref() != Some(network) {
                continue;
            }
            let uid: Arc<str> = node["uid"].as_str().unwrap_or_default().into();
            let mut names = self.manager().names().clone();
            let Ok(read) = document::nodes(&node.to_string(), Format::Json, &uid, &mut names) else {
                let why = format!("the node `{uid}` cannot be read and is ignored");
                self.publish(KnowledgeEvent::Trouble(Trouble::Store(why)));
                continue;
            };
            *self.manager().names_mut() = names;
            if let Err(limit) = self.apply(&mut known, origin, &[], read.value, now) {
                self.publish(KnowledgeEvent::Trouble(Trouble::Limit { origin, limit }));
            }
        }
    }

    /// Adds the nodes of a controller's document.
    pub(super) fn put(&self, text: &str, now: f64) -> Result<PutEffect, Vec<Diagnostic>> {
        let mut known = self.known();
        let mut manager = self.manager();
        // The names of a refused document are not kept.
        let mut names = manager.names().clone();
        // No document can have this name, so it marks a node without a name.
        let read = document::nodes(text, Format::Json, UNNAMED, &mut names)?;
        let nodes = read.value;
        let wrong: Vec<Diagnostic> = nodes
            .iter()
            .filter_map(|node| {
                let is_file = !known.entries.contains_key(&node.uid)
                    && manager.cib().iter(now).any(|(held, _)| held.uid == node.uid);
                refusal(node, is_file, now)
            })
            .collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if nodes.is_empty() {
            return Err(vec![diagnostic(
                "",
                "the document is empty",
                Some("write a node, or a list of nodes"),
            )]);
        }
        *manager.names_mut() = names;
        drop(manager);
        match self.apply(&mut known, NodeOrigin::Controller, &[], nodes, now) {
            Ok(nodes) => Ok(PutEffect { nodes, warnings: read.warnings }),
            Err(limit) => Err(vec![diagnostic("", &limit.to_string(), None)]),
        }
    }

    /// Deletes a node, if a controller may delete it.
    pub(super) fn delete(&self, uid: &str, now: f64) -> Result<NodeOrigin, Diagnostic> {
        let mut known = self.known();
        let Some(entry) = known.entries.get(uid) else {
            let is_file = self.manager().cib().iter(now).any(|(node, _)| &*node.uid == uid);
            return Err(match is_file {
                true => diagnostic(
                    "",
                    "a file contains this node",
                    Some("remove the node from the file"),
                ),
                false => diagnostic("", "the node does not exist", None),
            });
        };
        let origin = entry.origin;
        match self.apply(&mut known, origin, &[uid.into()], Vec::new(), now) {
            Ok(_) => Ok(origin),
            Err(limit) => Err(diagnostic("", &limit.to_string(), None)),
        }
    }

    /// Returns all valid nodes.
    pub(super) fn list(&self, now: f64) -> Vec<KnownNode> {
        let known = self.known();
        let manager = self.manager();
        let of_node = |(node, until): (&Node, Option<f64>)| match known.entries.get(&node.uid) {
            Some(entry) => KnownNode {
                uid: node.uid.clone(),
                origin: entry.origin,
                until,
                node: entry.json.clone(),
            },
            None => {
                let json = Arc::new(node_json(node, manager.names()));
                KnownNode { uid: node.uid.clone(), origin: NodeOrigin::File, until, node: json }
            }
        };
        manager.cib().iter(now).map(of_node).collect()
    }

    /// Returns a node by its name, if it is valid.
    pub(super) fn node(&self, uid: &str, now: f64) -> Option<Node> {
        let manager = self.manager();
        manager
            .cib()
            .iter(now)
            .map(|(node, _)| node)
            .find(|node| &*node.uid == uid)
            .cloned()
    }

    /// Returns the names of a source's nodes.
    pub(super) fn names_of(&self, origin: NodeOrigin) -> Vec<Arc<str>> {
        let known = self.known();
        known
            .entries
            .iter()
            .filter(|(_, entry)| entry.origin == origin)
            .map(|(uid, _)| uid.clone())
            .collect()
    }

    /// Reapplies the nodes' statements about candidates beside policies that were read again.
    pub(super) fn reapply(&self, now: f64) {
        let known = self.known();
        let policies: Vec<&Policy> = known
            .entries
            .values()
            .filter_map(|entry| entry.policy.as_ref())
            .collect();
        if policies.is_empty() {
            return;
        }
        let result = self.manager().revise(now, |_, pib| {
            policies
                .into_iter()
                .try_for_each(|policy| pib.insert(policy.clone()).map(drop))
        });
        if let Err(limit) = result {
            self.publish(KnowledgeEvent::Trouble(Trouble::Limit {
                origin: NodeOrigin::Race,
                limit,
            }));
        }
    }

    /// Removes expired nodes, and returns the time at which the next one expires.
    pub(super) fn expire(&self, now: f64) -> Option<f64> {
        let mut known = self.known();
        let ended = |entry: &NodeEntry| entry.until.is_some_and(|until| until < now);
        let over: Vec<Arc<str>> = known
            .entries
            .iter()
            .filter(|(_, entry)| ended(entry))
            .map(|(uid, _)| uid.clone())
            .collect();
        if !over.is_empty() {
            self.remove(&mut known, &over, now, |uid, origin| KnowledgeEvent::Expired {
                uid,
                origin,
            });
        }
        known
            .entries
            .values()
            .filter_map(|entry| entry.until)
            .min_by(f64::total_cmp)
    }

    fn remove(
        &self,
        known: &mut LearntNodes,
        gone: &[Arc<str>],
        now: f64,
        event: fn(Arc<str>, NodeOrigin) -> KnowledgeEvent,
    ) {
        // A removal makes no more rows, so no limit can be exceeded.
        let _ = self.manager().revise(now, |cib, pib| {
            for uid in gone {
                cib.remove(uid);
                pib.remove(PolicyStage::Policy, uid);
            }
            Ok(())
        });
        for uid in gone {
            let Some(entry) = known.entries.remove(uid) else {
                continue;
            };
            if let Some(store) = self.store.as_ref().filter(|_| entry.origin.is_kept()) {
                store.forget(uid);
            }
            self.publish(event(uid.clone(), entry.origin));
        }
    }

    /// Applies one change, first to the manager, which refuses it if a limit is exceeded.
    fn apply(
        &self,
        known: &mut LearntNodes,
        origin: NodeOrigin,
        gone: &[Arc<str>],
        nodes: Vec<Node>,
        now: f64,
    ) -> Result<Vec<KnownNode>, Limit> {
        let gone: Vec<Arc<str>> = gone
            .iter()
            .filter(|uid| known.entries.contains_key(*uid))
            .cloned()
            .collect();
        if !gone.is_empty() {
            self.remove(known, &gone, now, |uid, origin| KnowledgeEvent::Deleted {
                uid,
                origin,
            });
        }
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        self.make_room(known, origin, &nodes, now)?;
        let nodes: Vec<Node> = nodes.into_iter().map(|node| timed(node, now)).collect();
        let policies: Vec<Option<Policy>> = nodes
            .iter()
            .map(|node| {
                if origin == NodeOrigin::Race {
                    races::policy(node)
                } else {
                    None
                }
            })
            .collect();
        let mut manager = self.manager();
        manager.revise(now, |cib, pib| {
            for (node, policy) in nodes.iter().zip(&policies) {
                cib.insert(node.clone(), now)?;
                if let Some(policy) = policy {
                    pib.insert(policy.clone())?;
                }
            }
            Ok(())
        })?;
        let documents: Vec<Arc<Value>> = nodes
            .iter()
            .map(|node| Arc::new(node_json(node, manager.names())))
            .collect();
        drop(manager);
        let mut all = Vec::with_capacity(nodes.len());
        for ((node, policy), json) in nodes.into_iter().zip(policies).zip(documents) {
            let until = match node.expire {
                Expiry::At(time) => Some(time),
                Expiry::Never | Expiry::Unsaid => None,
            };
            let order = known.next;
            known.next += 1;
            if let Some(store) = self.store.as_ref().filter(|_| origin.is_kept()) {
                let network = (origin == NodeOrigin::Race).then(|| known.network.to_string());
                store.keep(
                    &node.uid,
                    &StoredNode { origin, network, node: (*json).clone() },
                    until,
                );
            }
            let entry = NodeEntry { origin, until, order, json: json.clone(), policy };
            known.entries.insert(node.uid.clone(), entry);
            let new = KnownNode { uid: node.uid, origin, until, node: json };
            self.publish(KnowledgeEvent::Put(new.clone()));
            all.push(new);
        }
        self.changed.notify_one();
        Ok(all)
    }

    /// Makes room at an origin's limit: the oldest nodes are removed, or the change is refused.
    fn make_room(
        &self,
        known: &mut LearntNodes,
        origin: NodeOrigin,
        nodes: &[Node],
        now: f64,
    ) -> Result<(), Limit> {
        let is_new = |node: &&Node| !known.entries.contains_key(&node.uid);
        let new = nodes.iter().filter(is_new).count();
        let mut held: Vec<(u64, Arc<str>)> = known
            .entries
            .iter()
            .filter(|(uid, entry)| entry.origin == origin && !nodes.iter().any(|node| node.uid == **uid))
            .map(|(uid, entry)| (entry.order, uid.clone()))
            .collect();
        let replaced = nodes.len() - new;
        let Some(much) = (held.len() + replaced + new)
            .checked_sub(origin.max_nodes())
            .filter(|much| *much > 0)
        else {
            return Ok(());
        };
        if !origin.forgets() || much > held.len() {
            let place = nodes
                .first()
                .map_or_else(String::new, |node| node.uid.to_string());
            return Err(Limit { what: "nodes of this source", limit: origin.max_nodes(), place });
        }
        held.sort_unstable();
        let oldest: Vec<Arc<str>> = held.into_iter().take(much).map(|(_, uid)| uid).collect();
        self.remove(known, &oldest, now, |uid, origin| KnowledgeEvent::Deleted {
            uid,
            origin,
        });
        Ok(())
    }
}

/// Stands for the name of a node without one. In a list, the reader appends an index to it.
const UNNAMED: &str = "\0";

/// Returns the reason why a controller may not put a node.
fn refusal(node: &Node, is_file: bool, now: f64) -> Option<Diagnostic> {
    let wrong = |message: &str, hint| Some(diagnostic("uid", &format!("{}: {message}", node.uid), hint));
    if let Some(place) = node.uid.strip_prefix(UNNAMED) {
        let path = if place.is_empty() {
            "uid".to_owned()
        } else {
            format!("{place}.uid")
        };
        return Some(diagnostic(
            &path,
            "the node has no name",
            Some("the name is needed to replace or delete the node"),
        ));
    }
    if node.uid.len() > UID_BYTES || node.uid.chars().any(char::is_control) {
        let message = format!("a name has at most {UID_BYTES} bytes and no control characters");
        return Some(diagnostic("uid", &message, None));
    }
    if let Some(origin) = NodeOrigin::of_name(&node.uid) {
        let prefix = origin.prefix().unwrap_or_default();
        return wrong(
            "the name is reserved for Hawser",
            Some(&format!("choose a name that does not begin with `{prefix}`")),
        );
    }
    if is_file {
        return wrong(
            "a file contains this node",
            Some("change the file, or choose another name"),
        );
    }
    if let Expiry::At(time) = node.expire
        && time < now
    {
        let message = format!(
            "{}: the node expired at {time}; the time is now {now:.0}",
            node.uid
        );
        return Some(diagnostic(
            "expire",
            &message,
            Some("write seconds since 1970, or -1 for no expiry"),
        ));
    }
    None
}

fn diagnostic(path: &str, message: &str, hint: Option<&str>) -> Diagnostic {
    Diagnostic { path: path.into(), message: message.into(), hint: hint.map(Into::into) }
}

/// Gives a node an end if it has none, so that list, store and CIB agree.
fn timed(mut node: Node, now: f64) -> Node {
    if node.expire == Expiry::Unsaid {
        node.expire = Expiry::At(now + LIFETIME);
    }
    node
}
