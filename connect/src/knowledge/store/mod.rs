//! The part of the knowledge that is kept across restarts: a file, and the only thread that writes it.
//!
//! Callers put changes into a queue and continue. For each key only the newest change is queued. The thread
//! gathers changes for a moment, and writes them as one transaction. Invariants: at most [`MAX_WAITING`] keys
//! are queued. Changes that [`ChangeQueue::flush`] has confirmed are in the file, even if the process dies
//! afterwards.

mod file;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::event::NodeOrigin;
use file::File;

/// The maximum number of queued keys: more than there are nodes, so that only a blocked disk can exceed it.
const MAX_WAITING: usize = 4_096;
/// The time for which changes are gathered before they are written.
const GATHER: Duration = Duration::from_millis(100);
/// The time after which a failed write is repeated.
const RETRY: Duration = Duration::from_secs(2);

/// A node that is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredNode {
    /// The origin of the node.
    pub(super) origin: NodeOrigin,
    /// The network on which it was learnt, if it is valid only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<String>,
    /// The node as a document.
    pub(super) node: Value,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EntryKind {
    Node,
    /// The memory of races.
    Outcomes,
}

impl EntryKind {
    fn word(self) -> &'static str {
        match self {
            EntryKind::Node => "node",
            EntryKind::Outcomes => "outcomes",
        }
    }
}

/// A text, with the end of its validity.
#[derive(Clone, Debug, PartialEq)]
struct StoredText {
    text: String,
    until: Option<f64>,
}

/// The changed keys with their new values; `None` if the entry is deleted.
type Changes = BTreeMap<(EntryKind, String), Option<StoredText>>;

/// The content of a store.
#[derive(Debug, Default)]
pub(super) struct StoreContent {
    pub(super) nodes: Vec<StoredNode>,
    pub(super) outcomes: BTreeMap<String, String>,
    /// The fault of the file, and its new path.
    pub(super) warning: Option<String>,
}

/// The reasons for which a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the file open.
    #[error("{} is in use by another process; choose another file", .0.display())]
    InUse(PathBuf),
    /// The path is not that of a regular file.
    #[error("{} is not a regular file and was not changed; choose another path", .0.display())]
    NoFile(PathBuf),
    /// The file was not made by Hawser.
    #[error(
        "{}: this file is not a store of Hawser ({why}) and was not changed; choose another path",
        file.display()
    )]
    Foreign {
        /// The path of the file.
        file: PathBuf,
        /// The evidence for it.
        why: String,
    },
    /// A system call failed.
    #[error("{}: {error}", file.display())]
    System {
        /// The path of the file.
        file: PathBuf,
        /// The error of the call.
        error: io::Error,
    },
    /// The file cannot be used, for a reason other than its content.
    #[error("{}: {why}", file.display())]
    Database {
        /// The path of the file.
        file: PathBuf,
        /// The error of the database.
        why: String,
    },
}

/// Holds the thread. When it is dropped, queued changes are still written, in the background.
pub(super) struct Store {
    queue: ChangeQueue,
}

/// The queue of changes. Clones are the same queue.
#[derive(Clone)]
pub(super) struct ChangeQueue(Arc<Shared>);

struct Shared {
    pending: Mutex<Pending>,
    wake: Condvar,
    /// The number of the last change that was written.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct Pending {
    changes: Changes,
    /// The number of changes so far.
    sequence: u64,
    /// True if a caller waits for the file.
    is_urgent: bool,
    is_over: bool,
    /// The number of failed writes.
    failures: u64,
    /// The latest error, until it is taken.
    trouble: Option<String>,
}

impl Store {
    /// Opens a file, or begins one, and starts its thread. Entries that have expired at `now` are left out.
    pub(super) fn open(path: &Path, now: f64) -> Result<(Store, StoreContent), StoreError> {
        let (file, loaded) = File::open(path, now)?;
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            wake: Condvar::new(),
            written: watch::channel(0).0,
        });
        let queue = ChangeQueue(shared);
        let writer = queue.clone();
        std::thread::Builder::new()
            .name("hawser-store".into())
            .spawn(move || writer.write(file))
            .map_err(|error| StoreError::System { file: path.into(), error })?;
        Ok((Store { queue }, loaded))
    }

    pub(super) fn queue(&self) -> ChangeQueue {
        self.queue.clone()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.0.wake.notify_all();
    }
}

