//! A scenario's network as a drawing: its nodes, in rows, and the links between them.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::link::Profile;
use crate::scenario::units::{Rate, TimeSpan};
use crate::scenario::{LinkSpec, Scenario};

/// The maximum number of links whose rates and delays are written beside them. In larger networks these are
/// tool tips only.
const LABELS_MAX: usize = 40;

/// The nodes and links of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkMap {
    /// The scenario's name.
    pub name: String,
    /// The hosts, then the switches, in the scenario's order.
    pub nodes: Vec<MapNode>,
    /// The links, in the scenario's order.
    pub links: Vec<MapLink>,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// The node's name.
    pub name: String,
    /// True for a host, false for a switch.
    pub is_host: bool,
    /// The number of links between it and the nearest host; hosts are in row 0.
    pub row: usize,
    /// Its position in its row.
    pub place: usize,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapLink {
    /// The indices of the nodes at its ends.
    pub ends: [usize; 2],
    /// Its rate and delay, for both directions if they differ; empty if it has neither.
    pub label: String,
}

impl NetworkMap {
    /// Returns the map of a scenario.
    #[must_use]
    pub fn from_scenario(scenario: &Scenario) -> NetworkMap {
        let numbers = scenario.node_numbers();
        let number = |name: &str| numbers.get(name).copied().unwrap_or(0);
        let links: Vec<MapLink> = scenario
            .link
            .iter()
            .map(|link| MapLink {
                ends: [number(&link.between[0]), number(&link.between[1])],
                label: label(link),
            })
            .collect();
        let hosts = scenario.host.iter().map(|host| (&host.name, true));
        let switches = scenario.switch.iter().map(|switch| (&switch.name, false));
        let all: Vec<(&String, bool)> = hosts.chain(switches).collect();
        let mut places = Vec::new();
        let nodes = all
            .iter()
            .zip(rows(all.len(), scenario.host.len(), &links))
            .map(|((name, is_host), row)| {
                places.resize(places.len().max(row + 1), 0);
                places[row] += 1;
                MapNode { name: (*name).clone(), is_host: *is_host, row, place: places[row] - 1 }
            })
            .collect();
        NetworkMap { name: scenario.name.clone(), nodes, links }
    }

    /// Returns the number of nodes in a row.
    #[must_use]
    pub fn width(&self, row: usize) -> usize {
        self.nodes.iter().filter(|node| node.row == row).count()
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.nodes.iter().map(|node| node.row + 1).max().unwrap_or(0)
    }

    /// Returns the graph in the language of Graphviz.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut out = format!("graph {} {{\n  node [shape=box];\n", quoted(&self.name));
        for row in (0..self.rows()).rev() {
            out += "  { rank=same;";
            for node in self.nodes.iter().filter(|node| node.row == row) {
                let shape = if node.is_host { " [shape=ellipse]" } else { "" };
                let _ = write!(out, " {}{shape};", quoted(&node.name));
            }
            out += " }\n";
        }
        for link in &self.links {
            // The end nearer to the hosts comes second, because Graphviz places it below.
            let mut ends = link.ends.map(|end| &self.nodes[end]);
            ends.sort_by_key(|node| std::cmp::Reverse(node.row));
            let label = quoted(&link.label);
            let shown = match self.links.len() {
                0..=LABELS_MAX => format!("label={label}, tooltip={label}"),
                _ => format!("tooltip={label}"),
            };
            let [one, other] = ends.map(|node| quoted(&node.name));
            let _ = writeln!(out, "  {one} -- {other} [{shown}];");
        }
        out + "}\n"
    }
}

