//! The state that the task that drives a session shares with the application's handles.
//!
//! Handles are counted. With the last one, the session ends as by [`close(0)`](super::Session::close), and
//! the task drops data that the peer does not take. Other tasks that serve the session (the path manager, the
//! accounts of quotas, a server's acceptor) hold no handle, and wait for an [`EndWatcher`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use hawser_carriers::{Carrier, Description};
use hawser_session_machine::{
    Candidate, CarrierId, Loss, Notice, PathCounts, PathReport, SessionEnd, StreamError,
};
use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use super::client::PathCandidate;
use super::code_error::CodeError;
use super::error::{CandidateError, SessionError};
use super::log;
use super::plain::PlainStream;
use super::unaccepted::Share;
use super::waiters::Waiters;

/// The number of events that are kept for an application that does not ask for them. Older ones are dropped.
const EVENTS: usize = 1_024;

/// The number of lost carriers that [`Session::paths`](super::Session::paths) still lists. The oldest are
/// forgotten.
const LOST: usize = 64;

/// A hint for the user whose client does not trust the server's certificate.
const UNPINNED: &str = "without the pin or the file of the server's certificate, only public authorities \
                        are trusted";

/// The maximum number of reasons in the error of a session that was never accepted.
const FAILURES: usize = 4;

/// A carrier with its transport and counts.
#[derive(Clone, Debug)]
pub struct PathInfo {
    /// The carrier's transport and addresses.
    pub description: Description,
    /// The carrier's state. `None` once it is gone.
    pub report: Option<PathReport>,
    /// The counts of its bytes.
    pub counts: PathCounts,
    /// The reason why it was lost, if it was.
    pub lost: Option<Loss>,
}

impl PathInfo {
    pub(super) fn new(description: Description) -> Self {
        Self { description, report: None, counts: PathCounts::default(), lost: None }
    }
}

/// The state shared by the task and the handles.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// The number of handles of the session and of its streams.
    handles: AtomicUsize,
    /// The beginning of the session's clock.
    pub(super) epoch: std::time::Instant,
}

pub(super) struct Inner {
    pub(super) session: hawser_session_machine::Session,
    pub(super) infos: HashMap<CarrierId, PathInfo>,
    /// The path candidates to the server, by the indices of the session's candidates (client).
    pub(super) candidates: Vec<PathCandidate>,
    pub(super) driver: Option<Waker>,
    pub(super) readers: HashMap<u32, Waker>,
    pub(super) writers: HashMap<u32, Waker>,
    /// Streams of the peer that the application has not accepted.
    pub(super) new_streams: VecDeque<u32>,
    /// Streams with a handle.
    pub(super) held: HashSet<u32>,
    pub(super) waiting: Waiters,
    pub(super) events: VecDeque<Notice>,
    pub(super) closed: Option<SessionEnd>,
    /// True once its carriers have ended, too, and no task drives it any more.
    pub(super) is_over: bool,
    /// True once the last handle is gone.
    pub(super) is_abandoned: bool,
    pub(super) opened: bool,
    /// The reasons why carriers were lost before the session was accepted, for its error.
    failures: Vec<String>,
    /// A possible explanation of the failures, if the session's creator knows one.
    pub(super) hint: Option<String>,
    /// True if only certificates signed by public authorities are trusted.
    pub(super) trusts_authorities: bool,
    /// True while no path leads to the server.
    pub(super) is_stalled: watch::Sender<bool>,
    /// True if servers are offered a choice of protocols (ALPN).
    pub(super) offers: bool,
    /// The treatment of a carrier whose peer speaks another protocol.
    pub(super) fallback: Fallback,
    /// Dropped at the session's end, after the final quotas were sent through it.
    life: Option<watch::Sender<Quotas>>,
    /// Signals that a carrier came up that uses small packets.
    pub(super) kept_small: Arc<Notify>,
    /// Its sender is dropped when the accounts of metered paths are settled.
    pub(super) settled: Option<watch::Receiver<()>>,
    /// Its share of the budget for unaccepted sessions, while it is one (server).
    pub(super) unaccepted: Option<Share>,
}

/// The bytes left of metered paths' quotas, by path.
pub(super) type Quotas = BTreeMap<u32, u64>;

/// Waits for the end of a session without keeping it alive.
pub(super) struct EndWatcher(watch::Receiver<Quotas>);

