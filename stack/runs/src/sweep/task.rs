//! A task, and its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_sim::Scenario;
use serde::{Deserialize, Serialize};

/// One run: a choice of values, and a seed.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its number in the sweep, from 1.
    pub number: usize,
    /// 32 hexadecimal digits: a hash of the scenario with the values, the texts of its programs, the other files that
    /// it reads, the seed, the engine, and the revision of Hawser.
    pub id: String,
    /// The choices, one for each axis.
    pub choices: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The scenario with these values.
    pub scenario: Arc<Scenario>,
}

/// What a task's run came to: a file of this is a task's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The task.
    pub id: String,
    /// Its choices by axis.
    pub choices: BTreeMap<String, String>,
    /// Its seed.
    pub seed: u64,
    /// The report of the run, as `hawser sim --json` prints it.
    pub report: serde_json::Value,
}

impl Done {
    /// Whether the run kept its promise.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.report["ok"] == true
    }
}
