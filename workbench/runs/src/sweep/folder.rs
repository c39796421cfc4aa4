//! The folder of a sweep: a file for each result, and the merged tables.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hawser_documents::temporary;
use hawser_syntax::Printable;

use super::{RunnerError, Task, TaskResult};

/// The folder of a sweep.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens a folder, and makes it if it is missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path) -> Result<Folder, RunnerError> {
        make(&path.join("results"))?;
        Ok(Folder { path: path.to_owned() })
    }

    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn result(&self, id: &str) -> PathBuf {
        self.path.join("results").join(format!("{id}.json"))
    }

    /// Returns whether a task has a valid result.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.get(id).is_some()
    }

    /// Returns a task's result, or `None` if it is missing or invalid.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<TaskResult> {
        let text = fs::read(self.result(id)).ok()?;
        let done: TaskResult = serde_json::from_slice(&text).ok()?;
        (done.id == id).then_some(done)
    }

    /// Stores a result atomically, even if the process dies midway.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, done: &TaskResult) -> Result<(), RunnerError> {
        let text = serde_json::to_string(done)?;
        self.write(&self.result(&done.id), Printable(text).to_string().as_bytes())
    }

    /// Writes a file atomically.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), RunnerError> {
        let whole = || {
            let folder = temporary::Folder::within(&self.path)?;
            let written = folder.join("written");
            fs::write(&written, bytes)?;
            fs::rename(&written, path)
        };
        whole().map_err(|error: io::Error| RunnerError::Write { path: path.to_owned(), error })
    }

    /// Returns the path for the scenario of a failed run, in a folder that exists.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn failed(&self, task: &Task) -> Result<PathBuf, RunnerError> {
        let folder = self.path.join("failed");
        make(&folder)?;
        Ok(folder.join(format!("{}.toml", task.id)))
    }
}

fn make(path: &Path) -> Result<(), RunnerError> {
    fs::create_dir_all(path).map_err(|error| RunnerError::Make { path: path.to_owned(), error })
}
