//! Packet instructions that leave in order of issue.

use std::collections::VecDeque;

use super::PendingInstruction;
use crate::state::Slot;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Fifo {
    entries: VecDeque<Box<PendingInstruction>>,
    issued: u64,
}

impl Fifo {
    /// Appends an instruction and returns its number.
    #[inline]
    pub(super) fn push(&mut self, mut pending: Box<PendingInstruction>) -> u64 {
        self.issued += 1;
        pending.number = self.issued;
        self.entries.push_back(pending);
        self.issued
    }

    /// Returns the instruction with this number, while it waits.
    #[inline]
    pub(super) fn find(&mut self, number: u64) -> Option<&mut PendingInstruction> {
        let first = self.entries.front()?.number;
        // The numbers have gaps only if a queue was purged.
        let mut index = number.checked_sub(first)? as usize;
        if self.entries.get(index).is_none_or(|there| there.number != number) {
            index = self
                .entries
                .binary_search_by_key(&number, |there| there.number)
                .ok()?;
        }
        self.entries.get_mut(index).map(|there| &mut **there)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn front(&mut self) -> Option<&mut PendingInstruction> {
        self.entries.front_mut().map(|first| &mut **first)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Box<PendingInstruction>> {
        self.entries.pop_front()
    }

    /// Removes the instructions that a context has issued, or all, and appends them to `out`.
    pub(super) fn purge(&mut self, context: Option<Slot>, out: &mut Vec<Box<PendingInstruction>>) {
        for pending in std::mem::take(&mut self.entries) {
            if pending.is_of(context) {
                out.push(pending);
            } else {
                self.entries.push_back(pending);
            }
        }
    }
}
