//! `hawser sim swarm PROGRAM`: runs a program through random networks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hawser::interact::parse_span;
use hawser::programs::{self, Engine, Error, LoadedProgram, Programs};
use hawser::runs::swarm::{
    self, Abilities, Ability, Delivery, ParamValue, SwarmPeers, SwarmProgram, TrafficKind, TrafficModel,
};
use hawser::runs::{self, Explanation, Report, Scenario, Shrunk};
use serde_json::json;

use super::shrink;
use crate::engine::refused;
use crate::exit::{Exit, Outcome};
use crate::progress;

/// The maximum time for shrinking the scenario of a failed run.
const SHRINKING: Duration = Duration::from_secs(20);

/// Run a program through many random networks
///
/// Each seed draws links, faults, cuts, buffers and applications (docs/swarm.md). A run must be safe (the
/// data sent is delivered in order and once), live (after the network has healed, everything completes), tidy
/// (no connection is left behind), and, without disturbances, efficient. Each seed is run twice: both runs
/// must give the same trace. With `--engine both`, the second run is on the other engine. Seeds run in
/// parallel, which changes no result. The first failure ends the swarm: its scenario is made as small as
/// possible, and the reason for the failure is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A built-in program's name, a file (.mtp), or one that was built (.so)
    program: String,
    /// The engine that runs the program: `interp`, `native`, or `both`, one after the other. By default
    /// `.mtp` files are interpreted, and built-in programs and `.so` files run as machine code
    #[arg(long, value_name = "ENGINE", value_parser = parse_engines)]
    engine: Option<Engines>,
    /// The number of seeds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// The number of seeds that run in parallel; by default the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Start no further seed after this time: 5min
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    limit: Option<Duration>,
    #[command(flatten)]
    pub(crate) claims: Claims,
    /// Set a param of the program: RTO=3s (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Leave the scenario of a failed run as it is
    #[arg(long)]
    no_shrink: bool,
    /// The file for the scenario of a failed run
    #[arg(long, default_value = "swarm-failure.toml")]
    save: PathBuf,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

/// The abilities that the program claims.
#[derive(clap::Args)]
pub(crate) struct Claims {
    /// Ask only for abilities that every transport has: no simultaneous open, half-close or end of
    /// connections
    #[arg(long)]
    pub(crate) plain: bool,
    /// With --plain, ask for these nevertheless: handshake, ends
    #[arg(long, value_name = "ABILITY,…", value_delimiter = ',', requires = "plain")]
    with: Vec<Ability>,
    /// Do not ask for these abilities, which the program lacks: any of handshake, any_mtu, open_both,
    /// half_close, ends, flow_control, pipelining, reuse, restart, refusals, aborts, resets, round_trip,
    /// congestion, migration
    #[arg(
        long,
        value_name = "ABILITY,…",
        value_delimiter = ',',
        conflicts_with = "plain"
    )]
    without: Vec<Ability>,
    /// The service that the program offers: `stream`; `messages` (each whole, once, in any order);
    /// `datagrams` (each whole, at most once); `streams` within each connection; `calls`, from endpoint to
    /// endpoint; or `works` of queue pairs
    #[arg(long, value_name = "WHAT", default_value = "stream", value_parser = parse_carried)]
    carries: TrafficModel,
    /// The longest message that the program accepts, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = TrafficModel::LONGEST,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    longest: u64,
    /// The program carries data from client to server only; with `--carries calls`, messages without a reply;
    /// with `--carries streams`, streams on which only the opener sends
    #[arg(long)]
    one_way: bool,
    /// A program that watches the packets of each host; the run fails when one of its assertions is false
    /// (docs/testing-your-transport.md)
    #[arg(long, value_name = "FILE")]
    watch: Option<String>,
    /// A program that one of the hosts runs in a quarter of the seeds: a peer that uses what the protocol
    /// permits
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<String>,
    /// The maximum number of times that the program sends each byte on purpose, for a program with
    /// redundancy: its limits of bytes and of time are multiplied by this
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = parse_redundancy)]
    redundancy: f64,
    /// The values of a param, from which each host draws one: OFFER_ECN=true,false (repeatable)
    #[arg(long, value_name = "NAME=VALUE,…", value_parser = parse_vary)]
    vary: Vec<Vary>,
}

