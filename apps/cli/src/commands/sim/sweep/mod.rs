//! `hawser sim sweep FILE.toml`: runs a scenario with varying values and seeds.

mod picture;
mod show;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process;

use hawser::programs::Programs;
use hawser::runs::sweep::ray::{self, Ray};
use hawser::runs::sweep::slurm::{self, Job};
use hawser::runs::sweep::{Failure, Folder, Planner, RunnerError, Sweep, Task, TaskResult, local};
use serde_json::json;

use crate::engine::NativeArgs;
use crate::exit::{Exit, Outcome};
use crate::progress;

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
    on: Executor,
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
enum Executor {
    Local,
    /// On the cluster at this address, or on the one that Ray finds or starts.
    Ray(Option<String>),
    Slurm,
}

fn parse_place(text: &str) -> Result<Executor, String> {
    match text {
        "local" => Ok(Executor::Local),
        "slurm" => Ok(Executor::Slurm),
        "ray" => Ok(Executor::Ray(None)),
        _ if text
            .strip_prefix("ray://")
            .is_some_and(|address| !address.is_empty()) =>
        {
            Ok(Executor::Ray(Some(text["ray://".len()..].to_owned())))
        }
        _ => Err(format!(
            "expected local, ray, ray://ADDRESS or slurm, not `{text}`"
        )),
    }
}

/// The source of Ray's driver.
const DRIVER: &str = include_str!("../../../../../../bindings/python/hawser/_sweep.py");

pub(crate) fn run(args: &Args) -> Outcome {
    let programs = Programs::default().with_native_files(args.native.allow_native);
    let sweep = Sweep::load(&args.file).map_err(Exit::input)?;
    let revision = worker::revision()?;
    let mut planner = sweep.planner(&programs, &revision);
    if args.worker {
        return worker::serve(&sweep, &mut planner, &programs);
    }
    let folder = Folder::open(&args.out).map_err(refused)?;
    if let Some(number) = args.task {
        return one(&sweep, &mut planner, &programs, number, &folder).map_err(refused);
    }
    let tasks: Vec<Task> = (1..=sweep.count())
        .map(|number| planner.task(number).map_err(Exit::input))
        .collect::<Result<_, _>>()?;
    let missing: Vec<&Task> = tasks.iter().filter(|task| !folder.has(&task.id)).collect();
    if matches!(args.on, Executor::Slurm) {
        return write_script(args, &missing, &folder);
    }
    let bar = progress::count(args.json, &args.file.display().to_string(), missing.len() as u64);
    let expected: BTreeMap<usize, &str> = missing
        .iter()
        .map(|task| (task.number, task.id.as_str()))
        .collect();
    let mut failures = Vec::new();
    let mut take = |given: Result<TaskResult, Failure>| {
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
        Executor::Local => {
            let jobs = args.jobs.map(usize::from);
            local::run(jobs, &|| args.worker(), &expected, &mut take).map_err(refused)?;
        }
        Executor::Ray(address) => {
            let ray = Ray {
                address: address.as_deref(),
                python: &args.python,
                driver: DRIVER,
                program: &own()?,
                sweep: &args.file,
                options: args.options(),
            };
            ray::run(ray, &expected, &planner.files(), &mut take).map_err(refused)?;
        }
        Executor::Slurm => {}
    }
    bar.finish_and_clear();
    let found = tasks.len() - missing.len();
    show::finish(args, &sweep, &tasks, found, &failures, &folder)
}

impl Args {
    /// Returns the options that workers get, too.
    fn options(&self) -> &'static [&'static str] {
        match self.native.allow_native {
            true => &["--allow-native"],
            false => &[],
        }
    }

    /// Returns the command that starts a worker.
    fn worker(&self) -> process::Command {
        let mut command = process::Command::new("/proc/self/exe");
        command.args(["sim", "sweep"]).arg(&self.file).arg("--worker");
        command.args(self.options());
        command
    }
}

/// Maps an error of a runner to an exit.
fn refused(error: RunnerError) -> Exit {
    match error {
        RunnerError::Number { .. } => Exit::usage(error),
        RunnerError::Json(_) => Exit::failed(error),
        _ if error.is_environment() => Exit::environment(error),
        _ => Exit::input(error),
    }
}

/// Returns the path of this program.
fn own() -> Result<PathBuf, Exit> {
    std::env::current_exe().map_err(|error| Exit::environment(format!("cannot find this program: {error}")))
}

/// Runs one task, unless it has a result.
fn one(
    sweep: &Sweep,
    planner: &mut Planner<'_>,
    programs: &Programs,
    number: usize,
    folder: &Folder,
) -> Result<(), RunnerError> {
    let task = sweep.task(planner, number)?;
    match folder.has(&task.id) {
        true => Ok(()),
        false => folder.keep(&sweep.run(task, programs)?),
    }
}

/// Writes the script of a batch system for the tasks without a result, and prints how to go on.
fn write_script(args: &Args, missing: &[&Task], folder: &Folder) -> Outcome {
    let path = folder.file("sweep.sbatch");
    let numbers: Vec<usize> = missing.iter().map(|task| task.number).collect();
    if !numbers.is_empty() {
        let job = Job {
            program: &own()?,
            sweep: &args.file,
            out: &args.out,
            options: args.options(),
        };
        let text = slurm::script(job, &numbers).map_err(refused)?;
        folder.write(&path, text.as_bytes()).map_err(refused)?;
    }
    if args.json {
        let script = (!numbers.is_empty()).then(|| path.display().to_string());
        println!("{}", json!({ "tasks": numbers.len(), "script": script }));
    } else if numbers.is_empty() {
        println!("all tasks have results");
    } else {
        println!(
            "{} tasks are left; run them with: sbatch {}",
            numbers.len(),
            path.display()
        );
        println!(
            "then merge their results with: hawser sim sweep {} --out {}",
            args.file.display(),
            args.out.display()
        );
    }
    Ok(())
}
