//! `list<T, N>`; its elements' handling is shared by sorted lists and option lists.

use hawser_ir::{LIST_HEADER, Layout, Ty};

use super::list_len;
use crate::memory::{Loc, RunMemory};

/// A list in memory: `{ u32 len; u32 _; T items[cap]; }`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    at: Loc,
    cap: u32,
    stride: usize,
}

impl List {
    /// Returns the list of a type at a location; `None` if the type is not a list.
    pub(crate) fn new(layout: &Layout<'_>, at: Loc, ty: &Ty) -> Option<List> {
        let (items, cap) = ty.items()?;
        Some(List { at, cap, stride: layout.item_stride(items) as usize })
    }

    pub(crate) fn len(&self, memory: &RunMemory<'_>) -> u64 {
        list_len(memory, self.at, self.cap)
    }

    /// Returns the location of the i-th element, whether or not it is in use.
    pub(crate) fn slot(&self, index: u64) -> Loc {
        self.at.plus(LIST_HEADER as usize + index as usize * self.stride)
    }

    /// Opens a zeroed gap for an element at a position and returns its location; `None` if the list is full.
    pub(crate) fn insert(&self, memory: &mut RunMemory<'_>, index: u64) -> Option<Loc> {
        let len = self.len(memory);
        if len >= u64::from(self.cap) {
            return None;
        }
        let slot = self.slot(index);
        memory.copy(slot.plus(self.stride), slot, (len - index) as usize * self.stride);
        memory.zero(slot, self.stride);
        memory.write(self.at, 4, len + 1);
        Some(slot)
    }

    /// Removes the element at a position below the length. The elements behind it move up, and the freed slot
    /// is zeroed, so that equal lists have equal bytes.
    pub(crate) fn remove(&self, memory: &mut RunMemory<'_>, index: u64) {
        let len = self.len(memory);
        let slot = self.slot(index);
        memory.copy(
            slot,
            slot.plus(self.stride),
            (len - 1 - index) as usize * self.stride,
        );
        memory.zero(self.slot(len - 1), self.stride);
        memory.write(self.at, 4, len - 1);
    }

    /// Empties it; all bytes become zero.
    pub(crate) fn clear(&self, memory: &mut RunMemory<'_>) {
        memory.zero(self.at, LIST_HEADER as usize + self.cap as usize * self.stride);
    }
}
