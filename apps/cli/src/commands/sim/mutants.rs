//! `hawser sim mutants PROGRAM`: checks whether the swarm detects a missing or wrong statement of the program.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use hawser::programs::{self, Engine, Error, Programs};
use hawser::runs;
use hawser::runs::mutants::{self, Mutant, MutationKind, ProgramTexts};
use hawser::runs::swarm::{self, SwarmProgram};
use serde_json::json;

use super::swarm::Claims;
use crate::engine::refused;
use crate::exit::{Exit, Outcome};
use crate::progress;

/// The number of events after which a run counts as endless, several times the number that a correct program
/// needs.
const EVENTS_MAX: u64 = 500_000;
/// The corresponding number of packets without a delivered byte.
const IDLE_PACKETS: u64 = 20_000;

/// Change a program in one place after the other, and check whether the swarm detects it
///
/// Each statement is deleted, each condition negated, each operator exchanged for its neighbour. A mutant
/// is killed when one of the swarm's seeds fails on it. The survivors are printed by line: their statements
/// are not checked, or not needed. Mutants that the checker rejects are not counted. See docs/swarm.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A built-in program's name or a file (.mtp)
    program: String,
    /// The number of seeds that each mutant has to survive
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// The number of mutants that run in parallel; by default the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The kinds of changes: any of delete, negate, exchange
    #[arg(long, value_name = "CHANGE,…", value_delimiter = ',', default_value = "delete,negate,exchange", value_parser = parse_change)]
    changes: Vec<MutationKind>,
    /// Change this file of the program alone
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// The minimum percentage of killed mutants; the command fails below it
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    goal: Option<u8>,
    #[command(flatten)]
    claims: Claims,
    /// Set a param of the program: RTO=3s (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

fn parse_change(name: &str) -> Result<MutationKind, String> {
    let known = MutationKind::ALL.into_iter().find(|change| change.name() == name);
    known.ok_or_else(|| format!("unknown change `{name}`; the changes are delete, negate and exchange"))
}

/// The outcome of testing a mutant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MutantOutcome {
    /// A seed failed on it.
    Killed,
    Survived,
    /// The checker rejected it.
    NotTaken,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let programs = Programs::default();
    let loaded = programs
        .open(Some(Engine::Interp), &args.program)
        .map_err(|e| refused(&Error::Load(e)))?;
    programs::set(&loaded, &args.params).map_err(|error| refused(&error))?;
    args.claims.check(&programs, &loaded)?;
    let texts = ProgramTexts::from_module(loaded.module());
    let trial = Trial {
        args,
        programs: &programs,
        texts: &texts,
        subject: args.claims.subject(&args.program).known(loaded.module()),
    };
    // A seed that fails on the original program would kill every mutant.
    let bar = progress::count(args.json, "the program as it is", args.runs);
    let as_it_is = trial.first_failure(loaded.module(), &|| bar.inc(1))?;
    bar.finish_and_clear();
    if as_it_is.is_some() {
        return Err(Exit::failed(format!(
            "the unchanged {0} does not pass: correct it first, or ask less of it; see: hawser sim swarm {0}",
            args.program
        )));
    }
    let mut all = texts.mutants(&args.changes);
    if let Some(wanted) = &args.file {
        all.retain(|(path, _)| Path::new(path).ends_with(wanted));
    }
    if all.is_empty() {
        return Err(Exit::usage(
            "the file has nothing to change: is it part of the program?",
        ));
    }
    let fates = trial.all(&all)?;
    report(args, &all, &fates)
}

/// The data that all trials share.
struct Trial<'a> {
    args: &'a Args,
    programs: &'a Programs,
    texts: &'a ProgramTexts,
    subject: SwarmProgram<'a>,
}

