//! `hawser sim shrink FILE.toml`: finds the smallest scenario that still fails in the same manner.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hawser::interact::parse_span;
use hawser::programs::Programs;
use hawser::runs::{self, Report, Scenario, Shrunk};
use serde_json::json;

use super::scenario::not_run;
use crate::engine::{EngineArgs, NativeArgs};
use crate::exit::{Exit, Outcome};
use crate::progress;
use crate::terminal::write_text;

/// Make a failing scenario as small as possible
///
/// The command leaves out flows, faults and changes of links, and simplifies sizes, times and rates, as
/// long as the run fails in the same manner. Random losses become losses of single packets. The remaining
/// scenario is written to a file, and the reason for its failure is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// Use this seed instead of the seed of the scenario
    #[arg(long)]
    seed: Option<u64>,
    /// The output file of the smaller scenario
    #[arg(long, default_value = "shrunk.toml")]
    out: PathBuf,
    /// Try no further scenario after this time: 5min
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_span)]
    limit: Duration,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    native: NativeArgs,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut scenario = runs::load(&args.file).map_err(Exit::input)?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    if let Some(engine) = args.engine.engine {
        runs::set_engine(&mut scenario, engine);
    }
    let programs = Programs::default().with_native_files(args.native.allow_native);
    let report = runs::run_with(&programs, &scenario, None, None, None).map_err(not_run(&args.file))?;
    if report.ok {
        return Err(Exit::usage(format!(
            "{} with seed {} does not fail: there is nothing to shrink",
            args.file.display(),
            scenario.seed
        )));
    }
    let shrunk = smaller(&programs, &scenario, &report, args.limit, args.json)?;
    save(&args.out, &shrunk.scenario)?;
    let report = runs::run_with(&programs, &shrunk.scenario, None, None, None).map_err(Exit::input)?;
    let why = runs::why(&programs, &shrunk.scenario, &report).map_err(Exit::input)?;
    let out = args.out.display();
    if args.json {
        let object = json!({
            "scenario": out.to_string(), "seed": report.seed, "runs": shrunk.runs,
            "minimal": shrunk.is_minimal, "failures": report.failures, "why": why,
        });
        print!("{object:#}\n");
        return Ok(());
    }
    println!("{}", summary(&shrunk));
    why.iter().for_each(|why| print!("{why}\n"));
    let options = why
        .as_ref()
        .map_or_else(String::new, runs::Explanation::trace_options);
    println!(
        "the smaller scenario is in {out}; repeat it with: hawser sim replay {out} --seed {}",
        report.seed
    );
    println!(
        "see its last events with: hawser sim trace {out} --seed {}{options}",
        report.seed
    );
    Ok(())
}

/// Finds the smallest scenario that fails in the same manner as in this report.
pub(super) fn smaller(
    programs: &Programs,
    scenario: &Scenario,
    report: &Report,
    limit: Duration,
    quiet: bool,
) -> Result<Shrunk, Exit> {
    let bar = progress::steps(quiet, "shrinking");
    let deadline = Instant::now().checked_add(limit);
    let mut goes_on = |runs: usize| {
        bar.set_message(format!("shrinking: {runs} runs"));
        bar.tick();
        deadline.is_none_or(|deadline| Instant::now() < deadline)
    };
    let shrunk = runs::shrink(programs, scenario, report, &mut goes_on).map_err(Exit::input)?;
    bar.finish_and_clear();
    Ok(shrunk)
}

/// Summarises the result of shrinking in a line.
pub(super) fn summary(shrunk: &Shrunk) -> String {
    let Scenario { flow, at, .. } = &shrunk.scenario;
    let end = if shrunk.is_minimal {
        "no smaller scenario fails"
    } else {
        "the time ended"
    };
    format!(
        "shrunk by {} runs to {} flow{} and {} change{} of links; {end}",
        shrunk.runs,
        flow.len(),
        if flow.len() == 1 { "" } else { "s" },
        at.len(),
        if at.len() == 1 { "" } else { "s" },
    )
}

/// Writes a scenario. The paths of its programs become relative to its file, or absolute.
pub(super) fn save(path: &Path, scenario: &Scenario) -> Result<(), Exit> {
    let mut saved = scenario.clone();
    for program in saved.programs_mut() {
        *program = program_seen_from(path, program);
    }
    let text = saved.to_toml().map_err(Exit::failed)?;
    write_text(path, &text)
}

/// Returns the path of a program as a scenario in the file `save` must name it. A relative path is relative
/// to that file.
fn program_seen_from(save: &Path, program: &str) -> String {
    let folder = save
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let same = folder.canonicalize().ok() == Path::new(".").canonicalize().ok();
    match Path::new(program).canonicalize() {
        Ok(full) if !same && (program.ends_with(".mtp") || program.ends_with(".so")) => {
            full.display().to_string()
        }
        _ => program.to_owned(),
    }
}