/// A param, and the values from which each host draws one.
type Vary = (String, Vec<ParamValue>);

fn parse_redundancy(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|times| (1.0..=100.0).contains(times));
    times.ok_or_else(|| "expected a number from 1 to 100".to_owned())
}

fn parse_vary(text: &str) -> Result<Vary, String> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let value = |value: &str| runs::param(&format!("{name}={value}")).map_err(|error| error.to_string());
    let values: Vec<(String, ParamValue)> = values.split(',').map(value).collect::<Result<_, _>>()?;
    Ok((
        name.to_owned(),
        values.into_iter().map(|(_, value)| value).collect(),
    ))
}

fn parse_carried(text: &str) -> Result<TrafficModel, String> {
    let connections = |delivery| TrafficModel { delivery, ..TrafficModel::default() };
    match text {
        "stream" => Ok(connections(Delivery::Stream)),
        "messages" => Ok(connections(Delivery::Messages)),
        "datagrams" => Ok(connections(Delivery::Datagrams)),
        "streams" => Ok(TrafficModel::new(TrafficKind::Streams)),
        "calls" => Ok(TrafficModel::new(TrafficKind::Calls)),
        "works" => Ok(TrafficModel::new(TrafficKind::Works)),
        _ => Err(format!(
            "expected stream, messages, datagrams, streams, calls or works, not `{text}`"
        )),
    }
}

impl Claims {
    /// Returns the program with these claims.
    pub(crate) fn subject<'a>(&'a self, program: &'a str) -> SwarmProgram<'a> {
        let carried = TrafficModel { longest: self.longest, one_way: self.one_way, ..self.carries };
        let beside = SwarmPeers {
            watch: self.watch.as_deref(),
            peer: self.peer.as_deref(),
            redundancy: self.redundancy,
            vary: &self.vary,
        };
        SwarmProgram::new(program, self.abilities())
            .carrying(carried)
            .beside(beside)
    }

    /// Checks the preconditions of every run. The watching program and the peer must exist. The tested
    /// program and its peer must accept each value that a host may draw.
    pub(crate) fn check(&self, programs: &Programs, tried: &LoadedProgram) -> Outcome {
        let open = |name| {
            programs
                .open(None, name)
                .map_err(|error| refused(&Error::Load(error)))
        };
        self.watch.as_deref().map(open).transpose()?;
        let peer = self.peer.as_deref().map(open).transpose()?;
        for (name, values) in &self.vary {
            for value in values {
                let setting = [format!("{name}={value}")];
                for program in std::iter::once(tried).chain(&peer) {
                    programs::set(program, &setting).map_err(|error| refused(&error))?;
                }
            }
        }
        Ok(())
    }

    fn abilities(&self) -> Abilities {
        let (all, minimal) = (Abilities::ALL, Abilities::MINIMAL);
        match self.plain {
            true => self.with.iter().fold(minimal, |known, one| known.with(*one)),
            false => self.without.iter().fold(all, |known, one| known.without(*one)),
        }
    }
}

/// The engines of the two runs of a seed.
#[derive(Clone, Copy)]
struct Engines {
    first: Engine,
    second: Engine,
}

fn parse_engines(text: &str) -> Result<Engines, String> {
    match text.parse() {
        Ok(engine) => Ok(Engines { first: engine, second: engine }),
        Err(_) if text == "both" => Ok(Engines { first: Engine::Interp, second: Engine::Native }),
        Err(_) => Err(format!("expected interp, native or both, not `{text}`")),
    }
}

