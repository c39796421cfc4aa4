//! The applications of flows of works, and reports about them.

use std::cell::RefCell;
use std::rc::Rc;

use hawser_time::nanos;

use crate::app::Side;
use crate::app::works::{Known, Plan, Worker, WorkerReport};
use crate::build::{Built, BuiltFlow, Ends, START};
use crate::report::{DirectionReport, FlowReport, Times, WorksReport};
use crate::scenario::{Connection, Flow, Scenario};
use crate::standing::{EndStanding, standing_of};

/// Adds the two ends of a connection to their hosts.
pub(crate) fn add(built: &mut Built, flow: &Flow, connection: &Connection, seed: u64) {
    let Some(works) = &flow.works else {
        return;
    };
    let Connection { flow: number, number: place, hosts, client, server, .. } = *connection;
    let later = std::time::Duration::from(flow.spacing).saturating_mul(connection.place as u32);
    let start = START + flow.at.into() + later;
    let shared = Rc::new(RefCell::new(Known::default()));
    let ends = [(Side::Client, server), (Side::Server, client)].map(|(side, remote)| {
        let plan = Plan {
            flow: built.flows.len(),
            side,
            at: start,
            remote: remote.ip(),
            works: works.clone(),
            seed,
            label: format!("flow/{number}.{place}/{side:?}"),
        };
        let host = hosts[side as usize];
        let worker = Worker::new(plan, Rc::clone(&shared));
        (host, built.host_mut(host).add_worker(worker))
    });
    built.flows.push(BuiltFlow {
        flow: number,
        app: "works",
        port: server.port(),
        client,
        start,
        ends: Ends::Works(ends),
    });
}

/// Returns both ends of a flow, the client's first.
fn workers(built: &Built, ends: [(usize, usize); 2]) -> [&Worker; 2] {
    ends.map(|(host, number)| built.host(host).workers().get(number))
}

/// Builds the report of a flow. The data moved by the client's works is the forward direction.
pub(crate) fn flow_report(
    scenario: &Scenario,
    built: &Built,
    flow: &BuiltFlow,
    ends: [(usize, usize); 2],
) -> FlowReport {
    let reports = workers(built, ends).map(Worker::report);
    let mut failures = Vec::new();
    for (side, end) in ["client", "server"].into_iter().zip(workers(built, ends)) {
        failures.extend(end.report().faults.iter().map(|fault| format!("{side}: {fault}")));
        if !end.is_finished() {
            let WorkerReport { posted, done, .. } = end.report();
            failures.push(format!(
                "{side}: not done: {done} of {posted} works that were posted are"
            ));
        }
    }
    let direction = |end: &WorkerReport| {
        let taken = end.done_at.map(|at| nanos(at - flow.start) as f64 / 1e9);
        DirectionReport {
            bytes: end.bytes,
            seconds: taken,
            bits_per_second: taken
                .filter(|taken| *taken > 0.0)
                .map(|taken| end.bytes as f64 * 8.0 / taken),
            sha256: String::new(),
            sha256_ok: end.faults.is_empty(),
            messages: None,
            streams: None,
            works: Some(WorksReport { posted: end.posted, done: end.done }),
        }
    };
    let name = |end: usize| scenario.host[ends[end].0].name.clone();
    let connected = reports[0].connected_at;
    FlowReport {
        flow: flow.flow,
        app: flow.app,
        from: name(0),
        to: name(1),
        port: flow.port,
        client_port: None,
        start: nanos(flow.start - START) as f64 / 1e9,
        connect_seconds: connected.map(|at| nanos(at - flow.start) as f64 / 1e9),
        ok: failures.is_empty(),
        forward: direction(reports[0]),
        backward: direction(reports[1]),
        retransmissions: None,
        srtt_seconds: None,
        times: Times::of(reports.iter().flat_map(|report| report.times.clone()).collect()),
        failures,
        ends: None,
    }
}

/// Returns the standing of both ends.
pub(crate) fn standings(built: &Built, ends: [(usize, usize); 2]) -> [EndStanding; 2] {
    let of = |end: usize, side| {
        let (host, number) = ends[end];
        let host = built.host(host);
        let worker = host.workers().get(number);
        let failed = worker.report().failed_at;
        EndStanding {
            failed: failed.map(|at| nanos(at - START) as f64 / 1e9),
            ..standing_of(host, host.workers().handle(number), worker.application(), side)
        }
    };
    [of(0, "client"), of(1, "server")]
}

/// Returns the bytes moved by the client's works, and by the server's.
pub(crate) fn moved(built: &Built, ends: [(usize, usize); 2]) -> [u64; 2] {
    workers(built, ends).map(|worker| worker.report().bytes)
}

/// Returns an observable field of the client's queue pair.
pub(crate) fn value_of(built: &Built, ends: [(usize, usize); 2], field: &str) -> Option<u64> {
    let (host, number) = ends[0];
    let host = built.host(host);
    host.stack().observe(host.workers().handle(number)?, field)
}
