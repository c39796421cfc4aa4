//! Work with several pieces of memory, which are registered as a list with a key for their concatenation.
//!
//! A transport program thus sees one memory, whatever it consists of. A list remains until its work is
//! certainly done. Completions do not show that, because not all work is reported.

use std::collections::VecDeque;

#[cfg(doc)]
use crate::MAX_PIECES;
use crate::{Slice, Stack};

use crate::verbs::VerbsError;
use crate::verbs::memory::ProtectionDomain;

/// The memory of this host that work uses: one slice, or up to [`MAX_PIECES`] consecutive ones (`sg_list`).
///
/// Sent bytes are gathered from them, and received bytes are scattered over them, in order.
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

/// The memory of work in the form that a stack accepts.
pub(crate) struct GatheredMemory {
    pub(crate) slice: Slice,
    /// The key of the list, if there are several pieces.
    list: Option<u32>,
}

impl From<Slice> for GatheredMemory {
    fn from(slice: Slice) -> GatheredMemory {
        GatheredMemory { slice, list: None }
    }
}

/// The keys of the lists of one queue, oldest first.
///
/// The work of a queue is done in the order in which it was posted. So a list belongs to finished work once
/// as many later ones exist as may be posted.
#[derive(Debug)]
pub(crate) struct Lists {
    domain: ProtectionDomain,
    keys: VecDeque<u32>,
    posted_max: usize,
}

impl Lists {
    /// Creates an empty collection for a queue with at most `posted_max` posted work requests.
    pub(crate) fn new(domain: ProtectionDomain, posted_max: usize) -> Lists {
        Lists { domain, keys: VecDeque::new(), posted_max }
    }

    /// Joins the memory of work into one slice.
    pub(crate) fn join(&self, stack: &mut Stack, slices: &Slices) -> Result<GatheredMemory, VerbsError> {
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
                Ok(GatheredMemory { slice: Slice { key, at: 0, len }, list: Some(key) })
            }
        }
    }

    /// Keeps the list of posted work, and removes those of refused or finished work.
    pub(crate) fn note(&mut self, stack: &mut Stack, joined: &GatheredMemory, is_posted: bool) {
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

    /// Removes all lists.
    pub(crate) fn end(self, stack: &mut Stack) {
        for key in self.keys {
            stack.deregister(self.domain.0, key);
        }
    }
}
