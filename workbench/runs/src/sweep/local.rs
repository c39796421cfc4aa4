//! Runs tasks on the processors of this machine, in several workers with one task each at a time.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::runner::Answer;
use super::{Failure, Given, RunnerError, TaskResult};

/// The maximum number of attempts at a task whose workers die.
pub(super) const TRIES: usize = 3;

/// Returns the command that starts a worker. The worker reads numbers of tasks from its standard input, one per
/// line, and answers each with a line of JSON: the result, or `{"error": …}`.
pub type StartsWorker<'a> = &'a (dyn Fn() -> Command + Sync);

/// Runs tasks, by their numbers, in this number of workers at once.
///
/// # Errors
/// A worker cannot be started, or `take` failed.
pub fn run(
    jobs: Option<usize>,
    worker: StartsWorker<'_>,
    tasks: &BTreeMap<usize, &str>,
    take: Given<'_>,
) -> Result<(), RunnerError> {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = jobs.unwrap_or_else(processors).min(tasks.len());
    let numbers: Vec<usize> = tasks.keys().copied().collect();
    let next = AtomicUsize::new(0);
    let (results, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (results, next, numbers) = (results.clone(), &next, &numbers);
            scope.spawn(move || {
                let mut current = None;
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if results.send(tried(worker, &mut current, *number)).is_err() {
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
fn tried(
    worker: StartsWorker<'_>,
    current: &mut Option<Worker>,
    number: usize,
) -> Result<Result<TaskResult, Failure>, RunnerError> {
    let cannot = |error: io::Error| RunnerError::Start { program: "a worker".to_owned(), error };
    for _ in 0..TRIES {
        let running = match current {
            Some(running) => running,
            None => current.insert(Worker::start(worker()).map_err(cannot)?),
        };
        match running.run(number) {
            Ok(answer) => return Ok(answer.given(number)),
            // The worker has died, so another takes its place.
            Err(_) => *current = None,
        }
    }
    let why = format!("its worker ended {TRIES} times without an answer");
    Ok(Err(Failure { number, why }))
}

struct Worker {
    process: Child,
    numbers: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(mut command: Command) -> io::Result<Worker> {
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
