//! The two ends of a flow of works: the applications on their hosts, and their reports.

use std::cell::RefCell;
use std::rc::Rc;

use crate::app::FlowSide;
use crate::app::works::{WorkExchange, WorkPlan, Worker, WorkerReport};
use crate::build::{BuiltFlow, BuiltWorld, START};
use crate::end_status::{EndStanding, standing_of};
use crate::report::{DirectionReport, FlowReport, Times, WorksReport, seconds};
use crate::scenario::{Connection, Scenario, WorksSpec};
use crate::traffic::{BuiltEnds, NewFlow};

/// Adds the two ends of a connection to their hosts.
pub(super) fn add(built: &mut BuiltWorld, new: &NewFlow<'_>, works: &WorksSpec, connection: &Connection) {
    let start = new.start(connection);
    let Connection { flow, number, hosts, client, server, .. } = *connection;
    let shared = Rc::new(RefCell::new(WorkExchange::default()));
    let ends = [(FlowSide::Client, server), (FlowSide::Server, client)].map(|(side, remote)| {
        let plan = WorkPlan {
            flow: built.flows.len(),
            side,
            at: start,
            remote: remote.ip(),
            works: works.clone(),
            seed: new.seed,
            label: format!("flow/{flow}.{number}/{side:?}"),
        };
        let host = hosts[side as usize];
        let worker = Worker::new(plan, Rc::clone(&shared));
        (host, built.host_mut(host).add_worker(worker))
    });
    built.flows.push(BuiltFlow {
        flow,
        app: new.app,
        port: server.port(),
        client,
        start,
        ends: Box::new(WorkEnds(ends)),
    });
}

/// The host and the number of the client's worker, and of the server's.
struct WorkEnds([(usize, usize); 2]);

impl WorkEnds {
    /// Returns both workers, the client's first.
    fn workers<'a>(&self, built: &'a BuiltWorld) -> [&'a Worker; 2] {
        self.0
            .map(|(host, number)| built.host(host).workers().get(number))
    }
}

impl BuiltEnds for WorkEnds {
    /// Builds the report. The data moved by the client's works is the forward direction.
    fn report(&self, scenario: &Scenario, built: &BuiltWorld, flow: &BuiltFlow) -> FlowReport {
        let reports = self.workers(built).map(Worker::report);
        let mut failures = Vec::new();
        for (side, end) in ["client", "server"].into_iter().zip(self.workers(built)) {
            let WorkerReport { posted, done, faults, .. } = end.report();
            failures.extend(faults.iter().map(|fault| format!("{side}: {fault}")));
            if !end.is_finished() {
                failures.push(format!(
                    "{side}: not done: {done} of {posted} works that were posted are"
                ));
            }
        }
        let directions = reports.map(|end| DirectionReport {
            sha256_ok: end.faults.is_empty(),
            works: Some(WorksReport { posted: end.posted, done: end.done }),
            ..DirectionReport::new(end.bytes, flow.start, end.done_at)
        });
        let names = self.0.map(|(host, _)| scenario.host[host].name.clone());
        let connected = reports[0].connected_at;
        FlowReport {
            connect_seconds: connected.map(|at| seconds(at - flow.start)),
            times: Times::from_durations(reports.iter().flat_map(|report| report.times.clone()).collect()),
            ..flow.report(names, directions, failures)
        }
    }

    fn standings(&self, built: &BuiltWorld, ok: bool) -> Option<Box<[EndStanding; 2]>> {
        let of = |end: usize, side| {
            let (host, number) = self.0[end];
            let host = built.host(host);
            let worker = host.workers().get(number);
            let failed = worker.report().failed_at;
            EndStanding {
                failed: failed.map(|at| seconds(at - START)),
                ..standing_of(host, host.workers().handle(number), worker.application(), side)
            }
        };
        (!ok).then(|| Box::new([of(0, "client"), of(1, "server")]))
    }

    /// Returns the bytes moved by the client's works, and by the server's.
    fn received(&self, built: &BuiltWorld) -> [u64; 2] {
        self.workers(built).map(|worker| worker.report().bytes)
    }

    fn value_of(&self, built: &BuiltWorld, field: &str) -> Option<u64> {
        let (host, number) = self.0[0];
        let host = built.host(host);
        host.stack().observe(host.workers().handle(number)?, field)
    }
}
