//! `hawser bench callgrind`: instructions per packet of the stack alone, which do not depend on other users
//! of the machine.
//!
//! The command runs itself under valgrind twice, with a small and a large transfer, or with few and many
//! round trips. The common cost of both runs, such as the start and the compilation of the program, cancels
//! out.

use std::process::{Command, Stdio};

use super::stack::{Running, Subject};
use super::{Common, row};
use crate::report::{Better, Metric, Report};
use crate::ring::{RingOptions, Traffic};

/// Count instructions per packet of the stack alone, under valgrind's callgrind
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Engines, in place of --engine: interp,native
    #[arg(long, value_name = "ENGINE,…", value_delimiter = ',')]
    engines: Vec<String>,
    /// Receive window and buffers, KiB
    #[arg(long, value_name = "KIB", default_value_t = 256)]
    window: u32,
    /// Bytes of the larger transfer, MiB
    #[arg(long, value_name = "MIB")]
    size: Option<u64>,
    /// Set a param of the program, not of TCP by hand: SACK=false (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Leave smoltcp out
    #[arg(long)]
    no_peer: bool,
    /// Count round trips of 32 bytes each way, in place of a transfer
    #[arg(long, conflicts_with = "size")]
    round_trips: bool,
    #[command(flatten)]
    manner: RingOptions,
}

impl Args {
    /// Selects these engines alone, with transfers of at most `size` MiB, in this manner.
    pub(crate) fn new(engines: &[&str], size: u64, manner: RingOptions) -> Self {
        Self {
            size: Some(size),
            round_trips: false,
            manner,
            ..Self::of_round_trips(engines)
        }
    }

    /// Selects round trips of these engines alone.
    pub(crate) fn of_round_trips(engines: &[&str]) -> Self {
        Self {
            engines: engines.iter().map(|&engine| engine.to_owned()).collect(),
            window: 256,
            size: None,
            params: Vec::new(),
            no_peer: true,
            round_trips: true,
            manner: RingOptions::default(),
        }
    }

    /// Returns the smaller and the larger amount of the two runs, in bytes or in round trips.
    fn amounts(&self, common: &Common) -> [u64; 2] {
        let large = match self.round_trips {
            true if common.quick => ROUNDS / 4,
            true => ROUNDS,
            false => self.size.unwrap_or(if common.quick { 2 } else { 8 }) << 20,
        };
        [large / 4, large]
    }
}

/// The number of round trips of the larger run.
const ROUNDS: u64 = 4096;
/// The bytes of a round trip, each way.
const ROUND_TRIP: usize = 32;

/// The part that runs under valgrind: one transfer, or round trips, once.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Once {
    /// An engine, or `smoltcp`
    subject: String,
    /// The receive window, KiB
    window: u32,
    /// Bytes, or round trips
    amount: u64,
    /// Params of the program
    params: Vec<String>,
    /// Round trips
    #[arg(long)]
    round_trips: bool,
    #[command(flatten)]
    manner: RingOptions,
}

/// Thresholds in bytes that no copy reaches.
const PLAIN_COPIES: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824";

type Failure = Box<dyn std::error::Error>;

fn subject(name: &str) -> Subject {
    if name == "smoltcp" {
        Subject::Smoltcp
    } else {
        Subject::Hawser(name.to_owned())
    }
}

