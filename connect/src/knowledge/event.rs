//! The known nodes, their origins, and their changes.

use std::sync::Arc;

use hawser_policy::Limit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use crate::policy::FileError;

/// The origin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeOrigin {
    /// An operator's file.
    File,
    /// An interface of this host.
    Interface,
    /// Outcomes of races.
    Race,
    /// Paths of sessions under way.
    Session,
    /// A client of the bus.
    Controller,
}

impl NodeOrigin {
    /// Returns the prefix of its nodes' names. Files and controllers may choose names freely, except for
    /// these prefixes.
    pub(super) fn prefix(self) -> Option<&'static str> {
        match self {
            NodeOrigin::File | NodeOrigin::Controller => None,
            NodeOrigin::Interface => Some("interface/"),
            NodeOrigin::Race => Some("race/"),
            NodeOrigin::Session => Some("session/"),
        }
    }

    /// Returns the maximum number of its nodes.
    pub(super) fn max_nodes(self) -> usize {
        match self {
            NodeOrigin::File => hawser_policy::limits::NODES,
            NodeOrigin::Interface | NodeOrigin::Session => 64,
            NodeOrigin::Race => 256,
            NodeOrigin::Controller => 256,
        }
    }

    /// Returns whether its oldest nodes make room for new ones; otherwise new ones are refused at the limit.
    pub(super) fn forgets(self) -> bool {
        self == NodeOrigin::Race
    }

    /// Returns whether its nodes are stored across restarts.
    pub(super) fn is_kept(self) -> bool {
        matches!(self, NodeOrigin::Race | NodeOrigin::Controller)
    }

    /// Returns the origin whose prefix a name has.
    pub(super) fn of_name(uid: &str) -> Option<NodeOrigin> {
        let all = [NodeOrigin::Interface, NodeOrigin::Race, NodeOrigin::Session];
        all.into_iter()
            .find(|origin| origin.prefix().is_some_and(|prefix| uid.starts_with(prefix)))
    }
}

/// A node that is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnownNode {
    /// Its name.
    #[serde(skip)]
    pub uid: Arc<str>,
    /// The origin; in JSON `source`.
    #[serde(rename = "source")]
    pub origin: NodeOrigin,
    /// The last second, since 1970, in which the node is valid; `None` if it does not expire.
    pub until: Option<f64>,
    /// The node as a document.
    pub node: Arc<Value>,
}

/// A change of the known nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum KnowledgeEvent {
    /// The files were read and are in force.
    Loaded {
        /// The number of profiles and policies.
        policies: usize,
        /// The number of nodes.
        nodes: usize,
        /// The reader's warnings about the files.
        warnings: Vec<FileError>,
    },
    /// The files have faults; the earlier content stays in force.
    Refused(Vec<FileError>),
    /// A node was added or changed.
    Put(KnownNode),
    /// A node was deleted.
    Deleted {
        /// The name of the node.
        uid: Arc<str>,
        /// The origin of the node.
        origin: NodeOrigin,
    },
    /// A node expired.
    Expired {
        /// The name of the node.
        uid: Arc<str>,
        /// The origin of the node.
        origin: NodeOrigin,
    },
    /// A part of the system failed; the others continue.
    Trouble(Trouble),
}

/// The part that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// New knowledge is not kept across a restart, or stored knowledge is lost.
    #[error("the store failed: {0}")]
    Store(String),
    /// Files are no longer watched.
    #[error("files are no longer watched: {0}")]
    Files(String),
    /// The kernel does not report changes of interfaces.
    #[error("changes of interfaces are not observed: {0}")]
    Network(String),
    /// There are too many nodes.
    #[error("nodes of the source `{}` are ignored: {limit}", .origin.prefix().unwrap_or("other"))]
    Limit {
        /// The origin of the nodes.
        origin: NodeOrigin,
        /// The limit that was reached.
        limit: Limit,
    },
}

impl KnowledgeEvent {
    /// Logs the event. Names of networks and of a controller's nodes are untrusted text, and are escaped.
    pub(super) fn log(&self) {
        let quoted = |error: &FileError| error.to_string();
        match self {
            KnowledgeEvent::Loaded { policies, nodes, warnings } => {
                info!(policies, nodes, "loaded policies and nodes of files");
                for why in warnings.iter().map(quoted) {
                    warn!(?why, "a file has a warning");
                }
            }
            KnowledgeEvent::Refused(errors) => {
                for why in errors.iter().map(quoted) {
                    warn!(
                        ?why,
                        "invalid files are ignored; the previous policies and nodes remain in force"
                    );
                }
            }
            KnowledgeEvent::Put(KnownNode { uid, origin, .. }) => debug!(?uid, ?origin, "node known"),
            KnowledgeEvent::Deleted { uid, origin } => debug!(?uid, ?origin, "node deleted"),
            KnowledgeEvent::Expired { uid, origin } => debug!(?uid, ?origin, "node expired"),
            KnowledgeEvent::Trouble(trouble) => {
                let why = trouble.to_string();
                warn!(?why, "knowledge is incomplete or not saved");
            }
        }
    }

    /// Converts to JSON, with the kind in `event`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let texts = |errors: &[FileError]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        match self {
            KnowledgeEvent::Loaded { policies, nodes, warnings } => {
                json!({ "event": "loaded", "policies": policies, "nodes": nodes, "warnings": texts(warnings) })
            }
            KnowledgeEvent::Refused(errors) => json!({ "event": "refused", "errors": texts(errors) }),
            KnowledgeEvent::Put(KnownNode { origin, until, node, .. }) => {
                json!({ "event": "put", "source": origin, "until": until, "node": &**node })
            }
            KnowledgeEvent::Deleted { uid, origin } => {
                json!({ "event": "deleted", "source": origin, "uid": &**uid })
            }
            KnowledgeEvent::Expired { uid, origin } => {
                json!({ "event": "expired", "source": origin, "uid": &**uid })
            }
            KnowledgeEvent::Trouble(trouble) => json!({ "event": "trouble", "why": trouble.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_testing::Log;

    use super::*;

    #[test]
    fn trouble_is_logged_as_warning_and_node_changes_at_debug() {
        let log = Log::start();
        KnowledgeEvent::Trouble(Trouble::Store("the disk is full".into())).log();
        KnowledgeEvent::Expired { uid: "mine\u{1b}[2J\nforged".into(), origin: NodeOrigin::Controller }.log();
        log.expect(&["WARN", "the store failed: the disk is full"]);
        log.expect(&["DEBUG", r"mine\u{1b}[2J\nforged", "node expired"]);
    }
}
