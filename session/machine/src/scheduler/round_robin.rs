//! Round robin, the paper's scheduler. Each carrier in turn gets 16 KiB (the size of MULTI's segments), and a
//! carrier without room keeps its turn. All carriers therefore get equal shares, regardless of their speed.
//! Together, n carriers are n times as fast as the slowest, which can be less than the fastest alone. The
//! paper shows this weakness, too (MULTI IV, Figures 6 and 11).

use std::collections::BTreeMap;

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};
use crate::CarrierId;

/// The size of a turn, in bytes.
const TURN: i64 = 16_384;

/// Serves each carrier in turn. A segment longer than a turn uses up later turns, too (deficit round robin,
/// Shreedhar and Varghese 1995).
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// The carrier that has the turn.
    turn: Option<CarrierId>,
    /// Bytes that each carrier may still send.
    left: BTreeMap<CarrierId, i64>,
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn choose(&mut self, paths: &[PathView], _: &PendingData, _: Instant) -> Choice {
        self.left
            .retain(|carrier, _| paths.iter().any(|path| path.carrier == *carrier));
        loop {
            let turn = paths.iter().position(|path| Some(path.carrier) == self.turn);
            let Some(index) = turn.filter(|&index| self.left.get(&paths[index].carrier) > Some(&0)) else {
                let Some(next) = self.next(paths) else {
                    return Choice::Wait(WHEN_SOMETHING_CHANGES);
                };
                self.turn = Some(next);
                *self.left.entry(next).or_default() += TURN;
                continue;
            };
            return match paths[index].room {
                0 => Choice::Wait(WHEN_SOMETHING_CHANGES),
                _ => Choice::Send(index),
            };
        }
    }

    fn sent(&mut self, carrier: CarrierId, length: usize) {
        *self.left.entry(carrier).or_default() -= length as i64;
    }
}

impl RoundRobin {
    /// Returns the carrier that follows the current one.
    fn next(&self, paths: &[PathView]) -> Option<CarrierId> {
        let after = paths
            .iter()
            .map(|path| path.carrier)
            .filter(|carrier| Some(*carrier) > self.turn)
            .min();
        after.or_else(|| paths.iter().map(|path| path.carrier).min())
    }
}