/// Returns the row of each node: its distance from the nearest host. Switches that reach no host are in the
/// first row of switches.
fn rows(nodes: usize, hosts: usize, links: &[MapLink]) -> Vec<usize> {
    let mut neighbours = vec![Vec::new(); nodes];
    for MapLink { ends: [one, other], .. } in links {
        neighbours[*one].push(*other);
        neighbours[*other].push(*one);
    }
    let mut rows = vec![None; nodes];
    rows[..hosts].fill(Some(0));
    let mut reached: VecDeque<(usize, usize)> = (0..hosts).map(|host| (host, 0)).collect();
    while let Some((node, row)) = reached.pop_front() {
        for next in &neighbours[node] {
            if rows[*next].is_none() {
                rows[*next] = Some(row + 1);
                reached.push_back((*next, row + 1));
            }
        }
    }
    rows.into_iter().map(|row| row.unwrap_or(1)).collect()
}

fn label(link: &LinkSpec) -> String {
    let of = |rules| {
        let mut profile = Profile::default();
        link.both.apply(&mut profile);
        crate::scenario::Rules::apply(rules, &mut profile);
        let rate = profile.rate.map(|rate| Rate(rate).to_string());
        let delay = hawser_time::nanos(profile.delay);
        let delay = (delay > 0).then(|| TimeSpan(delay).to_string());
        let parts: Vec<String> = rate.into_iter().chain(delay).collect();
        parts.join(", ")
    };
    let (forward, backward) = (of(&link.forward), of(&link.backward));
    match forward == backward {
        true => forward,
        false => format!("{forward} / {backward}"),
    }
}

/// Quotes a text for Graphviz.
fn quoted(text: &str) -> String {
    let shown = |letter: char| match letter {
        '"' | '\'' | '\\' => letter.to_string(),
        _ => letter.escape_debug().to_string(),
    };
    let text: String = text.chars().map(shown).collect();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> NetworkMap {
        let flow = "[[flow]]\nfrom = 'h0'\nto = 'h1'\nbulk = { bytes = 1 }\n";
        let scenario = Scenario::parse(&format!("program = 'x'\n{text}\n{flow}"));
        NetworkMap::from_scenario(&scenario.unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn hosts_are_drawn_at_the_bottom_and_switches_by_distance() {
        let map = map("topology = { kind = 'fat-tree', ports = 4 }");
        let widths: Vec<usize> = (0..map.rows()).map(|row| map.width(row)).collect();
        assert_eq!(widths, [16, 8, 8, 4], "hosts, edge, aggregation, core");
        let core = map
            .nodes
            .iter()
            .find(|node| node.name == "core3")
            .expect("a core switch");
        assert_eq!((core.row, core.place, core.is_host), (3, 3, false));
        assert_eq!(map.links.len(), 48);
    }

    #[test]
    fn graphviz_has_rows_and_labels() {
        let map = map("name = 'a \"b\"'\n[topology]\nkind = 'dumbbell'\nhosts = 1\n\
             host_link = { rate = '1Gbit/s', delay = '1us' }\n");
        let expected = "graph \"a \\\"b\\\"\" {\n  node [shape=box];\n  { rank=same; \"left\"; \"right\"; }\n  \
            { rank=same; \"h0\" [shape=ellipse]; \"h1\" [shape=ellipse]; }\n  \
            \"left\" -- \"h0\" [label=\"1Gbit/s, 1us\", tooltip=\"1Gbit/s, 1us\"];\n  \
            \"right\" -- \"h1\" [label=\"1Gbit/s, 1us\", tooltip=\"1Gbit/s, 1us\"];\n  \
            \"left\" -- \"right\" [label=\"\", tooltip=\"\"];\n}\n";
        assert_eq!(map.dot(), expected);
    }

    #[test]
    fn directions_that_differ_are_both_written() {
        let text = "host = [{ name = 'h0' }, { name = 'h1' }]\n[[link]]\nbetween = ['h0', 'h1']\n\
                    both = { delay = '2ms' }\nforward = { rate = '8Mbit/s' }\n";
        assert_eq!(map(text).links[0].label, "8Mbit/s, 2ms / 2ms");
    }
}
