//! Runs tasks on a Ray cluster through a small driver in Python.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::runner::Answer;
use super::{Failure, Given, RunnerError, TaskResult, absolute};

/// The tasks of a sweep on a Ray cluster.
#[derive(Clone, Copy, Debug)]
pub struct Ray<'a> {
    /// The address of the cluster, or `None` for the one that Ray finds or starts.
    pub address: Option<&'a str>,
    /// The Python that has Ray.
    pub python: &'a Path,
    /// The source of the driver, in Python. Ray sends its function to the nodes.
    pub driver: &'a str,
    /// This program, which the nodes start as a worker.
    pub program: &'a Path,
    /// The path of the sweep's document.
    pub sweep: &'a Path,
    /// Further options of the workers.
    pub options: &'a [&'a str],
}

/// A line of the driver's output.
#[derive(Deserialize)]
struct Line {
    number: usize,
    answer: Option<Answer>,
    error: Option<String>,
}

/// Runs tasks, by their numbers and ids. `files` are all files that the tasks read.
///
/// # Errors
/// The driver cannot be started or fails, or `take` failed.
pub fn run(
    ray: Ray<'_>,
    tasks: &BTreeMap<usize, &str>,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    take: Given<'_>,
) -> Result<(), RunnerError> {
    if tasks.is_empty() {
        return Ok(());
    }
    let sweep = absolute(ray.sweep)?;
    let top = common(files.keys());
    let relative = |path: &Path| {
        path.strip_prefix(&top)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    };
    let content = |(path, bytes): (&PathBuf, &Vec<u8>)| (relative(path), Value::from(STANDARD.encode(bytes)));
    let asked = json!({
        "address": ray.address.map(|address| format!("ray://{address}")),
        "program": ray.program.to_string_lossy(),
        "sweep": relative(&sweep),
        "options": ray.options,
        "numbers": tasks.keys().collect::<Vec<_>>(),
        "files": files.iter().map(content).collect::<Map<_, _>>(),
    });
    let mut driver = Driver::start(ray.python, ray.driver)?;
    let mut left = tasks.clone();
    // If the driver has already ended, its own message states the reason.
    if let Some(mut input) = driver.0.stdin.take() {
        let _ = input.write_all(asked.to_string().as_bytes());
    }
    let lines = driver.0.stdout.take().map(BufReader::new);
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|error| RunnerError::Driver(error.to_string()))?;
        let line: Line =
            hawser_documents::json(&line).map_err(|error| RunnerError::Driver(error.to_string()))?;
        if let Some(id) = left.remove(&line.number) {
            take(given(line, id))?;
        }
    }
    let status = driver
        .0
        .wait()
        .map_err(|error| RunnerError::Driver(error.to_string()))?;
    match left.is_empty() {
        true => Ok(()),
        false => Err(RunnerError::DriverEnded { status, left: left.len() }),
    }
}

/// Returns the result of a task, which must have this id.
fn given(line: Line, id: &str) -> Result<TaskResult, Failure> {
    let number = line.number;
    let failure = |why: String| Failure { number, why };
    let Some(answer) = line.answer else {
        return Err(failure(
            line.error.unwrap_or_else(|| "the worker gave no answer".into()),
        ));
    };
    let done = answer.given(number)?;
    match done.id == id {
        true => Ok(done),
        false => Err(failure(
            "a node of the cluster has a different version of hawser".into(),
        )),
    }
}

/// Returns the deepest folder that contains all paths.
fn common<'a>(mut paths: impl Iterator<Item = &'a PathBuf>) -> PathBuf {
    let first = paths
        .next()
        .and_then(|path| path.parent())
        .unwrap_or(Path::new("/"));
    paths.fold(first.to_owned(), |top, path| {
        top.ancestors()
            .find(|top| path.starts_with(top))
            .unwrap_or(Path::new("/"))
            .to_owned()
    })
}

struct Driver(Child);

impl Driver {
    fn start(python: &Path, source: &str) -> Result<Driver, RunnerError> {
        let cannot = |error| RunnerError::Start { program: python.display().to_string(), error };
        let has_ray = isolated(python, "import ray")?
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(cannot)?;
        if !has_ray.success() {
            return Err(RunnerError::NoRay { python: python.to_owned() });
        }
        let process = isolated(python, source)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        Ok(Driver(process))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prepares a command that runs a Python program of ours. The program must not import modules from the
/// sweep's folder, so Python's path excludes that folder. The same holds for Ray's workers, to whose path Ray
/// adds the driver's current folder.
fn isolated(python: &Path, program: &str) -> Result<Command, RunnerError> {
    // A bare name is searched in PATH; any other path is relative to this process's folder.
    let python = match python.components().count() {
        1 => python.to_owned(),
        _ => absolute(python)?,
    };
    let mut command = Command::new(python);
    command.args(["-I", "-c", program]).current_dir("/");
    Ok(command)
}
