//! Sweeps: a scenario with values that vary, and seeds, as tasks of one run each.
//!
//! A sweep's file names a scenario, the keys that vary with their values, and seeds. Every choice of values
//! with every seed is a [`Task`]. A task's id is a hash of all input on which its result depends. A caller
//! that has the result for an id need not run the task again.
//!
//! * [`Sweep`], [`Planner`]: the file and its tasks; [`Table`]: the results as a table
//! * [`Folder`]: the results as files
//! * [`local`], [`ray`]: run tasks in workers here, and on a cluster; [`slurm`]: a script for a batch system

mod axes;
mod folder;
pub mod local;
pub mod ray;
mod runner;
pub mod slurm;
mod table;
mod task;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_documents::toml as read;
use hawser_load::Engine;
use hawser_load::programs::{Error, Programs};
use hawser_sim::{Scenario, ScenarioError};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{LoadError, files};
use axes::Axis;
pub use folder::Folder;
pub use runner::{Failure, Given, RunnerError};
use table::Column;
pub use table::{Group, Row, Table};
pub use task::{Task, TaskResult};

/// The number of tasks above which a sweep is taken for a mistake.
pub const MAX_TASKS: usize = 1_000_000;

/// A sweep's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: PathBuf,
    seeds: Option<toml::Value>,
    engine: Option<hawser_sim::scenario::Engine>,
    #[serde(default)]
    vary: Vec<axes::AxisSpec>,
    #[serde(default)]
    column: Vec<table::ColumnSpec>,
}

/// A sweep: its tasks, and the columns of their results.
#[derive(Debug)]
pub struct Sweep {
    /// The sweep's file, as the user named it.
    path: PathBuf,
    /// The text of the file.
    text: String,
    scenario: PathBuf,
    base: toml::Table,
    axes: Vec<Axis>,
    seeds: Vec<u64>,
    columns: Vec<Column>,
    engine: Option<Engine>,
    /// The files from which it was read: its own and its scenario's.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// A sweep's file could not be turned into tasks.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file is missing or wrong.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A choice of values gives no scenario that can run.
    #[error("{}: line {line}: with {choice}: {error}", path.display())]
    Choice {
        /// The path of the sweep's file.
        path: PathBuf,
        /// The line of the axis whose choice is wrong.
        line: usize,
        /// The chosen values.
        choice: String,
        /// The fault in the scenario.
        error: Box<ScenarioError>,
    },
    /// A program cannot be run.
    #[error("{place}: {error}")]
    Program {
        /// The file that names the program, with the line if it is the sweep's.
        place: String,
        /// The fault in the program.
        error: Error,
    },
}

/// Returns the absolute form of a path.
fn absolute(path: &Path) -> Result<PathBuf, RunnerError> {
    std::path::absolute(path).map_err(|error| RunnerError::Find { path: path.to_owned(), error })
}

fn unread(path: &Path) -> impl FnOnce(std::io::Error) -> LoadError {
    |error| LoadError::Read { path: path.to_owned(), error }
}

impl Sweep {
    /// Loads a sweep. Its scenario is a file relative to it.
    ///
    /// # Errors
    /// The file, the key, and the expected value.
    pub fn load(path: &Path) -> Result<Sweep, LoadError> {
        let text = files::given(path, files::DOCUMENT_MAX).map_err(unread(path))?;
        let whole = std::path::absolute(path).map_err(unread(path))?;
        let wrong =
            |error: ScenarioError| LoadError::Scenario { path: path.to_owned(), error: error.located(&text) };
        let file: File = read(&text).map_err(wrong)?;
        let scenario = whole.parent().unwrap_or(Path::new("/")).join(&file.scenario);
        let scenario_text = files::named(&scenario, files::DOCUMENT_MAX).map_err(|error| {
            let message = format!("cannot read {}: {error}", scenario.display());
            wrong(ScenarioError::new("scenario", message))
        })?;
        let base =
            read(&scenario_text).map_err(|error| LoadError::Scenario { path: scenario.clone(), error })?;
        let axes = axes::axes(file.vary).map_err(wrong)?;
        let seeds = axes::seeds(file.seeds.as_ref()).map_err(wrong)?;
        let count = axes
            .iter()
            .try_fold(seeds.len(), |count, axis| count.checked_mul(axis.choices.len()));
        if count.is_none_or(|count| count > MAX_TASKS) {
            let message = format!("the sweep has more than {MAX_TASKS} tasks");
            return Err(wrong(ScenarioError::new("vary", message)));
        }
        let columns = table::columns(file.column).map_err(wrong)?;
        let files = [(whole, text.clone()), (scenario.clone(), scenario_text)];
        Ok(Sweep {
            path: path.to_owned(),
            text,
            scenario,
            base,
            axes,
            seeds,
            columns,
            engine: file.engine.map(crate::engine_of),
            files: files.map(|(path, text)| (path, text.into_bytes())).into(),
        })
    }

