//! Round robin: the paper's scheduler. Each carrier in turn gets a segment; one without room keeps
//! its turn until another can go on. On unequal links the faster one waits for the slower one's
//! bytes: that is its weakness, and it is shown as such (MULTI IV.D).

use std::time::Duration;

use super::{Choice, PathView, Pending, Scheduler, WHEN_SOMETHING_CHANGES};
use crate::CarrierId;

/// Each carrier in turn.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// Who had the last turn.
    last: Option<CarrierId>,
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn choose(&mut self, paths: &[PathView], _: &Pending, _: Duration) -> Choice {
        let first = paths.iter().position(|path| Some(path.carrier) > self.last).unwrap_or(0);
        let turn = (first..paths.len()).chain(0..first).find(|&index| paths[index].room > 0);
        turn.map_or(Choice::Wait(WHEN_SOMETHING_CHANGES), Choice::Send)
    }

    fn sent(&mut self, carrier: CarrierId, _: usize) {
        self.last = Some(carrier);
    }
}
