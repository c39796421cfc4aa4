//! `hawser bench bulk`: one flow or several, at full speed, in every constellation.

use std::io;

use super::{Common, alternate, column, row};
use crate::engine::TCP;
use crate::networks::{self, Constellation, Medium, Stack, StageSettings};
use crate::report::{Better, Metric, Report};
use crate::sides::spec::{Bulk, Measured, Work};
use crate::sides::transport::CHUNK;

/// Measure the rate of one flow, or of several at once: Linux, Hawser and smoltcp with each other,
/// alternating
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measured seconds of each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Seconds before the measured ones
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3)]
    warm_up: f64,
    /// Compare every byte that arrives, at a cost to the receiver
    #[arg(long)]
    verify: bool,
    /// Flows at the same time; with more than one, smoltcp is left out
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    flows: u32,
    /// Also measure Hawser in this many shards, with Linux, beside Hawser in one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    shards: u16,
    /// Run only constellations whose name contains this: `Hawser →`, `TUN`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Set a param of Hawser's TCP: RCV_BUF=4194304 (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", default_value = RECEIVE_BUFFER)]
    params: Vec<String>,
}

/// Hawser's receive buffer. Linux sizes its own (up to 6 MiB by default).
const RECEIVE_BUFFER: &str = "RCV_BUF=4194304";
/// The baseline of the other constellations.
const BASELINE: Constellation = pair(Stack::Linux, Stack::Linux, Medium::Veth);

const fn pair(client: Stack, server: Stack, medium: Medium) -> Constellation {
    Constellation { client, server, medium }
}

/// All constellations, the baseline first.
pub(crate) const ALL: [Constellation; 11] = [
    BASELINE,
    pair(Stack::Linux, Stack::Linux, Medium::VethPlain),
    pair(Stack::Hawser, Stack::Linux, Medium::Veth),
    pair(Stack::ByReference, Stack::Linux, Medium::Veth),
    pair(Stack::Linux, Stack::Hawser, Medium::Veth),
    pair(Stack::Hawser, Stack::Linux, Medium::Device),
    pair(Stack::ByReference, Stack::Linux, Medium::Device),
    pair(Stack::Linux, Stack::Hawser, Medium::Device),
    pair(Stack::Hawser, Stack::Hawser, Medium::Veth),
    pair(Stack::Smoltcp, Stack::Linux, Medium::Device),
    pair(Stack::Linux, Stack::Smoltcp, Medium::Device),
];

/// Hawser and smoltcp in the same position, each over the device that suits it.
const BESIDE_SMOLTCP: [(Constellation, Constellation); 2] = [
    (
        pair(Stack::Hawser, Stack::Linux, Medium::Device),
        pair(Stack::Smoltcp, Stack::Linux, Medium::Device),
    ),
    (
        pair(Stack::Linux, Stack::Hawser, Medium::Device),
        pair(Stack::Linux, Stack::Smoltcp, Medium::Device),
    ),
];

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    let in_user_namespace = networks::prepare()?;
    let seconds = args.seconds.unwrap_or(if common.quick { 0.3 } else { 3.0 });
    let title = match args.flows {
        1 => "One flow, bulk: sender → receiver".to_owned(),
        flows => format!("{flows} flows at once, bulk: sender → receiver"),
    };
    let mut report = Report::new("bulk", title);
    report.setting("flows", args.flows);
    report.setting("seconds", seconds);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("params", args.params.join(","));
    report.setting("user namespace", in_user_namespace);
    report.setting("Linux", "cubic by socket option, buffers of its own choice");
    report.setting(
        "smoltcp",
        "0.12, TAP, buffers 1 MiB, receive checksums trusted, no congestion control",
    );
    let wanted: Vec<Constellation> = constellations(args)
        .into_iter()
        .filter(|c| {
            args.only
                .as_ref()
                .is_none_or(|text| *c == BASELINE || c.name().contains(text))
        })
        .collect();
    let manner = StageSettings {
        sleeps: true,
        program: TCP.to_owned(),
        engine: common.engine.clone(),
        params: args.params.clone(),
        timeout_s: (seconds + args.warm_up) as u64 * 2 + 20,
    };
    let plan = Bulk {
        peer: networks::server(),
        warm_up_s: args.warm_up,
        seconds,
        verify: args.verify,
        write: CHUNK,
        flows: args.flows,
    };
    let results = alternate(common, "bulk", &wanted, |constellation| {
        measure(constellation, &manner, &plan)
    });
    for (constellation, result) in wanted.iter().zip(results) {
        report.rows.push(row(constellation.name(), result, metrics));
    }
    report.against(|_| Some(BASELINE.name()));
    for (hawser, smoltcp) in BESIDE_SMOLTCP {
        report.compare(&hawser.name(), &smoltcp.name(), "rate");
    }
    for one in wanted {
        let sharded = in_shards(one, args.shards);
        for metric in ["rate", "efficiency"].into_iter().filter(|_| sharded != one) {
            report.compare(&sharded.name(), &one.name(), metric);
        }
    }
    Ok(report)
}

