//! `hawser bench fabric`: the packets per second of a simulated fabric on one core, and the memory of its
//! hosts.
//!
//! In a leaf-spine network, half of the hosts send to the other half, which is behind other leaves. Each
//! packet therefore crosses four links: host to leaf to spine to leaf to host. The measured time includes
//! stacks, applications that check each byte, queues and the run's hash. Each run is a process of its own, so
//! that its memory can be measured.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use hawser::programs::{Engine, resolve_with_on};
use hawser_engine::messages::Carriage;
use hawser_ir::{Module, ParserInput};
use hawser_sim::{Options, ResolveError, Run, Scenario};

use super::{Common, alternate, column, row};
use crate::report::{Better, Metric, Report};
use crate::sys;

/// Measure the packets a second of a simulated fabric on one core, and the memory of its hosts
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Transports, in each row
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "homa,ndp,tcp"
    )]
    transports: Vec<String>,
    /// Hosts
    #[arg(long, value_name = "N")]
    hosts: Option<usize>,
    /// Hosts of the row that shows memory
    #[arg(long, value_name = "N")]
    many: Option<usize>,
    /// Processor time of each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

/// The arguments of a run's process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Once {
    transport: String,
    hosts: usize,
    seconds: f64,
}

type Failure = Box<dyn std::error::Error>;

/// The largest number of hosts of a leaf.
const LEAF: usize = 20;
/// The number of messages of all hosts together: more than are sent in the time.
const MESSAGES: usize = 256_000;
/// The size of each message.
const MESSAGE: &str = "10kB";
/// The number of links on each packet's path.
const LINKS: u64 = 4;

/// Runs the bench.
///
/// # Errors
/// The engine does not exist.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Failure> {
    let _: Engine = common.engine.parse()?;
    let little = |usual, quick| if common.quick { quick } else { usual };
    let hosts = args.hosts.unwrap_or(little(128, 8));
    let many = args.many.unwrap_or(little(1_000, 16));
    let seconds = args.seconds.unwrap_or(if common.quick { 0.05 } else { 2.0 });
    let mut report = Report::new(
        "fabric",
        "Packets through a simulated leaf-spine fabric, on one core",
    );
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("links of each path", LINKS);
    report.setting("seconds of processor time", seconds);
    let counts = if many == hosts {
        vec![hosts]
    } else {
        vec![hosts, many]
    };
    let things: Vec<(String, usize)> = counts
        .into_iter()
        .flat_map(|hosts| args.transports.iter().map(move |name| (name.clone(), hosts)))
        .collect();
    let results = alternate(common, "fabric", &things, |(transport, hosts)| {
        once_in_a_process(&common.engine, transport, *hosts, seconds)
    });
    for ((transport, hosts), result) in things.iter().zip(results) {
        let mut carried = [0, 0];
        let mut row = row(format!("{transport}, {hosts} hosts"), result, |samples| {
            carried = [4, 5].map(|n| column(samples, n).last().map_or(0, |count| *count as u64));
            vec![
                Metric::new("delivered", "packets/s", Better::Higher, column(samples, 0)),
                Metric::new("links", "packets/s", Better::Higher, column(samples, 1)),
                Metric::new("idle host", "KiB", Better::Lower, column(samples, 2)),
                Metric::new("process at most", "KiB", Better::Lower, column(samples, 3)),
            ]
        });
        let names = ["delivered", "over links"].map(str::to_owned);
        row.facts.extend(names.into_iter().zip(carried));
        report.rows.push(row);
    }
    Ok(report)
}

/// Returns the figures of one run.
fn once_in_a_process(engine: &str, transport: &str, hosts: usize, seconds: f64) -> io::Result<Vec<f64>> {
    let words = [transport.to_owned(), hosts.to_string(), seconds.to_string()];
    let output = Command::new(std::env::current_exe()?)
        .args(["--engine", engine, "once-fabric"])
        .args(words)
        .stdin(Stdio::null())
        .output()?;
    let out = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = out
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    if output.status.success() && figures.len() == 6 {
        return Ok(figures);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(
        error.lines().last().unwrap_or("no figures").to_owned(),
    ))
}

