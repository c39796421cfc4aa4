//! Computes rows from nodes.
//!
//! A node with `link` points at the nodes that it matches. A row begins at a root and proceeds from each node
//! to one that points at it. It ends when no new node points at the last one. If several nodes of a row have
//! a property, that of the node nearest to the root applies. Each choice of alternatives makes a row of its
//! own. Then a node without `link` adds a row for each row of a root that it matches. In the new row, the
//! node's own properties override the others.

use std::sync::Arc;

use super::Node;
use crate::limits::{self, Budget, Limit};
use crate::names::keys;
use crate::properties::Properties;
use crate::value::{Scalar, Value};

/// A set of knowledge that is matched against a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The properties that hold together.
    pub properties: Properties,
    /// The names of its nodes, from the root on.
    pub path: Arc<[Arc<str>]>,
    /// The name of the node that added it beside another row.
    pub beside: Option<Arc<str>>,
}

/// All rows, and the time for which they are valid.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The rows, root by root.
    pub rows: Vec<Row>,
    /// The time at which the next node expires. After it, the rows have to be computed anew.
    pub until: Option<f64>,
}

impl Rows {
    /// Returns whether the rows are still valid at `now`.
    pub fn are_true(&self, now: f64) -> bool {
        self.until.is_none_or(|until| now <= until)
    }
}

/// Returns the rows of these nodes.
pub(super) fn rows(nodes: &[&Node]) -> Result<Vec<Row>, Limit> {
    let mut budget = Budget::new();
    let followers = followers(nodes, &mut budget)?;
    let mut rows = Rows::default();
    let mut weight = 0;
    for (root, node) in nodes.iter().enumerate().filter(|(_, node)| node.root) {
        let begin = rows.rows.len();
        for path in paths(nodes, &followers, root)? {
            expand(nodes, &path, &mut rows.rows, &mut weight)?;
        }
        beside(nodes, begin, &mut rows.rows, &mut weight, &mut budget).map_err(|limit| match limit {
            Limit { place, .. } if place.is_empty() => Limit { place: node.uid.to_string(), ..limit },
            limit => limit,
        })?;
    }
    Ok(rows.rows)
}

/// Returns for each node the nodes that point at it.
fn followers(nodes: &[&Node], budget: &mut Budget) -> Result<Vec<Vec<usize>>, Limit> {
    let mut followers = vec![Vec::new(); nodes.len()];
    for (from, link) in nodes.iter().enumerate().filter(|(_, node)| node.link) {
        for (to, node) in nodes.iter().enumerate().filter(|(to, _)| *to != from) {
            budget.spend(1 + link.matches.len() * node.alternatives.len(), &link.uid)?;
            let matches =
                |wanted: &Properties| node.alternatives.iter().any(|one| fulfils(node, one, wanted));
            if link.matches.iter().any(matches) {
                followers[to].push(from);
            }
        }
    }
    Ok(followers)
}

/// Returns whether an alternative of a node has all wanted properties. A wanted `uid` also matches the node's
/// name.
fn fulfils(node: &Node, alternative: &Properties, wanted: &Properties) -> bool {
    wanted.iter().all(|(key, property)| {
        let named = || {
            let name = Value::One(Scalar::Text(node.uid.clone()));
            key == keys::UID && property.value.overlaps(&name)
        };
        alternative
            .find(key)
            .is_some_and(|reported| reported.value.overlaps(&property.value))
            || named()
    })
}

/// Returns every path from the root that cannot be extended.
fn paths(nodes: &[&Node], followers: &[Vec<usize>], root: usize) -> Result<Vec<Vec<usize>>, Limit> {
    let (mut paths, mut open) = (Vec::new(), vec![vec![root]]);
    while let Some(path) = open.pop() {
        let last = *path.last().unwrap_or(&root);
        let next: Vec<usize> = followers[last]
            .iter()
            .copied()
            .filter(|node| !path.contains(node))
            .collect();
        if next.is_empty() {
            paths.push(path);
        } else if path.len() >= limits::PATH {
            return Err(Limit::new(
                "nodes in a chain of links",
                limits::PATH,
                &*nodes[root].uid,
            ));
        } else {
            // The last path is extended first, so that earlier nodes make earlier rows.
            open.extend(
                next.into_iter()
                    .rev()
                    .map(|node| path.iter().copied().chain([node]).collect()),
            );
        }
        if paths.len() + open.len() > limits::ROWS {
            return Err(Limit::new("rows of the CIB", limits::ROWS, &*nodes[root].uid));
        }
    }
    Ok(paths)
}

/// Adds a row for each choice of alternatives along a path.
fn expand(nodes: &[&Node], path: &[usize], rows: &mut Vec<Row>, weight: &mut usize) -> Result<(), Limit> {
    let uids: Arc<[Arc<str>]> = path.iter().map(|node| nodes[*node].uid.clone()).collect();
    let mut choices = vec![0; path.len()];
    loop {
        let mut properties = Properties::default();
        for (node, choice) in path.iter().zip(&choices).rev() {
            properties.overlay(&nodes[*node].alternatives[*choice]);
        }
        push(rows, weight, Row { properties, path: uids.clone(), beside: None })?;
        // Take the next choice; that of the last node changes fastest.
        let Some(turn) = (0..path.len())
            .rev()
            .find(|at| choices[*at] + 1 < nodes[path[*at]].alternatives.len())
        else {
            return Ok(());
        };
        choices[turn] += 1;
        choices[turn + 1..].fill(0);
    }
}

/// Adds rows beside those of one root, which begin at `begin`.
fn beside(
    nodes: &[&Node],
    begin: usize,
    rows: &mut Vec<Row>,
    weight: &mut usize,
    budget: &mut Budget,
) -> Result<(), Limit> {
    for row in begin..rows.len() {
        for node in nodes.iter().filter(|node| !node.link) {
            budget.spend(1 + node.matches.len(), &node.uid)?;
            if !node
                .matches
                .iter()
                .any(|wanted| rows[row].properties.cover(wanted))
            {
                continue;
            }
            for alternative in &*node.alternatives {
                let mut properties = rows[row].properties.clone();
                properties.overlay(alternative);
                properties.remove(keys::UID);
                let path = rows[row].path.clone();
                push(
                    rows,
                    weight,
                    Row { properties, path, beside: Some(node.uid.clone()) },
                )?;
            }
        }
    }
    Ok(())
}

fn push(rows: &mut Vec<Row>, weight: &mut usize, row: Row) -> Result<(), Limit> {
    let place = || row.path.first().map_or_else(String::new, |uid| uid.to_string());
    *weight += row.properties.len();
    if rows.len() >= limits::ROWS {
        return Err(Limit::new("rows of the CIB", limits::ROWS, place()));
    }
    if *weight > limits::PROPERTIES {
        return Err(Limit::new(
            "properties in the CIB's rows",
            limits::PROPERTIES,
            place(),
        ));
    }
    rows.push(row);
    Ok(())
}