    /// Returns the names of its axes.
    pub fn axes(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.name.as_str())
    }

    /// Returns the number of tasks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.seeds.len() * self.axes.iter().map(|axis| axis.choices.len()).product::<usize>()
    }

    /// Returns a planner for its tasks. `revision` identifies the code that runs them. Another revision makes
    /// all results different.
    #[must_use]
    pub fn planner<'a>(&'a self, programs: &'a Programs, revision: &'a str) -> Planner<'a> {
        Planner {
            sweep: self,
            revision,
            known: DigestCache { programs, digests: BTreeMap::new(), files: self.files.clone() },
            last: None,
        }
    }

    /// Returns the choices of a number. Those of the last axis change first.
    fn chosen(&self, number: usize) -> Vec<&axes::Choice> {
        let mut rest = number;
        let mut chosen = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            chosen.push(&axis.choices[rest % axis.choices.len()]);
            rest /= axis.choices.len();
        }
        chosen.reverse();
        chosen
    }

    /// Returns the scenario with these values, and its text before paths were made relative to its folder.
    fn scenario(&self, chosen: &[&axes::Choice]) -> Result<(Scenario, String), SweepError> {
        self.with(chosen).map_err(|error| {
            let is_it = |count: &usize| self.with(&chosen[..*count]).err().as_ref() == Some(&error);
            match (0..=chosen.len()).find(is_it) {
                Some(0) => self.in_scenario(error),
                count => SweepError::Choice {
                    path: self.path.clone(),
                    line: self.line_of_axis(count.unwrap_or(chosen.len()).saturating_sub(1)),
                    choice: self.describe(chosen),
                    error: Box::new(error),
                },
            }
        })
    }

    /// Returns an error of the scenario that does not depend on the axes.
    fn in_scenario(&self, error: ScenarioError) -> SweepError {
        let text = self
            .files
            .get(&self.scenario)
            .map(|text| String::from_utf8_lossy(text));
        SweepError::Load(LoadError::Scenario {
            path: self.scenario.clone(),
            error: error.located(&text.unwrap_or_default()),
        })
    }

    fn line_of_axis(&self, number: usize) -> usize {
        let at = ScenarioError::new(format!("vary[{number}].key"), "");
        at.located(&self.text).place.map_or(1, |place| place.line)
    }

    /// Returns the scenario with the values of the first axes.
    fn with(&self, chosen: &[&axes::Choice]) -> Result<(Scenario, String), ScenarioError> {
        let mut table = self.base.clone();
        for (key, value) in chosen.iter().flat_map(|choice| &choice.set) {
            axes::set(&mut table, key, value.clone())?;
        }
        let text = toml::to_string(&table).map_err(|_| {
            ScenarioError::new(
                "",
                "a number is greater than the 9223372036854775807 that TOML can hold",
            )
        })?;
        let mut scenario = Scenario::parse(&text).map_err(|error| {
            // The place refers to a text that no file contains.
            ScenarioError { place: None, ..error }
        })?;
        crate::read_beside(&mut scenario, &self.scenario)?;
        if let Some(engine) = self.engine {
            crate::set_engine(&mut scenario, engine);
        }
        Ok((scenario, text))
    }

    /// Returns the file that names a scenario's programs: this one with the line if programs vary, else the
    /// scenario's.
    fn names_programs(&self) -> String {
        let is_program = |key: &String| key.split('.').next_back() == Some("program");
        let varies = |axis: &Axis| {
            axis.choices
                .iter()
                .flat_map(|choice| &choice.set)
                .any(|(key, _)| is_program(key))
        };
        match self.axes.iter().position(varies) {
            Some(number) => format!("{}: line {}", self.path.display(), self.line_of_axis(number)),
            None => self.scenario.display().to_string(),
        }
    }

    fn describe(&self, chosen: &[&axes::Choice]) -> String {
        let pairs = self.axes.iter().zip(chosen);
        let texts: Vec<_> = pairs
            .map(|(axis, choice)| format!("{} = {}", axis.name, choice.label))
            .collect();
        match texts.is_empty() {
            true => "the scenario as it is".to_owned(),
            false => texts.join(", "),
        }
    }

    /// Returns the table of these tasks' results. A task without a result has a row without figures.
    #[must_use]
    pub fn table(&self, tasks: &[Task], result: &dyn Fn(&Task) -> Option<TaskResult>) -> Table {
        table::table(self.axes(), &self.columns, tasks, result)
    }

    /// Returns the columns of its file for which no report of a table has a figure, each as an error with its
    /// place. A table without reports reports no missing columns.
    #[must_use]
    pub fn missing(&self, table: &Table) -> Vec<LoadError> {
        let wrong = |error: ScenarioError| LoadError::Scenario {
            path: self.path.clone(),
            error: error.located(&self.text),
        };
        let is_read = table.rows.iter().any(|row| row.ok.is_some());
        let columns = self.columns.iter().filter(|_| is_read);
        columns
            .filter_map(|column| column.missing(table))
            .map(wrong)
            .collect()
    }
}

