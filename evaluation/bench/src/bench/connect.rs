//! `hawser bench connect`: connections per second, one after another and many at once.

use std::io;

use super::{Common, alternate, column, row};
use crate::engine::TCP;
use crate::networks::{self, Constellation, OVER_A_CABLE, Stack, StageSettings};
use crate::report::{Better, Metric, Report};
use crate::sides::spec::{Many, Work};

/// Measure connections per second: connect, a byte each way, close
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Connections in each run
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Connections at the same time, in the second half
    #[arg(long, value_name = "N", default_value_t = 100)]
    at_once: u32,
}

fn name(constellation: &Constellation, at_once: u32) -> String {
    format!("{}, {at_once} at once", constellation.name())
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let connections = args
        .connections
        .unwrap_or(if common.quick { 100 } else { 4000 })
        .max(1);
    let mut report = Report::new(
        "connect",
        "Connections, each with a byte both ways: client → server",
    );
    report.setting("connections", connections);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("2·MSL of Hawser", "10 ms, after which no context may be left");
    let wanted: Vec<(Constellation, u32)> = [1, args.at_once]
        .iter()
        .flat_map(|at_once| OVER_A_CABLE.map(|pair| (pair, *at_once)))
        .collect();
    let mut left_over = vec![0; wanted.len()];
    let results = alternate(common, "connect", &wanted, |(constellation, at_once)| {
        let plan = Many { peer: networks::server(), connections, at_once: *at_once };
        let (figures, left) = measure(constellation, &common.engine, plan)?;
        if let Some(at) = wanted.iter().position(|w| w == &(*constellation, *at_once)) {
            left_over[at] += left;
        }
        Ok(figures)
    });
    for (((constellation, at_once), result), left) in wanted.iter().zip(results).zip(left_over) {
        let mut row = row(name(constellation, *at_once), result, |samples| {
            vec![Metric::new(
                "rate",
                "connections/s",
                Better::Higher,
                column(samples, 0),
            )]
        });
        if constellation.client == Stack::Hawser || constellation.server == Stack::Hawser {
            row.facts.push(("left over".to_owned(), left));
        }
        report.rows.push(row);
    }
    // Each row is compared with Linux's row of the same kind, one after another or at once.
    report.against(|row| {
        row.rsplit_once(", ")
            .map(|(_, how)| format!("{}, {how}", OVER_A_CABLE[0].name()))
    });
    Ok(report)
}

/// Returns the connections per second, and the number of contexts left at the end.
fn measure(constellation: &Constellation, engine: &str, plan: Many) -> io::Result<(Vec<f64>, u64)> {
    let params = vec!["MSL=5ms".to_owned(), "SYN_BACKLOG=1024".to_owned()];
    let manner = StageSettings {
        sleeps: true,
        program: TCP.to_owned(),
        engine: engine.to_owned(),
        params,
        timeout_s: 120,
    };
    let (client, server) = networks::run(
        constellation,
        &manner,
        Work::Connect(plan.clone()),
        Work::Serve(plan.clone()),
    )?;
    let expected = u64::from(plan.connections);
    if (client.connections, server.connections) != (expected, expected) {
        return Err(io::Error::other(format!(
            "of {expected} connections the client ended {}, the server {}",
            client.connections, server.connections
        )));
    }
    let left = client.left_over.unwrap_or(0) + server.left_over.unwrap_or(0);
    Ok((vec![expected as f64 / client.seconds], left))
}
