//! Steps to a smaller network: fewer links, switches and hosts.

use hawser_sim::lower;
use hawser_sim::scenario::units::TimeSpan;
use hawser_sim::scenario::{FlowSpec, NatSpec, Scenario};

use super::Failing;

/// Returns a copy of the scenario with a change.
pub(super) fn with(scenario: &Scenario, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut changed = scenario.clone();
    change(&mut changed);
    changed
}

/// Removes each link. A scenario in which a flow needs the removed link fails its check.
pub(super) fn fewer_links(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let links = 0..scenario.link.len();
    links
        .map(|link| with(scenario, |s| remove_link(s, link)))
        .collect()
}

/// Removes translators, or makes them rebind less often.
pub(super) fn fewer_translations(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let mut all = Vec::new();
    for (i, link) in scenario.link.iter().enumerate() {
        let Some(nat) = &link.nat else { continue };
        all.push(with(scenario, |s| s.link[i].nat = None));
        let change =
            |change: &dyn Fn(&mut NatSpec)| with(scenario, |s| s.link[i].nat.iter_mut().for_each(change));
        all.push(change(&|nat| nat.moves = false));
        for (place, at) in nat.rebind.iter().enumerate() {
            all.push(change(&|nat| {
                nat.rebind.remove(place);
            }));
            for time in lower(at.0, 0) {
                all.push(change(&|nat| nat.rebind[place] = TimeSpan(time)));
            }
        }
    }
    all
}

/// Removes each switch with at most one link.
pub(super) fn fewer_switches(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let switches = scenario.switch.iter();
    let leaves = switches.filter_map(|switch| match links_of(scenario, &switch.name)[..] {
        [] => Some(with(scenario, |s| remove_switch(s, &switch.name))),
        [link] => Some(with(scenario, |s| {
            remove_link(s, link);
            remove_switch(s, &switch.name);
        })),
        _ => None,
    });
    leaves.collect()
}

/// Replaces each switch between two links by one link, which has the name, the rules and the changes of one
/// of the two.
pub(super) fn direct_links(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let mut all = Vec::new();
    for switch in &scenario.switch {
        let [one, other] = links_of(scenario, &switch.name)[..] else {
            continue;
        };
        for (kept, gone) in [(one, other), (other, one)] {
            let far = scenario.link[gone]
                .between
                .iter()
                .find(|name| **name != switch.name);
            let Some(far) = far else { continue };
            all.push(with(scenario, |s| {
                let link = &mut s.link[kept];
                link.name = link.label();
                let near = link.between.iter_mut().filter(|name| **name == switch.name);
                near.for_each(|name| name.clone_from(far));
                remove_link(s, gone);
                remove_switch(s, &switch.name);
            }));
        }
    }
    all
}

/// Removes each host without a link, the last first, because the earlier hosts determine the addresses of the
/// others.
pub(super) fn fewer_hosts(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let hosts = (0..scenario.host.len()).rev();
    let unused = hosts.filter(|host| links_of(scenario, &scenario.host[*host].name).is_empty());
    unused
        .map(|host| {
            with(scenario, |s| {
                let name = s.host.remove(host).name;
                s.at.retain(|at| at.host.as_ref() != Some(&name));
            })
        })
        .collect()
}

/// Returns the numbers of the links that lead to a node.
fn links_of(scenario: &Scenario, name: &String) -> Vec<usize> {
    let links = scenario.link.iter().enumerate();
    links
        .filter(|(_, link)| link.between.contains(name))
        .map(|(number, _)| number)
        .collect()
}

fn remove_link(scenario: &mut Scenario, number: usize) {
    let label = scenario.link.remove(number).label();
    scenario.at.retain(|at| at.link != label);
}

fn remove_switch(scenario: &mut Scenario, name: &str) {
    scenario.switch.retain(|switch| switch.name != name);
    scenario.at.retain(|at| at.switch.as_deref() != Some(name));
}

/// Returns scenarios in which one flow has one of some other forms.
pub(super) fn each_flow(scenario: &Scenario, forms: impl Fn(&FlowSpec) -> Vec<FlowSpec>) -> Vec<Scenario> {
    let numbered = scenario.flow.iter().enumerate();
    numbered
        .flat_map(|(i, flow)| {
            let forms = forms(flow).into_iter();
            forms.map(move |form| with(scenario, |s| s.flow[i] = form))
        })
        .collect()
}

