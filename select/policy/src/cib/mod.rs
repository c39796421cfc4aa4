//! The Characteristics Information Base: knowledge about interfaces, peers and networks.
//!
//! Nodes come from files, from past connections and from controllers; most of them expire. Requests are
//! matched against [`Rows`], which the graph of nodes makes (`graph`).

mod graph;

use std::sync::Arc;

use crate::limits::{self, Limit};
use crate::properties::Properties;

pub use graph::{Row, Rows};

/// The lifetime, in seconds, of a node that does not state one.
pub const LIFETIME: f64 = 600.0;

/// The expiry of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expiry {
    /// The node does not expire.
    Never,
    /// The node is valid up to and including this time, in seconds since 1970.
    At(f64),
    /// The node is valid for [`LIFETIME`] from when it became known.
    Unsaid,
}

/// A unit of knowledge.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The unique name.
    pub uid: Arc<str>,
    /// True if rows begin with it.
    pub root: bool,
    /// True if it extends the nodes that it matches; otherwise it adds rows beside those that it matches.
    pub link: bool,
    /// The given priority. It has no effect: the property nearest to the root applies.
    pub priority: f64,
    /// The time until which it is valid.
    pub expire: Expiry,
    /// A description for people.
    pub description: Arc<str>,
    /// The sets of properties that it matches. A set matches if all its properties are present, with values
    /// that overlap.
    pub matches: Arc<[Properties]>,
    /// The alternative sets of properties that it states. There is at least one.
    pub alternatives: Arc<[Properties]>,
}

impl Node {
    fn weight(&self) -> usize {
        self.matches
            .iter()
            .chain(&*self.alternatives)
            .map(Properties::len)
            .sum()
    }
}

/// A node, and the time at which it expires.
#[derive(Clone, Debug)]
struct StoredNode {
    node: Arc<Node>,
    until: Option<f64>,
}

impl StoredNode {
    fn is_alive(&self, now: f64) -> bool {
        self.until.is_none_or(|until| now <= until)
    }
}

/// All nodes, in the order in which they became known.
#[derive(Clone, Debug, Default)]
pub struct Cib {
    held: Vec<StoredNode>,
}

impl Cib {
    /// Adds a node that became known at `now`, and returns the node of the same name that it replaces. Nodes
    /// that have expired by then are removed.
    ///
    /// # Errors
    /// There are too many nodes. Only expired nodes have been removed in that case.
    pub fn insert(&mut self, node: Node, now: f64) -> Result<Option<Arc<Node>>, Limit> {
        self.forget(now);
        let place = self.place(&node.uid);
        let others = self.held.iter().filter(|held| held.node.uid != node.uid);
        if others.map(|held| held.node.weight()).sum::<usize>() + node.weight() > limits::PROPERTIES {
            return Err(Limit::new(
                "properties in the CIB",
                limits::PROPERTIES,
                &*node.uid,
            ));
        }
        if place.is_none() && self.held.len() >= limits::NODES {
            return Err(Limit::new("nodes in the CIB", limits::NODES, &*node.uid));
        }
        let until = match node.expire {
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
            Expiry::Unsaid => Some(now + LIFETIME),
        };
        let new = StoredNode { node: Arc::new(node), until };
        match place {
            Some(place) => Ok(Some(std::mem::replace(&mut self.held[place], new).node)),
            None => {
                self.held.push(new);
                Ok(None)
            }
        }
    }

    /// Removes a node by its name, and returns it.
    pub fn remove(&mut self, uid: &str) -> Option<Arc<Node>> {
        self.place(uid).map(|place| self.held.remove(place).node)
    }

    /// Removes the expired nodes.
    pub fn forget(&mut self, now: f64) {
        self.held.retain(|held| held.is_alive(now));
    }

    /// Returns the nodes that are valid at `now`, each with the time at which it expires.
    pub fn iter(&self, now: f64) -> impl Iterator<Item = (&Node, Option<f64>)> {
        self.held
            .iter()
            .filter(move |held| held.is_alive(now))
            .map(|held| (&*held.node, held.until))
    }

    /// Returns the rows at `now`.
    ///
    /// # Errors
    /// The graph makes too many rows.
    pub fn rows(&self, now: f64) -> Result<Rows, Limit> {
        let alive: Vec<&StoredNode> = self.held.iter().filter(|held| held.is_alive(now)).collect();
        let until = alive.iter().filter_map(|held| held.until).min_by(f64::total_cmp);
        let nodes: Vec<&Node> = alive.iter().map(|held| &*held.node).collect();
        Ok(Rows { rows: graph::rows(&nodes)?, until })
    }

    fn place(&self, uid: &str) -> Option<usize> {
        self.held.iter().position(|held| &*held.node.uid == uid)
    }
}
