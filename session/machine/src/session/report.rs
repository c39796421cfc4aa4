//! What a session reports of itself.

use hawser_carrier::Statistics;

use super::Session;
use crate::CarrierId;
use crate::path::{PathCounts, State, Suspicion};
use crate::segment::PathStatus;

/// Counts of a session. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of streams that came for the first time.
    pub delivered: u64,
    /// Bytes of streams that came and were here already.
    pub duplicate: u64,
    /// Bytes that the peer has acknowledged.
    pub acknowledged: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Bytes sent once more because another carrier would have them there sooner.
    pub reinjected: u64,
    /// Carriers lost.
    pub lost: u64,
    /// Carriers that a balancer led to a server which does not have the session.
    pub astray: u64,
    /// Carriers closed because their bytes were not the protocol's.
    pub malformed: u64,
    /// Segments, on carriers that had not joined, that only joined ones may bring; each ended its
    /// carrier.
    pub unproven: u64,
    /// Rules of the session that the peer broke; each ends it.
    pub violations: u64,
}

/// How a carrier does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It does not belong to the session yet.
    Joining,
    /// It lives.
    Live,
    /// Its transport receives no acknowledgements.
    Suspect,
    /// One side reports that its link is down.
    Failing,
}

/// One carrier, for applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// Which one.
    pub carrier: CarrierId,
    /// How it does.
    pub state: PathState,
    /// What both sides want of it.
    pub status: PathStatus,
    /// The statistics of its transport.
    pub statistics: Statistics,
    /// What went over it.
    pub counts: PathCounts,
    /// Bytes left of its quota.
    pub quota: Option<u64>,
}

/// What a session keeps, beside what its applications hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of streams that came, or that lie below the highest that came, and were not read.
    /// At most the credit of the session.
    pub unread: u64,
    /// Separate pieces of them that are out of order.
    pub pieces: usize,
    /// Bytes written that the peer has not acknowledged.
    pub unacknowledged: u64,
    /// Streams that are not over.
    pub streams: usize,
}

/// What a stream without anything in it, a piece out of order and a carrier's read buffer cost.
const STREAM: u64 = 1_024;
const PIECE: u64 = 128;
const CARRIER: u64 = 65_536;

impl Session {
    /// About how much memory the peer has made it use, in bytes.
    pub fn memory(&self) -> u64 {
        let Held { unread, pieces, streams, .. } = self.held();
        unread + PIECE * pieces as u64 + STREAM * streams as u64 + CARRIER * self.live().count() as u64
    }

    /// Whether the client has answered ACCEPT (server): it will not send HELLO again, and its acceptor is
    /// to be notified ([`Acceptor::confirmed`](crate::Acceptor::confirmed)).
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    #[cfg(test)]
    pub(crate) fn streams_visited(&self) -> u64 {
        self.streams.visited()
    }

    /// What it keeps.
    pub fn held(&self) -> Held {
        Held {
            unread: self.received - self.read,
            pieces: self.pieces,
            unacknowledged: self.kept,
            streams: self.streams.len(),
        }
    }

    /// The session's carriers.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> + '_ {
        self.live().map(|(_, path)| PathReport {
            carrier: path.id,
            state: match (path.state, path.suspicion) {
                (State::Live, None) => PathState::Live,
                (State::Live, Some(Suspicion::Unacknowledged(_))) => PathState::Suspect,
                (State::Live, Some(Suspicion::Failing)) => PathState::Failing,
                (State::Waiting | State::Greeting | State::Joining, _) => PathState::Joining,
            },
            status: path.status(),
            statistics: path.statistics,
            counts: path.counts,
            quota: path.quota,
        })
    }
}
