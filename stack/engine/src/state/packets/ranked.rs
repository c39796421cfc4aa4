//! Instructions that leave by their rank, the smallest first; those of one rank in order of issue.
//!
//! One that has partly left waits for those of smaller ranks, too: rank decides anew for each packet.

use std::collections::BTreeMap;

use slab::Slab;

use super::Pending;
use crate::state::Slot;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Ranked {
    entries: Slab<Pending>,
    /// By rank and number, where the instruction is.
    order: BTreeMap<(u64, u64), usize>,
    issued: u64,
}

impl Ranked {
    /// Adds an instruction and returns its number.
    pub(super) fn push(&mut self, mut pending: Pending) -> u64 {
        self.issued += 1;
        pending.number = self.issued;
        let key = (pending.record.rank, self.issued);
        self.order.insert(key, self.entries.insert(pending));
        self.issued
    }

    /// The instruction with this rank and number, while it waits.
    pub(super) fn find(&mut self, rank: u64, number: u64) -> Option<&mut Pending> {
        self.entries.get_mut(*self.order.get(&(rank, number))?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn front(&mut self) -> Option<&mut Pending> {
        let (_, place) = self.order.first_key_value()?;
        self.entries.get_mut(*place)
    }

    pub(super) fn pop(&mut self) -> Option<Pending> {
        let (_, place) = self.order.pop_first()?;
        self.entries.try_remove(place)
    }

    /// Takes those out that a context has issued, or all.
    pub(super) fn purge(&mut self, context: Option<Slot>, out: &mut Vec<Pending>) {
        let entries = &mut self.entries;
        self.order.retain(|_, place| {
            let leaves = entries.get(*place).is_some_and(|there| there.is_of(context));
            if leaves {
                out.extend(entries.try_remove(*place));
            }
            !leaves
        });
    }
}
