//! The modifications that a T-ware requests.

use std::time::Duration;

use hawser_time::nanos;

use crate::flow::{FlowId, SourceFlow, SourceId};
use crate::schema::VariableId;
use crate::signal::MAX_WORDS;

/// The maximum number of modifications requested at a time.
const MAX_MODIFICATIONS: usize = 64;

/// A modification: a lease on a variable of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modification {
    /// The flow of the variable.
    pub target: SourceFlow,
    /// The variable to set.
    pub variable: VariableId,
    /// The value and the length of the lease; `None` gives the variable back.
    pub set: Option<(u64, Duration)>,
}

impl Modification {
    /// Encodes the modification as words, for a ring.
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

    /// Decodes a modification from words of an untrusted origin.
    pub(crate) fn from_words(words: &[u64; MAX_WORDS]) -> Option<Modification> {
        let target = SourceFlow {
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

/// Collects the modifications that a T-ware requests. They take effect after the T-ware returns: in the loop
/// at once, elsewhere at the source's next poll.
#[derive(Debug, Default)]
pub struct Hands {
    wanted: Vec<Modification>,
    overflow: u64,
}

impl Hands {
    /// Sets a variable of a flow for the length of a lease. A repeated call before its end changes the value
    /// or extends the lease. While the lease lasts, the value that the provider itself wrote last is kept
    /// separately; the variable returns to it at the end.
    pub fn modify(&mut self, target: SourceFlow, variable: VariableId, value: u64, lease: Duration) {
        self.push(Modification { target, variable, set: Some((value, lease)) });
    }

    /// Gives a variable back to the provider.
    pub fn release(&mut self, target: SourceFlow, variable: VariableId) {
        self.push(Modification { target, variable, set: None });
    }

    fn push(&mut self, modification: Modification) {
        if self.wanted.len() < MAX_MODIFICATIONS {
            self.wanted.push(modification)
        } else {
            self.overflow += 1
        }
    }

    /// Takes the requested modifications, in order.
    pub fn take(&mut self) -> impl Iterator<Item = Modification> + '_ {
        self.wanted.drain(..)
    }

    /// Returns whether no modification is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the number of modifications that did not fit, so far.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow
    }
}
