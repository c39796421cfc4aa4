//! The option of commands that run a program to write a trace of its events to a file.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use hawser::trace::{EventCallback, TracedEvent};

use crate::exit::Exit;

/// The option for the trace file of a run.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct TraceArgs {
    /// Write the effects of each event of the program to a file: a JSON object on each line, as `hawser sim
    /// trace --json` prints it (docs/trace.md)
    #[arg(long, value_name = "OUT")]
    trace: Option<PathBuf>,
}

impl TraceArgs {
    pub(crate) fn is_wanted(&self) -> bool {
        self.trace.is_some()
    }

    /// Opens the trace file, if one was requested, and returns its writer. Each event is written immediately,
    /// so that the trace is complete even if the process is killed.
    pub(crate) fn open(&self) -> Result<Option<EventCallback>, Exit> {
        let Some(path) = self.trace.clone() else {
            return Ok(None);
        };
        let cannot = |error| format!("cannot write {}: {error}", path.display());
        let mut file = Some(File::create(&path).map_err(|error| Exit::environment(cannot(error)))?);
        let mut line = Vec::new();
        Ok(Some(Box::new(move |event: &TracedEvent| {
            line.clear();
            event.json(&mut line);
            if let Some(error) = file.as_mut().and_then(|file| file.write_all(&line).err()) {
                eprintln!("cannot write {}: {error}; the trace ends here", path.display());
                file = None;
            }
        })))
    }
}
