//! Work with several pieces of memory: they are registered as a list, whose key opens them one behind the other.
//!
//! So a transport program sees one memory, whatever it consists of. A list stays until its work is done for certain:
//! completions do not tell, since not all work is reported.

use std::collections::VecDeque;

#[cfg(doc)]
use hawser_engine::MAX_PIECES;
use hawser_engine::{Slice, Stack};

use crate::VerbsError;
use crate::memory::ProtectionDomain;

/// The memory of this host that work uses: one slice, or up to [`MAX_PIECES`] one behind the other (`sg_list`).
///
/// Sent bytes are gathered from them, and bytes that arrive are scattered over them, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices(Pieces);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pieces {
    One(Slice),
    Many(Vec<Slice>),
}

impl From<Slice> for Slices {
    fn from(slice: Slice) -> Slices {
        Slices(Pieces::One(slice))
    }
}

impl From<Vec<Slice>> for Slices {
    fn from(slices: Vec<Slice>) -> Slices {
        Slices(Pieces::Many(slices))
    }
}

impl<const N: usize> From<[Slice; N]> for Slices {
    fn from(slices: [Slice; N]) -> Slices {
        slices.to_vec().into()
    }
}

/// The memory of work as a stack takes it.
pub(crate) struct Joined {
    pub(crate) slice: Slice,
    /// The key of a list, where there are several pieces.
    list: Option<u32>,
}

impl From<Slice> for Joined {
    fn from(slice: Slice) -> Joined {
        Joined { slice, list: None }
    }
}

/// The keys of the lists of one queue, oldest first.
///
/// Work of a queue is done in the order in which it was posted. So the list before as many others as may be posted is of
/// work that is done.
#[derive(Debug)]
pub(crate) struct Lists {
    domain: ProtectionDomain,
    keys: VecDeque<u32>,
    posted_max: usize,
}

impl Lists {
    /// None, for a queue to which so much work may be posted.
    pub(crate) fn new(domain: ProtectionDomain, posted_max: usize) -> Lists {
        Lists { domain, keys: VecDeque::new(), posted_max }
    }

    /// Makes one slice of the memory of work.
    pub(crate) fn join(&self, stack: &mut Stack, slices: &Slices) -> Result<Joined, VerbsError> {
        let pieces = match &slices.0 {
            Pieces::One(slice) => std::slice::from_ref(slice),
            Pieces::Many(pieces) => pieces,
        };
        match pieces {
            [] => Ok(Slice::default().into()),
            [slice] => Ok((*slice).into()),
            pieces => {
                let key = stack.register_list(self.domain.0, pieces)?;
                let len = pieces
                    .iter()
                    .fold(0u64, |len, piece| len.saturating_add(piece.len));
                Ok(Joined { slice: Slice { key, at: 0, len }, list: Some(key) })
            }
        }
    }

    /// Keeps the list of work that was posted, and ends that of work that was refused or is done.
    pub(crate) fn note(&mut self, stack: &mut Stack, joined: &Joined, is_posted: bool) {
        let Some(key) = joined.list else {
            return;
        };
        self.keys.push_back(key);
        let ended = match is_posted {
            true if self.keys.len() <= self.posted_max => None,
            true => self.keys.pop_front(),
            false => self.keys.pop_back(),
        };
        if let Some(key) = ended {
            stack.deregister(self.domain.0, key);
        }
    }

    /// Ends all of them.
    pub(crate) fn end(self, stack: &mut Stack) {
        for key in self.keys {
            stack.deregister(self.domain.0, key);
        }
    }
}
