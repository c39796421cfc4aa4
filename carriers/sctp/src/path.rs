//! The paths of an association, as a program sees them.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One path of an association: to one address of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStatistics {
    /// The peer's address.
    pub peer: SocketAddr,
    /// Whether the peer answers on it.
    pub active: bool,
    /// Whether it has ever answered on it.
    pub confirmed: bool,
    /// Smoothed round-trip time, to the millisecond.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window, in bytes.
    pub window: u64,
    /// Bytes that a packet may have.
    pub mtu: usize,
    /// Its capacity: a window per round trip, in bytes per second; 0 before the first round trip.
    pub rate: u64,
}

/// A path of an association changed: RFC 6458, 6.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    /// The peer's address at its end.
    pub peer: SocketAddr,
    /// Its state now.
    pub state: PathState,
}

/// An event of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathState {
    /// It can be used again.
    Available,
    /// The peer does not answer on it.
    Unreachable,
    /// The peer gave it up.
    Removed,
    /// The peer has it now.
    Added,
    /// It is the primary path now: packets leave on it unless they name another.
    Primary,
    /// The peer has answered on it for the first time.
    Confirmed,
}
