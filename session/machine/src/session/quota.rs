//! Quotas of metered paths, and the orderly end of carriers that are no longer wanted.
//!
//! A quota counts the bytes that its path sends and receives, and is charged before data is sent. It outlives
//! the path's carriers, and applications keep it across sessions ([`Session::quotas`]).

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_time::Instant;

use super::{Loss, Notice, Session};
use crate::path::Path;
use crate::segment::{PathStatus, Segment};

/// The time within which a peer must finish the segments that it began on a closing carrier.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

impl Session {
    /// Returns the bytes left of each metered path's quota, by path.
    pub fn quotas(&self) -> BTreeMap<u32, u64> {
        let held = self
            .live()
            .filter_map(|(_, path)| Some((path.number, path.quota?)));
        self.quotas
            .iter()
            .map(|(&number, &left)| (number, left))
            .chain(held)
            .collect()
    }

    /// Gives a path a new quota, as at the beginning of a month. A path that was closed because its quota was
    /// spent is opened again.
    pub fn set_quota(&mut self, number: u32, left: u64, now: Instant) {
        self.quotas.insert(number, left);
        for path in self
            .paths
            .iter_mut()
            .flatten()
            .filter(|path| path.number == number)
        {
            path.quota = Some(left);
        }
        self.opener.restore(number);
        self.settle(now);
    }

    /// Retires carriers whose quota is spent. Neither side begins new data on them.
    pub(super) fn retire_spent(&mut self, now: Instant) {
        for slot in 0..self.paths.len() {
            let spent = |path: &&mut Path| path.quota == Some(0) && path.ours.0 != PathStatus::Closing;
            let Some(path) = self.paths[slot].as_mut().filter(spent) else {
                continue;
            };
            let number = path.number;
            self.quotas.insert(number, 0);
            self.opener.remove(number);
            self.retire(slot, now);
            self.notify(Notice::QuotaSpent(number));
        }
    }

    /// Asks the peer to finish the data on the carrier in `slot`, so that it can be closed.
    pub(super) fn retire(&mut self, slot: usize, now: Instant) {
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        path.ours = (PathStatus::Closing, path.ours.1 + 1);
        path.closing_since = Some(now);
        let (number, sequence) = (path.id.0, path.ours.1);
        if let Some(via) = self.quickest() {
            self.send_control(
                via,
                &Segment::PathStatus { number, status: PathStatus::Closing, sequence },
                now,
            );
        }
    }

    /// Closes closing carriers on which no data is in flight. The side that was asked closes the carrier once
    /// the other has been idle for a while. If it does not, the side that asked closes it.
    pub(super) fn close_drained(&mut self, now: Instant) {
        for slot in 0..self.paths.len() {
            if self.drains_at(slot).is_some_and(|at| at <= now) && self.drained_at(slot).is_some() {
                self.drop_path(slot, Loss::Closed, false, now);
            }
        }
    }

    /// Returns the time at which a closing carrier without data in flight may be closed, unless a segment
    /// arrives before.
    pub(super) fn drained_at(&self, slot: usize) -> Option<Instant> {
        let at = self.drains_at(slot)?;
        let is_on = |id: &u32| {
            self.streams
                .get(*id)
                .is_some_and(|stream| stream.send.is_on(slot as u32))
        };
        let busy = self.under_way.iter().any(is_on);
        (!busy).then_some(at)
    }

    /// Returns the same time regardless of data in flight.
    fn drains_at(&self, slot: usize) -> Option<Instant> {
        let path = self.path(slot)?;
        if path.theirs.0 == PathStatus::Closing {
            return Some(path.received_at + path.statistics.probe_timeout());
        }
        Some(path.closing_since? + CLOSE_TIMEOUT)
    }
}
