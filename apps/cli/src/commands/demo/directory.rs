//! A temporary directory for a story, removed however the story ends.

use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hawser_temporary::Folder;

use crate::exit::Exit;

/// A directory that nobody else may look into.
pub(super) struct Directory {
    folder: Folder,
    tidier: Child,
}

impl Directory {
    pub(super) fn new() -> Result<Directory, Exit> {
        let folder = Folder::new()
            .map_err(|error| Exit::environment(format!("cannot make a temporary folder: {error}")))?;
        // A process that a signal ends drops nothing: the shell sees its input close.
        let tidier = Command::new("sh")
            .args(["-c", "trap '' INT TERM HUP; read -r _; rm -rf -- \"$0\""])
            .arg(&*folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Exit::environment)?;
        Ok(Directory { folder, tidier })
    }
}

impl Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(self.tidier.stdin.take());
        let _ = self.tidier.wait();
    }
}
