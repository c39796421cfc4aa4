//! Topologies by name and numbers: hosts, switches and links that a scenario does not have to list.
//!
//! | kind | hosts | switches | links |
//! |---|---|---|---|
//! | `dumbbell` | `h0`… at the first switch, as many more at the second | `left`, `right` | one core link |
//! | `leaf-spine` | `hosts` at each leaf | `leaf0`…, `spine0`… | each leaf to each spine |
//! | `fat-tree` | k³/4, k/2 at each edge switch | `edge0`…, `aggregation0`…, `core0`… of k ports | Al-Fares et al., SIGCOMM 2008 |

use serde::{Deserialize, Serialize};

use super::{HostSpec, LinkSpec, Rules, Scenario, ScenarioError, SwitchSpec, is_default};

/// The maximum of each number of a topology.
const NUMBER_MAX: u64 = 1000;

/// A topology. Its kind determines the numbers that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The kind of the topology.
    pub kind: TopologyKind,
    /// The number of hosts at each switch that has hosts.
    pub hosts: Option<u64>,
    /// The number of leaves of a leaf-spine topology.
    pub leaves: Option<u64>,
    /// The number of spines of a leaf-spine topology.
    pub spines: Option<u64>,
    /// The number of ports of each switch of a fat tree.
    pub ports: Option<u64>,
    /// Rules of the links between hosts and switches, for both directions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_link: Rules,
    /// Rules of the links between switches, for both directions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub core_link: Rules,
    /// The settings of each host.
    pub host: Option<HostSpec>,
    /// The settings of each switch.
    pub switch: Option<SwitchSpec>,
}

/// The kind of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// Two switches with a link between them, and the same number of hosts at each.
    Dumbbell,
    /// Leaves with hosts, each linked to every spine.
    LeafSpine,
    /// Pods of edge and aggregation switches below core switches, all with the same number of ports.
    FatTree,
}

impl TopologyKind {
    /// Returns its name in a scenario.
    fn name(self) -> &'static str {
        match self {
            TopologyKind::Dumbbell => "dumbbell",
            TopologyKind::LeafSpine => "leaf-spine",
            TopologyKind::FatTree => "fat-tree",
        }
    }
}

impl Scenario {
    /// Adds the topology's hosts, switches and links before those that are listed.
    ///
    /// # Errors
    /// Returns an error if a number is missing, does not belong to the kind, or is too large.
    pub(super) fn expand(&mut self) -> Result<(), ScenarioError> {
        let Some(topology) = self.topology.take() else {
            return Ok(());
        };
        let mut built = Built::new(&topology)?;
        match topology.kind {
            TopologyKind::Dumbbell => built.dumbbell(topology.number("hosts", topology.hosts)?),
            TopologyKind::LeafSpine => built.leaf_spine(
                topology.number("leaves", topology.leaves)?,
                topology.number("spines", topology.spines)?,
                topology.number("hosts", topology.hosts)?,
            ),
            TopologyKind::FatTree => built.fat_tree(topology.even("ports", topology.ports)?),
        }?;
        self.origin.hosts = built.host.len();
        self.origin.switches = built.switch.len();
        self.origin.links = built.link.len();
        self.host.splice(0..0, built.host);
        self.switch.splice(0..0, built.switch);
        self.link.splice(0..0, built.link);
        Ok(())
    }
}

impl Topology {
    /// Returns a number that its kind requires.
    fn number(&self, key: &str, value: Option<u64>) -> Result<u64, ScenarioError> {
        let path = format!("topology.{key}");
        match value {
            Some(number @ 1..=NUMBER_MAX) => Ok(number),
            Some(number) => {
                let message = format!("{number} is not between 1 and {NUMBER_MAX}");
                Err(ScenarioError::new(path, message))
            }
            None => {
                let message = format!("a {} needs a number of `{key}`", self.kind.name());
                Err(ScenarioError::new(path, message))
            }
        }
    }

    fn even(&self, key: &str, value: Option<u64>) -> Result<u64, ScenarioError> {
        let number = self.number(key, value)?;
        if number % 2 == 0 {
            return Ok(number);
        }
        let message = format!("{number} is odd: half of a switch's ports lead up and half lead down");
        Err(ScenarioError::new(format!("topology.{key}"), message))
    }

