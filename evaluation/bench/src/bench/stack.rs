//! `hawser bench stack`: packets per second of the stack alone on one core, over a ring in memory.

use std::time::{Duration, Instant};

use super::{Common, alternate, column, row};
use crate::engine;
use crate::report::{Better, Metric, Report};
use crate::ring::pair::Pair;
use crate::ring::peer::Peers;
use crate::ring::{MTU, RingOptions, Traffic};
use crate::sys;

/// Measure the stack alone: two stacks on one core, a ring of memory between them
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Receive window and buffers, KiB: small enough for the processor's caches
    #[arg(long, value_name = "KIB", default_value_t = 256)]
    window: u32,
    /// Engines to compare, in place of --engine: interp,native
    #[arg(long, value_name = "ENGINE,…", value_delimiter = ',')]
    engines: Vec<String>,
    /// Set a param of the program, not of TCP by hand: SACK=false (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    #[command(flatten)]
    manner: RingOptions,
}

/// The bytes moved between two readings of the clock.
const STRIDE: u64 = 1 << 20;

/// The stack under measurement.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// Our engine, with the name of the engine that runs the program.
    Hawser(String),
    Smoltcp,
}

impl Subject {
    /// Returns the name in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Subject::Hawser(engine) => format!("Hawser, {engine}"),
            Subject::Smoltcp => "smoltcp".to_owned(),
        }
    }
}

type Failure = Box<dyn std::error::Error>;

/// Two stacks that move bytes from ring to ring.
pub(crate) enum Running {
    Hawser(Box<Pair>),
    Smoltcp(Box<Peers>),
}

impl Running {
    /// Starts two stacks with an open connection.
    pub(crate) fn start(
        subject: &Subject,
        window_kib: u32,
        more: &[String],
        manner: RingOptions,
    ) -> Result<Running, Failure> {
        match subject {
            Subject::Hawser(engine) => {
                let mut params = vec![format!("RCV_BUF={}", u64::from(window_kib) << 10)];
                if engine != engine::HANDWRITTEN {
                    params.extend_from_slice(more);
                }
                let mut pair = Pair::with_options(&engine::program(engine, &params)?, manner)?;
                pair.open(1)?;
                Ok(Running::Hawser(Box::new(pair)))
            }
            Subject::Smoltcp => Ok(Running::Smoltcp(Box::new(Peers::new(
                (window_kib as usize) << 10,
                manner.checksums,
            )?))),
        }
    }

    /// Moves this many further bytes.
    pub(crate) fn bulk(&mut self, bytes: u64) -> Result<(), Failure> {
        match self {
            Running::Hawser(pair) => pair.bulk(bytes),
            Running::Smoltcp(peers) => peers.bulk(bytes),
        }
    }

    /// Moves `len` bytes there and back, `rounds` times.
    pub(crate) fn round_trips(&mut self, rounds: u64, len: usize) -> Result<(), Failure> {
        match self {
            Running::Hawser(pair) => pair.round_trips(rounds, len),
            Running::Smoltcp(peers) => peers.round_trips(rounds, len),
        }
    }

    /// Returns the traffic on the wire so far.
    pub(crate) fn traffic(&self) -> Traffic {
        match self {
            Running::Hawser(pair) => pair.traffic(),
            Running::Smoltcp(peers) => peers.traffic(),
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// An engine does not exist.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Failure> {
    let seconds = args.seconds.unwrap_or(if common.quick { 0.1 } else { 1.0 });
    let mut report = Report::new(
        "stack",
        format!("Two stacks on one core, ring to ring, packets of {MTU} bytes"),
    );
    report.setting("seconds", seconds);
    report.setting("runs", common.runs());
    report.setting("window", format!("{} KiB", args.window));
    report.setting("params", args.params.join(","));
    report.setting("merging on receipt", !args.manner.no_merge);
    report.setting("checksums", args.manner.checksums());
    report.setting("by reference", args.manner.by_reference);
    let engines = if args.engines.is_empty() {
        vec![common.engine.clone()]
    } else {
        args.engines.clone()
    };
    for name in &engines {
        engine::program(name, &[])?;
    }
    let mut subjects: Vec<Subject> = engines.into_iter().map(Subject::Hawser).collect();
    subjects.push(Subject::Smoltcp);
    if let Some(core) = sys::cores()?.last() {
        sys::pin(*core)?;
    }
    let results = alternate(common, "stack", &subjects, |subject| {
        measure(subject, args, seconds).map_err(|e| std::io::Error::other(e.to_string()))
    });
    for (subject, result) in subjects.iter().zip(results) {
        report.rows.push(row(subject.name(), result, |samples| {
            vec![
                Metric::new("data", "packets/s", Better::Higher, column(samples, 0)),
                Metric::new("with ACKs", "packets/s", Better::Higher, column(samples, 1)),
                Metric::new("rate", "Gbit/s", Better::Higher, column(samples, 2)),
            ]
        }));
    }
    report.against(|_| Some(Subject::Smoltcp.name()));
    Ok(report)
}

fn measure(subject: &Subject, args: &Args, seconds: f64) -> Result<Vec<f64>, Failure> {
    let mut running = Running::start(subject, args.window, &args.params, args.manner)?;
    running.bulk(STRIDE)?;
    let (begin, before) = (Instant::now(), running.traffic());
    let limit = Duration::from_secs_f64(seconds);
    while begin.elapsed() < limit {
        running.bulk(STRIDE)?;
    }
    let took = begin.elapsed().as_secs_f64();
    let traffic = running.traffic() - before;
    let both = traffic.data + traffic.answers;
    Ok(vec![
        traffic.data as f64 / took,
        both as f64 / took,
        traffic.bytes as f64 * 8.0 / 1e9 / took,
    ])
}
