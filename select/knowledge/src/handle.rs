//! The handle: opens everything, runs the sources, and ranks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::{Bus, Documents};
use hawser_policy::document::{self, Diagnostic, Format};
use hawser_policy::{Limit, Manager, Names, Options, Ranking, Request};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;

use super::base::{Base, now};
use super::documents::Nodes;
use super::event::{Event, Known, Origin, Trouble};
use super::interfaces::{self, Links};
use super::races;
use super::sessions::{self, Followed};
use super::store::{Loaded, Queue, Store, StoreError};
use hawser_connect::policy::{self, Folders, Watch, WatchError};
use hawser_connect::{Destination, Racer, Watcher};
use hawser_race::Snapshot;
use hawser_session_driver::{Network, Session, surroundings};

/// How often it is looked whether races have learnt something.
const OUTCOMES: Duration = Duration::from_secs(5);
/// The name that what races remember is kept under.
const RACES: &str = "races";

/// What is to be known, and where it is kept.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Profiles, policies and nodes of operators; at first what comes with Hawser, and no nodes.
    pub folders: Folders,
    /// The file of what is kept across restarts; none: nothing is. Its folder is made if missing.
    pub store: Option<PathBuf>,
    /// The bus on which clients list, put, delete and watch nodes; without one nobody does.
    pub bus: Option<Bus>,
    /// How rankings are made.
    pub options: Options,
}

/// Why nothing is known.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Files are wrong, or cannot be watched.
    #[error(transparent)]
    Files(#[from] WatchError),
    /// The store cannot be used.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
}

/// What is known, and who finds out more. Clones are the same; with the last one its sources end. Make it within a runtime of tokio with time and I/O.
#[derive(Clone)]
pub struct Knowledge {
    inner: Arc<Inner>,
}