/// Runs the bench.
///
/// # Errors
/// Valgrind is absent, or a run failed.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Failure> {
    let version = Command::new("valgrind").arg("--version").output();
    let version = version.map_err(|e| format!("cannot start valgrind ({e}); Debian has it in `valgrind`"))?;
    let [small, large] = args.amounts(common);
    let mut report = Report::new("callgrind", "Instructions of both stacks together, ring to ring");
    match args.round_trips {
        true => report.setting(
            "round trips",
            format!("{small} and {large} of {ROUND_TRIP} bytes each way, the difference counts"),
        ),
        false => report.setting(
            "transfers",
            format!("{} and {} KiB, the difference counts", small >> 10, large >> 10),
        ),
    }
    report.setting("window", format!("{} KiB", args.window));
    report.setting("params", args.params.join(","));
    report.setting("merging on receipt", !args.manner.no_merge);
    report.setting("checksums", args.manner.checksums());
    report.setting("by reference", args.manner.by_reference);
    report.setting("valgrind", String::from_utf8_lossy(&version.stdout).trim());
    let mut names = if args.engines.is_empty() {
        vec![common.engine.clone()]
    } else {
        args.engines.clone()
    };
    if !args.no_peer {
        names.push("smoltcp".to_owned());
    }
    for name in &names {
        let counted = once_counted(name, args, small)
            .and_then(|less| Ok((less, once_counted(name, args, large)?)))
            .map(|((less, before), (more, after))| figures(args, more - less, after - before))
            .map_err(|e| e.to_string());
        let result = counted.map(|figures| vec![figures]);
        report.rows.push(row(subject(name).name(), result, |samples| {
            let metric =
                |name, n| Metric::new(name, "instructions", Better::Lower, super::column(samples, n));
            match args.round_trips {
                true => vec![metric("per round trip", 0)],
                false => vec![
                    metric("per data packet", 0),
                    metric("per packet, ACKs too", 1),
                    metric("per KiB", 2),
                ],
            }
        }));
    }
    // The hand-written TCP is the baseline of the program's cost; without it, the first row is.
    let by_hand = subject(crate::engine::HANDWRITTEN).name();
    let known = report.rows.iter().any(|row| row.name == by_hand);
    if let Some(first) = report.rows.first().map(|row| row.name.clone()) {
        let baseline = if known { by_hand } else { first };
        report.against(|_| Some(baseline.clone()));
    }
    Ok(report)
}

fn figures(args: &Args, instructions: u64, traffic: Traffic) -> Vec<f64> {
    let each = |n: u64| instructions as f64 / n.max(1) as f64;
    match args.round_trips {
        true => vec![each(traffic.bytes / ROUND_TRIP as u64)],
        false => vec![
            each(traffic.data),
            each(traffic.data + traffic.answers),
            each(traffic.bytes >> 10),
        ],
    }
}

/// Returns the instructions and the traffic of one run.
fn once_counted(name: &str, args: &Args, amount: u64) -> Result<(u64, Traffic), Failure> {
    let (window, amount) = (args.window.to_string(), amount.to_string());
    let mut words = vec!["once", name, &window, &amount];
    words.extend(args.params.iter().map(String::as_str));
    words.extend(args.round_trips.then_some("--round-trips"));
    words.extend(args.manner.options());
    let (instructions, out) = count(&words)?;
    let mut words = out.split_whitespace().filter_map(|word| word.parse().ok());
    let mut next = || {
        words
            .next()
            .ok_or("the process under valgrind printed no figures")
    };
    Ok((
        instructions,
        Traffic { data: next()?, answers: next()?, bytes: next()? },
    ))
}

/// Runs this program once with these arguments, and returns its instructions and its output.
///
/// # Errors
/// Valgrind is absent, or the run failed.
pub(crate) fn count(arguments: &[&str]) -> Result<(u64, String), Failure> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?);
    // The C library copies and clears large blocks by one instruction that callgrind counts once for each
    // byte. These settings make it treat them like small blocks.
    command.env("GLIBC_TUNABLES", PLAIN_COPIES);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot start valgrind ({e})"))?;
    let err = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("under valgrind: {}", err.lines().last().unwrap_or("no word")).into());
    }
    let instructions = err
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    let instructions = instructions.ok_or("valgrind did not report the number of instructions")?;
    Ok((instructions, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Executes the hidden sub-command: makes one transfer or some round trips, and prints the traffic on the
/// wire.
///
/// # Errors
/// The transfer failed.
pub(crate) fn once(args: &Once) -> Result<(), Failure> {
    let mut running = Running::start(&subject(&args.subject), args.window, &args.params, args.manner)?;
    match args.round_trips {
        true => running.round_trips(args.amount, ROUND_TRIP)?,
        false => running.bulk(args.amount)?,
    }
    let traffic = running.traffic();
    println!("{} {} {}", traffic.data, traffic.answers, traffic.bytes);
    Ok(())
}
