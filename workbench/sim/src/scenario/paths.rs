//! Shortest paths through a network of hosts and switches, computed once from its links.
//!
//! Every link has the length 1. Switches forward frames and hosts do not, so hosts are only at the ends of a
//! path. Several links of a node may be on shortest paths to a host; they are given in the order of the
//! links. Each step is one link nearer to the host, so no frame circulates.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::scenario::Scenario;

/// Nodes and the links between them.
#[derive(Clone, Debug)]
pub struct Graph {
    /// By node: the nodes behind its ports. Ports are in the order of the links.
    neighbours: Vec<Vec<usize>>,
    forwards: Vec<bool>,
    /// By node: the parts of the network that contain it or are linked to it. Switches that reach one another
    /// over switches alone form one part.
    parts: Vec<BTreeSet<usize>>,
}

/// The shortest paths to a node from all other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Towards {
    /// By node: the number of links on a shortest path, or `None` if there is no path.
    pub distance: Vec<Option<usize>>,
    /// By node: the ports by which shortest paths leave, in their order.
    pub ports: Vec<Vec<usize>>,
}

impl Graph {
    /// Creates a graph from nodes, each with whether it forwards frames, and links between them by their
    /// numbers.
    #[must_use]
    pub fn new(forwards: Vec<bool>, links: impl IntoIterator<Item = [usize; 2]>) -> Graph {
        let mut neighbours = vec![Vec::new(); forwards.len()];
        for [one, other] in links {
            neighbours[one].push(other);
            neighbours[other].push(one);
        }
        let parts = parts(&neighbours, &forwards);
        Graph { neighbours, forwards, parts }
    }

    /// Returns the graph of a scenario: its hosts, then its switches. Links to unknown names are omitted.
    #[must_use]
    pub fn from_scenario(scenario: &Scenario) -> Graph {
        let hosts = scenario.host.iter().map(|host| (host.name.as_str(), false));
        let switches = scenario.switch.iter().map(|switch| (switch.name.as_str(), true));
        let (names, forwards): (Vec<&str>, Vec<bool>) = hosts.chain(switches).unzip();
        let numbers: BTreeMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (*name, number))
            .collect();
        let number = |name: &String| numbers.get(name.as_str()).copied();
        let links = scenario.link.iter().filter_map(|link| {
            let [one, other] = &link.between;
            Some([number(one)?, number(other)?])
        });
        Graph::new(forwards, links.collect::<Vec<_>>())
    }

    /// Returns true if a path leads from one node to another.
    #[must_use]
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        let [one, other] = [from, to].map(|node| &self.parts[node]);
        from == to || !one.is_disjoint(other) || self.neighbours[from].contains(&to)
    }

    /// Returns true if one part of the network joins all these nodes, so that each reaches each. Otherwise,
    /// some of them may still reach others.
    #[must_use]
    pub fn joins_all(&self, mut nodes: impl Iterator<Item = usize>) -> bool {
        let Some(first) = nodes.next() else {
            return true;
        };
        let mut parts = self.parts[first].clone();
        nodes.for_each(|node| parts.retain(|part| self.parts[node].contains(part)));
        !parts.is_empty()
    }

    /// Returns the only switch to which a node is linked, and the switch's port that leads to the node. All
    /// paths to such a node lead to its switch, and then through that port.
    #[must_use]
    pub fn behind(&self, node: usize) -> Option<(usize, usize)> {
        let [switch] = self.neighbours[node][..] else {
            return None;
        };
        let port = self.neighbours[switch].iter().position(|next| *next == node)?;
        (self.forwards[switch] && !self.forwards[node]).then_some((switch, port))
    }

    /// Returns the number of a node's links.
    #[must_use]
    pub fn links(&self, node: usize) -> usize {
        self.neighbours[node].len()
    }

    /// Returns the shortest paths to this node.
    #[must_use]
    pub fn towards(&self, to: usize) -> Towards {
        let mut distance = vec![None; self.neighbours.len()];
        distance[to] = Some(0);
        let mut reached = VecDeque::from([(to, 0)]);
        while let Some((node, far)) = reached.pop_front() {
            if node != to && !self.forwards[node] {
                continue;
            }
            for &next in &self.neighbours[node] {
                if distance[next].is_none() {
                    distance[next] = Some(far + 1);
                    reached.push_back((next, far + 1));
                }
            }
        }
        let is_nearer = |node: usize, next: usize| {
            let passes = next == to || self.forwards[next];
            passes && distance[node].is_some_and(|far| distance[next].is_some_and(|near| near + 1 == far))
        };
        let ports = |node: usize| {
            let ports = self.neighbours[node].iter().enumerate();
            ports
                .filter(|(_, next)| is_nearer(node, **next))
                .map(|(port, _)| port)
                .collect()
        };
        let ports = (0..self.neighbours.len()).map(ports).collect();
        Towards { distance, ports }
    }
}

