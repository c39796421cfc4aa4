//! `hawser bench requests`: many connections that stay open, some of which carry requests at a time.

use std::io;

use super::{Common, alternate, column, percentiles, row};
use crate::engine::TCP;
use crate::networks::{self, Constellation, OVER_A_CABLE, Stack, StageSettings};
use crate::report::{Better, Metric, Report};
use crate::sides::spec::{Measured, StandingSpec, Work};
use crate::table::number;

/// Measure requests on a changing subset of many open connections: their rate, their time, and memory
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Connections, in each group of rows
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(100..=500_000))]
    connections: Vec<u32>,
    /// Requests in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    at_once: u32,
    /// Measured seconds of each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

/// The bytes of a request, and of an answer.
const REQUEST: usize = 64;
const ANSWER: usize = 512;
/// The number of ports of the server. A stack has 16,384 ports of its own for each (RFC 6335).
const PORTS: u16 = 32;

/// A row: the number of connections, and the two stacks.
type Case = (u32, Constellation);

fn name((connections, constellation): &Case) -> String {
    format!("{}, {}", constellation.name(), number(f64::from(*connections)))
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let counts = match (args.connections.is_empty(), common.quick) {
        (false, _) => args.connections.clone(),
        (true, true) => vec![100, 1000],
        (true, false) => vec![10_000, 100_000],
    };
    let seconds = args.seconds.unwrap_or(if common.quick { 0.3 } else { 3.0 });
    let mut report = Report::new(
        "requests",
        "Requests on a moving part of connections that stay open: client → server, connections",
    );
    report.setting("seconds", seconds);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("requests at once", args.at_once);
    report.setting(
        "bytes of a request and of its answer",
        format!("{REQUEST} and {ANSWER}"),
    );
    report.setting("Linux", "cubic by socket option, no Nagle, epoll");
    let cases: Vec<Case> = counts
        .iter()
        .flat_map(|count| OVER_A_CABLE.map(|constellation| (*count, constellation)))
        .collect();
    let results = alternate(common, "requests", &cases, |(connections, constellation)| {
        let plan = StandingSpec {
            peer: networks::server(),
            ports: PORTS,
            connections: *connections,
            at_once: args.at_once,
            warm_up_s: seconds / 3.0,
            seconds,
            request: REQUEST,
            answer: ANSWER,
        };
        measure(constellation, &common.engine, &plan)
    });
    for (case, result) in cases.iter().zip(results) {
        let is_measured = result.is_ok();
        let mut row = row(name(case), result, |samples| metrics(&case.1, samples));
        if is_measured {
            // A run in which a connection had no answer fails, and has no figures.
            row.facts
                .push(("answered in the end".to_owned(), u64::from(case.0)));
        }
        report.rows.push(row);
    }
    report.against(|row| {
        let (_, connections) = row.rsplit_once(", ")?;
        Some(format!("{}, {connections}", OVER_A_CABLE[0].name()))
    });
    // The cost of many connections compared with few, also at numbers that Linux cannot hold.
    for (few, many) in counts.iter().zip(counts.iter().skip(1)) {
        for constellation in OVER_A_CABLE {
            let [few, many] = [few, many].map(|count| name(&(*count, constellation)));
            report.compare(&many, &few, "rate");
        }
    }
    Ok(report)
}

fn metrics(constellation: &Constellation, samples: &[Vec<f64>]) -> Vec<Option<Metric>> {
    let time = |name, n| Metric::new(name, "µs", Better::Lower, column(samples, n));
    // The memory of Linux's TCP is in the kernel.
    let memory = |name, stack, n| match stack {
        Stack::Hawser => Metric::new(name, "bytes/connection", Better::Lower, column(samples, n)),
        _ => None,
    };
    vec![
        Metric::new("rate", "requests/s", Better::Higher, column(samples, 0)),
        Metric::new("efficiency", "requests/CPU-s", Better::Higher, column(samples, 1)),
        time("p50", 2),
        time("p90", 3),
        time("p99", 4),
        memory("client", constellation.client, 5),
        memory("server", constellation.server, 6),
    ]
}

/// Returns the figures from which [`metrics`] makes a row. By the end, every connection has carried a
/// request, and both ends have closed it.
fn measure(constellation: &Constellation, engine: &str, plan: &StandingSpec) -> io::Result<Vec<f64>> {
    let manner = StageSettings {
        sleeps: true,
        program: TCP.to_owned(),
        engine: engine.to_owned(),
        params: vec!["NAGLE=false".to_owned(), "SYN_BACKLOG=1024".to_owned()],
        timeout_s: 300,
    };
    let (client, server) = networks::run(
        constellation,
        &manner,
        Work::Ask(plan.clone()),
        Work::Answer(plan.clone()),
    )?;
    let expected = u64::from(plan.connections);
    if (client.connections, server.connections) != (expected, expected) {
        return Err(io::Error::other(format!(
            "of {expected} connections {} answered in the end, and {} were closed by the client",
            client.connections, server.connections
        )));
    }
    let cpu = |side: &Measured| (side.user_s + side.system_s) / side.requests as f64;
    let each = |side: &Measured| side.memory as f64 / f64::from(plan.connections);
    let mut figures = vec![
        client.requests as f64 / client.seconds,
        1.0 / (cpu(&client) + cpu(&server)),
    ];
    figures.extend(percentiles(&client.round_trips_ns)?);
    figures.extend([each(&client), each(&server)]);
    Ok(figures)
}
