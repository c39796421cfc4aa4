//! Connections that wait until the application accepts them. They are limited in number for each network, in
//! time, and by a shared budget of memory.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hawser_session_machine::AcceptorConfig;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use super::plain::Connection;
use crate::admission::{AdmissionGate, AdmissionPermit, Shares};

/// The waiting connections, oldest first.
pub(super) struct Unaccepted {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    gate: AdmissionGate,
    within: Duration,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// The connections with their numbers. The sender is dropped when the application accepts a connection,
    /// or none can be accepted any more.
    all: VecDeque<(u64, Connection, oneshot::Sender<()>)>,
    is_closed: bool,
}

impl Unaccepted {
    pub(super) fn new(config: &AcceptorConfig) -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            gate: AdmissionGate::new(Shares::new(config.unaccepted)),
            within: config.accept_within,
            budget: Arc::new(Budget::new(config.unaccepted_bytes)),
        }
    }

    /// Returns one session's share of the budget.
    pub(super) fn share(&self) -> Share {
        Share::new(&self.budget)
    }

    /// Adds a waiting connection. If its network has too many, the oldest one is closed.
    pub(super) fn push(self: &Arc<Self>, connection: Connection, peer: IpAddr) {
        let place = self.gate.enter(peer);
        let ended = match &connection {
            Connection::Session(session) => Some(session.shared.lock().end()),
            Connection::Plain(_) | Connection::Streams(_) => None,
        };
        let (sender, taken) = oneshot::channel();
        let number = {
            let mut waiting = self.waiting();
            if waiting.is_closed {
                drop(waiting);
                if let Connection::Session(session) = connection {
                    session.reject();
                }
                return;
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.all.push_back((number, connection, sender));
            number
        };
        self.arrived.notify_one();
        tokio::spawn(self.clone().watch(number, place, taken, ended));
    }

    /// Waits until a connection is accepted, and closes it otherwise.
    async fn watch(
        self: Arc<Self>,
        number: u64,
        mut place: AdmissionPermit,
        taken: oneshot::Receiver<()>,
        ended: Option<super::shared::EndWatcher>,
    ) {
        let failed = async {
            if let Some(mut end) = ended {
                end.come().await;
            }
            // A session that ended in order can still be read.
            if !self.has_failed(number) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = taken => {}
            () = failed => {}
            () = place.evicted() => {}
            () = tokio::time::sleep(self.within) => {}
        }
        let late = {
            let mut waiting = self.waiting();
            let index = waiting.all.iter().position(|(other, ..)| *other == number);
            index.and_then(|index| waiting.all.remove(index))
        };
        if let Some((_, Connection::Session(session), _)) = late {
            session.reject();
        }
    }

    fn has_failed(&self, number: u64) -> bool {
        let waiting = self.waiting();
        let found = waiting.all.iter().find(|(other, ..)| *other == number);
        matches!(found, Some((_, Connection::Session(session), _)) if session.has_failed())
    }

    /// Waits for the next connection that has not failed.
    pub(super) async fn next(&self) -> Connection {
        loop {
            let first = self.waiting().all.pop_front();
            match first {
                Some((_, Connection::Session(session), _)) if session.has_failed() => {}
                Some((_, connection, _)) => {
                    if let Connection::Session(session) = &connection {
                        session.mark_accepted();
                    }
                    return connection;
                }
                None => self.arrived.notified().await,
            }
        }
    }

    /// Returns the number of connections that had to make room for others.
    pub(super) fn evicted(&self) -> u64 {
        self.gate.evicted()
    }

    /// Rejects every waiting session, and later ones.
    pub(super) fn close(&self) {
        let all = {
            let mut waiting = self.waiting();
            waiting.is_closed = true;
            std::mem::take(&mut waiting.all)
        };
        for (_, connection, _) in all {
            if let Connection::Session(session) = connection {
                session.reject();
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

/// A number of bytes that several sessions may hold together.
#[derive(Debug)]
struct Budget {
    limit: u64,
    used: AtomicU64,
    holders: AtomicU64,
}

impl Budget {
    fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), holders: AtomicU64::new(0) }
    }
}

/// The bytes of the budget that one session holds. Dropping it returns them.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    held: u64,
}

impl Share {
    fn new(budget: &Arc<Budget>) -> Self {
        budget.holders.fetch_add(1, Relaxed);
        Self { budget: budget.clone(), held: 0 }
    }

    /// Updates the bytes that the session holds. Returns true if the budget is exceeded and the session holds
    /// more than an equal part of it. Sessions that hold little are thus safe from those that hold much.
    pub(super) fn exceeds(&mut self, bytes: u64) -> bool {
        self.budget.used.fetch_add(bytes, Relaxed);
        let used = self
            .budget
            .used
            .fetch_sub(self.held, Relaxed)
            .saturating_sub(self.held);
        self.held = bytes;
        let equal = self.budget.limit / self.budget.holders.load(Relaxed).max(1);
        used > self.budget.limit && bytes > equal
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.held, Relaxed);
        self.budget.holders.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::session;
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_largest_holder_of_an_exceeded_budget_is_found() {
        let budget = Arc::new(Budget::new(100));
        let mut shares: Vec<Share> = (0..4).map(|_| Share::new(&budget)).collect();
        assert!(!shares[0].exceeds(90), "within the budget");
        assert!(!shares[1].exceeds(25), "beyond it, but no more than a quarter");
        assert!(shares[0].exceeds(90));
        assert!(!shares[0].exceeds(10));
        drop(shares);
        assert_eq!((budget.used.load(Relaxed), budget.holders.load(Relaxed)), (0, 0));
    }

    #[tokio::test]
    async fn an_unaccepted_connection_is_closed_in_time() {
        let within = Duration::from_millis(50);
        let queue = Arc::new(Unaccepted::new(&AcceptorConfig {
            accept_within: within,
            ..Default::default()
        }));
        let (late, prompt) = (session(), session());
        queue.push(Connection::Session(late.clone()), PEER);
        tokio::time::sleep(3 * within).await;
        assert!(late.shared.lock().session.is_closed());
        queue.push(Connection::Session(prompt.clone()), PEER);
        assert!(!queue.next().await.is_plain());
        tokio::time::sleep(3 * within).await;
        assert!(
            !prompt.shared.lock().session.is_closed(),
            "the application has it"
        );
        assert_eq!(queue.gate.taken(), 0);
    }

    #[tokio::test]
    async fn the_oldest_connection_of_a_network_is_evicted() {
        let queue = Arc::new(Unaccepted::new(&AcceptorConfig {
            unaccepted: 8,
            ..Default::default()
        }));
        let sessions: Vec<_> = (0..5).map(|_| session()).collect();
        for session in &sessions {
            queue.push(Connection::Session(session.clone()), PEER);
        }
        let other = session();
        queue.push(Connection::Session(other.clone()), IpAddr::from([192, 0, 2, 1]));
        tokio::time::sleep(Duration::from_millis(20)).await;
        let rejected: Vec<bool> = sessions
            .iter()
            .map(|one| one.shared.lock().session.is_closed())
            .collect();
        assert_eq!(
            rejected,
            [true, true, true, false, false],
            "two of eight places for one network"
        );
        assert!(!other.shared.lock().session.is_closed());
        queue.close();
        assert_eq!(queue.waiting().all.len(), 0);
    }
}
