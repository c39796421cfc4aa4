//! Files of policies and knowledge, read again when they change: inotify(7).
//!
//! New content replaces the old as a whole, or not at all. One faulty file leaves the last valid content in
//! force, and an event reports the fault. Files are read outside the manager's lock.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hawser_policy::{Limit, Manager};
use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tokio::io::unix::AsyncFd;

use super::files::{FileError, FileTexts, Folders, NodeFileTimes};

/// The time without events after which changed files are read, because an editor's save causes several
/// events.
const QUIET: Duration = Duration::from_millis(50);
/// The time after which files are read even if they keep changing.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);
/// The interval at which a folder that cannot be watched is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The result of reading changed files.
#[derive(Clone, Debug, PartialEq)]
pub enum ReloadEvent {
    /// The files were read and are in force.
    Loaded {
        /// The number of profiles and policies.
        policies: usize,
        /// The number of nodes of the CIB.
        nodes: usize,
        /// Warnings about the files.
        warnings: Vec<FileError>,
    },
    /// The files have faults; the earlier content stays in force.
    Refused(Vec<FileError>),
}

/// The reasons for which files cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The files have faults, so there is no content to begin with.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Files(Vec<FileError>),
    /// A system call failed.
    #[error("files cannot be watched: {0}")]
    System(#[from] io::Error),
}

/// Keeps a [`Manager`] at the content of its files.
#[derive(Debug)]
pub struct PolicyWatcher {
    folders: Folders,
    manager: Arc<Mutex<Manager>>,
    learnt: NodeFileTimes,
    /// The latest content, or its faults.
    seen: Result<FileTexts, Vec<FileError>>,
    inotify: AsyncFd<OwnedFd>,
    /// True if a folder could not be watched.
    is_blind: bool,
    /// True if an event was received since the files were last read.
    is_stirred: bool,
}

impl PolicyWatcher {
    /// Reads the files into the manager, and watches them from now on. Needs a tokio runtime.
    ///
    /// # Errors
    /// When files have faults, or the system has no more watches.
    pub fn open(folders: Folders, manager: Arc<Mutex<Manager>>) -> Result<Self, WatchError> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let inotify = hawser_sockets::watch(inotify)?;
        let mut watch = Self {
            folders,
            manager,
            learnt: NodeFileTimes::default(),
            seen: Ok(FileTexts::default()),
            inotify,
            is_blind: false,
            is_stirred: false,
        };
        // The watch begins first, so that changes during the reading are noticed.
        watch.watch_folders();
        watch.seen = watch.folders.texts();
        match watch.take() {
            ReloadEvent::Loaded { .. } => Ok(watch),
            ReloadEvent::Refused(errors) => Err(WatchError::Files(errors)),
        }
    }

    /// Waits until files have changed, reads them, and returns the result. The future may be dropped, and the
    /// call repeated.
    ///
    /// # Errors
    /// When the system reports no more changes.
    pub async fn next(&mut self) -> io::Result<ReloadEvent> {
        loop {
            if !self.is_stirred && self.is_blind {
                // The folders that can be watched may still change.
                tokio::time::timeout(POLL_INTERVAL, self.changed())
                    .await
                    .unwrap_or(Ok(()))?;
            } else if !self.is_stirred {
                self.changed().await?;
            }
            // Set until files are read, so that no change is missed if the future is dropped and the call
            // repeated.
            self.is_stirred = true;
            self.settle().await?;
            self.is_stirred = false;
            self.watch_folders();
            let now = self.folders.texts();
            if now != self.seen {
                self.seen = now;
                return Ok(self.take());
            }
        }
    }

    /// Puts the content that was read into force.
    fn take(&mut self) -> ReloadEvent {
        let texts = match &self.seen {
            Ok(texts) => texts,
            Err(errors) => return ReloadEvent::Refused(errors.clone()),
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        // Every call leaves the manager consistent, so a panic in another thread does no harm.
        let mut manager = self.manager.lock();
        let base = match texts.understand(manager.names().clone(), &mut self.learnt, now) {
            Ok(base) => base,
            Err(errors) => return ReloadEvent::Refused(errors),
        };
        let (policies, nodes) = (base.pib.iter().count(), base.nodes.len());
        match manager.replace(base.names, base.pib, base.nodes, now) {
            Ok(()) => ReloadEvent::Loaded { policies, nodes, warnings: base.warnings },
            Err(limit) => ReloadEvent::Refused(vec![self.of_all(&limit)]),
        }
    }

    fn of_all(&self, limit: &Limit) -> FileError {
        let file = self
            .folders
            .cib
            .clone()
            .or_else(|| self.folders.pib.clone())
            .unwrap_or_default();
        let diagnostic =
            super::document::Diagnostic { path: String::new(), message: limit.to_string(), hint: None };
        FileError { file, diagnostic }
    }

    /// Waits until no file has changed for a while.
    async fn settle(&self) -> io::Result<()> {
        let end = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            let quiet = tokio::time::Instant::now() + QUIET;
            match tokio::time::timeout_at(quiet.min(end), self.changed()).await {
                Ok(received) => received?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Waits until files have changed, and takes all events. The names of the files do not matter, because
    /// all files are read again.
    async fn changed(&self) -> io::Result<()> {
        let mut guard = self.inotify.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        guard.clear_ready();
        Ok(())
    }

    /// Watches every existing folder; present watches stay.
    fn watch_folders(&mut self) {
        let wanted = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        self.is_blind = false;
        for folder in self.folders.all() {
            self.is_blind |= inotify::add_watch(self.inotify.get_ref(), folder.as_path(), wanted).is_err();
        }
    }
}
