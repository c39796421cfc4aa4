//! What a T-ware does: modifications.

use std::time::Duration;

use hawser_time::nanos;

use crate::flow::{FlowId, SourceId, Target};
use crate::schema::VariableId;
use crate::signal::MAX_WORDS;

/// Modifications at a time, at most.
const MAX_MODIFICATIONS: usize = 64;

/// A modification: a lease on a variable of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modification {
    /// Of which flow.
    pub target: Target,
    /// Which variable.
    pub variable: VariableId,
    /// Its value for that long; nothing gives the variable back.
    pub set: Option<(u64, Duration)>,
}

impl Modification {
    /// As words, for a ring.
    pub(crate) fn words(&self) -> [u64; 6] {
        let (value, lease) = self.set.unwrap_or_default();
        [
            u64::from(self.target.source.0),
            self.target.flow.0,
            u64::from(self.variable.0),
            u64::from(self.set.is_some()),
            value,
            nanos(lease),
        ]
    }

    /// From words that came over a border.
    pub(crate) fn from_words(words: &[u64; MAX_WORDS]) -> Option<Modification> {
        let target = Target {
            source: SourceId(u32::try_from(words[0]).ok()?),
            flow: FlowId(words[1]),
        };
        let variable = VariableId(u16::try_from(words[2]).ok()?);
        let set = match words[3] {
            0 => None,
            1 => Some((words[4], Duration::from_nanos(words[5]))),
            _ => return None,
        };
        Some(Modification { target, variable, set })
    }
}

/// Where a T-ware puts what it wants changed. It takes effect after the T-ware returns: at once in
/// the loop, elsewhere at the source's next poll.
#[derive(Debug, Default)]
pub struct Hands {
    wanted: Vec<Modification>,
    overflow: u64,
}

impl Hands {
    /// Sets a variable of a flow for the length of a lease. Again before its end: another value, or more
    /// time. While it holds, what the provider itself wrote last is kept beside it, and is what the
    /// variable becomes at the end.
    pub fn modify(&mut self, target: Target, variable: VariableId, value: u64, lease: Duration) {
        self.push(Modification { target, variable, set: Some((value, lease)) });
    }

    /// Gives a variable back to the provider.
    pub fn release(&mut self, target: Target, variable: VariableId) {
        self.push(Modification { target, variable, set: None });
    }

    fn push(&mut self, modification: Modification) {
        if self.wanted.len() < MAX_MODIFICATIONS {
            self.wanted.push(modification)
        } else {
            self.overflow += 1
        }
    }

    /// Takes what is wanted, in order.
    pub fn take(&mut self) -> impl Iterator<Item = Modification> + '_ {
        self.wanted.drain(..)
    }

    /// Whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Modifications beyond the room, so far.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow
    }
}
