//! What the task that drives a session shares with the application's handles.
//!
//! Handles are counted: with the last one the session ends as by [`close(0)`](super::Session::close),
//! and the task gives up what the peer does not take. Whoever serves the session from beside it (the
//! path manager, the accounts of quotas, a server's acceptor) holds no handle, and waits for an [`End`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use hawser_carrier::{Carrier, Description};
use hawser_session::{Candidate, CarrierId, Loss, Notice, PathCounts, PathReport, SessionEnd, StreamError};
use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use super::client::PathCandidate;
use super::code::CodeError;
use super::error::{CandidateError, SessionError};
use super::log;
use super::plain::PlainStream;
use super::unaccepted::Share;
use super::waiters::Waiters;

/// Events that are kept for an application that does not ask for them; older ones are dropped.
const EVENTS: usize = 1_024;

/// Lost carriers that are remembered for [`Session::paths`](super::Session::paths); the oldest are forgotten.
const LOST: usize = 64;

/// The likely causes of a certificate that is not trusted.
const UNPINNED: &str = "without the pin or the file of the server's certificate, only certificates of public \
                        authorities are trusted";

/// Reasons that the error of a session which was never accepted gives.
const FAILURES: usize = 4;

/// A carrier with what its transport is.
#[derive(Clone, Debug)]
pub struct PathInfo {
    /// What it is.
    pub description: Description,
    /// How it does; none once it is gone.
    pub report: Option<PathReport>,
    /// What has gone over it.
    pub counts: PathCounts,
    /// Why it is gone.
    pub lost: Option<Loss>,
}

impl PathInfo {
    pub(super) fn new(description: Description) -> Self {
        Self { description, report: None, counts: PathCounts::default(), lost: None }
    }
}

/// What the task and the handles share.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Handles of the session and of its streams.
    handles: AtomicUsize,
    /// The session's clock begins here.
    pub(super) epoch: std::time::Instant,
}

pub(super) struct Inner {
    pub(super) session: hawser_session::Session,
    pub(super) infos: HashMap<CarrierId, PathInfo>,
    /// The path candidates to the server, by the numbers of the session's candidates (client).
    pub(super) candidates: Vec<PathCandidate>,
    pub(super) driver: Option<Waker>,
    pub(super) readers: HashMap<u32, Waker>,
    pub(super) writers: HashMap<u32, Waker>,
    /// Streams of the peer's that nobody has accepted, and who waits for one.
    pub(super) new_streams: VecDeque<u32>,
    /// Streams with a handle.
    pub(super) held: HashSet<u32>,
    pub(super) waiting: Waiters,
    pub(super) events: VecDeque<Notice>,
    pub(super) closed: Option<SessionEnd>,
    /// Its carriers have ended, too: nothing drives it any more.
    pub(super) is_over: bool,
    /// The last handle is gone.
    pub(super) is_abandoned: bool,
    pub(super) opened: bool,
    /// Why carriers were lost before the session was accepted: the content of its error.
    failures: Vec<String>,
    /// What may be behind them, as far as whoever began the session knows.
    pub(super) hint: Option<String>,
    /// Whether certificates count that public authorities have signed, and no others.
    pub(super) trusts_authorities: bool,
    /// Whether no path leads to the server, now or yet.
    pub(super) is_stalled: watch::Sender<bool>,
    /// Whether servers are offered a choice of protocols (ALPN).
    pub(super) offers: bool,
    /// What becomes of a carrier whose peer speaks something else.
    pub(super) fallback: Fallback,
    /// Dropped at the session's end, with what is left of its quotas then.
    life: Option<watch::Sender<Quotas>>,
    /// A carrier came up that keeps to small packets.
    pub(super) kept_small: Arc<Notify>,
    /// Its sender goes when the accounts of metered paths are settled.
    pub(super) settled: Option<watch::Receiver<()>>,
    /// What it holds of the budget of sessions that were not accepted, while it is one (server).
    pub(super) unaccepted: Option<Share>,
}

/// Bytes left of metered paths' quotas, by path.
pub(super) type Quotas = BTreeMap<u32, u64>;

/// Waits for the end of a session without keeping it.
pub(super) struct End(watch::Receiver<Quotas>);

