//! The handle: opens files and store, runs the sources, and ranks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::{Bus, Documents};
use hawser_policy::document::Diagnostic;
use hawser_policy::{Limit, Manager, NameTable, Options, Ranking, Request};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;

use super::base::{KnowledgeBase, now};
use super::documents::Nodes;
use super::event::{KnowledgeEvent, KnownNode, NodeOrigin, Trouble};
use super::interfaces::{self, Links};
use super::races;
use super::sessions::{self, Followed};
use super::store::{ChangeQueue, Store, StoreContent, StoreError};
use crate::policy::{self, Folders, PolicyWatcher, WatchError};
use crate::{Destination, Racer, ReportCallback};
use hawser_race::Snapshot;
use hawser_session::{Network, Session, network_identity};

/// The interval at which new outcomes of races are saved.
const OUTCOMES: Duration = Duration::from_secs(5);
/// The key of the races' memory in the store.
const RACES: &str = "races";

/// The sources of knowledge, and the store.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The operator's profiles, policies and nodes; by default those that come with Hawser, and no nodes.
    pub folders: Folders,
    /// The file that is kept across restarts; without one, knowledge is not kept. Its folder is created if it
    /// is missing.
    pub store: Option<PathBuf>,
    /// The bus on which clients list, put, delete and watch nodes; without one they cannot.
    pub bus: Option<Bus>,
    /// The options of rankings.
    pub options: Options,
}

/// The reasons for which the knowledge cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum KnowledgeError {
    /// Files have faults, or cannot be watched.
    #[error(transparent)]
    Files(#[from] WatchError),
    /// The store cannot be used.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// The knowledge of a process, with its sources. Clones share it, and the sources end with the last clone. It
/// must be made within a tokio runtime with time and I/O.
#[derive(Clone)]
pub struct Knowledge {
    inner: Arc<Inner>,
}

struct Inner {
    base: Arc<KnowledgeBase>,
    /// Kept here because the bus holds it weakly.
    documents: Arc<dyn Documents>,
    races: mpsc::Sender<races::RaceOutcome>,
    sessions: Arc<Followed>,
    store: Option<Store>,
    racer: Mutex<Remembered>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// The outcomes that races are to remember, and the racer that does so.
#[derive(Default)]
struct Remembered {
    kept: Option<String>,
    racer: Option<Racer>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut();
        tasks.drain(..).for_each(|task| task.abort());
    }
}

impl Knowledge {
    /// Reads files and store, reads the interfaces, and begins to follow their changes. If the kernel does
    /// not report interfaces, [`Trouble::Network`] is published and the other sources work.
    ///
    /// # Errors
    /// When files have faults, when the store is in use, or when it is not a store of Hawser. A store that is
    /// damaged or of another version is not an error: it is renamed, and the first of [`Knowledge::events`]
    /// reports it ([`Trouble::Store`]).
    pub async fn open(settings: Settings) -> Result<Knowledge, KnowledgeError> {
        let manager = Arc::new(Mutex::new(Manager::new(settings.options)));
        let watch = PolicyWatcher::open(settings.folders, Arc::clone(&manager))?;
        let (store, loaded) = match settings.store {
            Some(path) => {
                let opened = tokio::task::spawn_blocking(move || Store::open(&path, now())).await;
                let (store, loaded) = opened.map_err(|error| StoreError::Database {
                    file: PathBuf::new(),
                    why: error.to_string(),
                })??;
                (Some(store), loaded)
            }
            None => (None, StoreContent::default()),
        };
        let base = KnowledgeBase::new(manager, store.as_ref().map(Store::queue));
        let links = Arc::new(Links::default());
        let network = Network::open().await;
        let name = network
            .as_ref()
            .map_or_else(|_| network_identity::UNKNOWN.into(), network_identity::name);
        base.set_network(Arc::clone(&name));
        let mut source = interfaces::InterfaceSource::new(Arc::clone(&base), Arc::clone(&links));
        if let Ok(network) = &network {
            source.update(network.attachments());
        }
        base.recall(loaded.nodes, &name, now());
        let (races, outcomes) = mpsc::channel(races::QUEUE);
        let sessions = Arc::new(Followed::default());
        let mut outcomes_kept = loaded.outcomes;
        let inner = Inner {
            base: Arc::clone(&base),
            documents: Arc::new(Nodes(Arc::clone(&base))),
            races,
            sessions: Arc::clone(&sessions),
            store,
            racer: Mutex::new(Remembered { kept: outcomes_kept.remove(RACES), racer: None }),
            tasks: Mutex::default(),
        };
        let knowledge = Knowledge { inner: Arc::new(inner) };
        knowledge.run(files(watch, Arc::clone(&base)));
        knowledge.run(expire(Arc::clone(&base)));
        knowledge.run(races::follow(outcomes, Arc::clone(&base), Arc::clone(&links)));
        knowledge.run(sessions::follow(sessions, Arc::clone(&base), links));
        match network {
            Ok(network) => knowledge.run(source.follow(network)),
            Err(error) => base.publish(KnowledgeEvent::Trouble(Trouble::Network(error.to_string()))),
        }
        if let Some(warning) = loaded.warning {
            base.publish(KnowledgeEvent::Trouble(Trouble::Store(warning)));
        }
        if let Some(queue) = knowledge.queue() {
            let base = Arc::clone(&base);
            knowledge.run(async move {
                loop {
                    base.publish(KnowledgeEvent::Trouble(Trouble::Store(queue.trouble().await)));
                }
            });
        }
        if let Some(bus) = settings.bus {
            bus.offer_documents(&knowledge.inner.documents);
        }
        Ok(knowledge)
    }

    /// Ranks the candidates for a request.
    ///
    /// # Errors
    /// When the policies exceed a limit.
    pub fn rank(&self, request: &Request) -> Result<Arc<Ranking>, Limit> {
        self.inner.base.manager().select(request, now())
    }

    /// Returns the policy manager, for [`Policies`](crate::Policies).
    pub fn manager(&self) -> Arc<Mutex<Manager>> {
        Arc::clone(&self.inner.base.manager)
    }

    /// Returns the names of keys.
    pub fn names(&self) -> NameTable {
        self.inner.base.manager().names().clone()
    }

    /// Returns a callback that learns from races, for [`select::Request::watcher`](crate::Request).
    /// It never blocks: outcomes that arrive too fast are dropped.
    pub fn watcher(&self) -> ReportCallback {
        races::watcher(self.inner.races.clone(), None)
    }

    /// Returns a callback that learns from races to a destination. The outcomes also apply to its name,
    /// before the name is looked up again.
    pub fn watcher_to(&self, destination: &Destination) -> ReportCallback {
        races::watcher(self.inner.races.clone(), Some(destination))
    }

    /// Learns from the path measurements of this session, until it ends. The session is not kept alive.
    pub fn follow(&self, session: &Session) {
        self.inner.sessions.add(session);
    }

    /// Gives a racer the outcomes of earlier processes, and saves its new ones. Only the racer of the last
    /// call is saved.
    pub fn remember(&self, racer: &Racer) {
        let Some(queue) = self.queue() else { return };
        let is_first = {
            let mut remembered = self.remembered();
            let kept = remembered
                .kept
                .take()
                .and_then(|text| serde_json::from_str::<Snapshot>(&text).ok());
            if let Some(snapshot) = kept {
                racer.restore(snapshot);
            }
            remembered.racer.replace(racer.clone()).is_none()
        };
        if !is_first {
            return;
        }
        let inner = Arc::downgrade(&self.inner);
        self.run(async move {
            let mut last = Snapshot::default();
            loop {
                tokio::time::sleep(OUTCOMES).await;
                let Some(inner) = inner.upgrade() else { return };
                let racer = Knowledge { inner }.remembered().racer.clone();
                let snapshot = racer.map(|racer| racer.snapshot()).unwrap_or_default();
                if snapshot != last {
                    keep(&queue, &snapshot);
                    last = snapshot;
                }
            }
        });
    }

    /// Returns all nodes that are known now.
    pub fn list(&self) -> Vec<KnownNode> {
        self.inner.base.list(now())
    }

    /// Adds nodes as a controller does: a document of the CIB in JSON. Returns warnings.
    ///
    /// # Errors
    /// All faults of the document; the nodes are then unchanged.
    pub fn put(&self, document: &str) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        self.inner.base.put(document, now()).map(|put| put.warnings)
    }

    /// Deletes a node, and returns its origin. A source that still finds it adds it again.
    ///
    /// # Errors
    /// When there is no such node, or a file contains it.
    pub fn delete(&self, uid: &str) -> Result<NodeOrigin, Diagnostic> {
        self.inner.base.delete(uid, now())
    }

    /// Returns the changes from now on. The first caller gets them from the beginning, and so learns of
    /// faults of the store.
    pub fn events(&self) -> KnowledgeEvents {
        KnowledgeEvents(self.inner.base.subscribe_first())
    }

    /// Waits until all knowledge so far is in the store. Returns false when it cannot be written, and true if
    /// there is no store.
    pub async fn flush(&self) -> bool {
        let Some(queue) = self.queue() else { return true };
        let racer = self.remembered().racer.clone();
        if let Some(racer) = racer {
            keep(&queue, &racer.snapshot());
        }
        queue.flush().await
    }

    fn queue(&self) -> Option<ChangeQueue> {
        self.inner.store.as_ref().map(Store::queue)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.inner.racer.lock()
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(task).abort_handle();
        self.inner.tasks.lock().push(task);
    }
}

