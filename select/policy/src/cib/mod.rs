//! The Characteristics Information Base: what is known of interfaces, peers and networks.
//!
//! Nodes come from files, from past connections and from controllers; most expire. What may be matched
//! against a request are [`Rows`], which the graph of nodes makes (`graph`).

mod graph;

use std::sync::Arc;

use crate::limits::{self, Limit};
use crate::properties::Properties;

pub use graph::{Row, Rows};

/// Seconds that a node lives which does not say how long.
pub const LIFETIME: f64 = 600.0;

/// Until when a node is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expiry {
    /// For ever.
    Never,
    /// Up to and including this time, in seconds since 1970.
    At(f64),
    /// For [`LIFETIME`] from when it became known.
    Unsaid,
}

/// Something known.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name; there is one of it.
    pub uid: Arc<str>,
    /// Whether rows begin with it.
    pub root: bool,
    /// Whether it extends the nodes that it matches; else it adds rows beside those that it matches.
    pub link: bool,
    /// Kept as it was given. Nothing depends on it: what is nearer to the root counts.
    pub priority: f64,
    /// Until when it is true.
    pub expire: Expiry,
    /// For people.
    pub description: Arc<str>,
    /// It matches what has all properties of any of these, with values that overlap.
    pub matches: Arc<[Properties]>,
    /// What it tells, each for itself. There is at least one.
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

/// A node and when it ends.
#[derive(Clone, Debug)]
struct Held {
    node: Arc<Node>,
    until: Option<f64>,
}

impl Held {
    fn is_alive(&self, now: f64) -> bool {
        self.until.is_none_or(|until| now <= until)
    }
}

/// All that is known, in the order in which it became known.
#[derive(Clone, Debug, Default)]
pub struct Cib {
    held: Vec<Held>,
}

impl Cib {
    /// Puts a node in that became known at `now`, and gives the one of the same name that it takes the
    /// place of. What has expired by then leaves.
    ///
    /// # Errors
    /// There are too many; nothing has changed then, but for what expired.
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
        let new = Held { node: Arc::new(node), until };
        match place {
            Some(place) => Ok(Some(std::mem::replace(&mut self.held[place], new).node)),
            None => {
                self.held.push(new);
                Ok(None)
            }
        }
    }

    /// Takes a node out.
    pub fn remove(&mut self, uid: &str) -> Option<Arc<Node>> {
        self.place(uid).map(|place| self.held.remove(place).node)
    }

    /// Takes out what has expired.
    pub fn forget(&mut self, now: f64) {
        self.held.retain(|held| held.is_alive(now));
    }

    /// The nodes that are true at `now`, each with when it ends.
    pub fn iter(&self, now: f64) -> impl Iterator<Item = (&Node, Option<f64>)> {
        self.held
            .iter()
            .filter(move |held| held.is_alive(now))
            .map(|held| (&*held.node, held.until))
    }

    /// The rows at `now`.
    ///
    /// # Errors
    /// The graph makes too many.
    pub fn rows(&self, now: f64) -> Result<Rows, Limit> {
        let alive: Vec<&Held> = self.held.iter().filter(|held| held.is_alive(now)).collect();
        let until = alive.iter().filter_map(|held| held.until).min_by(f64::total_cmp);
        let nodes: Vec<&Node> = alive.iter().map(|held| &*held.node).collect();
        Ok(Rows { rows: graph::rows(&nodes)?, until })
    }

    fn place(&self, uid: &str) -> Option<usize> {
        self.held.iter().position(|held| &*held.node.uid == uid)
    }
}
