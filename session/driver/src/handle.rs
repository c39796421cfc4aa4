//! What applications hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use hawser_session::{CarrierId, Counters, Notice, PathState, PathStatus, SessionId};

use super::error::SessionError;
use super::plain::PlainStream;
use super::shared::{Handle, Inner, PathInfo, Shared};
use super::stream::SessionStream;
use super::waiters::Place;

/// How long an ended session waits for its last bytes to arrive, and for the accounts of its quotas.
const SETTLING: Duration = Duration::from_secs(3);

/// A session. Clones are handles of the same one, and cost as much as an [`Arc`](std::sync::Arc);
/// its streams are handles, too.
///
/// It is ended by [`Session::close`]. When the last handle is dropped, the session ends as by
/// `close(0)`: what was written is still delivered, for as long as the runtime lives and the peer
/// goes on to take it; after 30 s without an acknowledgement the rest is given up, and the carriers
/// are cut.
#[derive(Clone)]
pub struct Session {
    pub(super) shared: Handle,
}

/// Reads a session's paths without keeping the session: it counts as no handle.
#[derive(Clone)]
pub struct Observer(Weak<Shared>);

impl Observer {
    /// As [`Session::paths`]; none once the session has ended.
    pub fn paths(&self) -> Option<Vec<(CarrierId, PathInfo)>> {
        let shared = self.0.upgrade()?;
        let inner = shared.lock();
        inner.closed.is_none().then(|| inner.paths())
    }

    /// Whether no path of the session is live: its peer has gone, or is cut off.
    pub fn is_cut_off(&self) -> bool {
        let is_live = |path: &PathInfo| {
            path.report
                .is_some_and(|it| matches!(it.state, PathState::Live | PathState::Joining))
        };
        self.paths()
            .is_none_or(|paths| !paths.iter().any(|(_, path)| is_live(path)))
    }
}

impl Session {
    /// What reads its paths from outside.
    pub fn observer(&self) -> Observer {
        Observer(Arc::downgrade(&self.shared))
    }

    /// Waits until the server has accepted the session.
    ///
    /// # Errors
    /// The session ended before.
    pub async fn opened(&self) -> Result<SessionId, SessionError> {
        self.wait(|inner| inner.opened.then(|| inner.session.id())).await
    }

    /// Waits for what the first carrier decides: nothing, that the peer speaks Hawser; a stream, that
    /// it does not.
    pub(super) async fn decided(&self) -> Result<Option<PlainStream>, SessionError> {
        self.wait(Inner::decided).await
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The session has ended, or the peer allows no more streams at once.
    pub fn open(&self) -> Result<SessionStream, SessionError> {
        let mut inner = self.shared.lock();
        let id = inner.session.open().map_err(|error| inner.fault(error))?;
        inner.held.insert(id);
        Ok(SessionStream::new(self.shared.clone(), id))
    }

    /// The next stream that the peer opens.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn accept(&self) -> Result<SessionStream, SessionError> {
        let id = self.wait(|inner| inner.new_streams.pop_front()).await?;
        self.shared.lock().held.insert(id);
        Ok(SessionStream::new(self.shared.clone(), id))
    }

    /// The next thing that happened to the session or its carriers. None after its end was reported.
    pub async fn next_event(&self) -> Option<Notice> {
        self.wait(|inner| inner.events.pop_front()).await.ok()
    }

    /// Every carrier that the session had, and how those that it has do.
    pub fn paths(&self) -> Vec<(CarrierId, PathInfo)> {
        self.shared.lock().paths()
    }

    /// 32 bytes that the two ends of this session have in common, by label: what binds a protocol above it
    /// to it (as RFC 8446 7.5 does for a connection). Nobody else has them unless the session is insecure.
    /// None before the server has accepted.
    pub fn export(&self, label: &[u8]) -> Option<[u8; 32]> {
        self.shared.lock().session.export(label)
    }

    /// Whether the session has ended. What came before can still be read.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed.is_some()
    }

    /// Bytes left of what is set aside of each metered path's quota, by path. More is set aside when
    /// half is used, as far as the quota goes.
    pub fn quotas(&self) -> BTreeMap<u32, u64> {
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
        self.shared.network_changed();
    }

    /// The link below a carrier went down, or came up.
    pub fn link(&self, carrier: CarrierId, is_up: bool) {
        self.shared.link(carrier, is_up);
    }

    /// Ends the session when everything written has been delivered, and waits for that, and up to 3 s
    /// for its carriers to end in order: a process may exit after it. With a code other than 0 at once.
    ///
    /// # Errors
    /// The session ended otherwise.
    pub async fn close(&self, code: u64) -> Result<(), SessionError> {
        {
            let now = self.shared.now();
            let mut inner = self.shared.lock();
            inner.session.close(code, now);
            inner.kick();
        }
        let end = self.ask(|inner| inner.closed).await;
        if end.code() == 0 {
            // A process that exits before its last bytes are there leaves its peer without knowledge of the end.
            let _ = tokio::time::timeout(SETTLING, self.ask(|inner| inner.is_over.then_some(()))).await;
        }
        let settled = self.shared.lock().settled.clone();
        if let Some(mut settled) = settled {
            // Accounts that cannot be written now may be read wrongly later; the session is over.
            let _ = tokio::time::timeout(SETTLING, settled.changed()).await;
        }
        if end.code() == code {
            Ok(())
        } else {
            Err(self.shared.lock().ended(end))
        }
    }

    /// The application has accepted it: it outlives its carriers from now on.
    pub(super) fn mark_accepted(&self) {
        let mut inner = self.shared.lock();
        inner.unaccepted = None;
        inner.session.accept();
    }

    /// Whether it has ended otherwise than in order.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.lock().closed.is_some_and(|end| end.code() != 0)
    }

    /// Ends the session at once: the peer learns that a limit was reached (LIMIT).
    pub fn reject(&self) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.reject(now);
        inner.kick();
    }

    /// Waits until `ask` has an answer, or the session has ended.
    async fn wait<T>(&self, mut ask: impl FnMut(&mut Inner) -> Option<T>) -> Result<T, SessionError> {
        self.ask(|inner| match (ask(inner), inner.closed) {
            (Some(answer), _) => Some(Ok(answer)),
            (None, Some(end)) => Some(Err(inner.ended(end))),
            (None, None) => None,
        })
        .await
    }

    /// Waits until `ask` has an answer.
    async fn ask<T>(&self, mut ask: impl FnMut(&mut Inner) -> Option<T>) -> T {
        let mut place = Place::new(&self.shared);
        std::future::poll_fn(|cx| {
            let mut inner = self.shared.lock();
            match ask(&mut inner) {
                Some(answer) => Poll::Ready(answer),
                None => place.take(&mut inner, cx),
            }
        })
        .await
    }
}
