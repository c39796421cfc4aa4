//! The results of runners, and their errors.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use hawser_sim::RunError;
use serde::Deserialize;

use super::{Planner, Programs, Sweep, SweepError, Task, TaskResult};

/// A task has no result.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The number of the failed task in the sweep, from 1.
    pub number: usize,
    /// The reason, for the user.
    pub why: String,
}

/// The callback of a runner. The runner calls it once per task, with the result or the failure.
pub type Given<'a> = &'a mut dyn FnMut(Result<TaskResult, Failure>) -> Result<(), RunnerError>;

/// The tasks of a sweep could not be run, or their results could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The sweep has no task of this number.
    #[error("the sweep has no task {number}; its tasks have the numbers 1 to {count}")]
    Number {
        /// The number that was asked for.
        number: usize,
        /// The number of tasks.
        count: usize,
    },
    /// The task cannot be made.
    #[error(transparent)]
    Task(#[from] SweepError),
    /// The task's scenario cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A result has no form in JSON.
    #[error("a result cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A folder cannot be made.
    #[error("cannot make {}: {error}", path.display())]
    Make {
        /// The path of the folder that could not be made.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The path of the file that could not be written.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A relative path has no absolute one.
    #[error("cannot find {}: {error}", path.display())]
    Find {
        /// The path that was looked for.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A program cannot be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// The name of the program that did not start.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// The Python that was named cannot import Ray.
    #[error(
        "{} has no Ray: install it (pip install ray), or name the Python that has it with --python",
        python.display()
    )]
    NoRay {
        /// The path of the Python that cannot import Ray.
        python: PathBuf,
    },
    /// The driver's output is not understood, or it cannot be read.
    #[error("the driver of Ray: {0}")]
    Driver(String),
    /// The driver ended too early.
    #[error(
        "the driver of Ray ended ({status}) and left {left} tasks; the results so far are kept, so the same \
         command continues"
    )]
    DriverEnded {
        /// The driver's exit status.
        status: ExitStatus,
        /// The number of tasks without a result.
        left: usize,
    },
}

impl RunnerError {
    /// Returns whether the error concerns this machine.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        !matches!(
            self,
            RunnerError::Number { .. } | RunnerError::Task(_) | RunnerError::Run(_) | RunnerError::Json(_)
        )
    }
}

/// The answer of a worker, which is one line of JSON.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Done(TaskResult),
    Error { error: String },
}

impl Answer {
    pub(super) fn given(self, number: usize) -> Result<TaskResult, Failure> {
        match self {
            Answer::Done(done) => Ok(done),
            Answer::Error { error } => Err(Failure { number, why: error }),
        }
    }
}

impl Sweep {
    /// Returns the task of a number that may not exist.
    ///
    /// # Errors
    /// There is no such task, or it cannot be made.
    pub fn task(&self, planner: &mut Planner<'_>, number: usize) -> Result<Task, RunnerError> {
        let count = self.count();
        match (1..=count).contains(&number) {
            true => Ok(planner.task(number)?),
            false => Err(RunnerError::Number { number, count }),
        }
    }

    /// Runs a task in this process.
    ///
    /// # Errors
    /// Its scenario cannot be run.
    pub fn run(&self, task: Task, programs: &Programs) -> Result<TaskResult, RunnerError> {
        let report = crate::run_with(programs, &task.scenario, Some(task.seed), None, None)?;
        let choices = self.axes().map(str::to_owned).zip(task.choices);
        Ok(TaskResult {
            id: task.id,
            choices: choices.collect(),
            seed: task.seed,
            report: serde_json::to_value(&report)?,
        })
    }
}
