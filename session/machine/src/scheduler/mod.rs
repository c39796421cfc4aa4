//! Which carrier takes the next segment. A scheduler is a file here, or an application's own.
//!
//! A scheduler is asked once for each segment. It sees the carriers that may take data now: joined,
//! not suspect, not closing; backups only when there is nothing else; metered ones only within
//! their quota. Of these, only carriers with `room` can take anything at this moment: to choose one
//! without room is to wait for it.

use std::time::Duration;

use hawser_carrier::Statistics;
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

/// To wait until something changes: room, a carrier, data.
pub const WHEN_SOMETHING_CHANGES: Duration = Duration::MAX;

/// The scheduler of this name: `rr`, `weighted`, `lowest-latency`, `top-latency:N`,
/// `top-throughput:N`, `redundant`, `ecf`, `blest`, `cheapest`. Capitals do not matter (the paper
/// writes `RR`).
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
    /// Which one.
    pub carrier: CarrierId,
    /// What its transport reports.
    pub statistics: Statistics,
    /// Bytes that its transport takes now.
    pub room: usize,
    /// The candidate's weight, at least 1.
    pub weight: u32,
    /// The candidate's cost of a byte.
    pub cost: u32,
    pub(crate) slot: usize,
    /// How much data makes one segment on it.
    pub(crate) segment: usize,
}

impl PathView {
    /// A carrier with these figures, as a session would show it; for schedulers' tests.
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

    /// When a segment of `length` bytes, cut for this carrier and handed over now, should be with the
    /// peer.
    pub fn arrival(&self, length: usize) -> Duration {
        let length = length.min(self.segment);
        let pace = self.statistics.pace().max(1);
        self.statistics.arrival() + Duration::from_micros(length as u64 * 1_000_000 / pace)
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The stream.
    pub stream: u32,
    /// The segment's bytes, at most 64 KiB, before it is cut for the carrier.
    pub length: usize,
    /// Bytes that wait in all streams, this segment among them.
    pub waiting: u64,
    /// Bytes that the peer's credit still allows.
    pub credit: u64,
    /// Bytes that the peer's credit allows beyond what its session has acknowledged: its window.
    pub window: u64,
    /// They were sent before, on a carrier that failed.
    pub again: bool,
}

/// A scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one of the carriers shown, by index.
    Send(usize),
    /// None now: ask again when something changed, or after so long at the latest.
    Wait(Duration),
}

/// Decides which carrier takes the next segment.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Its name in configurations and traces.
    fn name(&self) -> &'static str;

    /// Chooses among `paths`, of which there is at least one.
    fn choose(&mut self, paths: &[PathView], pending: &Pending, now: Instant) -> Choice;

    /// `length` bytes were sent on `carrier`, as chosen.
    fn sent(&mut self, carrier: CarrierId, length: usize) {
        let _ = (carrier, length);
    }

    /// Whether every carrier is to get every byte.
    fn is_redundant(&self) -> bool {
        false
    }
}