impl Trial<'_> {
    /// Returns the fates of all mutants, in order.
    fn all(&self, mutants: &[(String, Mutant)]) -> Result<Vec<MutantOutcome>, Exit> {
        let jobs = self.args.jobs.map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        );
        let bar = progress::count(self.args.json, "mutants", mutants.len() as u64);
        let seeds = AtomicU64::new(0);
        // A surviving mutant takes as long as a whole swarm, so the bar shows each seed as progress.
        let show = || {
            let run = seeds.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_message(format!("mutants, {run} seeds run"));
        };
        let next = AtomicUsize::new(0);
        let (results, done) = mpsc::channel();
        let mut fates = vec![MutantOutcome::NotTaken; mutants.len()];
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (results, next, show) = (results.clone(), &next, &show);
                scope.spawn(move || {
                    while let Some(mutant) = mutants.get(next.load(Ordering::Relaxed)) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let mutant = mutants.get(number).unwrap_or(mutant);
                        if number >= mutants.len() || results.send((number, self.fate(mutant, show))).is_err()
                        {
                            break;
                        }
                    }
                });
            }
            drop(results);
            for (number, fate) in done {
                fates[number] = fate?;
                bar.inc(1);
            }
            Ok(())
        })?;
        bar.finish_and_clear();
        Ok(fates)
    }

    fn fate(&self, (file, mutant): &(String, Mutant), show: &dyn Fn()) -> Result<MutantOutcome, Exit> {
        match self.texts.compile(file, mutant) {
            None => Ok(MutantOutcome::NotTaken),
            Some(module) if self.first_failure(&module, show)?.is_some() => Ok(MutantOutcome::Killed),
            Some(_) => Ok(MutantOutcome::Survived),
        }
    }

    /// Returns the first seed that fails. `show` is called after each successful one.
    fn first_failure(&self, module: &programs::Module, show: &dyn Fn()) -> Result<Option<u64>, Exit> {
        let end = self.args.first.saturating_add(self.args.runs);
        for seed in self.args.first..end {
            let mut scenario = swarm::scenario(seed, &self.subject);
            scenario.idle_packets = scenario.idle_packets.min(IDLE_PACKETS);
            for text in &self.args.params {
                runs::set_param(&mut scenario, text).map_err(Exit::usage)?;
            }
            // A scenario that fails to start counts as a failure, too.
            if !mutants::run(self.programs, module, &scenario, EVENTS_MAX).is_ok_and(|report| report.ok) {
                return Ok(Some(seed));
            }
            show();
        }
        Ok(None)
    }
}

fn report(args: &Args, mutants: &[(String, Mutant)], fates: &[MutantOutcome]) -> Outcome {
    let count = |wanted: MutantOutcome| fates.iter().filter(|fate| **fate == wanted).count();
    let (killed, not_taken) = (count(MutantOutcome::Killed), count(MutantOutcome::NotTaken));
    let counted = mutants.len() - not_taken;
    let percent = (killed * 100).checked_div(counted).unwrap_or(100);
    let survivors = mutants
        .iter()
        .zip(fates)
        .filter(|(_, fate)| **fate == MutantOutcome::Survived);
    if args.json {
        let survivors: Vec<_> = survivors
            .map(|((file, mutant), _)| {
                json!({
                    "file": file, "line": mutant.line, "change": mutant.change.name(), "was": mutant.was,
                    "now": mutant.now,
                })
            })
            .collect();
        println!(
            "{}",
            json!({
                "ok": args.goal.is_none_or(|goal| percent >= usize::from(goal)), "runs": args.runs,
                "mutants": counted, "killed": killed, "percent": percent, "not_taken": not_taken,
                "survivors": survivors,
            })
        );
    } else {
        for ((file, mutant), _) in survivors {
            let name = mutant.change.name();
            println!(
                "survived: {file}:{}: {name} {}",
                mutant.line,
                shortened(&mutant.was)
            );
        }
        println!(
            "{killed} of {counted} mutants killed by {} seeds: {percent} % (the checker refuses {not_taken} \
             more)",
            args.runs
        );
    }
    match args.goal {
        Some(goal) if percent < usize::from(goal) => Err(Exit::failed(format!("the goal is {goal} %"))),
        _ => Ok(()),
    }
}

/// Shortens a statement to its first characters.
fn shortened(statement: &str) -> String {
    const SHOWN: usize = 90;
    match statement.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &statement[..end]),
        None => statement.to_owned(),
    }
}
