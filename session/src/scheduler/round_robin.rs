//! Round robin: the paper's scheduler. Each carrier in turn gets 16 KiB (the size of MULTI's
//! segments), and one without room keeps its turn: equal shares, whatever the carriers are worth.
//! So n carriers together are n times as fast as the slowest of them, which can be less than the
//! fastest alone: that is its weakness, and it is shown as such (MULTI IV, Figures 6 and 11).

use std::time::Duration;

use super::{Choice, PathView, Pending, Scheduler, WHEN_SOMETHING_CHANGES};
use crate::CarrierId;

/// What a turn is, in bytes.
const TURN: usize = 16_384;

/// Each carrier in turn.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// Whose turn it is, and how much of it is left; none before the first.
    turn: Option<(CarrierId, usize)>,
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn choose(&mut self, paths: &[PathView], _: &Pending, _: Duration) -> Choice {
        let index = match self.turn {
            // Where that carrier is gone its turn is the next one's.
            Some((last, 0)) => paths.iter().position(|path| path.carrier > last).unwrap_or(0),
            Some((carrier, _)) => paths.iter().position(|path| path.carrier >= carrier).unwrap_or(0),
            None => 0,
        };
        match paths.get(index) {
            Some(path) if path.room > 0 => Choice::Send(index),
            _ => Choice::Wait(WHEN_SOMETHING_CHANGES),
        }
    }

    fn sent(&mut self, carrier: CarrierId, length: usize) {
        let left = match self.turn {
            Some((last, left)) if last == carrier && left > 0 => left,
            _ => TURN,
        };
        self.turn = Some((carrier, left.saturating_sub(length)));
    }
}
