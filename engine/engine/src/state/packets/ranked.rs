//! Packet instructions that leave by rank, the smallest first, and within a rank in order of issue.
//!
//! An instruction that has partly left also waits for those of smaller ranks: the rank decides for each
//! packet.

use std::collections::BTreeMap;

use super::PendingInstruction;
use crate::state::Slot;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Ranked {
    /// The entries, which do not move when their order changes.
    entries: Vec<Option<Box<PendingInstruction>>>,
    /// The free indices in `entries`.
    free: Vec<usize>,
    /// The index of each instruction, by rank and number.
    order: BTreeMap<(u64, u64), usize>,
    issued: u64,
}

impl Ranked {
    /// Adds an instruction and returns its number.
    pub(super) fn push(&mut self, mut pending: Box<PendingInstruction>) -> u64 {
        self.issued += 1;
        pending.number = self.issued;
        let key = (pending.record.rank, self.issued);
        let place = self.free.pop().unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(Some(pending));
        } else {
            self.entries[place] = Some(pending);
        }
        self.order.insert(key, place);
        self.issued
    }

    /// Returns the instruction with this rank and number, while it waits.
    pub(super) fn find(&mut self, rank: u64, number: u64) -> Option<&mut PendingInstruction> {
        self.entries[*self.order.get(&(rank, number))?].as_deref_mut()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn front(&mut self) -> Option<&mut PendingInstruction> {
        let (_, place) = self.order.first_key_value()?;
        self.entries[*place].as_deref_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Box<PendingInstruction>> {
        let (_, place) = self.order.pop_first()?;
        self.free.push(place);
        self.entries[place].take()
    }

    /// Removes the instructions that a context has issued, or all, and appends them to `out`.
    pub(super) fn purge(&mut self, context: Option<Slot>, out: &mut Vec<Box<PendingInstruction>>) {
        let (entries, free) = (&mut self.entries, &mut self.free);
        self.order.retain(|_, place| {
            let entry = &mut entries[*place];
            let leaves = entry.as_ref().is_some_and(|there| there.is_of(context));
            if leaves {
                free.push(*place);
                out.extend(entry.take());
            }
            !leaves
        });
    }
}