/// Executes the hidden sub-command. It prints these figures:
///
/// * the packets delivered per second, and the packets over links per second
/// * the KiB of a host before it sends, and the process's peak memory in KiB
/// * the numbers of both kinds of packets
///
/// # Errors
/// The network could not be built, or the run failed.
pub(crate) fn once(args: &Once, common: &Common) -> Result<(), Failure> {
    let engine: Engine = common.engine.parse()?;
    let resolve = |name: &str, params: &[String]| -> Result<_, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, params)?)
    };
    let program = resolve(&args.transport, &[]).map_err(|error| error.to_string())?;
    let needs = Needs::from_module(program.module());
    let scenario = Scenario::parse(&scenario(&args.transport, needs, args.hosts)?)?;
    let limit = Duration::try_from_secs_f64(args.seconds)?;
    // The limit is several times the planned time, because other processes may take turns.
    sys::do_not_outlive(Duration::from_secs(120) + limit * 20);
    if let Some(core) = sys::cores()?.last() {
        sys::pin(*core)?;
    }
    let before = sys::allocated_bytes();
    let mut run = Run::begin(&scenario, &resolve, Options::default())?;
    let idle = sys::allocated_bytes().saturating_sub(before) / 1024;
    let begin = spent();
    run.go_on(|events, _| events.is_multiple_of(4096) && spent() - begin >= limit);
    let took = (spent() - begin).as_secs_f64();
    let report = run.report();
    // Data still in flight is not a failure; a byte that differs from the sent one is.
    let wrong = report
        .failures
        .iter()
        .find(|failure| failure.contains("not what was sent"));
    if let Some(failure) = wrong {
        return Err(failure.clone().into());
    }
    let delivered = |to_hosts: bool| -> u64 {
        let links = report.links.iter();
        let counted = links.filter(|link| !to_hosts || scenario.host_number(&link.to).is_some());
        counted.map(|link| link.delivered).sum()
    };
    let (ends, links) = (delivered(true), delivered(false));
    println!(
        "{} {} {} {} {ends} {links}",
        ends as f64 / took,
        links as f64 / took,
        idle as f64 / args.hosts as f64,
        sys::memory_peak_kib(),
    );
    Ok(())
}

fn spent() -> Duration {
    let (user, system) = sys::cpu_time();
    user + system
}

/// The features that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    /// True if it carries calls by itself; otherwise it has streams.
    calls: bool,
    /// True if it reads packets that a switch has trimmed.
    cut: bool,
}

impl Needs {
    fn from_module(module: &Module) -> Needs {
        let mut parsers = module.parsers.iter();
        Needs {
            calls: Carriage::from_module(module) == Some(Carriage::Native),
            cut: parsers.any(|parser| matches!(parser.source, ParserInput::Trimmed(_))),
        }
    }
}

/// Returns the scenario of a leaf-spine network whose first half of hosts sends to the second: messages if
/// the program carries calls, otherwise streams. Switches trim packets if the program reads trimmed ones, and
/// otherwise have priorities.
fn scenario(transport: &str, needs: Needs, hosts: usize) -> Result<String, Failure> {
    let half = hosts / 2;
    let leaf = (1..=LEAF)
        .rev()
        .find(|leaf| half > 0 && half.is_multiple_of(*leaf));
    let leaf = leaf.filter(|_| hosts.is_multiple_of(2));
    let leaf = leaf.ok_or("an even number of hosts is needed")?;
    let (leaves, last, each) = (hosts / leaf, hosts - 1, (MESSAGES / half).max(1));
    let switch = match needs {
        Needs { cut: true, .. } => "priorities = 2, buffer = '12kB', trim_to = 64, spray = 'random'",
        Needs { calls: true, .. } => "priorities = 8, buffer = '500kB'",
        Needs { calls: false, .. } => "buffer = '500kB'",
    };
    let work = if needs.calls {
        format!(
            "calls = {{ count = {each}, size = '{MESSAGE}', reply = 8, load = 0.5, arrivals = 'poisson' }}"
        )
    } else {
        "pairs = 'in-order'\nbulk = { bytes = '4GB' }".to_owned()
    };
    Ok(format!(
        "program = '{transport}'\nduration = '1min'\nidle_packets = 0\n\
         [topology]\nkind = 'leaf-spine'\nleaves = {leaves}\nspines = 4\nhosts = {leaf}\n\
         host_link = {{ rate = '10Gbit/s', delay = '250ns' }}\n\
         core_link = {{ rate = '40Gbit/s', delay = '250ns' }}\n\
         switch = {{ {switch} }}\n\
         [[flow]]\nfrom = 'h[0-{}]'\nto = 'h[{half}-{last}]'\n{work}\n",
        half - 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// According to the programs' own texts, Homa carries calls, NDP carries calls and reads trimmed packets,
    /// and TCP has streams.
    #[test]
    fn the_needs_of_a_program_follow_from_its_text() {
        let needs = |name: &str| {
            let program =
                resolve_with_on(Some(Engine::Interp), name, &[]).expect("a program that comes with it");
            let needs = Needs::from_module(program.module());
            (needs.calls, needs.cut)
        };
        assert_eq!(
            ["homa", "ndp", "tcp", "selective-repeat"].map(needs),
            [(true, false), (true, true), (false, false), (false, false)]
        );
    }
}
