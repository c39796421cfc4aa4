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
    /// What it can carry: a window per round trip, in bytes per second. 0 before there is one.
    pub rate: u64,
}

/// A path of an association changed: RFC 6458, 6.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    /// The peer's address at its end.
    pub peer: SocketAddr,
    /// What it is now.
    pub state: PathState,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathState {
    /// It can be used again.
    Available,
    /// Nothing comes back on it.
    Unreachable,
    /// The peer gave it up.
    Removed,
    /// The peer has it now.
    Added,
    /// What is sent by no path in particular goes here now.
    Primary,
    /// The peer has answered on it for the first time.
    Confirmed,
}
