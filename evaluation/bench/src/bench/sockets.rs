//! `hawser bench sockets`: programs over ordinary sockets of the host: QUIC-Lite, quinn and Linux's TCP.

use super::{Common, alternate, bulk, column, row, rr};
use crate::networks::{self, Constellation, Medium, Stack, StageSettings};
use crate::report::{Better, Metric, Report};
use crate::sides::spec::{Bulk, Echo};
use crate::sides::transport::CHUNK;

/// Measure QUIC-Lite beside quinn and Linux's TCP over ordinary sockets: one stream, and round trips
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measured seconds of bulk transfer in each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Round trips of each run when spinning; a quarter of them when asleep
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Run only rows whose name contains this: `bulk`, `QUIC-Lite`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Compare every byte of bulk transfer that arrives, at a cost to the receiver
    #[arg(long)]
    verify: bool,
    /// The file of another program in UDP with streams, in place of QUIC-Lite
    #[arg(long, value_name = "PROGRAM", default_value = "quic-lite")]
    program: String,
    /// Set a param of the program: WINDOW=4194304 (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", default_values = WINDOWS)]
    params: Vec<String>,
}

/// The receive windows of QUIC-Lite: as large as its stack's default send buffer of a connection.
const WINDOWS: [&str; 2] = ["WINDOW=4194304", "STREAM_WINDOW=4194304"];
/// The stacks, the same at both ends. The first is the baseline of the others.
const STACKS: [Stack; 3] = [Stack::Quinn, Stack::QuicLite, Stack::Linux];
/// The seconds of bulk transfer before the measured ones.
const WARM_UP_S: f64 = 0.3;
/// The bytes of a question, and of its answer.
const SIZE: usize = 32;
/// The seconds, in addition to those of bulk transfer, after which a hanging side is ended.
const TIMEOUT_S: u64 = 60;

/// The measurement of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bulk,
    Spinning,
    Asleep,
}

const KINDS: [Kind; 3] = [Kind::Bulk, Kind::Spinning, Kind::Asleep];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Bulk => "bulk",
            Kind::Spinning => "32 B, spinning",
            Kind::Asleep => "32 B, asleep",
        }
    }

    fn metrics(self, samples: &[Vec<f64>]) -> Vec<Option<Metric>> {
        match self {
            Kind::Bulk => bulk::metrics(samples),
            Kind::Spinning | Kind::Asleep => vec![
                Metric::new("p50", "µs", Better::Lower, column(samples, 0)),
                Metric::new("p99", "µs", Better::Lower, column(samples, 2)),
            ],
        }
    }
}

fn name(stack: Stack, kind: Kind) -> String {
    format!("{}, {}", stack.name(), kind.name())
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let seconds = args.seconds.unwrap_or(if common.quick { 0.3 } else { 3.0 });
    let rounds = args.rounds.unwrap_or(if common.quick { 500 } else { 20_000 });
    let mut report = Report::new(
        "sockets",
        "Ordinary sockets: one stream, and round trips of 32 bytes",
    );
    report.setting("seconds", seconds);
    report.setting("rounds", rounds);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("program", &args.program);
    report.setting("params", args.params.join(","));
    report.setting(
        "quinn",
        "0.11, encrypted, windows 16 MiB; QUIC-Lite is not encrypted",
    );
    report.setting("Linux", "TCP, cubic by socket option, no Nagle");
    let all = KINDS.iter().flat_map(|kind| STACKS.map(|stack| (stack, *kind)));
    let wanted: Vec<(Stack, Kind)> = all
        .filter(|(stack, kind)| {
            args.only
                .as_ref()
                .is_none_or(|text| name(*stack, *kind).contains(text))
        })
        .collect();
    let bulk = Bulk {
        peer: networks::server(),
        warm_up_s: WARM_UP_S,
        seconds,
        verify: args.verify,
        write: CHUNK,
        flows: 1,
    };
    let results = alternate(common, "sockets", &wanted, |(stack, kind)| {
        let constellation = Constellation { client: *stack, server: *stack, medium: Medium::Veth };
        let manner = StageSettings {
            sleeps: *kind != Kind::Spinning,
            program: args.program.clone(),
            engine: common.engine.clone(),
            params: args.params.clone(),
            timeout_s: seconds as u64 * 2 + TIMEOUT_S,
        };
        if *kind == Kind::Bulk {
            return bulk::measure(&constellation, &manner, &bulk);
        }
        let rounds = if *kind == Kind::Asleep { rounds / 4 } else { rounds }.max(1);
        let plan = Echo { peer: networks::server(), warm_up: rounds / 10, rounds, size: SIZE };
        rr::measure(&constellation, &manner, plan)
    });
    for ((stack, kind), result) in wanted.iter().zip(results) {
        let made = row(name(*stack, *kind), result, |samples| kind.metrics(samples));
        report.rows.push(made);
    }
    report.against(|row| {
        let kind = KINDS.into_iter().find(|kind| row.ends_with(kind.name()))?;
        Some(name(Stack::Quinn, kind))
    });
    let [ours, linux] = [Stack::QuicLite, Stack::Linux].map(|stack| name(stack, Kind::Bulk));
    report.compare(&ours, &linux, "rate");
    Ok(report)
}