impl std::fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Knowledge").finish_non_exhaustive()
    }
}

fn keep(queue: &ChangeQueue, snapshot: &Snapshot) {
    // A snapshot has only texts and numbers, so it can always be written.
    if let Ok(text) = serde_json::to_string(snapshot) {
        queue.keep_outcomes(RACES, text);
    }
}

/// Follows the files.
async fn files(mut watch: PolicyWatcher, base: Arc<KnowledgeBase>) {
    loop {
        match watch.next().await {
            Ok(policy::ReloadEvent::Loaded { policies, nodes, warnings }) => {
                base.reapply(now());
                base.publish(KnowledgeEvent::Loaded { policies, nodes, warnings });
            }
            Ok(policy::ReloadEvent::Refused(errors)) => base.publish(KnowledgeEvent::Refused(errors)),
            Err(error) => return base.publish(KnowledgeEvent::Trouble(Trouble::Files(error.to_string()))),
        }
    }
}

/// Removes nodes when they expire.
async fn expire(base: Arc<KnowledgeBase>) {
    /// The clock may be set, so it is read at this interval, in seconds.
    const MAX_REST: f64 = 60.0;
    const MIN_REST: f64 = 0.05;
    loop {
        let next = base.expire(now());
        let rest = next.map_or(MAX_REST, |next| (next - now()).clamp(MIN_REST, MAX_REST));
        let sleep = tokio::time::sleep(Duration::from_secs_f64(rest));
        tokio::select! {
            () = sleep => {}
            () = base.changed.notified() => {}
        }
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct KnowledgeEvents(broadcast::Receiver<KnowledgeEvent>);

impl KnowledgeEvents {
    /// Waits for the next event; `None` when the knowledge is closed. A caller that lags more than a thousand
    /// events behind misses the oldest. The future may be dropped, and the call repeated.
    pub async fn next(&mut self) -> Option<KnowledgeEvent> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
