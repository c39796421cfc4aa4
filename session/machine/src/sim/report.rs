//! The results of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{CarrierId, Counters, Notice, PathReport};

use crate::sim::side::Side;

/// The results of a run. Times are measured from the start.
#[derive(Clone, Debug, Default)]
pub struct SimReport {
    /// True if every transfer arrived intact and the session closed.
    pub done: bool,
    /// The time at which the end of each transfer was read.
    pub finished: Vec<Option<Duration>>,
    /// For each transfer, the periods of 5 ms or more without a read.
    pub gaps: Vec<Vec<(Duration, Duration)>>,
    /// The requested carriers: time, number and candidate.
    pub connects: Vec<(Duration, CarrierId, usize)>,
    /// The attempts of the race: time and link.
    pub attempts: Vec<(Duration, usize)>,
    /// The data segments that were sent: time, sender, carrier, offset and length.
    pub sent: Vec<(Duration, Side, CarrierId, u64, usize)>,
    /// Cuts of links that had a carrier.
    pub cuts: Vec<LinkCut>,
    /// The time at which the session ended for the client, if it did.
    pub closed_at: Option<Duration>,
    /// The errors, such as a wrong byte or a stream that ended early. Empty in a good run.
    pub faults: Vec<String>,
    /// The client's and the server's counts.
    pub counters: [Counters; 2],
    /// The client's carriers at the end.
    pub paths: Vec<PathReport>,
    /// The event core's hash of every frame and segment with time and place. Two runs with the same seed have
    /// the same hash.
    pub trace: u64,
    /// The payload bytes that each link carried in both directions, per tenth of a second.
    pub carried: Vec<BTreeMap<u64, u64>>,
    /// The notices to the applications, in order.
    pub notices: Vec<(Duration, Side, Notice)>,
    pub(crate) all_read: bool,
}

/// A cut of a link with a carrier on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCut {
    /// The time since the run began.
    pub at: Duration,
    /// The index of the link.
    pub link: usize,
    /// The carrier.
    pub carrier: CarrierId,
    /// The client's and the server's probe timeouts at that moment: the time for which the carrier's
    /// transport may be silent before it is suspected.
    pub probe_timeout: [Duration; 2],
}
