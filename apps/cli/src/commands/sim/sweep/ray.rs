//! Runs tasks on a Ray cluster through a small driver in Python.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hawser::runs::sweep::Done;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::local::Answer;
use super::{Args, Failure, Given};
use crate::exit::{Exit, Outcome};

/// The source of the driver. Ray sends its function to the nodes.
const DRIVER: &str = include_str!("../../../../../../bindings/python/hawser/_sweep.py");

/// A line of the driver's output.
#[derive(Deserialize)]
struct Line {
    number: usize,
    answer: Option<Answer>,
    error: Option<String>,
}

pub(super) fn run(
    args: &Args,
    address: Option<&str>,
    tasks: &BTreeMap<usize, &str>,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    take: Given<'_>,
) -> Outcome {
    if tasks.is_empty() {
        return Ok(());
    }
    let own = std::env::current_exe()
        .map_err(|error| Exit::environment(format!("cannot find this program: {error}")))?;
    let sweep = std::path::absolute(&args.file)
        .map_err(|error| Exit::environment(format!("cannot find {}: {error}", args.file.display())))?;
    let top = common(files.keys());
    let relative = |path: &Path| {
        path.strip_prefix(&top)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    };
    let content = |(path, bytes): (&PathBuf, &Vec<u8>)| (relative(path), Value::from(STANDARD.encode(bytes)));
    let asked = json!({
        "address": address.map(|address| format!("ray://{address}")),
        "program": own.to_string_lossy(),
        "sweep": relative(&sweep),
        "options": if args.native.allow_native { vec!["--allow-native"] } else { vec![] },
        "numbers": tasks.keys().collect::<Vec<_>>(),
        "files": files.iter().map(content).collect::<Map<_, _>>(),
    });
    let mut driver = Driver::start(&args.python)?;
    let mut left = tasks.clone();
    // If the driver has already ended, its own message states the reason.
    if let Some(mut input) = driver.0.stdin.take() {
        let _ = input.write_all(asked.to_string().as_bytes());
    }
    let lines = driver.0.stdout.take().map(BufReader::new);
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|error| Exit::environment(format!("the driver of Ray: {error}")))?;
        let line: Line = hawser_documents::json(&line)
            .map_err(|error| Exit::environment(format!("the driver of Ray: {error}")))?;
        if let Some(id) = left.remove(&line.number) {
            take(given(line, id))?;
        }
    }
    let status = driver
        .0
        .wait()
        .map_err(|error| Exit::environment(format!("the driver of Ray: {error}")))?;
    match left.is_empty() {
        true => Ok(()),
        false => Err(Exit::environment(format!(
            "the driver of Ray ended ({status}) with {} tasks left; what has a result is kept: run the same again",
            left.len()
        ))),
    }
}

/// Returns the result of a task, which must have this id.
fn given(line: Line, id: &str) -> Result<Done, Failure> {
    let number = line.number;
    let failure = |why: String| Failure { number, why };
    let Some(answer) = line.answer else {
        return Err(failure(line.error.unwrap_or_else(|| "it has no answer".into())));
    };
    let done = answer.given(number)?;
    match done.id == id {
        true => Ok(done),
        false => Err(failure(
            "a node of the cluster has another hawser than this one".into(),
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
    fn start(python: &Path) -> Result<Driver, Exit> {
        let named = python.display();
        let has_ray = isolated(python, "import ray")?
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| Exit::environment(format!("cannot start {named}: {error}")))?;
        if !has_ray.success() {
            return Err(Exit::environment(format!(
                "{named} has no Ray: install it (pip install ray), or name the Python that has it with --python"
            )));
        }
        let process = isolated(python, DRIVER)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Exit::environment(format!("cannot start {named}: {error}")))?;
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
fn isolated(python: &Path, program: &str) -> Result<Command, Exit> {
    // A bare name is searched in PATH; any other path is relative to this process's folder.
    let python = match python.components().count() {
        1 => python.to_owned(),
        _ => std::path::absolute(python)
            .map_err(|error| Exit::environment(format!("cannot find {}: {error}", python.display())))?,
    };
    let mut command = Command::new(python);
    command.args(["-I", "-c", program]).current_dir("/");
    Ok(command)
}
