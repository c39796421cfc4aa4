//! Slowdown: the duration of each call as a multiple of its duration on an otherwise idle network.
//!
//! The duration of a call alone is simulated. On the same network without faults, one call of each size that
//! occurred is made after the other. This is done once for each kind of path: links of the same rates and
//! delays, and hosts with the same program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::app::calls::Call;
use crate::build::{Resolve, RunError};
use crate::paths::Graph;
use crate::run::{Options, Run};
use crate::scenario::units::{Sizes, TimeSpan};
use crate::scenario::workload::Traced;
use crate::scenario::{Bounds, CallsSpec, Connecting, FlowSpec, HostSelector, LinkSpec, Rules, Scenario};

/// The maximum number of size groups in a report. Calls are divided as evenly as their sizes allow.
const GROUPS: usize = 10;
/// The time at which calls alone begin. Any connections are open by then.
const CONNECTED: TimeSpan = TimeSpan(1_000_000_000);
/// The maximum total duration of calls alone: one year.
const LONG: TimeSpan = TimeSpan(365 * 24 * 3600 * 1_000_000_000);

/// The slowdown of calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slowdown {
    /// All calls.
    pub all: Group,
    /// Groups by message size, from the smallest tenth to the largest; messages of one size are in one group.
    pub by_size: Vec<Group>,
}

/// The calls whose messages have sizes in this range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The smallest message, in bytes.
    pub min_bytes: u64,
    /// The largest message, in bytes.
    pub max_bytes: u64,
    /// The number of calls.
    pub count: usize,
    /// The mean of their slowdowns.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest slowdown.
    pub max: f64,
}

/// Returns the slowdown of a scenario's calls, or `None` if there were none.
///
/// # Errors
/// Returns an error if the calls alone cannot be simulated.
pub(crate) fn slowdown(
    scenario: &Scenario,
    seed: u64,
    calls: &[Call],
    resolve: Resolve<'_>,
) -> Result<Option<Slowdown>, RunError> {
    let mut kinds = Kinds::from_scenario(scenario);
    let mut wanted = BTreeMap::<CallClass, ([usize; 2], BTreeSet<u64>)>::new();
    for call in calls {
        let of_kind = wanted
            .entry(kinds.kind(call))
            .or_insert_with(|| (call.hosts, BTreeSet::new()));
        of_kind.1.insert(call.bytes);
    }
    let mut alone = BTreeMap::new();
    for (kind, (hosts, sizes)) in wanted {
        for call in alone_on(scenario, seed, (kind.0, hosts), &sizes, resolve)? {
            alone.insert((kind.clone(), call.bytes), call.took);
        }
    }
    let mut slowdowns: Vec<(u64, f64)> = Vec::with_capacity(calls.len());
    for call in calls {
        let took = alone.get(&(kinds.kind(call), call.bytes));
        slowdowns.extend(took.map(|took| (call.bytes, call.took.div_duration_f64(*took))));
    }
    Ok(groups(slowdowns))
}

/// Simulates one call of each of these sizes alone, one after the other.
fn alone_on(
    scenario: &Scenario,
    seed: u64,
    (flow, hosts): (usize, [usize; 2]),
    sizes: &BTreeSet<u64>,
    resolve: Resolve<'_>,
) -> Result<Vec<Call>, RunError> {
    let [from, to] = hosts.map(|host| scenario.host[host].name.clone());
    let message =
        |bytes: &u64| Traced { at: Duration::ZERO, from: from.clone(), to: to.clone(), bytes: *bytes };
    let original = scenario.flow[flow].calls.as_ref();
    let calls = CallsSpec {
        reply: original.and_then(|calls| calls.reply),
        outstanding: Some(1),
        traced: Some(Arc::new(sizes.iter().map(message).collect())),
        connect: Connecting::AtStart,
        ..CallsSpec::new(1, Sizes::one(1))
    };
    let alone = Scenario {
        duration: LONG,
        linger: TimeSpan(0),
        forget: TimeSpan(0),
        bounds: Bounds::default(),
        slowdown: false,
        queue_depths: false,
        watch: None,
        link: scenario.link.iter().map(without_faults).collect(),
        at: Vec::new(),
        flow: vec![FlowSpec {
            family: scenario.flow[flow].family,
            calls: Some(calls),
            at: CONNECTED,
            ..FlowSpec::between(HostSelector::from(from.clone()), HostSelector::from(to.clone()))
        }],
        ..scenario.clone()
    };
    let mut run = Run::begin(
        &alone,
        resolve,
        Options { seed: Some(seed), ..Options::default() },
    )?;
    run.finish();
    Ok(run.calls())
}

fn without_faults(link: &LinkSpec) -> LinkSpec {
    let healed = |rules: &Rules| Rules {
        drop: None,
        loss: None,
        burst: None,
        corrupt: None,
        duplicate: None,
        jitter: None,
        reorder: None,
        hold: None,
        ..rules.clone()
    };
    LinkSpec {
        both: healed(&link.both),
        forward: healed(&link.forward),
        backward: healed(&link.backward),
        ..link.clone()
    }
}