    /// Rejects numbers that do not belong to its kind.
    fn check_keys(&self) -> Result<(), ScenarioError> {
        let has: &[&str] = match self.kind {
            TopologyKind::Dumbbell => &["hosts"],
            TopologyKind::LeafSpine => &["hosts", "leaves", "spines"],
            TopologyKind::FatTree => &["ports"],
        };
        let given = [
            ("hosts", self.hosts),
            ("leaves", self.leaves),
            ("spines", self.spines),
            ("ports", self.ports),
        ];
        let other = given
            .into_iter()
            .find(|(key, value)| value.is_some() && !has.contains(key));
        if let Some((key, _)) = other {
            let message = format!("a {} has no number of `{key}`", self.kind.name());
            let error = ScenarioError::new(format!("topology.{key}"), message);
            return Err(error.with_hint(format!("it has {}", has.join(", "))));
        }
        let host = self.host.as_ref();
        let named = [
            ("host.name", host.is_some_and(|host| !host.name.is_empty())),
            (
                "host.addresses",
                host.is_some_and(|host| !host.addresses.is_empty()),
            ),
            (
                "switch.name",
                self.switch.as_ref().is_some_and(|switch| !switch.name.is_empty()),
            ),
        ];
        match named.into_iter().find(|(_, given)| *given) {
            Some((key, _)) => {
                let message = "the topology gives each host an address of its own";
                Err(ScenarioError::new(format!("topology.{key}"), message))
            }
            None => Ok(()),
        }
    }
}

/// The hosts, switches and links of a topology.
struct Built<'a> {
    topology: &'a Topology,
    host: Vec<HostSpec>,
    switch: Vec<SwitchSpec>,
    link: Vec<LinkSpec>,
}

impl Built<'_> {
    fn new(topology: &Topology) -> Result<Built<'_>, ScenarioError> {
        topology.check_keys()?;
        Ok(Built { topology, host: Vec::new(), switch: Vec::new(), link: Vec::new() })
    }

    /// Rejects numbers beyond the limits of a scenario, before any node is created.
    fn reserve(&self, hosts: u64, switches: u64) -> Result<(), ScenarioError> {
        let over = [("hosts", hosts), ("switches", switches)];
        match over.into_iter().find(|(_, count)| *count > NUMBER_MAX) {
            Some((what, count)) => {
                let message = format!("{count} {what} are more than the limit of {NUMBER_MAX}");
                Err(ScenarioError::new("topology", message))
            }
            None => Ok(()),
        }
    }

    /// Adds `count` hosts at a switch.
    fn hosts_at(&mut self, switch: &str, count: u64) {
        for _ in 0..count {
            let name = format!("h{}", self.host.len());
            self.link(&name, switch, &self.topology.host_link);
            let template = self.topology.host.clone().unwrap_or_default();
            self.host.push(HostSpec { name, ..template });
        }
    }

    fn switches(&mut self, name: impl Fn(u64) -> String, count: u64) -> Vec<String> {
        let template = self.topology.switch.clone().unwrap_or_default();
        let names: Vec<String> = (0..count).map(name).collect();
        self.switch.extend(
            names
                .iter()
                .map(|name| SwitchSpec { name: name.clone(), ..template.clone() }),
        );
        names
    }

    fn link(&mut self, one: &str, other: &str, rules: &Rules) {
        self.link.push(LinkSpec {
            name: String::new(),
            between: [one.to_owned(), other.to_owned()],
            both: rules.clone(),
            forward: Rules::default(),
            backward: Rules::default(),
            nat: None,
        });
    }

    fn core_link(&mut self, one: &str, other: &str) {
        self.link(one, other, &self.topology.core_link);
    }

    fn dumbbell(&mut self, hosts: u64) -> Result<(), ScenarioError> {
        self.reserve(2 * hosts, 2)?;
        let names = self.switches(|number| ["left", "right"][number as usize].to_owned(), 2);
        names.iter().for_each(|switch| self.hosts_at(switch, hosts));
        self.core_link(&names[0], &names[1]);
        Ok(())
    }

    fn leaf_spine(&mut self, leaves: u64, spines: u64, hosts: u64) -> Result<(), ScenarioError> {
        self.reserve(leaves * hosts, leaves + spines)?;
        let leaf = self.switches(|number| format!("leaf{number}"), leaves);
        let spine = self.switches(|number| format!("spine{number}"), spines);
        leaf.iter().for_each(|leaf| self.hosts_at(leaf, hosts));
        for leaf in &leaf {
            spine.iter().for_each(|spine| self.core_link(leaf, spine));
        }
        Ok(())
    }

    /// Builds a fat tree of switches with k ports. It has k pods, in each of which k/2 edge switches are
    /// linked to k/2 aggregation switches. The i-th aggregation switch is linked to the i-th group of k/2 of
    /// the (k/2)² core switches.
    fn fat_tree(&mut self, ports: u64) -> Result<(), ScenarioError> {
        let half = ports / 2;
        self.reserve(ports * half * half, 2 * ports * half + half * half)?;
        let edge = self.switches(|number| format!("edge{number}"), ports * half);
        let aggregation = self.switches(|number| format!("aggregation{number}"), ports * half);
        let core = self.switches(|number| format!("core{number}"), half * half);
        edge.iter().for_each(|edge| self.hosts_at(edge, half));
        let half = half as usize;
        for (edges, aggregations) in edge.chunks(half).zip(aggregation.chunks(half)) {
            for edge in edges {
                aggregations.iter().for_each(|above| self.core_link(edge, above));
            }
            for (above, cores) in aggregations.iter().zip(core.chunks(half)) {
                cores.iter().for_each(|core| self.core_link(above, core));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
