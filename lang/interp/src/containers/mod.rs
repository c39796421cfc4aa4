//! The built-in containers, as operations on memory.
//!
//! Memory may hold anything (a context is the engine's, an event may be hostile), so every length
//! read from it is bounded by the container's capacity.

mod list;
mod sorted;
mod window;

pub(crate) use list::List;
pub(crate) use sorted::Sorted;
pub(crate) use window::Window;

use crate::memory::{Loc, Memory};

/// The number of elements of a list, sorted list or option list: its first four bytes.
#[inline]
pub(crate) fn list_len(memory: &Memory<'_>, list: Loc, cap: u32) -> u64 {
    memory.read(list, 4).min(u64::from(cap))
}
