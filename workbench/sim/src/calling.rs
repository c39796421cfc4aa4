//! The applications of flows of calls.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_ir::{AppOp, Source};
use hawser_time::nanos;

use crate::app::Agent;
use crate::app::calls::{Caller, Ledger, Plan, Planned};
use crate::build::{Built, BuiltFlow, Ends, START};
use crate::rng::Rng;
use crate::scenario::workload::Traced;
use crate::scenario::{Arrivals, Calling, Calls, Connecting, Flow, Scenario, ScenarioError};

/// Adds a flow's applications to its hosts.
pub(crate) fn add(
    built: &mut Built,
    scenario: &Scenario,
    (number, flow): (usize, &Flow),
    calling: Calling,
    seed: u64,
) {
    let Some(calls) = &flow.calls else {
        return;
    };
    let plan = plan(
        (scenario, built.flows.len()),
        (number, flow, calls),
        &calling,
        seed,
    );
    let ends = calling.callers.iter().chain(&calling.servers);
    let addresses: BTreeMap<usize, SocketAddr> = ends.copied().collect();
    let (start, callers) = (plan.start, plan.callers.clone());
    let ledger = Rc::new(RefCell::new(Ledger::new(plan)));
    let mut agents = BTreeMap::new();
    for (host, address) in addresses {
        let agent = Agent::new(&ledger, host, address);
        agents.insert(host, built.host_mut(host).add_agent(agent));
    }
    let (agents, calling) = (Rc::new(agents), Rc::new(calling));
    for (caller, Caller { host, address, .. }) in callers.into_iter().enumerate() {
        built.flows.push(BuiltFlow {
            flow: number,
            app: "calls",
            port: address.port(),
            client: address,
            start,
            ends: Ends::Calls {
                ledger: Rc::clone(&ledger),
                caller,
                host,
                calling: Rc::clone(&calling),
                agents: Rc::clone(&agents),
            },
        });
    }
}

/// Draws the caller, the server and the time of each call.
fn plan(
    (scenario, trace): (&Scenario, usize),
    (number, flow, calls): (usize, &Flow, &Calls),
    calling: &Calling,
    seed: u64,
) -> Plan {
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
                Some(Planned { due: message.at, server: *places.get(to)?, size: message.bytes })
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
    Plan {
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
    calls: &Calls,
    interval: Duration,
    server: impl Fn(&mut Rng) -> usize,
    rng: &mut Rng,
) -> Vec<Planned> {
    let mut next = Duration::ZERO;
    let limit = calls.at_most.map_or(u64::MAX, |limit| limit.0);
    let size = |rng: &mut Rng| match (&calls.distribution, calls.size) {
        (Some(distribution), _) => distribution.draw(rng).min(limit),
        (None, size) => size.map_or(1, |size| rng.between(size.min, size.max)),
    };
    let draw = |_| {
        let planned = Planned { due: next, server: server(rng), size: size(rng) };
        let gap = match calls.arrivals {
            Arrivals::Even => interval,
            Arrivals::Poisson => Duration::from_nanos((nanos(interval) as f64 * rng.exponential()) as u64),
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

/// Rejects flows that the programs of their hosts cannot carry. Connections need a program that offers them.
/// Calls with a reply need a program that offers calls, and calls without one need messages. If it offers
/// neither, connections suffice, because messages are framed on them.
pub(crate) fn check_offers<'a>(
    scenario: &Scenario,
    program: impl Fn(usize) -> (&'a str, &'a dyn Program),
) -> Result<(), ScenarioError> {
    let of_names = scenario.host_numbers();
    for (number, flow) in scenario.flow.iter().enumerate() {
        let hosts = flow.from.names().iter().chain(flow.to.names());
        let numbers: BTreeSet<usize> = hosts
            .filter_map(|name| of_names.get(name.as_str()).copied())
            .collect();
        let mut seen = BTreeSet::new();
        for host in numbers {
            let (name, program) = program(host);
            if seen.insert(name) {
                check_offer(flow, &format!("flow[{number}]"), (name, program))?;
            }
        }
    }
    Ok(())
}

fn check_offer(flow: &Flow, path: &str, (name, program): (&str, &dyn Program)) -> Result<(), ScenarioError> {
    let parsers = &program.module().parsers;
    let offers = |op| parsers.iter().any(|parser| parser.source == Source::App(op));
    let (connect, call, message) = (
        offers(AppOp::Connect),
        offers(AppOp::Call),
        offers(AppOp::Message),
    );
    if flow.streams.is_some() && !offers(AppOp::Open) {
        let message = format!("the connections of `{name}` have no streams within them");
        let error = ScenarioError::new(format!("{path}.streams"), message);
        return Err(error.with_hint("the program carries one stream: `bulk = { bytes = \"1MiB\" }`"));
    }
    if flow.works.is_some() != offers(AppOp::Post) {
        return Err(match flow.works.is_some() {
            true => {
                let message = format!("`{name}` has no queue pairs");
                ScenarioError::new(format!("{path}.works"), message)
            }
            false => {
                let message = format!("`{name}` carries only works of queue pairs");
                ScenarioError::new(path, message).with_hint("works = { size = \"4kB\" }")
            }
        });
    }
    let Some(calls) = &flow.calls else {
        if connect || !(call || message) {
            return Ok(());
        }
        let app = match (&flow.bulk, &flow.request) {
            (Some(_), _) => "bulk",
            (None, Some(_)) => "request",
            (None, None) => "messages",
        };
        let error = ScenarioError::new(format!("{path}.{app}"), format!("`{name}` offers no connections"));
        return Err(error.with_hint("the program carries calls: `calls = { size = 100, reply = 100 }`"));
    };
    let key = |key: &str| format!("{path}.calls{key}");
    match (calls.reply.is_some(), call, message) {
        (true, true, _) | (false, _, true) => Ok(()),
        (true, false, true) => {
            let error = ScenarioError::new(
                key(".reply"),
                format!("`{name}` carries messages without a reply"),
            );
            Err(error.with_hint("remove `reply`"))
        }
        (false, true, false) => {
            let message = format!("`{name}` offers calls, but no messages without a reply");
            Err(ScenarioError::new(key(""), message).with_hint("give `reply`: the size of each reply"))
        }
        // Connections suffice, because messages can be framed on them.
        (_, false, false) if connect => Ok(()),
        (_, false, false) => {
            let message = format!("`{name}` offers neither calls, messages nor connections");
            Err(ScenarioError::new(key(""), message))
        }
    }
}