impl End {
    /// Pending until the session has ended.
    pub(super) async fn come(&mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// What is left of the quotas, once it has come.
    pub(super) fn quotas(&self) -> Quotas {
        self.0.borrow().clone()
    }
}

/// A counted handle.
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

/// What becomes of a carrier on which the peer chose another protocol than Hawser.
pub(super) enum Fallback {
    /// It is lost: nothing less than a session was asked for, or the peer speaks Hawser.
    Refused,
    /// The first carrier decides: neither a session nor anything else was seen yet.
    Open,
    /// The peer chose something else on the first carrier, which is this.
    Plain(Box<dyn Carrier>),
    /// It was taken away.
    Taken,
}

impl Shared {
    pub(super) fn new(session: hawser_session::Session, epoch: std::time::Instant) -> Arc<Self> {
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

    /// The session. A handle that panics while it holds it leaves it consistent: the machine's calls
    /// do not unwind midway.
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

    /// The network changed: paths that rest are tried at once.
    pub(super) fn network_changed(&self) {
        let now = self.now();
        let mut inner = self.lock();
        inner.session.network_changed(now);
        inner.kick();
    }

    /// There are more candidates.
    pub(super) fn add_candidates(&self, candidates: Vec<(PathCandidate, Candidate)>) {
        let now = self.now();
        let mut inner = self.lock();
        for (path_candidate, candidate) in candidates {
            inner.candidates.push(path_candidate);
            inner.session.add_candidate(candidate, now);
        }
        inner.kick();
    }

    /// Whether more candidates may be found.
    pub(super) fn await_candidates(&self, awaits: bool) {
        let now = self.now();
        let mut inner = self.lock();
        inner.session.await_candidates(awaits, now);
        inner.kick();
    }

    /// A path may use so many bytes more. False if the session has ended, and it may not.
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

    /// The link below a carrier went down, or came up.
    pub(super) fn link(&self, carrier: CarrierId, is_up: bool) {
        let now = self.now();
        let mut inner = self.lock();
        inner.session.link(carrier, is_up, now);
        inner.kick();
    }
}

impl Inner {
    /// The task has something to do.
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

    /// Notes why a candidate led nowhere, as far as the error says what its user can do.
    pub(super) fn take_failure(&mut self, error: &CandidateError) {
        if self.trusts_authorities && error.fault.is_distrust() {
            self.hint.get_or_insert_with(|| UNPINNED.to_owned());
        }
    }

    /// Keeps what a lost carrier has done, and forgets the oldest of those beyond [`LOST`].
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

    /// How to wait for the session's end.
    pub(super) fn end(&self) -> End {
        End(self.life.as_ref().map_or_else(
            || watch::Sender::new(self.session.quotas()).subscribe(),
            watch::Sender::subscribe,
        ))
    }

    /// The session has ended: whoever serves it from beside it is notified.
    pub(super) fn end_life(&mut self) {
        if let Some(life) = self.life.take() {
            life.send_replace(self.session.quotas());
        }
    }

    /// Every carrier that the session had, and how those that it has do.
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

    /// What the first carrier decided: a peer that does not speak Hawser is taken away.
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
    /// The error of a session that has ended.
    pub(super) fn ended(&self, end: SessionEnd) -> SessionError {
        if !self.opened && !self.failures.is_empty() {
            return SessionError::Unreachable { reasons: self.failures.clone(), hint: self.hint.clone() };
        }
        CodeError::of_end(end).map_or(SessionError::Ended(end), SessionError::Code)
    }

    /// The error of a stream that cannot be used: the end of its session, if that has ended.
    pub(super) fn fault(&self, error: StreamError) -> SessionError {
        match (error, self.closed) {
            (StreamError::Closed, Some(end)) => self.ended(end),
            (error, _) => error.into(),
        }
    }

    /// Ends a session that has not been accepted and holds too much.
    pub(super) fn enforce_budget(&mut self, now: Instant) {
        let bytes = self.session.memory();
        if self.unaccepted.as_mut().is_some_and(|share| share.exceeds(bytes)) {
            self.session.reject(now);
        }
    }

    /// After a read: credit may have become worth sending.
    pub(super) fn kick_if_wanted(&mut self) {
        if self.session.has_instructions() {
            self.kick();
        }
    }
}
