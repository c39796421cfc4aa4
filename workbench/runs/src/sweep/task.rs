//! A task, and its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_sim::Scenario;
use serde::{Deserialize, Serialize};

/// One run: a choice of values, and a seed.
#[derive(Clone, Debug)]
pub struct Task {
    /// The number in the sweep, from 1.
    pub number: usize,
    /// The id of 32 hexadecimal digits. It is a hash of the scenario with the values, the texts of its
    /// programs, the other files that it reads, and the seed. The engine and the revision of Hawser also
    /// enter.
    pub id: String,
    /// The choices, one for each axis.
    pub choices: Vec<String>,
    /// The seed of the run.
    pub seed: u64,
    /// The scenario with these values.
    pub scenario: Arc<Scenario>,
}

/// The result of a task's run, which is stored as a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The task's id.
    pub id: String,
    /// The task's choices by axis.
    pub choices: BTreeMap<String, String>,
    /// The task's seed.
    pub seed: u64,
    /// The report of the run, as `hawser sim --json` prints it.
    pub report: serde_json::Value,
}

impl TaskResult {
    /// Returns whether the run met its expectations.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.report["ok"] == true
    }
}