/// Returns the constellations to measure, the baseline first.
fn constellations(args: &Args) -> Vec<Constellation> {
    let has = |c: &Constellation, stack| [c.client, c.server].contains(&stack);
    let all = ALL
        .into_iter()
        .filter(|c| args.flows == 1 || !has(c, Stack::Smoltcp));
    if args.shards == 1 {
        return all.collect();
    }
    // Linux's TCP is the peer in all rows, because shards change only our side.
    let ours = all.filter(|c| has(c, Stack::Hawser) && has(c, Stack::Linux));
    let ours = ours.flat_map(|c| [c, in_shards(c, args.shards)]);
    [BASELINE].into_iter().chain(ours).collect()
}

/// Returns the constellation with our stacks in this many shards.
fn in_shards(constellation: Constellation, count: u16) -> Constellation {
    let sharded = |stack| match stack {
        Stack::Hawser => Stack::Shards(count),
        other => other,
    };
    Constellation {
        client: sharded(constellation.client),
        server: sharded(constellation.server),
        medium: constellation.medium,
    }
}

/// Makes the metrics of a row from the figures of [`measure`].
pub(super) fn metrics(samples: &[Vec<f64>]) -> Vec<Option<Metric>> {
    vec![
        Metric::new("rate", "Gbit/s", Better::Higher, column(samples, 0)),
        Metric::new("efficiency", "Gbit/CPU-s", Better::Higher, column(samples, 1)),
        Metric::new("sender", "CPU", Better::Lower, column(samples, 2)),
        Metric::new("receiver", "CPU", Better::Lower, column(samples, 3)),
    ]
}

/// Measures the rate, the rate per CPU, and the share of a core that each side used.
pub(super) fn measure(
    constellation: &Constellation,
    manner: &StageSettings,
    plan: &Bulk,
) -> io::Result<Vec<f64>> {
    let (sender, receiver) = transfer(constellation, manner, plan)?;
    figures(&sender, &receiver)
}

/// Moves bytes, and returns the measurements of both sides. All bytes must have arrived.
pub(super) fn transfer(
    constellation: &Constellation,
    manner: &StageSettings,
    plan: &Bulk,
) -> io::Result<(Measured, Measured)> {
    let (sender, receiver) = networks::run(
        constellation,
        manner,
        Work::Send(plan.clone()),
        Work::Receive(plan.clone()),
    )?;
    if sender.bytes != receiver.bytes {
        return Err(io::Error::other(format!(
            "{} bytes sent, {} received",
            sender.bytes, receiver.bytes
        )));
    }
    Ok((sender, receiver))
}

/// Returns the figures from which [`metrics`] makes a row.
pub(super) fn figures(sender: &Measured, receiver: &Measured) -> io::Result<Vec<f64>> {
    let share = |side: &Measured| (side.user_s + side.system_s) / side.seconds;
    let rate = receiver.counted_bytes as f64 * 8.0 / 1e9 / receiver.seconds;
    let (sending, receiving) = (share(sender), share(receiver));
    let figures = vec![rate, rate / (sending + receiving), sending, receiving];
    match figures.iter().all(|figure| figure.is_finite()) {
        true => Ok(figures),
        false => Err(io::Error::other("too short to be measured")),
    }
}
