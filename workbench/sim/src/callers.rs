//! Reports about hosts that make calls.

use std::time::Duration;

use hawser_time::{Instant, nanos};

use crate::app::calls::Ledger;
use crate::build::{Built, BuiltFlow, Ends, START};
use crate::host::Host;
use crate::report::{DirectionReport, FlowReport, MessagesReport, Times};
use crate::scenario::{Calling, Scenario};
use crate::standing::{EndStanding, standing_of};

/// Builds the report of one calling host.
pub(crate) fn flow_report(
    scenario: &Scenario,
    flow: &BuiltFlow,
    (ledger, caller, host): (&Ledger, usize, usize),
    calling: &Calling,
) -> FlowReport {
    let (tally, failures) = (ledger.tally(caller), ledger.faults(caller));
    let name = |host: usize| scenario.host[host].name.clone();
    let direction = |bytes, at: Option<Instant>, sent, received| {
        let taken = at.map(|at| seconds(at - flow.start));
        DirectionReport {
            bytes,
            seconds: taken,
            bits_per_second: taken
                .filter(|taken| *taken > 0.0)
                .map(|taken| bytes as f64 * 8.0 / taken),
            sha256: String::new(),
            sha256_ok: failures.is_empty(),
            messages: Some(MessagesReport { sent, received }),
            streams: None,
            works: None,
        }
    };
    FlowReport {
        flow: flow.flow,
        app: flow.app,
        from: name(host),
        to: match calling.target_count(caller) {
            1 => name(calling.servers[calling.target(caller, 0)].0),
            hosts => format!("{hosts} hosts"),
        },
        port: flow.port,
        client_port: Some(flow.port),
        start: seconds(flow.start - START),
        connect_seconds: None,
        ok: failures.is_empty(),
        forward: direction(tally.served_bytes, tally.served_at, tally.begun, tally.served),
        backward: direction(
            tally.answered_bytes,
            tally.answered_at,
            tally.replied,
            tally.answered,
        ),
        retransmissions: None,
        srtt_seconds: None,
        times: Times::of(ledger.times(caller)),
        failures,
        ends: None,
    }
}

/// Returns the standing of a caller and of the host that it waits for, by its first unfinished call.
pub(crate) fn standings(built: &Built, flow: &BuiltFlow) -> Option<Box<[EndStanding; 2]>> {
    let Ends::Calls { ledger, caller, host, calling, agents } = &flow.ends else {
        return None;
    };
    let known = ledger.borrow();
    let call = known.oldest_or_last(*caller)?;
    let first = || Some(calling.servers.get(calling.target(*caller, 0))?.0);
    let server = known.server_host(call).or_else(first)?;
    let failed = known.failed_at(*caller);
    let of = |host: usize, side| {
        let host_of: &Host = built.host(host);
        let agent = host_of.agent(*agents.get(&host)?);
        let handle = if side == "client" {
            agent.handle_of(call)
        } else {
            agent.handle_for(*caller, call)
        };
        let standing = standing_of(host_of, handle, agent.application(*caller), side);
        Some(EndStanding {
            failed: failed.filter(|_| side == "client").map(|at| seconds(at - START)),
            ..standing
        })
    };
    Some(Box::new([of(*host, "client")?, of(server, "server")?]))
}

/// Returns the failures of a host's applications, one line each, with the reason.
pub(crate) fn failures(host: &Host) -> impl Iterator<Item = String> {
    let agents = host.agents().filter_map(|agent| agent.failure());
    agents.map(|why| format!("host {}: {why}", host.name().escape_debug()))
}

/// Returns the bytes of a caller's messages that its servers read, and the bytes of the replies that it read.
pub(crate) fn received(ledger: &Ledger, caller: usize) -> [u64; 2] {
    let tally = ledger.tally(caller);
    [tally.served_bytes, tally.answered_bytes]
}

fn seconds(span: Duration) -> f64 {
    nanos(span) as f64 / 1e9
}
