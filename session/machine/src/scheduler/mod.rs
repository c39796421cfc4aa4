//! Schedulers, which choose the carrier for the next segment. Each has a file here; an application may bring
//! its own.
//!
//! A scheduler is asked once for each segment. It sees the carriers that may take data now: joined, not
//! suspect and not closing. It sees backups only if there are no others, and metered carriers only within
//! their quota. Only carriers with `room` can take data at once; choosing one without room means waiting for
//! it.

use std::time::Duration;

use hawser_carriers::Statistics;
use hawser_time::Instant;

use crate::CarrierId;

mod blest;
mod cheapest;
mod ecf;
mod redundant;
mod round_robin;
mod top;
mod weighted;

pub use blest::Blest;
pub use cheapest::Cheapest;
pub use ecf::EarliestCompletion;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use top::{Best, Top};
pub use weighted::Weighted;

/// The duration of a wait that lasts until something changes: room, a carrier or data.
pub const WHEN_SOMETHING_CHANGES: Duration = Duration::MAX;

/// Returns the scheduler with this name: `rr`, `weighted`, `lowest-latency`, `top-latency:N`,
/// `top-throughput:N`, `redundant`, `ecf`, `blest`, `cheapest`. Case is ignored (the paper writes `RR`).
pub fn by_name(name: &str) -> Option<Box<dyn Scheduler>> {
    let name = name.to_ascii_lowercase();
    let (name, count) = match name.split_once(':') {
        Some((name, count)) => (name, Some(count.parse().ok().filter(|count| *count > 0)?)),
        None => (name.as_str(), None),
    };
    Some(match (name, count) {
        ("rr", None) => Box::new(RoundRobin::default()),
        ("weighted", None) => Box::new(Weighted::default()),
        ("lowest-latency", None) => Box::new(Top::new(Best::Latency, 1)),
        ("top-latency", Some(count)) => Box::new(Top::new(Best::Latency, count)),
        ("top-throughput", Some(count)) => Box::new(Top::new(Best::Throughput, count)),
        ("redundant", None) => Box::new(Redundant),
        ("ecf", None) => Box::new(EarliestCompletion::default()),
        ("blest", None) => Box::new(Blest::default()),
        ("cheapest", None) => Box::new(Cheapest::default()),
        _ => return None,
    })
}

/// A carrier, as schedulers see it.
#[derive(Clone, Debug)]
pub struct PathView {
    /// The carrier's number.
    pub carrier: CarrierId,
    /// The figures that its transport reports.
    pub statistics: Statistics,
    /// Bytes that its transport can take now.
    pub room: usize,
    /// The candidate's weight, at least 1.
    pub weight: u32,
    /// The candidate's cost per byte.
    pub cost: u32,
    pub(crate) slot: usize,
    /// The number of data bytes in one segment on it.
    pub(crate) segment: usize,
}

impl PathView {
    /// Creates a view of a carrier with these figures, as a session would show it; for schedulers' tests.
    pub fn new(carrier: CarrierId, statistics: Statistics, room: usize) -> Self {
        Self {
            carrier,
            statistics,
            room,
            weight: 1,
            cost: 0,
            slot: 0,
            segment: statistics.segment(),
        }
    }

    /// Returns the time until a segment of `length` bytes, cut for this carrier and handed over now, should
    /// reach the peer.
    pub fn arrival(&self, length: usize) -> Duration {
        let length = length.min(self.segment);
        let pace = self.statistics.pace().max(1);
        self.statistics.arrival() + Duration::from_micros(length as u64 * 1_000_000 / pace)
    }
}

/// The data that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingData {
    /// The number of its stream.
    pub stream: u32,
    /// The segment's length in bytes, at most 64 KiB, before it is cut for the carrier.
    pub length: usize,
    /// Bytes that wait in all streams, including this segment.
    pub waiting: u64,
    /// Bytes that the peer's credit still allows.
    pub credit: u64,
    /// The window: bytes that the peer's credit allows beyond those that its session has acknowledged.
    pub window: u64,
    /// True if the bytes were sent before, on a carrier that failed.
    pub again: bool,
}

/// A scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send on the carrier with this index among those shown.
    Send(usize),
    /// Do not send now. Ask again when something changes, or after this time at the latest.
    Wait(Duration),
}

/// A scheduler, which chooses the carrier that takes the next segment.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Returns the scheduler's name in configurations and traces.
    fn name(&self) -> &'static str;

    /// Chooses among `paths`, which holds at least one.
    fn choose(&mut self, paths: &[PathView], pending: &PendingData, now: Instant) -> Choice;

    /// Records that `length` bytes were sent on `carrier`, as chosen.
    fn sent(&mut self, carrier: CarrierId, length: usize) {
        let _ = (carrier, length);
    }

    /// Returns true if every carrier is to get every byte.
    fn is_redundant(&self) -> bool {
        false
    }
}
