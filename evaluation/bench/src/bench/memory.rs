//! `hawser bench idle` and `hawser bench flows`: the cost of many connections.

use std::time::{Duration, Instant};

use super::{Common, alternate, column, row};
use crate::engine;
use crate::report::{Better, Metric, Report};
use crate::ring::pair::Pair;
use crate::sys;

/// Measure the memory of idle connections
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IdleArgs {
    /// Connections
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Bytes that each has sent before it falls idle
    #[arg(long, value_name = "BYTES", default_value_t = 1000)]
    sent: usize,
}

/// Measure the packet rate with few and with many connections
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FlowsArgs {
    /// Connections, in each row
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    connections: Vec<usize>,
    /// Bytes that each connection sends at a time. Two full packets are acknowledged at once, so a turn
    /// leaves no work behind and is the same with few connections and with many
    #[arg(long, value_name = "BYTES", default_value_t = 2 * 1448)]
    size: usize,
}

/// The number of connections that send between two polls of the wire.
const BATCH: usize = 64;
/// The time in which timers settle, such as those of delayed acknowledgements.
const QUIET: Duration = Duration::from_secs(2);

type Failure = Box<dyn std::error::Error>;

/// Runs `idle`.
///
/// # Errors
/// The engine does not exist, or connections failed.
pub(crate) fn idle(args: &IdleArgs, common: &Common) -> Result<Report, Failure> {
    let connections = args
        .connections
        .unwrap_or(if common.quick { 500 } else { 10_000 })
        .max(1);
    let mut report = Report::new("idle", "Memory of idle connections, each end by itself");
    report.setting("connections", connections);
    report.setting("bytes sent on each before", args.sent);
    report.setting("engine", &common.engine);
    let program = engine::program(&common.engine, &[])?;
    let mut pair = Pair::new(&program)?;
    // Tables that the first connections allocate are shared, and do not count.
    let before = sys::allocated_bytes();
    pair.open(connections)?;
    if args.sent > 0 {
        pair.round(args.sent, BATCH)?;
    }
    pair.pass(QUIET)?;
    let held = sys::allocated_bytes().saturating_sub(before);
    let used = pair.held_bytes();
    let each = |bytes: u64| vec![bytes as f64 / (2.0 * connections as f64)];
    let metric = |name, bytes| Metric::new(name, "bytes/connection", Better::Lower, each(bytes));
    let mut row = crate::report::Row::new(
        format!("Hawser, {}", common.engine),
        [
            metric("beyond buffers in use", held.saturating_sub(used)),
            metric("buffers in use", used),
        ],
    );
    row.facts.push(("contexts".to_owned(), pair.contexts() as u64));
    report.rows.push(row);
    Ok(report)
}

/// Runs `flows`.
///
/// # Errors
/// The engine does not exist.
pub(crate) fn flows(args: &FlowsArgs, common: &Common) -> Result<Report, Failure> {
    let counts = match (args.connections.is_empty(), common.quick) {
        (false, _) => args.connections.clone(),
        (true, true) => vec![100, 1000],
        (true, false) => vec![1000, 100_000],
    };
    let mut report = Report::new(
        "flows",
        "Packet rate with few and with many connections, two stacks on one core",
    );
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("bytes on each at a time", args.size);
    report.setting("connections at a time", BATCH);
    let program = engine::program(&common.engine, &[])?;
    if let Some(core) = sys::cores()?.last() {
        sys::pin(*core)?;
    }
    // The connections are opened once, because opening takes longer than the measurement.
    let max_count = counts.iter().copied().max().unwrap_or(1).max(1);
    let mut pairs = Vec::new();
    for count in &counts {
        let mut pair = Pair::new(&program)?;
        pair.open(*count)?;
        pair.round(args.size, BATCH)?;
        pairs.push(std::cell::RefCell::new((
            pair,
            (max_count / (*count).max(1)).max(1),
        )));
    }
    let results = alternate(common, "flows", &pairs, |pair| {
        let (pair, rounds) = &mut *pair.borrow_mut();
        measure(pair, *rounds, args.size).map_err(|e| std::io::Error::other(e.to_string()))
    });
    for (count, result) in counts.iter().zip(results) {
        report.rows.push(row(
            format!("Hawser, {} flows", crate::table::number(*count as f64)),
            result,
            |samples| {
                vec![
                    Metric::new("data", "packets/s", Better::Higher, column(samples, 0)),
                    Metric::new("with ACKs", "packets/s", Better::Higher, column(samples, 1)),
                    Metric::new("ACKs", "per 100 data packets", Better::Lower, column(samples, 2)),
                ]
            },
        ));
    }
    if let Some(first) = report.rows.first().map(|row| row.name.clone()) {
        report.against(|_| Some(first.clone()));
    }
    Ok(report)
}

/// Returns the packets per second. The number of packets is the same for any number of connections.
fn measure(pair: &mut Pair, rounds: usize, size: usize) -> Result<Vec<f64>, Failure> {
    let (begin, before) = (Instant::now(), pair.traffic());
    for _ in 0..rounds {
        pair.round(size, BATCH)?;
    }
    let took = begin.elapsed().as_secs_f64();
    let traffic = pair.traffic() - before;
    let (data, answers) = (traffic.data as f64, traffic.answers as f64);
    Ok(vec![data / took, (data + answers) / took, 100.0 * answers / data])
}
