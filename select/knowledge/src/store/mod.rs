//! What outlives the process: a file, and a thread that alone writes it.
//!
//! Who learns something puts it into a queue and goes on. Of a key only the newest waits; the thread
//! gathers for a moment, and writes what waits as one transaction. Invariants: at most [`MAX_WAITING`] keys
//! wait; what [`Queue::flush`] has answered is in the file, whatever becomes of the process then.

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

use super::event::Origin;
use file::File;

/// Keys that wait at once: more than there are nodes, so that it takes a disk that stands still.
const MAX_WAITING: usize = 4_096;
/// How long changes are gathered before they are written.
const GATHER: Duration = Duration::from_millis(100);
/// When a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// A node that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Where it came from.
    pub(super) origin: Origin,
    /// On which network it was learnt, where it is true on that alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<String>,
    /// As a document.
    pub(super) node: Value,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Node,
    /// What races remember.
    Outcomes,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Outcomes => "outcomes",
        }
    }
}

/// A text, and until when it is worth reading.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    text: String,
    until: Option<f64>,
}

/// A key, and what it is now; nothing: it is gone.
type Changes = BTreeMap<(Kind, String), Option<Kept>>;

/// What was kept.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) nodes: Vec<Record>,
    pub(super) outcomes: BTreeMap<String, String>,
    /// What was wrong with the file, and where it is now.
    pub(super) warning: Option<String>,
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody has it open.
    #[error("{} is in use by another process; choose another file", .0.display())]
    InUse(PathBuf),
    /// The path leads to something that is no store.
    #[error("{} is no regular file, and is left alone; choose another path", .0.display())]
    NoFile(PathBuf),
    /// It was not made by Hawser.
    #[error(
        "{}: this file is no store of Hawser ({why}), and is left as it is; choose another path",
        file.display()
    )]
    Foreign {
        /// Which file.
        file: PathBuf,
        /// What shows it.
        why: String,
    },
    /// The system refuses.
    #[error("{}: {error}", file.display())]
    System {
        /// Which file.
        file: PathBuf,
        /// Its error.
        error: io::Error,
    },
    /// The file cannot be used, for another reason than its content.
    #[error("{}: {why}", file.display())]
    Database {
        /// Which file.
        file: PathBuf,
        /// The error of the database.
        why: String,
    },
}

/// Keeps the thread. When it goes, what waits is still written, in the background.
pub(super) struct Store {
    queue: Queue,
}

/// What waits to be written. Clones are the same queue.
#[derive(Clone)]
pub(super) struct Queue(Arc<Shared>);

struct Shared {
    pending: Mutex<Pending>,
    wake: Condvar,
    /// The last change that was written.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct Pending {
    changes: Changes,
    /// Changes so far.
    sequence: u64,
    /// Somebody waits for the file.
    is_urgent: bool,
    is_over: bool,
    /// Writes that failed.
    failures: u64,
    /// What went wrong, until somebody asks.
    trouble: Option<String>,
}

impl Store {
    /// Reads a file, or begins one, and starts its thread. What has ended at `now` is left out.
    pub(super) fn open(path: &Path, now: f64) -> Result<(Store, Loaded), StoreError> {
        let (file, loaded) = File::open(path, now)?;
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            wake: Condvar::new(),
            written: watch::channel(0).0,
        });
        let queue = Queue(shared);
        let writer = queue.clone();
        std::thread::Builder::new()
            .name("hawser-store".into())
            .spawn(move || writer.write(file))
            .map_err(|error| StoreError::System { file: path.into(), error })?;
        Ok((Store { queue }, loaded))
    }

    pub(super) fn queue(&self) -> Queue {
        self.queue.clone()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.0.wake.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock()
    }

    /// Keeps a node until it ends.
    pub(super) fn keep(&self, uid: &str, record: &Record, until: Option<f64>) {
        match serde_json::to_string(record) {
            Ok(text) => self.change(Kind::Node, uid, Some(Kept { text, until })),
            // A document of texts and finite numbers always can be written.
            Err(error) => self.lock().trouble = Some(error.to_string()),
        }
    }

    /// Keeps a node no longer.
    pub(super) fn forget(&self, uid: &str) {
        self.change(Kind::Node, uid, None);
    }

    /// Keeps what races remember.
    pub(super) fn keep_outcomes(&self, name: &str, text: String) {
        self.change(Kind::Outcomes, name, Some(Kept { text, until: None }));
    }

    fn change(&self, kind: Kind, name: &str, kept: Option<Kept>) {
        let mut pending = self.lock();
        let key = (kind, name.to_owned());
        if pending.changes.len() >= MAX_WAITING && !pending.changes.contains_key(&key) {
            pending.trouble = Some(format!(
                "{MAX_WAITING} changes wait to be written; `{name}` is not kept"
            ));
            return;
        }
        pending.changes.insert(key, kept);
        pending.sequence += 1;
        self.0.wake.notify_all();
    }

    /// Waits until all that was put in before is in the file. False when that failed.
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

    /// What went wrong next.
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

    /// The thread: writes until all is written and nobody will put more in.
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
                    // Reported once, however often it is tried.
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

    /// Waits until there is something to write, and takes it.
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