struct Inner {
    base: Arc<Base>,
    /// The bus has it as long as it is held here.
    documents: Arc<dyn Documents>,
    races: mpsc::Sender<races::Outcome>,
    sessions: Arc<Followed>,
    store: Option<Store>,
    racer: Mutex<Remembered>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// What races are to remember, and the racer that does.
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
    /// Reads files and store, looks at interfaces, and begins to follow them all. Where the kernel does
    /// not report interfaces, [`Trouble::Network`] is published and all else works.
    ///
    /// # Errors
    /// Files are wrong, or the store is in use or no store of Hawser. A store that is damaged or of another
    /// version is no error: it is put aside, and the first of [`Knowledge::events`] reports it
    /// ([`Trouble::Store`]).
    pub async fn open(settings: Settings) -> Result<Knowledge, OpenError> {
        let manager = Arc::new(Mutex::new(Manager::new(settings.options)));
        let watch = Watch::open(settings.folders, Arc::clone(&manager))?;
        let (store, loaded) = match settings.store {
            Some(path) => {
                let opened = tokio::task::spawn_blocking(move || Store::open(&path, now())).await;
                let (store, loaded) = opened.map_err(|error| StoreError::Database {
                    file: PathBuf::new(),
                    why: error.to_string(),
                })??;
                (Some(store), loaded)
            }
            None => (None, Loaded::default()),
        };
        let base = Base::new(manager, store.as_ref().map(Store::queue));
        let links = Arc::new(Links::default());
        let network = Network::open().await;
        let name = network
            .as_ref()
            .map_or_else(|_| surroundings::UNKNOWN.into(), surroundings::name);
        base.set_network(Arc::clone(&name));
        let mut source = interfaces::Source::new(Arc::clone(&base), Arc::clone(&links));
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
            Err(error) => base.publish(Event::Trouble(Trouble::Network(error.to_string()))),
        }
        if let Some(warning) = loaded.warning {
            base.publish(Event::Trouble(Trouble::Store(warning)));
        }
        if let Some(queue) = knowledge.queue() {
            let base = Arc::clone(&base);
            knowledge.run(async move {
                loop {
                    base.publish(Event::Trouble(Trouble::Store(queue.trouble().await)));
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
    /// Policies make more of it than there may be.
    pub fn rank(&self, request: &Request) -> Result<Arc<Ranking>, Limit> {
        self.inner.base.manager().select(request, now())
    }

    /// What ranks, for [`Policies`](hawser_connect::Policies).
    pub fn manager(&self) -> Arc<Mutex<Manager>> {
        Arc::clone(&self.inner.base.manager)
    }

    /// Reads a request with the names that policies and nodes have. It stays good when they change.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read_request(&self, text: &str, format: Format) -> document::Result<Request> {
        document::request(text, format, self.inner.base.manager().names_mut())
    }

    /// The names that keys stand for.
    pub fn names(&self) -> Names {
        self.inner.base.manager().names().clone()
    }

    /// Who learns from races, for [`select::Request::watcher`](hawser_connect::Request). It never
    /// blocks: what comes too fast is not learnt.
    pub fn watcher(&self) -> Watcher {
        races::watcher(self.inner.races.clone(), None)
    }

    /// The same for races to a destination: what is learnt counts for its name, too, before anybody
    /// has looked it up.
    pub fn watcher_to(&self, destination: &Destination) -> Watcher {
        races::watcher(self.inner.races.clone(), Some(destination))
    }

    /// Learns from what this session's paths measure, until it ends. It is not kept alive by that.
    pub fn follow(&self, session: &Session) {
        self.inner.sessions.add(session);
    }

    /// Has a racer remember what races of earlier processes showed, and keeps what it learns. The last
    /// racer that was given counts.
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

    /// Everything that is known now.
    pub fn list(&self) -> Vec<Known> {
        self.inner.base.list(now())
    }

    /// Makes nodes known as a controller does: a document of the CIB in JSON. What it doubts comes back.
    ///
    /// # Errors
    /// Everything that is wrong with it; nothing is changed then.
    pub fn put(&self, document: &str) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        self.inner.base.put(document, now()).map(|put| put.warnings)
    }

    /// Takes a node away, and says where it came from. A source that goes on to find it puts it there
    /// again.
    ///
    /// # Errors
    /// There is no such node, or a file contains it.
    pub fn delete(&self, uid: &str) -> Result<Origin, Diagnostic> {
        self.inner.base.delete(uid, now())
    }

    /// What becomes of what is known, from now on; for the first who asks from the beginning, so that
    /// whoever runs it learns what was wrong with the store.
    pub fn events(&self) -> Events {
        Events(self.inner.base.subscribe_first())
    }

    /// Waits until all that was learnt so far is in the store. False when it cannot be written. True
    /// where there is no store.
    pub async fn flush(&self) -> bool {
        let Some(queue) = self.queue() else { return true };
        let racer = self.remembered().racer.clone();
        if let Some(racer) = racer {
            keep(&queue, &racer.snapshot());
        }
        queue.flush().await
    }

    fn queue(&self) -> Option<Queue> {
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

fn keep(queue: &Queue, snapshot: &Snapshot) {
    // A snapshot is of texts and numbers: it can be written.
    if let Ok(text) = serde_json::to_string(snapshot) {
        queue.keep_outcomes(RACES, text);
    }
}

/// Follows the files.
async fn files(mut watch: Watch, base: Arc<Base>) {
    loop {
        match watch.next().await {
            Ok(policy::Event::Loaded { policies, nodes, warnings }) => {
                base.reapply(now());
                base.publish(Event::Loaded { policies, nodes, warnings });
            }
            Ok(policy::Event::Refused(errors)) => base.publish(Event::Refused(errors)),
            Err(error) => return base.publish(Event::Trouble(Trouble::Files(error.to_string()))),
        }
    }
}

/// Forgets what ends, when it ends.
async fn expire(base: Arc<Base>) {
    /// The clock may be set: it is looked at now and then.
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
pub struct Events(broadcast::Receiver<Event>);

impl Events {
    /// The next one; none when the knowledge is gone. Who is more than a thousand events late misses
    /// the oldest. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