impl Engines {
    fn name(self) -> &'static str {
        if self.first == self.second {
            self.first.name()
        } else {
            "both"
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let usual = Engine::default_for(&args.program);
    let engines = args.engine.unwrap_or(Engines { first: usual, second: usual });
    // Machine code is allowed, because the command line names the file.
    let programs = Programs::default().with_native_files(true);
    let mut subject = args.claims.subject(&args.program);
    for engine in [engines.first, engines.second] {
        let loaded = programs
            .open(Some(engine), &args.program)
            .map_err(|e| refused(&Error::Load(e)))?;
        programs::set(&loaded, &args.params).map_err(|error| refused(&error))?;
        args.claims.check(&programs, &loaded)?;
        subject = subject.known(loaded.module());
    }
    let swarm = Swarm { args, programs: &programs, engines, subject };
    let Totals { runs, events, bytes } = swarm.run()?;
    match args.json {
        true => println!(
            "{}",
            json!({
                "ok": true, "runs": runs, "first": args.first, "engine": engines.name(), "events": events,
                "bytes": bytes,
            })
        ),
        false => println!(
            "{runs} runs of {}, each {}: safe, live and repeatable ({bytes} bytes delivered, {events} events)",
            args.program,
            if engines.first == engines.second {
                "twice"
            } else {
                "on both engines"
            }
        ),
    }
    Ok(())
}

/// The settings that all seeds share.
struct Swarm<'a> {
    args: &'a Args,
    programs: &'a Programs,
    engines: Engines,
    subject: SwarmProgram<'a>,
}

/// The sums over the successful seeds.
#[derive(Default)]
struct Totals {
    runs: u64,
    events: u64,
    bytes: u64,
}

impl Swarm<'_> {
    /// Runs the seeds on several threads, each of which takes the next one. All seeds before the first
    /// failing one have been taken by then, and are waited for. The reported seed therefore does not depend
    /// on the threads.
    fn run(&self) -> Result<Totals, Exit> {
        let args = self.args;
        let jobs = args.jobs.map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        );
        let bar = progress::count(args.json, "swarm", args.runs);
        let end = args.first.saturating_add(args.runs);
        let deadline = args.limit.and_then(|limit| Instant::now().checked_add(limit));
        let (next, stop) = (AtomicU64::new(args.first), AtomicBool::new(false));
        let (results, done) = mpsc::channel();
        let mut totals = Totals::default();
        let mut first_failure: Option<(u64, SeedFailure)> = None;
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (results, next, stop) = (results.clone(), &next, &stop);
                scope.spawn(move || {
                    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    while !stop.load(Ordering::Relaxed) && !is_over() {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end || results.send((seed, self.seed(seed))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(results);
            for (seed, result) in done {
                match result {
                    Ok((events, bytes)) => {
                        totals.runs += 1;
                        totals.events += events;
                        totals.bytes += bytes;
                        bar.inc(1);
                    }
                    Err(failure) => {
                        stop.store(true, Ordering::Relaxed);
                        if first_failure.as_ref().is_none_or(|(first, _)| seed < *first) {
                            first_failure = Some((seed, failure));
                        }
                    }
                }
            }
        });
        match first_failure {
            None => {
                bar.finish_and_clear();
                Ok(totals)
            }
            Some((seed, failure)) => {
                bar.abandon();
                Err(self.explain(seed, failure))
            }
        }
    }

    /// Runs a seed twice. Returns its events and bytes.
    fn seed(&self, seed: u64) -> Result<(u64, u64), SeedFailure> {
        let mut scenario = scenario(self.args, seed, &self.subject).map_err(SeedFailure::NotRun)?;
        let mut run = |engine| {
            runs::set_engine(&mut scenario, engine);
            let report = runs::run_with(self.programs, &scenario, None, None, None);
            report.map_err(|error| SeedFailure::NotRun(Exit::input(error)))
        };
        let (report, again) = (run(self.engines.first)?, run(self.engines.second)?);
        if !report.ok || report.trace_hash != again.trace_hash {
            return Err(SeedFailure::Broken(Box::new([report, again])));
        }
        Ok((
            report.events,
            report
                .flows
                .iter()
                .map(|f| f.forward.bytes + f.backward.bytes)
                .sum(),
        ))
    }

    /// Saves the scenario of a failed seed. Returns the exit with its report.
    fn explain(&self, seed: u64, failure: SeedFailure) -> Exit {
        let args = self.args;
        let [report, again] = match failure {
            SeedFailure::NotRun(exit) => return exit,
            SeedFailure::Broken(reports) => *reports,
        };
        let failed = match report.trace_hash == again.trace_hash {
            true => self.small(seed, report),
            false => self.whole(seed).map(|scenario| Failed {
                scenario,
                differ: Some(format!(
                    "two runs differ: {} on {} and {} on {}",
                    report.trace_hash, report.engine, again.trace_hash, again.engine
                )),
                report,
                shrunk: None,
                why: None,
            }),
        };
        failed
            .and_then(|failed| {
                shrink::save(&args.save, &failed.scenario)?;
                Ok(self::failure(args, &failed))
            })
            .unwrap_or_else(|exit| exit)
    }

    /// Returns the scenario of a seed on the first engine.
    fn whole(&self, seed: u64) -> Result<Scenario, Exit> {
        let mut whole = scenario(self.args, seed, &self.subject)?;
        runs::set_engine(&mut whole, self.engines.first);
        Ok(whole)
    }

    /// Shrinks the scenario of a failed seed as far as time permits, and explains the failure.
    fn small(&self, seed: u64, report: Report) -> Result<Failed, Exit> {
        let whole = self.whole(seed)?;
        let shrunk = match self.args.no_shrink {
            true => None,
            false => Some(shrink::smaller(
                self.programs,
                &whole,
                &report,
                SHRINKING,
                self.args.json,
            )?),
        };
        let (scenario, report) = match &shrunk {
            None => (whole, report),
            Some(shrunk) => {
                let again = runs::run_with(self.programs, &shrunk.scenario, None, None, None);
                (shrunk.scenario.clone(), again.map_err(Exit::input)?)
            }
        };
        Ok(Failed {
            why: runs::why(self.programs, &scenario, &report).map_err(Exit::input)?,
            differ: None,
            scenario,
            report,
            shrunk,
        })
    }
}