/// A planner that creates a sweep's tasks by their numbers.
#[derive(Debug)]
pub struct Planner<'a> {
    sweep: &'a Sweep,
    revision: &'a str,
    known: DigestCache<'a>,
    /// The latest choice. Its tasks differ only in their seeds.
    last: Option<(usize, AxisChoice)>,
}

/// A choice of values.
#[derive(Clone, Debug)]
struct AxisChoice {
    labels: Vec<String>,
    scenario: Arc<Scenario>,
    /// The hash of all input except the seed.
    hash: Sha256,
}

impl Planner<'_> {
    /// Returns the task of a number from 1 to [`Sweep::count`]. Seeds change first, then the last axis.
    ///
    /// # Errors
    /// Its values give no scenario, or a program cannot be run.
    ///
    /// # Panics
    /// Panics if there is no such number.
    pub fn task(&mut self, number: usize) -> Result<Task, SweepError> {
        assert!(
            (1..=self.sweep.count()).contains(&number),
            "task {number} does not exist"
        );
        let seeds = &self.sweep.seeds;
        let (choice, seed) = ((number - 1) / seeds.len(), seeds[(number - 1) % seeds.len()]);
        let chosen = match self.last.take() {
            Some((last, chosen)) if last == choice => chosen,
            _ => self.choose(choice)?,
        };
        let mut hash = chosen.hash.clone();
        hash.update(seed.to_le_bytes());
        let id = hash.finalize()[..16].iter().fold(String::new(), |mut id, byte| {
            let _ = write!(id, "{byte:02x}");
            id
        });
        let task = Task {
            number,
            id,
            choices: chosen.labels.clone(),
            seed,
            scenario: Arc::clone(&chosen.scenario),
        };
        self.last = Some((choice, chosen));
        Ok(task)
    }

    fn choose(&mut self, number: usize) -> Result<AxisChoice, SweepError> {
        let choices = self.sweep.chosen(number);
        let (scenario, text) = self.sweep.scenario(&choices)?;
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(self.revision.as_bytes());
        add(text.as_bytes());
        add(crate::engine(&scenario).map_or("", Engine::name).as_bytes());
        let digests = self.known.inputs(&scenario).map_err(|error| match error {
            Unknown::Program(error) => SweepError::Program { place: self.sweep.names_programs(), error },
            Unknown::File(error) => SweepError::Load(error),
        })?;
        for digest in digests {
            add(&digest);
        }
        Ok(AxisChoice {
            labels: choices.iter().map(|choice| choice.label.clone()).collect(),
            scenario: Arc::new(scenario),
            hash,
        })
    }

    /// Returns every file that the tasks so far have read, including the sweep's own, by absolute path.
    #[must_use]
    pub fn files(self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.known.files
    }
}

/// Digests of programs and other files, each read once.
#[derive(Debug)]
struct DigestCache<'a> {
    programs: &'a Programs,
    digests: BTreeMap<String, Vec<u8>>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// A file or program named by a scenario could not be read.
enum Unknown {
    Program(Error),
    File(LoadError),
}

impl DigestCache<'_> {
    /// Returns digests of all input that a scenario reads, in a defined order.
    fn inputs(&mut self, scenario: &Scenario) -> Result<Vec<Vec<u8>>, Unknown> {
        let mut digests = Vec::new();
        for name in scenario.programs() {
            digests.push(self.program(name)?);
        }
        let calls = scenario.flow.iter().filter_map(|flow| flow.calls.as_ref());
        for name in calls.flat_map(|calls| [&calls.size_file, &calls.trace]).flatten() {
            digests.push(self.file(Path::new(name))?);
        }
        Ok(digests)
    }

    /// Returns the digest of a program's texts, including its imports.
    fn program(&mut self, name: &str) -> Result<Vec<u8>, Unknown> {
        if let Some(digest) = self.digests.get(name) {
            return Ok(digest.clone());
        }
        let loaded = self
            .programs
            .open(Some(Engine::Interp), name)
            .map_err(|error| Unknown::Program(Error::Load(error)))?;
        let mut hash = Sha256::new();
        for (path, text) in &loaded.module().files {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
            if name.ends_with(".mtp") && !hawser_driver::is_library(path) {
                self.files.insert(path.into(), text.clone().into_bytes());
            }
        }
        if name.ends_with(".so") {
            self.file(Path::new(name))?;
        }
        let digest = hash.finalize().to_vec();
        self.digests.insert(name.to_owned(), digest.clone());
        Ok(digest)
    }

    fn file(&mut self, path: &Path) -> Result<Vec<u8>, Unknown> {
        let bytes = match self.files.get(path) {
            Some(bytes) => bytes.clone(),
            None => files::named_bytes(path, files::DATA_MAX)
                .map_err(unread(path))
                .map_err(Unknown::File)?,
        };
        let digest = Sha256::digest(&bytes).to_vec();
        self.files.insert(path.to_owned(), bytes);
        Ok(digest)
    }
}

#[cfg(test)]
mod tests;
