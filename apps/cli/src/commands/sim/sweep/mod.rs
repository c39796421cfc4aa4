//! `hawser sim sweep FILE.toml`: runs a scenario with varying values and seeds.

mod folder;
mod local;
mod picture;
mod ray;
mod show;
mod slurm;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hawser::programs::Programs;
use hawser::runs::sweep::{Done, Sweep, Task};

use crate::engine::NativeArgs;
use crate::exit::{Exit, Outcome};
use crate::progress;
use folder::Folder;

/// Run a scenario with varying values and seeds, and put the results into a table
///
/// The file (docs/sweeps.md) names a scenario, the keys that vary, and seeds. Each choice of values with each
/// seed is a task: a run of the simulator, whose result is stored under a hash of everything that it depends
/// on. A task with a result is not run again, so an interrupted sweep continues, and an extended one runs
/// only the new tasks. The results are merged into table.csv, table.json and sweep.svg.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The sweep
    file: PathBuf,
    /// The folder for results and tables
    #[arg(long, value_name = "DIR", default_value = "hawser-sweep")]
    out: PathBuf,
    /// The place where tasks run: `local`, on the processors of this machine; `ray` or `ray://ADDRESS`, on a
    /// Ray cluster; `slurm`, which writes a batch script instead of running anything
    #[arg(long, value_name = "WHERE", default_value = "local", value_parser = parse_place)]
    on: Place,
    /// The number of tasks that run at once on this machine; by default the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Run only this task, and leave the tables unchanged: for batch systems
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["on", "worker"])]
    task: Option<usize>,
    /// Read task numbers from standard input, and print their results: used by workers
    #[arg(long, hide = true, conflicts_with = "on")]
    worker: bool,
    /// The Python that has Ray, for `--on ray`
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    native: NativeArgs,
}

/// The place where tasks run.
#[derive(Clone)]
enum Place {
    Local,
    /// On the cluster at this address, or on the one that Ray finds or starts.
    Ray(Option<String>),
    Slurm,
}

fn parse_place(text: &str) -> Result<Place, String> {
    match text {
        "local" => Ok(Place::Local),
        "slurm" => Ok(Place::Slurm),
        "ray" => Ok(Place::Ray(None)),
        _ if text
            .strip_prefix("ray://")
            .is_some_and(|address| !address.is_empty()) =>
        {
            Ok(Place::Ray(Some(text["ray://".len()..].to_owned())))
        }
        _ => Err(format!(
            "no `{text}`; there are: local, ray, ray://ADDRESS, slurm"
        )),
    }
}

/// A task has no result.
struct Failure {
    number: usize,
    why: String,
}

/// The callback of a runner. The runner calls it once per task, with the result or the failure.
type Given<'a> = &'a mut dyn FnMut(Result<Done, Failure>) -> Outcome;

pub(crate) fn run(args: &Args) -> Outcome {
    let programs = Programs::default().with_native_files(args.native.allow_native);
    let sweep = Sweep::load(&args.file).map_err(Exit::input)?;
    let revision = worker::revision()?;
    let mut planner = sweep.planner(&programs, &revision);
    if args.worker {
        return worker::serve(&sweep, &mut planner, &programs);
    }
    let folder = Folder::open(&args.out)?;
    if let Some(number) = args.task {
        return worker::one(&sweep, &mut planner, &programs, number, &folder);
    }
    let tasks: Vec<Task> = (1..=sweep.count())
        .map(|number| planner.task(number).map_err(Exit::input))
        .collect::<Result<_, _>>()?;
    let missing: Vec<&Task> = tasks.iter().filter(|task| !folder.has(&task.id)).collect();
    if matches!(args.on, Place::Slurm) {
        return slurm::write(args, &missing, &folder);
    }
    let bar = progress::count(args.json, &args.file.display().to_string(), missing.len() as u64);
    let expected: BTreeMap<usize, &str> = missing
        .iter()
        .map(|task| (task.number, task.id.as_str()))
        .collect();
    let mut failures = Vec::new();
    let mut take = |given: Result<Done, Failure>| {
        bar.inc(1);
        match given {
            Ok(done) => folder.keep(&done),
            Err(failure) => {
                failures.push(failure);
                Ok(())
            }
        }
    };
    match &args.on {
        Place::Local => local::run(args, &expected, &mut take)?,
        Place::Ray(address) => ray::run(args, address.as_deref(), &expected, &planner.files(), &mut take)?,
        Place::Slurm => {}
    }
    bar.finish_and_clear();
    let found = tasks.len() - missing.len();
    show::finish(args, &sweep, &tasks, found, &failures, &folder)
}
