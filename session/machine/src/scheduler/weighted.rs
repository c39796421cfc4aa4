//! Weighted round robin: shares of the bytes in proportion to the candidates' weights, as long as every
//! carrier has room. Data that a blocked carrier cannot take goes to the others, and the blocked one does not
//! catch up later.

use std::collections::BTreeMap;

use hawser_time::Instant;

use super::{Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES};
use crate::CarrierId;

/// The size of a turn per unit of weight, in bytes: one segment.
const QUANTUM: i64 = 65_536;

/// Shares the bytes by weight (deficit round robin, Shreedhar and Varghese 1995).
#[derive(Debug, Default)]
pub struct Weighted {
    /// Bytes that each carrier may still send in this round.
    credit: BTreeMap<CarrierId, i64>,
}

impl Scheduler for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn choose(&mut self, paths: &[PathView], _: &PendingData, _: Instant) -> Choice {
        self.credit
            .retain(|carrier, _| paths.iter().any(|path| path.carrier == *carrier));
        let ready = |path: &PathView| path.room > 0;
        if !paths.iter().any(ready) {
            return Choice::Wait(WHEN_SOMETHING_CHANGES);
        }
        loop {
            let turn = paths
                .iter()
                .position(|path| ready(path) && self.credit.get(&path.carrier).is_some_and(|left| *left > 0));
            if let Some(index) = turn {
                return Choice::Send(index);
            }
            for path in paths {
                let max_credit = QUANTUM * i64::from(path.weight);
                let left = self.credit.entry(path.carrier).or_default();
                *left = (*left + max_credit).min(max_credit);
            }
        }
    }

    fn sent(&mut self, carrier: CarrierId, length: usize) {
        *self.credit.entry(carrier).or_default() -= length as i64;
    }
}
