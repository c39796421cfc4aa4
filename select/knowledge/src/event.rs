//! What is known, where it comes from, and what becomes of it.

use std::sync::Arc;

use hawser_policy::Limit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use hawser_connect::policy::FileError;

/// Where a node comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
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

impl Origin {
    /// The beginning of its nodes' names; those of files and controllers are theirs to choose, but
    /// for these.
    pub(super) fn prefix(self) -> Option<&'static str> {
        match self {
            Origin::File | Origin::Controller => None,
            Origin::Interface => Some("interface/"),
            Origin::Race => Some("race/"),
            Origin::Session => Some("session/"),
        }
    }

    /// The maximum number of its nodes that are known at once.
    pub(super) fn max_nodes(self) -> usize {
        match self {
            Origin::File => hawser_policy::limits::NODES,
            Origin::Interface | Origin::Session => 64,
            Origin::Race => 256,
            Origin::Controller => 256,
        }
    }

    /// Whether the oldest make room for new ones; else there is no room.
    pub(super) fn forgets(self) -> bool {
        self == Origin::Race
    }

    /// Whether its nodes outlive the process.
    pub(super) fn is_kept(self) -> bool {
        matches!(self, Origin::Race | Origin::Controller)
    }

    /// Whose name this may be, among those that have names of their own.
    pub(super) fn of_name(uid: &str) -> Option<Origin> {
        let all = [Origin::Interface, Origin::Race, Origin::Session];
        all.into_iter()
            .find(|origin| origin.prefix().is_some_and(|prefix| uid.starts_with(prefix)))
    }
}

/// A node that is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// Its name.
    #[serde(skip)]
    pub uid: Arc<str>,
    /// Where it comes from; in JSON `source`.
    #[serde(rename = "source")]
    pub origin: Origin,
    /// The last second, since 1970, in which it is true; none: it never ends.
    pub until: Option<f64>,
    /// As a document.
    pub node: Arc<Value>,
}

/// What became of what is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Files were read and are in force.
    Loaded {
        /// Profiles and policies.
        policies: usize,
        /// Nodes.
        nodes: usize,
        /// What the reader warns of in them.
        warnings: Vec<FileError>,
    },
    /// Something is wrong with files; what was in force before still is.
    Refused(Vec<FileError>),
    /// A node became known, or is another now.
    Put(Known),
    /// A node was taken away.
    Deleted {
        /// Its name.
        uid: Arc<str>,
        /// Where it came from.
        origin: Origin,
    },
    /// A node's time was over.
    Expired {
        /// Its name.
        uid: Arc<str>,
        /// Where it came from.
        origin: Origin,
    },
    /// Something does not work as it should; all else goes on.
    Trouble(Trouble),
}

/// What does not work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// What is learnt is not kept across a restart, or what was kept is lost.
    #[error("the store: {0}")]
    Store(String),
    /// Files are not watched any more.
    #[error("files are not watched any more: {0}")]
    Files(String),
    /// The kernel does not report what becomes of interfaces.
    #[error("interfaces are not followed: {0}")]
    Network(String),
    /// There is too much to know.
    #[error("nodes of the source `{}` are left out: {limit}", .origin.prefix().unwrap_or("other"))]
    Limit {
        /// Whose.
        origin: Origin,
        /// Which limit.
        limit: Limit,
    },
}

impl Event {
    /// Logs it: names of networks and of a controller's nodes are others' text, and escaped.
    pub(super) fn log(&self) {
        let quoted = |error: &FileError| error.to_string();
        match self {
            Event::Loaded { policies, nodes, warnings } => {
                info!(policies, nodes, "policies and nodes of files are in force");
                for why in warnings.iter().map(quoted) {
                    warn!(?why, "a file has a warning");
                }
            }
            Event::Refused(errors) => {
                for why in errors.iter().map(quoted) {
                    warn!(?why, "files are refused: what was in force still is");
                }
            }
            Event::Put(Known { uid, origin, .. }) => debug!(?uid, ?origin, "node known"),
            Event::Deleted { uid, origin } => debug!(?uid, ?origin, "node deleted"),
            Event::Expired { uid, origin } => debug!(?uid, ?origin, "node expired"),
            Event::Trouble(trouble) => {
                let why = trouble.to_string();
                warn!(?why, "not all is known or kept");
            }
        }
    }

    /// As JSON, with the kind in `event`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let texts = |errors: &[FileError]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        match self {
            Event::Loaded { policies, nodes, warnings } => {
                json!({ "event": "loaded", "policies": policies, "nodes": nodes, "warnings": texts(warnings) })
            }
            Event::Refused(errors) => json!({ "event": "refused", "errors": texts(errors) }),
            Event::Put(Known { origin, until, node, .. }) => {
                json!({ "event": "put", "source": origin, "until": until, "node": &**node })
            }
            Event::Deleted { uid, origin } => json!({ "event": "deleted", "source": origin, "uid": &**uid }),
            Event::Expired { uid, origin } => json!({ "event": "expired", "source": origin, "uid": &**uid }),
            Event::Trouble(trouble) => json!({ "event": "trouble", "why": trouble.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_testing::Log;

    use super::*;

    #[test]
    fn trouble_is_a_warning_and_changes_of_nodes_are_logged_at_debug_and_escaped() {
        let log = Log::start();
        Event::Trouble(Trouble::Store("the disk is full".into())).log();
        Event::Expired { uid: "mine\u{1b}[2J\nforged".into(), origin: Origin::Controller }.log();
        log.expect(&["WARN", "the store: the disk is full"]);
        log.expect(&["DEBUG", r"mine\u{1b}[2J\nforged", "node expired"]);
    }
}
