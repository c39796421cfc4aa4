//! What applications hold.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use hawser_carrier::{Carrier, Description};
use hawser_session::{
    CarrierId, Counters, Loss, Notice, PathCounts, PathReport, PathStatus, SessionId, StreamError,
};

use super::ledger::Ledger;
use super::plain::PlainStream;
use super::stream::SessionStream;

/// Events that are kept for an application that does not ask for them; older ones are dropped.
const EVENTS: usize = 1_024;

/// Lost carriers that are remembered for [`Session::paths`]; the oldest are forgotten.
const LOST: usize = 64;

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
    /// The session's clock begins here.
    pub(super) epoch: Instant,
}

pub(super) struct Inner {
    pub(super) session: hawser_session::Session,
    pub(super) infos: HashMap<CarrierId, PathInfo>,
    pub(super) driver: Option<Waker>,
    pub(super) readers: HashMap<u32, Waker>,
    pub(super) writers: HashMap<u32, Waker>,
    /// Streams of the peer's that nobody has accepted, and who waits for one.
    new_streams: VecDeque<u32>,
    /// Streams with a handle.
    pub(super) held: HashSet<u32>,
    waiting: Vec<Waker>,
    events: VecDeque<Notice>,
    pub(super) closed: Option<(u64, bool)>,
    opened: bool,
    /// Why carriers were lost before the session was accepted: what its error says.
    failures: Vec<String>,
    /// What may be behind them, as far as whoever began the session knows.
    pub(super) hint: Option<String>,
    /// Whether servers are offered a choice of protocols (ALPN).
    pub(super) offers: bool,
    /// What becomes of a carrier whose peer speaks something else.
    pub(super) fallback: Fallback,
    /// What metered paths have used is counted here.
    pub(super) ledger: Option<Arc<Mutex<Ledger>>>,
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
    pub(super) fn new(session: hawser_session::Session, epoch: Instant) -> Arc<Self> {
        let inner = Inner {
            session,
            infos: HashMap::new(),
            driver: None,
            readers: HashMap::new(),
            writers: HashMap::new(),
            new_streams: VecDeque::new(),
            held: HashSet::new(),
            waiting: Vec::new(),
            events: VecDeque::new(),
            closed: None,
            opened: false,
            failures: Vec::new(),
            hint: None,
            offers: false,
            fallback: Fallback::Refused,
            ledger: None,
        };
        Arc::new(Self { inner: Mutex::new(inner), epoch })
    }

    /// The session. A handle that panicked while it held it leaves it consistent: the machine's
    /// calls do not unwind half-way.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
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
            Notice::Opened(_) => self.opened = true,
            Notice::PathLost { carrier, reason, counts } => self.remember(*carrier, reason, *counts),
            Notice::Closed { code, by_peer } => {
                self.closed = Some((*code, *by_peer));
                self.book();
                self.readers.drain().chain(self.writers.drain()).for_each(|(_, waker)| waker.wake());
            }
            _ => {}
        }
        self.events.push_back(notice);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
        self.wake_all();
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
        let lost = self.infos.iter().filter(|(_, info)| info.lost.is_some()).map(|(id, _)| *id);
        let lost: Vec<CarrierId> = lost.collect();
        if lost.len() > LOST {
            lost.iter().min().map(|oldest| self.infos.remove(oldest));
        }
    }

    pub(super) fn wake_all(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Counts what metered paths have used.
    fn book(&self) {
        if let Some(ledger) = &self.ledger {
            // At the end there is nobody left to tell.
            let _ = super::ledger::book(ledger, &self.session.quotas());
        }
    }

    /// What the first carrier decided: a peer that does not speak Hawser is taken away.
    fn decided(&mut self) -> Option<Option<PlainStream>> {
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
        self.book();
    }
}

/// A session. Clones are handles of the same one; it is closed by [`Session::close`], or dropped
/// with the last handle.
#[derive(Clone)]
pub struct Session {
    pub(super) shared: Arc<Shared>,
}

impl Session {
    /// Waits until the server has accepted the session.
    ///
    /// # Errors
    /// The session ended before.
    pub async fn opened(&self) -> io::Result<SessionId> {
        self.wait(|inner| inner.opened.then(|| inner.session.id())).await
    }