impl ChangeQueue {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock()
    }

    /// Stores a node until it expires.
    pub(super) fn keep(&self, uid: &str, record: &StoredNode, until: Option<f64>) {
        match serde_json::to_string(record) {
            Ok(text) => self.change(EntryKind::Node, uid, Some(StoredText { text, until })),
            // A document of texts and finite numbers can always be written.
            Err(error) => self.lock().trouble = Some(error.to_string()),
        }
    }

    /// Deletes a node.
    pub(super) fn forget(&self, uid: &str) {
        self.change(EntryKind::Node, uid, None);
    }

    /// Stores the memory of races.
    pub(super) fn keep_outcomes(&self, name: &str, text: String) {
        self.change(EntryKind::Outcomes, name, Some(StoredText { text, until: None }));
    }

    fn change(&self, kind: EntryKind, name: &str, kept: Option<StoredText>) {
        let mut pending = self.lock();
        let key = (kind, name.to_owned());
        if pending.changes.len() >= MAX_WAITING && !pending.changes.contains_key(&key) {
            pending.trouble = Some(format!(
                "{MAX_WAITING} changes wait to be written; `{name}` is not saved"
            ));
            return;
        }
        pending.changes.insert(key, kept);
        pending.sequence += 1;
        self.0.wake.notify_all();
    }

    /// Waits until all earlier changes are in the file. Returns false when writing failed.
    pub(super) async fn flush(&self) -> bool {
        let mut written = self.0.written.subscribe();
        let (wanted, failures) = {
            let mut pending = self.lock();
            pending.is_urgent = true;
            self.0.wake.notify_all();
            (pending.sequence, pending.failures)
        };
        loop {
            if *written.borrow_and_update() >= wanted {
                return true;
            }
            if self.lock().failures > failures || written.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Waits for the next error.
    pub(super) async fn trouble(&self) -> String {
        let mut written = self.0.written.subscribe();
        loop {
            if let Some(trouble) = self.lock().trouble.take() {
                return trouble;
            }
            if written.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Runs the thread: writes until all changes are written and the queue is closed.
    fn write(self, mut file: File) {
        let mut failed = false;
        loop {
            let (changes, sequence, is_over) = self.gather(failed);
            if changes.is_empty() {
                self.0.written.send_replace(sequence);
                if is_over {
                    return;
                }
                continue;
            }
            match file.write(&changes) {
                Ok(()) => {
                    failed = false;
                    self.0.written.send_replace(sequence);
                }
                Err(error) => {
                    let mut pending = self.lock();
                    pending.failures += 1;
                    // The error is reported once, however often the write is repeated.
                    if !failed {
                        pending.trouble = Some(error.to_string());
                    }
                    if is_over {
                        return;
                    }
                    for (key, kept) in changes {
                        pending.changes.entry(key).or_insert(kept);
                    }
                    drop(pending);
                    self.0.written.send_modify(|_| ());
                    failed = true;
                }
            }
        }
    }

    /// Waits until there are changes, and takes them.
    fn gather(&self, failed: bool) -> (Changes, u64, bool) {
        let mut pending = self.lock();
        if failed && !pending.is_over {
            let may_wait = |pending: &mut Pending| !pending.is_over;
            self.0.wake.wait_while_for(&mut pending, may_wait, RETRY);
        }
        let is_idle =
            |pending: &mut Pending| pending.changes.is_empty() && !pending.is_over && !pending.is_urgent;
        self.0.wake.wait_while(&mut pending, is_idle);
        let may_gather = |pending: &mut Pending| !pending.is_over && !pending.is_urgent;
        self.0.wake.wait_while_for(&mut pending, may_gather, GATHER);
        pending.is_urgent = false;
        (
            std::mem::take(&mut pending.changes),
            pending.sequence,
            pending.is_over,
        )
    }
}

#[cfg(test)]
mod tests;