/// The report of a failed seed.
struct Failed {
    scenario: Scenario,
    report: Report,
    /// The difference between its two runs, if any.
    differ: Option<String>,
    shrunk: Option<Shrunk>,
    why: Option<Explanation>,
}

/// A seed failed.
enum SeedFailure {
    /// The scenario could not be run.
    NotRun(Exit),
    /// The run violated a property, or its two runs differ.
    Broken(Box<[Report; 2]>),
}

/// Returns the scenario of a seed with the given params.
fn scenario(args: &Args, seed: u64, subject: &SwarmProgram<'_>) -> Result<runs::Scenario, Exit> {
    let mut scenario = swarm::scenario(seed, subject);
    for text in &args.params {
        runs::set_param(&mut scenario, text).map_err(Exit::usage)?;
    }
    Ok(scenario)
}

/// Formats the report of a failed seed. With `--json`, it also prints the report to standard output.
fn failure(args: &Args, failed: &Failed) -> Exit {
    let Failed { report, differ, shrunk, why, .. } = failed;
    let failures = differ
        .as_ref()
        .map_or_else(|| report.failures.clone(), |text| vec![text.clone()]);
    let (file, seed) = (args.save.display(), report.seed);
    if args.json {
        let shrunk = shrunk.as_ref();
        println!(
            "{}",
            json!({
                "ok": false, "seed": seed, "engine": report.engine, "failures": failures,
                "scenario": file.to_string(), "why": why,
                "shrunk": shrunk.map(|shrunk| json!({"runs": shrunk.runs, "minimal": shrunk.is_minimal})),
            })
        );
    }
    let hint = match args.claims.plain || differ.is_some() {
        true => "",
        false => {
            "\nfor a program with fewer abilities, ask for less: --without half_close,ends, or --plain \
             (docs/swarm.md)"
        }
    };
    let small = shrunk
        .as_ref()
        .map_or_else(String::new, |shrunk| shrink::summary(shrunk) + "\n");
    let (why, trace) = why.as_ref().map_or_else(Default::default, |why| {
        let options = why.trace_options();
        let trace = format!("\nsee its last events with: hawser sim trace {file} --seed {seed}{options}");
        (format!("{why}\n"), trace)
    });
    Exit::failed(format!(
        "seed {seed} failed:\n  {}\n{small}{why}the scenario is in {file}; repeat it with: hawser sim replay {file} --seed \
         {seed}{trace}{hint}",
        failures.join("\n  ")
    ))
}
