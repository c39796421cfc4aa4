//! What a run came to.

use serde::Serialize;

use crate::lab::Lab;
use crate::link::Direction;
use crate::{LabError, Statistics};

/// What a run came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Whether every command ended by itself, and well.
    pub ok: bool,
    /// Seconds in all.
    pub seconds: f64,
    /// The commands, in the order in which they ended.
    pub commands: Vec<CommandReport>,
    /// The cells, in the order of the file.
    pub links: Vec<LinkReport>,
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

/// What a link has done.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub link: String,
    /// From the first host to the second.
    pub forward: Statistics,
    /// From the second to the first.
    pub backward: Statistics,
}

/// What the cells have done so far.
///
/// # Errors
/// When the forwarder has ended.
pub fn link_reports(lab: &Lab) -> Result<Vec<LinkReport>, LabError> {
    let mut reports = Vec::new();
    for link in lab.links() {
        let forward = match link.statistics(Direction::Forward) {
            Err(LabError::NotACell { .. }) => continue,
            other => other?,
        };
        let backward = link.statistics(Direction::Backward)?;
        reports.push(LinkReport { link: link.name().to_owned(), forward, backward });
    }
    Ok(reports)
}