pub(super) fn flow_with(flow: &FlowSpec, change: impl FnOnce(&mut FlowSpec)) -> FlowSpec {
    let mut changed = flow.clone();
    change(&mut changed);
    changed
}

#[cfg(test)]
mod tests {
    use super::super::{Failing, Tried, shrink};
    use super::*;

    /// Two switches in a row, a third one behind the first, and five hosts.
    const TREE: &str = "program = 'x'
host = [{ name = 'a' }, { name = 'b' }, { name = 'c' }, { name = 'd' }, { name = 'e' }]
switch = [{ name = 's' }, { name = 't' }, { name = 'u' }]
link = [{ between = ['a', 's'], both = { delay = '1ms' } }, { between = ['b', 's'], both = { delay = '1ms' } },
    { between = ['s', 't'], both = { delay = '1ms', rate = '1Mbit/s' } }, { between = ['c', 't'], both = { delay = '1ms' } },
    { between = ['s', 'u'], both = { delay = '1ms' } }, { between = ['u', 'd'], both = { delay = '1ms' } },
    { between = ['u', 'e'], both = { delay = '1ms' } }]
at = [{ time = '1s', switch = 't', state = 'down' }, { time = '2s', switch = 't', state = 'up' },
    { time = '3s', link = 's-t', state = 'down' }, { time = '4s', link = 's-t', state = 'up' }]
flow = [{ from = 'a', to = 'c', bulk = { bytes = 1 } }, { from = 'd', to = 'e', bulk = { bytes = 1 } }]
";

    fn shrunk(condition: fn(&Scenario) -> bool) -> Scenario {
        let scenario = Scenario::parse(TREE).unwrap_or_else(|error| panic!("{error}"));
        let mut fails = |candidate: &Scenario| match condition(candidate) {
            true => Tried::Fails(Failing::default()),
            false => Tried::Passes,
        };
        let shrunk = shrink(&scenario, &mut fails).expect("it fails");
        assert!(shrunk.is_minimal);
        shrunk.scenario
    }

    fn names(scenario: &Scenario) -> (Vec<&str>, Vec<&str>, Vec<String>) {
        (
            scenario.host.iter().map(|host| host.name.as_str()).collect(),
            scenario
                .switch
                .iter()
                .map(|switch| switch.name.as_str())
                .collect(),
            scenario.link.iter().map(|link| link.between.join("-")).collect(),
        )
    }

    #[test]
    fn a_failure_without_switches_shrinks_to_two_hosts() {
        let small = shrunk(|_| true);
        let (hosts, switches, links) = names(&small);
        assert_eq!((hosts.len(), switches.len(), links.len()), (2, 0, 1), "{small:?}");
        assert!(small.at.is_empty());
    }

    #[test]
    fn a_link_needed_for_the_failure_is_kept_between_the_hosts() {
        let slow: fn(&Scenario) -> bool = |s| {
            let is_from = |from| s.flow.iter().any(|flow| flow.from == from);
            s.link.iter().any(|link| link.both.rate.is_some()) && is_from("a")
        };
        let small = shrunk(slow);
        assert!(slow(&small) && small.switch.is_empty(), "{small:?}");
        assert_eq!(small.link.len(), 1, "{small:?}");
        assert_eq!(small.link[0].name, "s-t", "it keeps its name");
    }

    #[test]
    fn a_failure_with_a_switch_keeps_one_switch() {
        let small = shrunk(|s| !s.switch.is_empty());
        assert_eq!(small.switch.len(), 1, "{small:?}");
        let cut = shrunk(|s| s.at.iter().any(|at| at.switch.is_some()));
        assert_eq!(
            (cut.switch.len(), cut.switch[0].name.as_str()),
            (1, "t"),
            "{cut:?}"
        );
    }

    #[test]
    fn a_failure_with_three_hosts_keeps_their_links() {
        let small = shrunk(|s| s.flow.len() == 2);
        let (hosts, switches, links) = names(&small);
        assert_eq!(hosts, ["a", "c", "d", "e"], "{links:?} {switches:?}");
        assert!(switches.is_empty() && links.len() == 2, "{links:?} {switches:?}");
    }
}
