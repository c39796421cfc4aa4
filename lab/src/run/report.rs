//! What a run came to.

use serde::Serialize;

use crate::LinkReport;

/// What a run came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Whether every command ended by itself, and well.
    pub ok: bool,
    /// Seconds in all.
    pub seconds: f64,
    /// The commands, in the order in which they ended.
    pub commands: Vec<CommandReport>,
    /// What the links have done, in the order of the file.
    pub links: Vec<LinkReport>,
    /// The same over time, where that was asked for; the first 100,000 samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Vec<LinkReport>>,
}

/// What a command came to.
#[derive(Clone, Debug, Serialize)]
pub struct CommandReport {
    /// Its host.
    pub host: String,
    /// The command.
    pub command: String,
    /// Its exit code; for a signal 128 and its number.
    pub code: u8,
    /// Whether it is a service, which is ended when the commands have ended.
    pub service: bool,
    /// Whether it was ended, since the run was over.
    pub stopped: bool,
    /// When it started and ended, in seconds from the start.
    pub started: f64,
    /// See `started`.
    pub ended: f64,
    /// What it printed, both outputs; the first MiB.
    pub output: String,
}
