//! What happened in a world.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_session::{CarrierId, Counters, Notice, PathReport};

use crate::side::Side;

/// What happened. Times are spans since the start.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every transfer arrived, each byte right, and the session closed.
    pub done: bool,
    /// When the end of each transfer was read.
    pub finished: Vec<Option<Duration>>,
    /// For each transfer: when a read was followed by none for 5 ms or more, and until when.
    pub gaps: Vec<Vec<(Duration, Duration)>>,
    /// Which carriers were asked for: when, number, candidate.
    pub connects: Vec<(Duration, CarrierId, usize)>,
    /// Which links the race attempted, and when.
    pub attempts: Vec<(Duration, usize)>,
    /// Which segments of data left: when, from where, on which carrier, at which offset, how long.
    pub sent: Vec<(Duration, Side, CarrierId, u64, usize)>,
    /// Links that were cut while a carrier was on them.
    pub cuts: Vec<Cut>,
    /// When the session ended for the client, if it did.
    pub closed_at: Option<Duration>,
    /// What went wrong: a wrong byte, a stream that ended early. Empty in a good run.
    pub faults: Vec<String>,
    /// The client's and the server's counts.
    pub counters: [Counters; 2],
    /// The carriers of the client at the end.
    pub paths: Vec<PathReport>,
    /// The event core's hash of every frame and every segment, when and where: two runs of one seed have
    /// the same.
    pub trace: u64,
    /// Payload bytes that each link carried in both directions per tenth of a second.
    pub carried: Vec<BTreeMap<u64, u64>>,
    /// What applications were notified of, in order.
    pub notices: Vec<(Duration, Side, Notice)>,
    pub(crate) all_read: bool,
}

/// A link was cut with a carrier on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The time since the run began.
    pub at: Duration,
    /// Which link.
    pub link: usize,
    /// The carrier.
    pub carrier: CarrierId,
    /// For how long the carrier's transport may be silent at that moment before it is suspected: the
    /// client's, and the server's.
    pub probe_timeout: [Duration; 2],
}