/// Groups slowdowns by the sizes of their messages.
fn groups(mut slowdowns: Vec<(u64, f64)>) -> Option<Slowdown> {
    slowdowns.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let all = group(&slowdowns)?;
    let mut by_size = Vec::new();
    let mut rest = &slowdowns[..];
    while let Some(groups) = GROUPS.checked_sub(by_size.len()).filter(|groups| *groups > 0) {
        let Some(last) = rest.len().div_ceil(groups).checked_sub(1) else {
            break;
        };
        let end = rest.partition_point(|(bytes, _)| *bytes <= rest[last].0);
        by_size.extend(group(&rest[..end]));
        rest = &rest[end..];
    }
    Some(Slowdown { all, by_size })
}

fn group(slowdowns: &[(u64, f64)]) -> Option<Group> {
    let (first, last) = (slowdowns.first()?, slowdowns.last()?);
    let mut sorted: Vec<f64> = slowdowns.iter().map(|(_, slowdown)| *slowdown).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // The nearest rank, as in `Times::from_durations`.
    let rank = |of_1000: usize| sorted[(count * of_1000).div_ceil(1000).max(1) - 1];
    Some(Group {
        min_bytes: first.0,
        max_bytes: last.0,
        count,
        mean: sorted.iter().sum::<f64>() / count as f64,
        p50: rank(500),
        p99: rank(990),
        p999: rank(999),
        max: rank(1000),
    })
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slowdown of {}", self.all)?;
        self.by_size.iter().try_for_each(|group| write!(f, "\n  {group}"))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Group { min_bytes, max_bytes, count, mean, p50, p99, p999, max } = self;
        write!(
            f,
            "{count} calls of {min_bytes} to {max_bytes} bytes: mean {mean:.2} p50 {p50:.2} p99 {p99:.2} p99.9 \
             {p999:.2} max {max:.2}"
        )
    }
}

/// The common properties of calls that take the same time alone: the flow, and the path.
type CallClass = (usize, Arc<str>);

/// Finds the kind of a call's path.
struct Kinds<'a> {
    scenario: &'a Scenario,
    graph: Graph,
    /// The links of each node.
    links: Vec<Vec<usize>>,
    numbers: BTreeMap<&'a str, usize>,
    known: BTreeMap<[usize; 2], Arc<str>>,
}

impl Kinds<'_> {
    fn from_scenario(scenario: &Scenario) -> Kinds<'_> {
        let nodes = scenario.host.len() + scenario.switch.len();
        let numbers = scenario.node_numbers();
        let mut links = vec![Vec::new(); nodes];
        for (number, link) in scenario.link.iter().enumerate() {
            let ends = link
                .between
                .iter()
                .filter_map(|end| numbers.get(end.as_str()).copied());
            ends.for_each(|end| links[end].push(number));
        }
        Kinds {
            scenario,
            graph: Graph::from_scenario(scenario),
            links,
            numbers,
            known: BTreeMap::new(),
        }
    }

    fn kind(&mut self, call: &Call) -> CallClass {
        if let Some(known) = self.known.get(&call.hosts) {
            return (call.flow, Arc::clone(known));
        }
        let [from, to] = call.hosts;
        let path: Arc<str> = format!("{} {}", self.path(from, to), self.path(to, from)).into();
        self.known.insert(call.hosts, Arc::clone(&path));
        (call.flow, path)
    }

    /// Describes the host at the start of the path to another host. The rates and delays of the first of the
    /// shortest paths follow.
    fn path(&self, from: usize, to: usize) -> String {
        let scenario = self.scenario;
        let host = &scenario.host[from];
        let mut text = format!(
            "{:?} {:?} {} {:?}",
            host.program, host.params, host.mtu, host.buffer
        );
        let ports = self.graph.towards(to).ports;
        let mut node = from;
        while node != to {
            let link = ports[node].first().and_then(|port| self.links[node].get(*port));
            let Some(link) = link.map(|link| &scenario.link[*link]) else {
                break;
            };
            let number = |end: &String| self.numbers.get(end.as_str()).copied();
            let is_forward = number(&link.between[0]) == Some(node);
            let (own, next) = if is_forward {
                (&link.forward, &link.between[1])
            } else {
                (&link.backward, &link.between[0])
            };
            let (rate, delay) = (own.rate.or(link.both.rate), own.delay.or(link.both.delay));
            text += &format!(" {rate:?} {delay:?}");
            let Some(next) = number(next) else {
                break;
            };
            node = next;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_as_many_calls_and_sizes_stay_together() {
        // 100 calls: 40 with messages of one byte, and 60 with messages of different sizes.
        let ones = (0..40).map(|n| (1, 1.0 + f64::from(n) / 64.0));
        let others = (0..60).map(|n| (100 + n, 2.0));
        let slowdown = groups(ones.chain(others).collect()).expect("calls");
        let counts: Vec<usize> = slowdown.by_size.iter().map(|group| group.count).collect();
        assert_eq!(counts, [40, 7, 7, 7, 7, 7, 7, 6, 6, 6]);
        let first = slowdown.by_size[0];
        assert_eq!(
            (first.min_bytes, first.max_bytes, first.p50, first.p99),
            (1, 1, 1.296_875, 1.609_375)
        );
        assert!((first.mean - (1.0 + 19.5 / 64.0)).abs() < 1e-9);
        assert_eq!(
            (slowdown.all.count, slowdown.all.p999, slowdown.all.max),
            (100, 2.0, 2.0)
        );
        assert_eq!(groups(Vec::new()), None);
    }
}