impl EndWatcher {
    /// Waits until the session has ended.
    pub(super) async fn come(&mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// Returns the remaining quotas; final once the session has ended.
    pub(super) fn quotas(&self) -> Quotas {
        self.0.borrow().clone()
    }
}

/// A counted handle of the shared state.
pub(super) struct Handle(Arc<Shared>);

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Deref for Handle {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let now = self.0.now();
        let mut inner = self.0.lock();
        inner.is_abandoned = true;
        inner.session.close(0, now);
        inner.kick();
    }
}

/// The treatment of a carrier on which the peer chose another protocol than Hawser.
pub(super) enum Fallback {
    /// The carrier is lost, because only a session is acceptable, or the peer is known to speak Hawser.
    Refused,
    /// The first carrier decides, and none has come up yet.
    Open,
    /// The peer chose another protocol on the first carrier, held here.
    Plain(Box<dyn Carrier>),
    /// The first carrier was handed to the application.
    Taken,
}

impl Shared {
    pub(super) fn new(session: hawser_session_machine::Session, epoch: std::time::Instant) -> Arc<Self> {
        let inner = Inner {
            session,
            infos: HashMap::new(),
            candidates: Vec::new(),
            driver: None,
            readers: HashMap::new(),
            writers: HashMap::new(),
            new_streams: VecDeque::new(),
            held: HashSet::new(),
            waiting: Waiters::default(),
            events: VecDeque::new(),
            closed: None,
            is_over: false,
            is_abandoned: false,
            opened: false,
            failures: Vec::new(),
            hint: None,
            trusts_authorities: false,
            is_stalled: watch::Sender::new(true),
            offers: false,
            fallback: Fallback::Refused,
            life: Some(watch::Sender::new(Quotas::new())),
            kept_small: Arc::default(),
            settled: None,
            unaccepted: None,
        };
        Arc::new(Self { inner: Mutex::new(inner), handles: AtomicUsize::new(0), epoch })
    }

    /// Locks the session's state. A handle that panics while it holds the lock leaves the state consistent,
    /// because the machine's calls do not unwind midway.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub(super) fn now(&self) -> Instant {
        Instant::after(self.epoch.elapsed())
    }

    /// Wakes the task that drives it.
    pub(super) fn wake_driver(&self) {
        self.lock().kick();
    }

    /// Reports a change of the network. Resting paths are tried at once.
    pub(super) fn network_changed(&self) {
        let now = self.now();
        let mut inner = self.lock();
        inner.session.network_changed(now);
        inner.kick();
    }

    /// Adds candidates.
    pub(super) fn add_candidates(&self, candidates: Vec<(PathCandidate, Candidate)>) {
        let now = self.now();
        let mut inner = self.lock();
        for (path_candidate, candidate) in candidates {
            inner.candidates.push(path_candidate);
            inner.session.add_candidate(candidate, now);
        }
        inner.kick();
    }

    /// Sets whether more candidates may be found.
    pub(super) fn await_candidates(&self, awaits: bool) {
        let now = self.now();
        let mut inner = self.lock();
        inner.session.await_candidates(awaits, now);
        inner.kick();
    }

    /// Lets a path use `more` bytes. Returns false, without effect, if the session has ended.
    pub(super) fn grant(&self, path: u32, more: u64) -> bool {
        let now = self.now();
        let mut inner = self.lock();
        if inner.session.is_closed() {
            return false;
        }
        let left = inner.session.quotas().get(&path).copied().unwrap_or_default();
        inner.session.set_quota(path, left.saturating_add(more), now);
        inner.kick();
        true
    }

    /// Reports that the link below a carrier went down or came up.
    pub(super) fn link(&self, carrier: CarrierId, is_up: bool) {
        let now = self.now();
        let mut inner = self.lock();
        inner.session.link(carrier, is_up, now);
        inner.kick();
    }
}

impl Inner {
    /// Wakes the task that drives the session.
    pub(super) fn kick(&mut self) {
        if let Some(waker) = &self.driver {
            waker.wake_by_ref();
        }
    }

    pub(super) fn take_notice(&mut self, notice: Notice) {
        log::notice(self.session.id(), &notice);
        match &notice {
            Notice::Readable(stream) => {
                if let Some(waker) = self.readers.remove(stream) {
                    waker.wake();
                }
                return;
            }
            Notice::Writable(stream) => {
                if let Some(waker) = self.writers.remove(stream) {
                    waker.wake();
                }
                return;
            }
            Notice::StreamOpened(stream) => {
                self.new_streams.push_back(*stream);
                self.wake_all();
                return;
            }
            Notice::Opened(_) => {
                self.opened = true;
                self.is_stalled.send_replace(false);
            }
            Notice::Stalled | Notice::Resumed => {
                self.is_stalled.send_replace(notice == Notice::Stalled);
            }
            Notice::PathLost { carrier, reason, counts } => self.remember(*carrier, reason, *counts),
            Notice::Closed(end) => {
                self.closed = Some(*end);
                self.end_life();
                self.readers
                    .drain()
                    .chain(self.writers.drain())
                    .for_each(|(_, waker)| waker.wake());
            }
            _ => {}
        }
        self.events.push_back(notice);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
        self.wake_all();
    }