/// Returns, by node, the parts of the network that contain it or are linked to it.
fn parts(neighbours: &[Vec<usize>], forwards: &[bool]) -> Vec<BTreeSet<usize>> {
    let mut parts = vec![BTreeSet::new(); neighbours.len()];
    for first in (0..neighbours.len()).filter(|node| forwards[*node]) {
        if !parts[first].is_empty() {
            continue;
        }
        parts[first].insert(first);
        let mut reached = vec![first];
        while let Some(switch) = reached.pop() {
            for &next in &neighbours[switch] {
                if parts[next].insert(first) && forwards[next] {
                    reached.push(next);
                }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::rng::Rng;

    const FAR: usize = usize::MAX / 2;

    /// The algorithm of Floyd and Warshall, in which paths continue only at switches.
    fn distances(forwards: &[bool], links: &[[usize; 2]]) -> Vec<Vec<usize>> {
        let count = forwards.len();
        let mut distance = vec![vec![FAR; count]; count];
        (0..count).for_each(|node| distance[node][node] = 0);
        for &[one, other] in links {
            (distance[one][other], distance[other][one]) = (1, 1);
        }
        for middle in (0..count).filter(|middle| forwards[*middle]) {
            for one in 0..count {
                for other in 0..count {
                    let over = distance[one][middle] + distance[middle][other];
                    distance[one][other] = distance[one][other].min(over);
                }
            }
        }
        distance
    }

    #[test]
    fn every_path_of_random_networks_is_a_shortest_one() {
        let (mut paths, mut detours) = (0, 0);
        for seed in 0..300 {
            let mut rng = Rng::new(seed, "paths");
            let forwards: Vec<bool> = (0..rng.between(2, 12)).map(|_| rng.chance(0.6)).collect();
            let count = forwards.len() as u64;
            let mut links = Vec::new();
            for _ in 0..rng.between(1, 2 * count) {
                let (one, other) = (rng.below(count) as usize, rng.below(count) as usize);
                if one != other {
                    links.push([one, other]);
                }
            }
            let graph = Graph::new(forwards.clone(), links.clone());
            let known = distances(&forwards, &links);
            // The distance is the same in both directions.
            for (to, known) in known.iter().enumerate() {
                let towards = graph.towards(to);
                for (from, far) in known.iter().enumerate() {
                    let shortest = Some(*far).filter(|far| *far < FAR);
                    assert_eq!(
                        graph.reaches(from, to),
                        shortest.is_some(),
                        "seed {seed}: {from} to {to}"
                    );
                    assert_eq!(
                        towards.distance[from], shortest,
                        "seed {seed}: {from} to {to}, {links:?}"
                    );
                    // Any choice of ports at the nodes gives a shortest path.
                    for choice in [0, usize::MAX] {
                        let (mut node, mut steps) = (from, 0);
                        while node != to && shortest.is_some() {
                            assert!(
                                steps == 0 || forwards[node],
                                "seed {seed}: through the host {node}"
                            );
                            let ports = &towards.ports[node];
                            node = graph.neighbours[node][ports[choice.min(ports.len() - 1)]];
                            steps += 1;
                            assert!(steps <= *far, "seed {seed}: {from} to {to}");
                        }
                        assert_eq!(steps, shortest.unwrap_or(0), "seed {seed}: {from} to {to}");
                        paths += usize::from(steps > 0);
                        detours += usize::from(steps > 1);
                    }
                }
            }
        }
        assert!(paths > 10_000 && detours > 1000, "{paths} {detours}");
    }

    #[test]
    fn among_equal_paths_the_first_link_comes_first() {
        // Hosts 0 and 1, switches 2 to 5: two paths of three links lead from switch 2 to host 1.
        let forwards = vec![false, false, true, true, true, true];
        let links = [[0, 2], [2, 4], [2, 3], [3, 5], [4, 5], [5, 1]];
        let graph = Graph::new(forwards, links);
        // Switch 2's ports: to host 0, to switch 4, to switch 3.
        assert_eq!(graph.towards(1).ports[2], [1, 2]);
        assert_eq!(graph.towards(1).distance[0], Some(4));
        assert_eq!(graph.towards(0).ports[5], [0, 1]);
    }
}