    /// Waits for what the first carrier decides: nothing, that the peer speaks Hawser; a stream, that
    /// it does not.
    pub(super) async fn decided(&self) -> io::Result<Option<PlainStream>> {
        self.wait(Inner::decided).await
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The session has ended, or the peer allows no more streams at once.
    pub fn open(&self) -> io::Result<SessionStream> {
        let mut inner = self.shared.lock();
        let id = inner.session.open().map_err(into_io)?;
        inner.held.insert(id);
        Ok(SessionStream::new(self.shared.clone(), id))
    }

    /// The next stream that the peer opens.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn accept(&self) -> io::Result<SessionStream> {
        let id = self.wait(|inner| inner.new_streams.pop_front()).await?;
        self.shared.lock().held.insert(id);
        Ok(SessionStream::new(self.shared.clone(), id))
    }

    /// The next thing that happened to the session or its carriers. None after its end was told.
    pub async fn next_event(&self) -> Option<Notice> {
        self.wait(|inner| inner.events.pop_front()).await.ok()
    }

    /// Every carrier that the session had, and how those that it has do.
    pub fn paths(&self) -> Vec<(CarrierId, PathInfo)> {
        let inner = self.shared.lock();
        let mut reports: HashMap<CarrierId, PathReport> =
            inner.session.paths().map(|report| (report.carrier, report)).collect();
        let with_report = |(&id, info): (&CarrierId, &PathInfo)| {
            let report = reports.remove(&id);
            let counts = report.map_or(info.counts, |report| report.counts);
            (id, PathInfo { report, counts, ..info.clone() })
        };
        let mut paths: Vec<_> = inner.infos.iter().map(with_report).collect();
        paths.sort_by_key(|(id, _)| *id);
        paths
    }

    /// Whether the session has ended. What came before can still be read.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed.is_some()
    }

    /// Bytes left of each metered path's quota, by path.
    pub fn quotas(&self) -> std::collections::BTreeMap<u32, u64> {
        self.shared.lock().session.quotas()
    }

    /// Counts of the session.
    pub fn counters(&self) -> Counters {
        *self.shared.lock().session.counters()
    }

    /// What this side wants of a carrier.
    pub fn set_status(&self, carrier: CarrierId, status: PathStatus) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.set_status(carrier, status, now);
        inner.kick();
    }

    /// The network changed: paths that rest are tried at once.
    pub fn network_changed(&self) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.network_changed(now);
        inner.kick();
    }

    /// The link below a carrier went down, or came up.
    pub fn link(&self, carrier: CarrierId, is_up: bool) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.link(carrier, is_up, now);
        inner.kick();
    }

    /// Ends the session when everything written has been delivered, and waits for that. With a code
    /// other than 0 at once.
    ///
    /// # Errors
    /// The session ended otherwise.
    pub async fn close(&self, code: u64) -> io::Result<()> {
        {
            let now = self.shared.now();
            let mut inner = self.shared.lock();
            inner.session.close(code, now);
            inner.kick();
        }
        let ended = std::future::poll_fn(|cx| {
            let mut inner = self.shared.lock();
            match inner.closed {
                Some((code, _)) => Poll::Ready(code),
                None => {
                    inner.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        if ended == code { Ok(()) } else { Err(self.shared.lock().ended(ended)) }
    }

    /// Waits until `ask` has an answer.
    async fn wait<T>(&self, mut ask: impl FnMut(&mut Inner) -> Option<T>) -> io::Result<T> {
        std::future::poll_fn(|cx| {
            let mut inner = self.shared.lock();
            if let Some(answer) = ask(&mut inner) {
                return Poll::Ready(Ok(answer));
            }
            if let Some((code, _)) = inner.closed {
                return Poll::Ready(Err(inner.ended(code)));
            }
            inner.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Inner {
    /// The error of a session that has ended.
    pub(super) fn ended(&self, code: u64) -> io::Error {
        match (self.opened, self.failures.is_empty()) {
            (false, false) => {
                let reasons = self.failures.join("; ");
                let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
                io::Error::new(io::ErrorKind::ConnectionRefused, format!("no way led there: {reasons}{hint}"))
            }
            _ => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                format!("the session ended with code {code}"),
            ),
        }
    }

    /// After a read: credit may have become worth saying.
    pub(super) fn kick_if_wanted(&mut self) {
        if self.session.has_instructions() {
            self.kick();
        }
    }
}

pub(super) fn into_io(error: StreamError) -> io::Error {
    let kind = match error {
        StreamError::Unknown(_) | StreamError::Finished(_) => io::ErrorKind::BrokenPipe,
        StreamError::Limit(_) => io::ErrorKind::QuotaExceeded,
        StreamError::Closed => io::ErrorKind::NotConnected,
    };
    io::Error::new(kind, error)
}
