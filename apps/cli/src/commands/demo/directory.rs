//! A temporary directory for a story, removed however the story ends.

use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hawser_documents::temporary::Folder;

use crate::exit::Exit;

/// A directory that only this user may access.
pub(super) struct Directory {
    folder: Folder,
    tidier: Child,
}

impl Directory {
    pub(super) fn new() -> Result<Directory, Exit> {
        let folder = Folder::new()
            .map_err(|error| Exit::environment(format!("cannot make a temporary folder: {error}")))?;
        // A process that a signal kills runs no destructors. The shell then sees its input close and removes
        // the directory.
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
