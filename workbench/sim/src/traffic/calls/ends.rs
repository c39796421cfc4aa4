//! A host that makes calls, and the hosts that it calls: their reports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::app::calls::{Call, CallTable};
use crate::build::{BuiltFlow, BuiltWorld, START};
use crate::end_status::{EndStanding, standing_of};
use crate::host::Host;
use crate::report::{DirectionReport, FlowReport, MessagesReport, Times, seconds};
use crate::scenario::{CallHosts, Scenario};
use crate::traffic::BuiltEnds;

/// A calling host.
pub(super) struct CallEnds {
    /// The record of its calls.
    pub(super) ledger: Rc<RefCell<CallTable>>,
    /// Its index among the callers of the flow.
    pub(super) caller: usize,
    /// The host's number.
    pub(super) host: usize,
    /// The hosts of the flow and the pairs that call.
    pub(super) calling: Rc<CallHosts>,
    /// The number of the flow's application on each host.
    pub(super) agents: Rc<BTreeMap<usize, usize>>,
}

impl BuiltEnds for CallEnds {
    fn report(&self, scenario: &Scenario, _: &BuiltWorld, flow: &BuiltFlow) -> FlowReport {
        let (ledger, caller, calling) = (self.ledger.borrow(), self.caller, &self.calling);
        let (tally, failures) = (ledger.tally(caller), ledger.faults(caller));
        let name = |host: usize| scenario.host[host].name.clone();
        let direction = |bytes, at, sent, received| DirectionReport {
            sha256_ok: failures.is_empty(),
            messages: Some(MessagesReport { sent, received }),
            ..DirectionReport::new(bytes, flow.start, at)
        };
        let forward = direction(tally.served_bytes, tally.served_at, tally.begun, tally.served);
        let backward = direction(
            tally.answered_bytes,
            tally.answered_at,
            tally.replied,
            tally.answered,
        );
        let to = match calling.target_count(caller) {
            1 => name(calling.servers[calling.target(caller, 0)].0),
            hosts => format!("{hosts} hosts"),
        };
        FlowReport {
            client_port: Some(flow.port),
            times: Times::from_durations(ledger.times(caller)),
            ..flow.report([name(self.host), to], [forward, backward], failures)
        }
    }

    /// Returns the standing of the caller and of the host that it waits for, by its first unfinished call.
    fn standings(&self, built: &BuiltWorld, ok: bool) -> Option<Box<[EndStanding; 2]>> {
        let (known, caller) = (self.ledger.borrow(), self.caller);
        let call = known.oldest_or_last(caller).filter(|_| !ok)?;
        let first = || Some(self.calling.servers.get(self.calling.target(caller, 0))?.0);
        let server = known.server_host(call).or_else(first)?;
        let failed = known.failed_at(caller);
        let of = |host: usize, side| {
            let host_of: &Host = built.host(host);
            let agent = host_of.agent(*self.agents.get(&host)?);
            let handle = if side == "client" {
                agent.handle_of(call)
            } else {
                agent.handle_for(caller, call)
            };
            let standing = standing_of(host_of, handle, agent.application(caller), side);
            Some(EndStanding {
                failed: failed.filter(|_| side == "client").map(|at| seconds(at - START)),
                ..standing
            })
        };
        Some(Box::new([of(self.host, "client")?, of(server, "server")?]))
    }

    fn received(&self, _: &BuiltWorld) -> [u64; 2] {
        let ledger = self.ledger.borrow();
        let tally = ledger.tally(self.caller);
        [tally.served_bytes, tally.answered_bytes]
    }

    fn value_of(&self, _: &BuiltWorld, _: &str) -> Option<u64> {
        None
    }

    fn calls(&self, flow: usize) -> Vec<Call> {
        self.ledger.borrow().done(flow, self.caller).collect()
    }
}

/// Returns the failures of a host's applications, one line each, with the reason.
pub(crate) fn failures(host: &Host) -> impl Iterator<Item = String> {
    let agents = host.agents().filter_map(|agent| agent.failure());
    agents.map(|why| format!("host {}: {why}", host.name().escape_debug()))
}
