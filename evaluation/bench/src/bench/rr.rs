//! `hawser bench rr`: the round trip of a small request and its answer.

use std::io;

use super::{Common, alternate, column, percentiles, row};
use crate::engine::TCP;
use crate::networks::{self, Constellation, OVER_A_CABLE, StageSettings};
use crate::report::{Better, Metric, Report};
use crate::sides::spec::{Echo, Work};

/// Measure the round trip of 32 bytes each way, spinning and asleep
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Bytes each way
    #[arg(long, default_value_t = 32)]
    size: usize,
    /// Round trips of each run when spinning; a quarter of them when asleep
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Measure only spinning stacks
    #[arg(long)]
    spinning: bool,
}

fn name(constellation: &Constellation, sleeps: bool) -> String {
    format!(
        "{}, {}",
        constellation.name(),
        if sleeps { "asleep" } else { "spinning" }
    )
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let rounds = args
        .rounds
        .unwrap_or(if common.quick { 500 } else { 20_000 })
        .max(4);
    let mut report = Report::new(
        "rr",
        format!("Round trip, {} bytes each way: client → server", args.size),
    );
    report.setting("rounds", rounds);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting(
        "Linux",
        "cubic by socket option, no Nagle; spinning: non-blocking reads",
    );
    let manners: &[bool] = if args.spinning { &[false] } else { &[false, true] };
    let wanted: Vec<(Constellation, bool)> = manners
        .iter()
        .flat_map(|sleeps| OVER_A_CABLE.map(|pair| (pair, *sleeps)))
        .collect();
    let results = alternate(common, "rr", &wanted, |(constellation, sleeps)| {
        let rounds = if *sleeps { rounds / 4 } else { rounds };
        let plan = Echo {
            peer: networks::server(),
            warm_up: rounds / 10,
            rounds,
            size: args.size,
        };
        let manner = StageSettings {
            sleeps: *sleeps,
            program: TCP.to_owned(),
            engine: common.engine.clone(),
            params: vec!["NAGLE=false".to_owned()],
            timeout_s: 60,
        };
        measure(constellation, &manner, plan)
    });
    for ((constellation, sleeps), result) in wanted.iter().zip(results) {
        report
            .rows
            .push(row(name(constellation, *sleeps), result, |samples| {
                vec![
                    Metric::new("p50", "µs", Better::Lower, column(samples, 0)),
                    Metric::new("p90", "µs", Better::Lower, column(samples, 1)),
                    Metric::new("p99", "µs", Better::Lower, column(samples, 2)),
                ]
            }));
    }
    report.against(|row| Some(name(&OVER_A_CABLE[0], row.ends_with("asleep"))));
    Ok(report)
}

/// Returns percentiles in microseconds.
pub(super) fn measure(
    constellation: &Constellation,
    manner: &StageSettings,
    plan: Echo,
) -> io::Result<Vec<f64>> {
    let (client, server) = networks::run(
        constellation,
        manner,
        Work::Ping(plan.clone()),
        Work::Pong(plan.clone()),
    )?;
    let expected = 2 * u64::from(plan.warm_up + plan.rounds) * plan.size as u64;
    if server.bytes != expected {
        return Err(io::Error::other(format!(
            "{} bytes of {expected} were echoed",
            server.bytes
        )));
    }
    percentiles(&client.round_trips_ns)
}
