//! The folder of a sweep: a file for each result, and the merged tables.

use std::fs;
use std::path::{Path, PathBuf};

use hawser::lang::Printable;
use hawser::runs::sweep::{Done, Task};

use crate::exit::{Exit, Outcome};

pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Folder, Exit> {
        let path = path.to_owned();
        let results = path.join("results");
        fs::create_dir_all(&results)
            .map_err(|error| Exit::environment(format!("cannot make {}: {error}", results.display())))?;
        Ok(Folder { path })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn result(&self, id: &str) -> PathBuf {
        self.path.join("results").join(format!("{id}.json"))
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.get(id).is_some()
    }

    /// Returns a task's result, or `None` if it is missing or invalid.
    pub(super) fn get(&self, id: &str) -> Option<Done> {
        let text = fs::read(self.result(id)).ok()?;
        let done: Done = serde_json::from_slice(&text).ok()?;
        (done.id == id).then_some(done)
    }

    /// Stores a result atomically, even if the process dies midway.
    pub(super) fn keep(&self, done: &Done) -> Outcome {
        let text = serde_json::to_string(done).map_err(Exit::failed)?;
        self.write(&self.result(&done.id), Printable(text).to_string().as_bytes())
    }

    /// Writes a file atomically.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Outcome {
        let whole = || {
            let folder = hawser_documents::temporary::Folder::within(&self.path)?;
            let written = folder.join("written");
            fs::write(&written, bytes)?;
            fs::rename(&written, path)
        };
        whole().map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display())))
    }

    /// Saves the scenario of a failed run, and returns the command that repeats it.
    pub(super) fn failed(&self, task: &Task) -> Result<String, Exit> {
        let folder = self.path.join("failed");
        fs::create_dir_all(&folder)
            .map_err(|error| Exit::environment(format!("cannot make {}: {error}", folder.display())))?;
        let path = folder.join(format!("{}.toml", task.id));
        crate::commands::sim::shrink::save(&path, &task.scenario)?;
        Ok(format!(
            "hawser sim replay {} --seed {}",
            path.display(),
            task.seed
        ))
    }
}
