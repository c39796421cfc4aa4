//! Counts and reports of a session.

use hawser_carriers::Statistics;

use super::Session;
use crate::CarrierId;
use crate::path::{CarrierState, PathCounts, Suspicion};
use crate::segment::PathStatus;

/// The counts of a session, which never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stream bytes that arrived for the first time.
    pub delivered: u64,
    /// Stream bytes that arrived and had already been received.
    pub duplicate: u64,
    /// Bytes that the peer has acknowledged.
    pub acknowledged: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Bytes sent a second time because another carrier would deliver them sooner.
    pub reinjected: u64,
    /// Carriers that were lost.
    pub lost: u64,
    /// Carriers that a balancer led to a server without the session.
    pub astray: u64,
    /// Carriers closed because their bytes did not follow the protocol.
    pub malformed: u64,
    /// Segments that arrived on carriers before they had joined, although only joined carriers may send them.
    /// Each ended its carrier.
    pub unproven: u64,
    /// Violations of the session's rules by the peer. Each ends the session.
    pub violations: u64,
}

/// The state of a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The carrier does not belong to the session yet.
    Joining,
    /// The carrier works.
    Live,
    /// The carrier's transport receives no acknowledgements.
    Suspect,
    /// One side reports that its link is down.
    Failing,
}

/// A report on one carrier, for applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// The carrier.
    pub carrier: CarrierId,
    /// The carrier's state.
    pub state: PathState,
    /// The more restrictive of both sides' statuses.
    pub status: PathStatus,
    /// The statistics of its transport.
    pub statistics: Statistics,
    /// The counts of its bytes.
    pub counts: PathCounts,
    /// Bytes left of its quota.
    pub quota: Option<u64>,
}

/// The memory that a session holds, besides that of its applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes below the highest received offsets that the application has not read, including gaps. At most
    /// the session's credit.
    pub unread: u64,
    /// The number of separate pieces among them that are out of order.
    pub pieces: usize,
    /// Written bytes that the peer has not acknowledged.
    pub unacknowledged: u64,
    /// The number of streams that are not over.
    pub streams: usize,
}

/// The estimated memory, in bytes, of an empty stream, of a piece out of order, and of a carrier's read
/// buffer.
const STREAM: u64 = 1_024;
const PIECE: u64 = 128;
const CARRIER: u64 = 65_536;

impl Session {
    /// Returns the approximate memory, in bytes, that the peer has made the session use.
    pub fn memory(&self) -> u64 {
        let MemoryUse { unread, pieces, streams, .. } = self.held();
        unread + PIECE * pieces as u64 + STREAM * streams as u64 + CARRIER * self.live().count() as u64
    }

    /// Returns true if the client has answered ACCEPT (server). It will not send HELLO again, and the
    /// acceptor must be notified ([`Acceptor::confirmed`](crate::Acceptor::confirmed)).
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    #[cfg(test)]
    pub(crate) fn streams_visited(&self) -> u64 {
        self.streams.visited()
    }

    /// Returns the amounts that the session holds.
    pub fn held(&self) -> MemoryUse {
        MemoryUse {
            unread: self.received - self.read,
            pieces: self.pieces,
            unacknowledged: self.kept,
            streams: self.streams.len(),
        }
    }

    /// Returns reports on the session's carriers.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> + '_ {
        self.live().map(|(_, path)| PathReport {
            carrier: path.id,
            state: match (path.state, path.suspicion) {
                (CarrierState::Live, None) => PathState::Live,
                (CarrierState::Live, Some(Suspicion::Unacknowledged(_))) => PathState::Suspect,
                (CarrierState::Live, Some(Suspicion::Failing)) => PathState::Failing,
                (CarrierState::Waiting | CarrierState::Greeting | CarrierState::Joining, _) => {
                    PathState::Joining
                }
            },
            status: path.status(),
            statistics: path.statistics,
            counts: path.counts,
            quota: path.quota,
        })
    }
}
