//! The plan of a flow of calls: the caller, the server and the time of each call.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hawser_time::nanos;

use super::CallsSpec;
use super::ends::CallEnds;
use crate::app::Agent;
use crate::app::calls::{CallPlan, CallTable, Caller, PlannedCall};
use crate::build::{BuiltFlow, BuiltWorld, START};
use crate::rng::Rng;
use crate::scenario::workload::Traced;
use crate::scenario::{ArrivalProcess, CallHosts, Connecting, Scenario, ScenarioError};
use crate::traffic::NewFlow;

/// Adds a flow's applications to its hosts.
pub(super) fn add(built: &mut BuiltWorld, flow: &NewFlow<'_>, calls: &CallsSpec, calling: CallHosts) {
    let plan = plan(flow, built.flows.len(), calls, &calling);
    let ends = calling.callers.iter().chain(&calling.servers);
    let addresses: BTreeMap<usize, SocketAddr> = ends.copied().collect();
    let (start, callers) = (plan.start, plan.callers.clone());
    let ledger = Rc::new(RefCell::new(CallTable::new(plan)));
    let mut agents = BTreeMap::new();
    for (host, address) in addresses {
        let agent = Agent::new(&ledger, host, address);
        agents.insert(host, built.host_mut(host).add_agent(agent));
    }
    let (agents, calling) = (Rc::new(agents), Rc::new(calling));
    for (caller, Caller { host, address, .. }) in callers.into_iter().enumerate() {
        built.flows.push(BuiltFlow {
            flow: flow.number,
            app: flow.app,
            port: address.port(),
            client: address,
            start,
            ends: Box::new(CallEnds {
                ledger: Rc::clone(&ledger),
                caller,
                host,
                calling: Rc::clone(&calling),
                agents: Rc::clone(&agents),
            }),
        });
    }
}

/// Draws the caller, the server and the time of each call.
fn plan(new: &NewFlow<'_>, trace: usize, calls: &CallsSpec, calling: &CallHosts) -> CallPlan {
    let NewFlow { scenario, number, flow, seed, .. } = *new;
    let numbers = scenario.host_numbers();
    let mut all = Vec::new();
    let mut of_hosts = BTreeMap::<&str, Vec<&Traced>>::new();
    for message in calls.traced.iter().flat_map(|traced| traced.iter()) {
        of_hosts.entry(&message.from).or_default().push(message);
    }
    let places: BTreeMap<usize, usize> = calling.servers.iter().map(|(host, _)| *host).zip(0..).collect();
    let mut callers = Vec::new();
    for (place, (host, address)) in calling.callers.iter().copied().enumerate() {
        let (name, first) = (scenario.host[host].name.as_str(), all.len() as u32);
        if calls.traced.is_some() {
            let messages = of_hosts.get(name).into_iter().flatten();
            all.extend(messages.filter_map(|message| {
                let to = numbers.get(message.to.as_str())?;
                Some(PlannedCall { due: message.at, server: *places.get(to)?, size: message.bytes })
            }));
        } else {
            let rng = &mut Rng::new(seed, &format!("flow/{number}.{place}/calls"));
            let targets = |rng: &mut Rng| {
                let number = rng.below(calling.target_count(place) as u64);
                calling.target(place, number as usize)
            };
            all.extend(draw(calls, scenario.interval(calls, name), targets, rng));
        }
        callers.push(Caller { host, address, calls: first..all.len() as u32 });
    }
    CallPlan {
        flow: trace,
        key: Rng::new(seed, &format!("flow/{number}/key")).bits(),
        start: START + flow.at.into(),
        reply: calls.reply.map(|reply| (reply.min, reply.max)),
        outstanding: calls.outstanding,
        connects_at_start: calls.connect == Connecting::AtStart,
        retry: Some(Duration::from(calls.retry)).filter(|retry| !retry.is_zero()),
        callers,
        servers: calling.servers.clone(),
        calls: all,
    }
}

/// Draws the calls of one host.
fn draw(
    calls: &CallsSpec,
    interval: Duration,
    server: impl Fn(&mut Rng) -> usize,
    rng: &mut Rng,
) -> Vec<PlannedCall> {
    let mut next = Duration::ZERO;
    let limit = calls.at_most.map_or(u64::MAX, |limit| limit.0);
    let size = |rng: &mut Rng| match (&calls.distribution, calls.size) {
        (Some(distribution), _) => distribution.draw(rng).min(limit),
        (None, size) => size.map_or(1, |size| rng.between(size.min, size.max)),
    };
    let draw = |_| {
        let planned = PlannedCall { due: next, server: server(rng), size: size(rng) };
        let gap = match calls.arrivals {
            ArrivalProcess::Even => interval,
            ArrivalProcess::Poisson => {
                Duration::from_nanos((nanos(interval) as f64 * rng.exponential()) as u64)
            }
        };
        next = next.saturating_add(gap);
        planned
    };
    (0..calls.count).map(draw).collect()
}

/// Rejects flows whose files have not been read.
pub(crate) fn check_files(scenario: &Scenario) -> Result<(), ScenarioError> {
    for (number, flow) in scenario.flow.iter().enumerate() {
        let Some(calls) = &flow.calls else {
            continue;
        };
        let files = [
            ("size_file", &calls.size_file, calls.distribution.is_none()),
            ("trace", &calls.trace, calls.traced.is_none()),
        ];
        for (key, file, is_missing) in files {
            if let Some(file) = file.as_ref().filter(|_| is_missing) {
                let message = format!("{file} has not been read");
                return Err(ScenarioError::new(format!("flow[{number}].calls.{key}"), message));
            }
        }
    }
    Ok(())
}