    /// Records a hint if a candidate's failure has a cause that the user can remove.
    pub(super) fn take_failure(&mut self, error: &CandidateError) {
        if self.trusts_authorities && error.fault.is_distrust() {
            self.hint.get_or_insert_with(|| UNPINNED.to_owned());
        }
    }

    /// Keeps the counts of a lost carrier, and forgets the oldest of those beyond [`LOST`].
    fn remember(&mut self, carrier: CarrierId, reason: &Loss, counts: PathCounts) {
        if let Some(info) = self.infos.get_mut(&carrier) {
            info.counts = counts;
            info.lost = Some(reason.clone());
        }
        let reason = reason.to_string();
        if !self.opened && self.failures.len() < FAILURES && !self.failures.contains(&reason) {
            self.failures.push(reason);
        }
        let lost = self
            .infos
            .iter()
            .filter(|(_, info)| info.lost.is_some())
            .map(|(id, _)| *id);
        let lost: Vec<CarrierId> = lost.collect();
        if lost.len() > LOST {
            lost.iter().min().map(|oldest| self.infos.remove(oldest));
        }
    }

    pub(super) fn wake_all(&mut self) {
        self.waiting.wake_all();
    }

    /// Returns a future end of the session to wait for.
    pub(super) fn end(&self) -> EndWatcher {
        EndWatcher(self.life.as_ref().map_or_else(
            || watch::Sender::new(self.session.quotas()).subscribe(),
            watch::Sender::subscribe,
        ))
    }

    /// Notifies the tasks that serve the session that it has ended.
    pub(super) fn end_life(&mut self) {
        if let Some(life) = self.life.take() {
            life.send_replace(self.session.quotas());
        }
    }

    /// Returns every carrier that the session has had, with the state of the current ones.
    pub(super) fn paths(&self) -> Vec<(CarrierId, PathInfo)> {
        let mut reports: HashMap<CarrierId, PathReport> = self
            .session
            .paths()
            .map(|report| (report.carrier, report))
            .collect();
        let with_report = |(&id, info): (&CarrierId, &PathInfo)| {
            let report = reports.remove(&id);
            let counts = report.map_or(info.counts, |report| report.counts);
            (id, PathInfo { report, counts, ..info.clone() })
        };
        let mut paths: Vec<_> = self.infos.iter().map(with_report).collect();
        paths.sort_by_key(|(id, _)| *id);
        paths
    }

    /// Returns the decision of the first carrier. If the peer does not speak Hawser, the carrier is taken
    /// out.
    pub(super) fn decided(&mut self) -> Option<Option<PlainStream>> {
        match std::mem::replace(&mut self.fallback, Fallback::Taken) {
            Fallback::Plain(carrier) => Some(Some(PlainStream::new(carrier))),
            before => {
                self.fallback = before;
                matches!(self.fallback, Fallback::Refused).then_some(None)
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_life();
    }
}

impl Inner {
    /// Returns the error of a session that has ended.
    pub(super) fn ended(&self, end: SessionEnd) -> SessionError {
        if !self.opened && !self.failures.is_empty() {
            return SessionError::Unreachable { reasons: self.failures.clone(), hint: self.hint.clone() };
        }
        CodeError::of_end(end).map_or(SessionError::Ended(end), SessionError::Code)
    }

    /// Returns the error of a stream that cannot be used. If its session has ended, that is the cause.
    pub(super) fn fault(&self, error: StreamError) -> SessionError {
        match (error, self.closed) {
            (StreamError::Closed, Some(end)) => self.ended(end),
            (error, _) => error.into(),
        }
    }

    /// Rejects a session that has not been accepted and holds too much memory.
    pub(super) fn enforce_budget(&mut self, now: Instant) {
        let bytes = self.session.memory();
        if self.unaccepted.as_mut().is_some_and(|share| share.exceeds(bytes)) {
            self.session.reject(now);
        }
    }

    /// Wakes the task after a read if credit has become worth sending.
    pub(super) fn kick_if_wanted(&mut self) {
        if self.session.has_instructions() {
            self.kick();
        }
    }
}
