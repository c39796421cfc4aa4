//! Runs batches in processes of their own, and collects their results.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use parking_lot::Mutex;

use crate::compile::Settings;
use crate::coverage::Coverage;

/// The programs to run, and the options for running them.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// The first seed.
    pub first: u64,
    /// The number of programs.
    pub programs: u64,
    /// The number of programs in one shared object.
    pub batch: u64,
    /// The number of simultaneous processes.
    pub jobs: usize,
    /// The options for compiling C.
    pub settings: Settings,
    /// A program to run instead of generated ones, with the events of the first seed.
    pub text: Option<std::path::PathBuf>,
}

/// A program on which the sides are not equal.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub step: u64,
    /// The difference, or the way in which the process died.
    pub text: String,
}

/// The results of all batches.
#[derive(Clone, Debug, Default)]
pub struct BatchResults {
    /// Programs on which the sides differ, by seed.
    pub failures: Vec<Failure>,
    /// The number of programs that ran to their end.
    pub equal: u64,
    /// The nodes that the programs cover.
    pub coverage: Coverage,
}

/// Runs all programs with the worker at `executable`.
#[must_use]
pub fn run(executable: &Path, plan: &BatchPlan) -> BatchResults {
    let last = plan.first + plan.programs;
    let next = Mutex::new(plan.first);
    let outcome = Mutex::new(BatchResults::default());
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let (first, count) = {
                        let mut next = next.lock();
                        let first = *next;
                        let count = plan.batch.max(1).min(last - first);
                        *next += count;
                        (first, count)
                    };
                    if count == 0 {
                        return;
                    }
                    batch(executable, plan, first, count, &outcome);
                }
            });
        }
    });
    let mut outcome = outcome.into_inner();
    outcome.failures.sort_by_key(|failure| failure.seed);
    outcome
}

/// Runs one batch. If a program kills its process, the rest of the batch continues in another.
fn batch(executable: &Path, plan: &BatchPlan, mut first: u64, mut count: u64, outcome: &Mutex<BatchResults>) {
    while count > 0 {
        let report = worker(executable, plan, first, count);
        let mut all = outcome.lock();
        report.nodes.iter().for_each(|line| all.coverage.absorb(line));
        let mut failures = report.failures;
        let died = report.died.map(|(how, seed, step)| {
            failures.push(Failure { seed, step, text: how });
            seed
        });
        let done = died.map_or(count, |seed| seed - first + 1);
        all.equal += done.saturating_sub(failures.len() as u64);
        all.failures.extend(failures);
        first += done;
        count -= done;
    }
}

/// The output of one process.
struct ProcessOutput {
    failures: Vec<Failure>,
    nodes: Vec<String>,
    /// The way in which it died, with the seed and the step.
    died: Option<(String, u64, u64)>,
}

fn worker(executable: &Path, plan: &BatchPlan, first: u64, count: u64) -> ProcessOutput {
    let mut report = ProcessOutput { failures: Vec::new(), nodes: Vec::new(), died: None };
    let mut command = Command::new(executable);
    command
        .arg("worker")
        .args(["--first", &first.to_string(), "--programs", &count.to_string()]);
    command.args(["--level", &plan.settings.level]);
    if !plan.settings.trap {
        command.arg("--no-trap");
    }
    if let Some(text) = &plan.text {
        command.arg("--text").arg(text);
    }
    let child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            report.died = Some((
                format!("cannot start {}: {error}", executable.display()),
                first + count - 1,
                0,
            ));
            return report;
        }
    };
    let (mut at, mut ended) = ((first, 0), false);
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            listen(&line, &mut report, &mut at, &mut ended);
        }
    }
    let output = child.wait_with_output();
    if !ended {
        let (status, words) = output.map_or_else(
            |error| (error.to_string(), String::new()),
            |output| {
                (
                    output.status.to_string(),
                    String::from_utf8_lossy(&output.stderr).into_owned(),
                )
            },
        );
        report.died = Some((
            format!("the generated code ended the process: {status}\n{words}"),
            at.0,
            at.1,
        ));
    }
    report
}

/// Processes one line of a worker's output.
fn listen(line: &str, report: &mut ProcessOutput, at: &mut (u64, u64), ended: &mut bool) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let numbers = || {
        let mut numbers = rest.split(' ').map_while(|n| n.parse::<u64>().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    };
    match word {
        "at" => *at = numbers(),
        "differs" | "rejected" => {
            let (seed, step) = numbers();
            report
                .failures
                .push(Failure { seed, step, text: format!("{word}\n") });
        }
        "|" => {
            if let Some(failure) = report.failures.last_mut() {
                failure.text += rest;
                failure.text.push('\n');
            }
        }
        "node" => report.nodes.push(rest.to_owned()),
        "end" => *ended = true,
        _ => {}
    }
}
