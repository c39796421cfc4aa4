//! The paths of an association, as a program sees them.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One path of an association, to one address of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStatistics {
    /// The peer's address.
    pub peer: SocketAddr,
    /// True if the peer answers on it.
    pub active: bool,
    /// True if the peer has ever answered on it.
    pub confirmed: bool,
    /// Smoothed round-trip time, to the millisecond.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window, in bytes.
    pub window: u64,
    /// The maximum size of a packet, in bytes.
    pub mtu: usize,
    /// Its capacity, a window per round trip, in bytes per second; 0 before the first round trip.
    pub rate: u64,
}

/// A change of a path of an association (RFC 6458, 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    /// The peer's address of the path.
    pub peer: SocketAddr,
    /// The path's state now.
    pub state: PathState,
}

/// The state that a path has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathState {
    /// The path can be used again.
    Available,
    /// The peer does not answer on the path.
    Unreachable,
    /// The peer has removed the path.
    Removed,
    /// The peer has added the path.
    Added,
    /// The path is now the primary one, which carries packets that name no other path.
    Primary,
    /// The peer has answered on the path for the first time.
    Confirmed,
}
