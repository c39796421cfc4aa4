//! Runs tasks on the processors of this machine, in several workers with one task each at a time.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use hawser::runs::sweep::Done;
use serde::Deserialize;

use super::{Args, Failure, Given};
use crate::exit::{Exit, Outcome};

/// The maximum number of attempts at a task whose workers die.
pub(super) const TRIES: usize = 3;

pub(super) fn run(args: &Args, tasks: &BTreeMap<usize, &str>, take: Given<'_>) -> Outcome {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(processors, usize::from).min(tasks.len());
    let numbers: Vec<usize> = tasks.keys().copied().collect();
    let next = AtomicUsize::new(0);
    let (results, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (results, next, numbers) = (results.clone(), &next, &numbers);
            scope.spawn(move || {
                let mut worker = None;
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if results.send(tried(args, &mut worker, *number)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        done.into_iter().try_for_each(|given| take(given?))
    })
}

/// Runs a task on this worker, or on a new one if it dies. The outer error concerns this machine.
fn tried(args: &Args, worker: &mut Option<Worker>, number: usize) -> Result<Result<Done, Failure>, Exit> {
    let cannot = |error: io::Error| Exit::environment(format!("cannot start a worker: {error}"));
    for _ in 0..TRIES {
        let current = match worker {
            Some(current) => current,
            None => worker.insert(Worker::start(args).map_err(cannot)?),
        };
        match current.run(number) {
            Ok(answer) => return Ok(answer.given(number)),
            // The worker has died, so another takes its place.
            Err(_) => *worker = None,
        }
    }
    let why = format!("its worker ended {TRIES} times without an answer");
    Ok(Err(Failure { number, why }))
}

/// The answer of a worker.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Done(Done),
    Error { error: String },
}

impl Answer {
    pub(super) fn given(self, number: usize) -> Result<Done, Failure> {
        match self {
            Answer::Done(done) => Ok(done),
            Answer::Error { error } => Err(Failure { number, why: error }),
        }
    }
}

struct Worker {
    process: Child,
    numbers: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(args: &Args) -> io::Result<Worker> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["sim", "sweep"]).arg(&args.file).arg("--worker");
        if args.native.allow_native {
            command.arg("--allow-native");
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(numbers), Some(answers)) => {
                Ok(Worker { process, numbers, answers: BufReader::new(answers) })
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn run(&mut self, number: usize) -> io::Result<Answer> {
        writeln!(self.numbers, "{number}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        hawser_documents::json(&line).map_err(io::Error::other)
    }
}

impl Drop for Worker {
    /// Kills the worker, because its results are no longer wanted.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
