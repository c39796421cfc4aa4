//! The picture of the arrows in `ARCHITECTURE.md`, drawn from the table of [`arrows`].
//!
//! It is a Mermaid flowchart with a box for each column. An arrow is left out if a longer path implies it.
//! `cargo xtask picture` writes the chart.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Diagnostic;
use super::arrows::{self, RULES};
use super::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "```mermaid\n";
const END: &str = "```\n";

/// The columns, each with the rooms in it.
const COLUMNS: [(&str, &[&str]); 4] = [
    (
        "write a transport",
        &["lang", "engine", "wires", "workbench", "sockets"],
    ),
    ("join paths", &["session"]),
    ("choose a path", &["select", "connect"]),
    ("watch and steer", &["watch", "bus"]),
];

/// Checks that the page holds the picture of the current table.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    match replaced(tree.text(PAGE)) {
        Some(page) if page == tree.text(PAGE) => Vec::new(),
        Some(_) => {
            vec![Diagnostic::new(
                PAGE,
                "its picture does not match the arrows",
                "run `cargo xtask picture`",
            )]
        }
        None => vec![Diagnostic::new(
            PAGE,
            "it has no picture of the arrows",
            "add a block of Mermaid",
        )],
    }
}

/// Returns the page with the current picture, or `None` if the page has no place for it.
pub(crate) fn replaced(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", flowchart()))
}

fn flowchart() -> String {
    let mut out = String::from("flowchart TD\n");
    let id = |node: &str| node.replace('/', "_");
    let nodes: Vec<&str> = RULES
        .iter()
        .map(|rule| rule.from)
        .filter(|node| !arrows::GROUND.contains(node))
        .collect();
    for (title, rooms) in COLUMNS {
        let _ = writeln!(out, "  subgraph {}[\"{title}\"]", id(rooms[0]) + "_column");
        for node in nodes.iter().filter(|node| rooms.contains(&arrows::room(node))) {
            let _ = writeln!(out, "    {}[\"{node}\"]", id(node));
        }
        out.push_str("  end\n");
    }
    for (from, to) in reduced(&edges()) {
        let _ = writeln!(out, "  {} --> {}", id(from), id(to));
    }
    out
}

type Edges = BTreeSet<(&'static str, &'static str)>;

/// Returns every arrow between the rooms and crates that have rules of their own.
fn edges() -> Edges {
    let froms = RULES.iter().filter(|rule| !arrows::GROUND.contains(&rule.from));
    let reached = |to: &'static str| {
        RULES.iter().map(|rule| rule.from).filter(move |node| {
            arrows::within(node, to) || arrows::rule_of(to).is_some_and(|rule| rule.from == *node)
        })
    };
    froms
        .flat_map(|rule| {
            rule.to
                .iter()
                .flat_map(move |to| reached(to).map(move |node| (rule.from, node)))
        })
        .filter(|(from, to)| from != to)
        .collect()
}

/// Returns the arrows that no longer path implies.
fn reduced(edges: &Edges) -> Edges {
    let needless = |edge: &(&'static str, &'static str)| {
        let others: Edges = edges.iter().filter(|other| *other != edge).copied().collect();
        leads(&others, edge.0, edge.1)
    };
    edges.iter().filter(|edge| !needless(edge)).copied().collect()
}

/// Returns whether a path leads from one node to the other.
fn leads(edges: &Edges, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for (_, next) in edges.iter().filter(|(begin, _)| *begin == at) {
            if *next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_picture_is_found() {
        let page = |text: &str| Tree::from_texts(&[(PAGE, text)]);
        assert_eq!(check(&page("no picture")).len(), 1);
        let old = "a\n```mermaid\nflowchart TD\n```\nb\n";
        assert_eq!(check(&page(old)).len(), 1);
        let new = replaced(old).expect("it has a place");
        assert!(
            new.starts_with("a\n")
                && new.ends_with("b\n")
                && new.contains("session_driver --> session_machine")
        );
        assert_eq!(check(&page(&new)), []);
    }

    #[test]
    fn arrows_that_a_longer_path_implies_are_left_out() {
        let all = Edges::from([("a", "b"), ("b", "c"), ("a", "c")]);
        assert_eq!(reduced(&all), Edges::from([("a", "b"), ("b", "c")]));
    }

    #[test]
    fn the_arrows_are_acyclic() {
        let edges = edges();
        assert!(edges.iter().all(|(from, _)| !leads(&edges, from, from)));
    }
}
