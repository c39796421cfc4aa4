//! The handles that applications hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use hawser_session_machine::{CarrierId, Counters, Notice, PathState, PathStatus, SessionId};

use super::error::SessionError;
use super::plain::PlainStream;
use super::shared::{Handle, Inner, PathInfo, Shared};
use super::stream::SessionStream;
use super::waiters::WaiterRegistration;

/// The time for which an ended session waits for its last bytes to arrive, and for its quotas to be
/// accounted.
const SETTLING: Duration = Duration::from_secs(3);

/// A session. Clones are handles of the same session and cost as much as those of an [`Arc`](std::sync::Arc).
/// Its streams are handles, too.
///
/// [`Session::close`] ends it. When the last handle is dropped, the session ends as by `close(0)`. Written
/// data is still delivered for as long as the runtime lives and the peer acknowledges it. After 30 s without
/// an acknowledgement, the rest is dropped and the carriers are aborted.
#[derive(Clone)]
pub struct Session {
    pub(super) shared: Handle,
}

/// Reads a session's paths without keeping the session alive; it does not count as a handle.
#[derive(Clone)]
pub struct Observer(Weak<Shared>);

impl Observer {
    /// Like [`Session::paths`]; `None` once the session has ended.
    pub fn paths(&self) -> Option<Vec<(CarrierId, PathInfo)>> {
        let shared = self.0.upgrade()?;
        let inner = shared.lock();
        inner.closed.is_none().then(|| inner.paths())
    }

    /// Returns true if no path of the session is live. The peer has then gone or is unreachable.
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
    /// Returns an observer of its paths.
    pub fn observer(&self) -> Observer {
        Observer(Arc::downgrade(&self.shared))
    }

    /// Waits until the server has accepted the session.
    ///
    /// # Errors
    /// The session ended first.
    pub async fn opened(&self) -> Result<SessionId, SessionError> {
        self.wait(|inner| inner.opened.then(|| inner.session.id())).await
    }

    /// Waits for the decision of the first carrier. Returns `None` if the peer speaks Hawser, and a stream if
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

    /// Waits for the next stream that the peer opens.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn accept(&self) -> Result<SessionStream, SessionError> {
        let id = self.wait(|inner| inner.new_streams.pop_front()).await?;
        self.shared.lock().held.insert(id);
        Ok(SessionStream::new(self.shared.clone(), id))
    }

    /// Waits for the next event of the session or its carriers. Returns `None` after its end was reported.
    pub async fn next_event(&self) -> Option<Notice> {
        self.wait(|inner| inner.events.pop_front()).await.ok()
    }

    /// Returns every carrier that the session has had, with the state of the current ones.
    pub fn paths(&self) -> Vec<(CarrierId, PathInfo)> {
        self.shared.lock().paths()
    }

    /// Returns 32 bytes, by label, that the two ends of this session share. A protocol above binds itself to
    /// the session with them (as RFC 8446, 7.5 defines for a connection). They are secret unless the session
    /// is insecure. `None` before the server has accepted.
    pub fn export(&self, label: &[u8]) -> Option<[u8; 32]> {
        self.shared.lock().session.export(label)
    }

    /// Returns true if the session has ended. Data that arrived before can still be read.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed.is_some()
    }

    /// Returns the bytes left of each metered path's slice, by path. When half of a slice is used, more is
    /// set aside, as far as the quota permits.
    pub fn quotas(&self) -> BTreeMap<u32, u64> {
        self.shared.lock().session.quotas()
    }

    /// Returns the session's counts.
    pub fn counters(&self) -> Counters {
        *self.shared.lock().session.counters()
    }

    /// Sets the status that this side wants of a carrier.
    pub fn set_status(&self, carrier: CarrierId, status: PathStatus) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.set_status(carrier, status, now);
        inner.kick();
    }

    /// Reports a change of the network. Resting paths are tried at once.
    pub fn network_changed(&self) {
        self.shared.network_changed();
    }

    /// Reports that the link below a carrier went down or came up.
    pub fn link(&self, carrier: CarrierId, is_up: bool) {
        self.shared.link(carrier, is_up);
    }

    /// Ends the session when all written data has been delivered, and waits for that. It then waits up to 3 s
    /// for the carriers to end in order, after which a process may exit. With a code other than 0, the
    /// session ends at once.
    ///
    /// # Errors
    /// The session ended in another way.
    pub async fn close(&self, code: u64) -> Result<(), SessionError> {
        {
            let now = self.shared.now();
            let mut inner = self.shared.lock();
            inner.session.close(code, now);
            inner.kick();
        }
        let end = self.ask(|inner| inner.closed).await;
        if end.code() == 0 {
            // If a process exits before its last bytes have arrived, its peer does not learn of the end.
            let _ = tokio::time::timeout(SETTLING, self.ask(|inner| inner.is_over.then_some(()))).await;
        }
        let settled = self.shared.lock().settled.clone();
        if let Some(mut settled) = settled {
            // Failure is ignored, because the session is over. Accounts that are not written now may be read
            // wrongly later.
            let _ = tokio::time::timeout(SETTLING, settled.changed()).await;
        }
        if end.code() == code {
            Ok(())
        } else {
            Err(self.shared.lock().ended(end))
        }
    }

    /// Records that the application has accepted it. It outlives its carriers from now on.
    pub(super) fn mark_accepted(&self) {
        let mut inner = self.shared.lock();
        inner.unaccepted = None;
        inner.session.accept();
    }

    /// Returns true if it has ended with an error.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.lock().closed.is_some_and(|end| end.code() != 0)
    }

    /// Ends the session at once. The peer learns that a limit was reached (LIMIT).
    pub fn reject(&self) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.reject(now);
        inner.kick();
    }

    /// Waits until `ask` returns an answer, or the session has ended.
    async fn wait<T>(&self, mut ask: impl FnMut(&mut Inner) -> Option<T>) -> Result<T, SessionError> {
        self.ask(|inner| match (ask(inner), inner.closed) {
            (Some(answer), _) => Some(Ok(answer)),
            (None, Some(end)) => Some(Err(inner.ended(end))),
            (None, None) => None,
        })
        .await
    }

    /// Waits until `ask` returns an answer.
    async fn ask<T>(&self, mut ask: impl FnMut(&mut Inner) -> Option<T>) -> T {
        let mut place = WaiterRegistration::new(&self.shared);
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
