//! Quotas of metered paths, and the orderly end of carriers that are no longer wanted.
//!
//! A quota counts what its path sends and receives, and is charged before anything is sent. It
//! outlives the path's carriers; applications keep it across sessions ([`Session::quotas`]).

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_time::Instant;

use super::{Loss, Notice, Session};
use crate::path::Path;
use crate::segment::{PathStatus, Segment};

/// How long a peer may take to finish what it began on a carrier that is closing.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

impl Session {
    /// Bytes left of each metered path's quota, by path.
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

    /// Gives a path a new quota, as at the beginning of a month. A path that was closed because its
    /// quota was spent is opened again.
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

    /// Carriers whose quota is spent take nothing new, on either side.
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

    /// Asks that the carrier in `slot` be closed when what was begun on it is finished.
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

    /// Carriers that are closing, and on which nothing is under way any more, are closed: by the
    /// side that was asked, once the other has been idle for a while; by the side that asked, if
    /// the other does not.
    pub(super) fn close_drained(&mut self, now: Instant) {
        for slot in 0..self.paths.len() {
            if self.drains_at(slot).is_some_and(|at| at <= now) && self.drained_at(slot).is_some() {
                self.drop_path(slot, Loss::Closed, false, now);
            }
        }
    }

    /// When a closing carrier on which nothing is under way may be closed, if nothing comes before.
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

    /// The same, whatever is under way on it.
    fn drains_at(&self, slot: usize) -> Option<Instant> {
        let path = self.path(slot)?;
        if path.theirs.0 == PathStatus::Closing {
            return Some(path.received_at + path.statistics.probe_timeout());
        }
        Some(path.closing_since? + CLOSE_TIMEOUT)
    }
}
