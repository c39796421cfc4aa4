//! `hawser sim run FILE.toml`: runs a scenario in the simulator.

use std::path::{Path, PathBuf};

use hawser::programs::{Engine, Error, Programs};
use hawser::runs::{self, DrawingLimits, Explanation, Picture, Report, RunError, Scenario};
use serde::Serialize;

use crate::engine::{EngineArgs, NativeArgs, of_file};
use crate::exit::{Exit, Outcome};
use crate::progress;
use crate::trace_file::TraceArgs;

/// Run a scenario in the simulator
///
/// A scenario (docs/scenarios.md) names hosts, links with their faults, a transport program (built in,
/// or any .mtp file) and the applications. The same seed gives the same run, down to the trace hash.
/// The command fails when data was lost, changed or repeated, or when something did not complete.
// `Args` of `replay` and `picture` contain these.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// Use this seed instead of the seed of the scenario
    #[arg(long)]
    seed: Option<u64>,
    /// Watch the packets of each host by a program, in place of the scenario's `watch`; the run fails when
    /// one of its assertions is false (docs/testing-your-transport.md)
    #[arg(long, value_name = "FILE")]
    watch: Option<String>,
    /// Print the report as a JSON object
    #[arg(long)]
    json: bool,
    /// Write every packet to a capture file, for Wireshark
    #[arg(long, value_name = "OUT")]
    pcap: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    native: NativeArgs,
    #[command(flatten)]
    trace: TraceArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    run_and(args, None, |_, _| Ok(()))
}

/// Runs a scenario and prints its report. With `limits`, the recorded part of the run is given to `draw`.
pub(super) fn run_and(
    args: &Args,
    limits: Option<DrawingLimits>,
    draw: impl FnOnce(&Picture, &Report) -> Outcome,
) -> Outcome {
    let mut scenario = args.scenario()?;
    scenario.watch = args.watch.clone().or(scenario.watch);
    let programs = Programs::default().with_native_files(args.native.allow_native);
    let opened = programs.open(runs::engine(&scenario), &scenario.program);
    opened.map_err(|error| of_file(&Error::Load(error)))?;
    choose_engine(&programs, &mut scenario, args.seed).map_err(not_run(&args.file))?;
    let capture = match &args.pcap {
        None => None,
        Some(path) => Some(
            std::fs::File::create(path)
                .map_err(|e| Exit::environment(format!("cannot write {}: {e}", path.display())))?,
        ),
    };
    let bar = progress::share(args.json, &args.file.display().to_string());
    let mut progress = |done: f64| bar.set_position((done * 1000.0) as u64);
    let show = args.trace.open()?;
    let (seed, progress) = (args.seed, Some(&mut progress as &mut dyn FnMut(f64)));
    let (report, picture) = match limits {
        None => {
            let report = runs::run_shown(&programs, &scenario, seed, capture, progress, show);
            (report.map_err(not_run(&args.file))?, None)
        }
        Some(limits) => {
            let shows = runs::Shows { limits, show };
            let drawn = runs::run_pictured(&programs, &scenario, seed, shows, capture, progress);
            let (report, picture) = drawn.map_err(not_run(&args.file))?;
            (report, Some(picture))
        }
    };
    bar.finish_and_clear();
    if let Some(picture) = picture {
        draw(&picture, &report)?;
    }
    let why = runs::why(&programs, &scenario, &report).map_err(not_run(&args.file))?;
    finish(args, &report, why.as_ref())
}

impl Args {
    /// Reads the scenario, with the engine that the options choose.
    pub(super) fn scenario(&self) -> Result<Scenario, Exit> {
        let mut scenario = runs::load(&self.file).map_err(Exit::input)?;
        if let Some(engine) = self.engine.engine {
            runs::set_engine(&mut scenario, engine);
        }
        Ok(scenario)
    }
}

/// The number of events whose interpretation takes about as long as the compilation of a run's programs.
const LONG: u64 = 40_000;

/// Chooses machine code for programs in files if the run is long and the user has not chosen an engine. Both
/// engines behave the same. Without a compiler, programs stay interpreted.
fn choose_engine(programs: &Programs, scenario: &mut Scenario, seed: Option<u64>) -> Result<(), RunError> {
    let is_text = scenario.programs().any(|name| name.ends_with(".mtp"));
    if runs::engine(scenario).is_some() || !is_text || !runs::is_longer(programs, scenario, seed, LONG)? {
        return Ok(());
    }
    let compiles = |name: &String| programs.open(Some(Engine::Native), name).is_ok();
    if scenario.programs().all(compiles) {
        runs::set_engine(scenario, Engine::Native);
    }
    Ok(())
}

/// Maps an error of a scenario to an exit that names its file.
pub(super) fn not_run(file: &Path) -> impl Fn(RunError) -> Exit {
    |error| Exit::input(format!("{}: {error}", file.display()))
}

/// The report as JSON, with the explanation of a failed run.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a Explanation>,
}

fn finish(args: &Args, report: &Report, why: Option<&Explanation>) -> Outcome {
    if args.json {
        let printed = serde_json::to_string_pretty(&Printed { report, why });
        print!("{}\n", printed.map_err(Exit::failed)?);
    } else {
        print!("{report}\n");
        why.into_iter().for_each(|why| print!("{why}\n"));
    }
    if report.ok {
        return Ok(());
    }
    let engine = args
        .engine
        .engine
        .map_or_else(String::new, |engine| format!(" --engine {engine}"));
    let native = if args.native.allow_native {
        " --allow-native"
    } else {
        ""
    };
    let repeat = format!("{} --seed {}{engine}{native}", args.file.display(), report.seed);
    let watch = args
        .watch
        .as_ref()
        .map_or_else(String::new, |watch| format!(" --watch {watch}"));
    let options = why.map_or_else(String::new, Explanation::trace_options);
    Err(Exit::failed(format!(
        "the run failed; repeat it with: hawser sim replay {repeat}{watch}\nsee its last events with: hawser sim trace \
         {repeat}{options}"
    )))
}
