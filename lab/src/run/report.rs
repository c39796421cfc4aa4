//! The results of a run.

use serde::Serialize;

use crate::LinkReport;

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// True if every command ended by itself, with code 0.
    pub ok: bool,
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// The commands, in the order in which they ended.
    pub commands: Vec<CommandReport>,
    /// The statistics of the links, in the order of the file.
    pub links: Vec<LinkReport>,
    /// The statistics over time, if requested: the first 100,000 samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Vec<LinkReport>>,
}

/// The result of a command.
#[derive(Clone, Debug, Serialize)]
pub struct CommandReport {
    /// The host of the command.
    pub host: String,
    /// The text of the command.
    pub command: String,
    /// The exit code, or 128 plus the signal's number.
    pub code: u8,
    /// True for a service, which is ended when the commands have ended.
    pub service: bool,
    /// True if the run ended before the command did, so that the command was stopped.
    pub stopped: bool,
    /// The time at which it started, in seconds from the start of the run.
    pub started: f64,
    /// The time at which it ended, in seconds from the start of the run.
    pub ended: f64,
    /// The first MiB of its output, both standard output and standard error.
    pub output: String,
}
