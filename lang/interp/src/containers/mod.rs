//! The built-in containers, as operations on memory.
//!
//! Memory may hold any bytes, because a context belongs to the engine and an event may be hostile. Every
//! length read from it is therefore bounded by the container's capacity.

mod list;
mod sorted;
mod window;

pub(crate) use list::List;
pub(crate) use sorted::Sorted;
pub(crate) use window::Window;

use crate::memory::{Loc, RunMemory};

/// Returns the number of elements of a list, sorted list or option list, which is stored in its first four
/// bytes.
#[inline]
pub(crate) fn list_len(memory: &RunMemory<'_>, list: Loc, cap: u32) -> u64 {
    memory.read(list, 4).min(u64::from(cap))
}
