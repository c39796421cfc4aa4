//! Memory that is shared with programs in the kernel (BPF_MAP_TYPE_ARENA), addressed by offsets.
//!
//! Invariant: one side owns all of it at a time, as the word in `ownership` says. Only the owner reads and
//! writes any other part. The exception is the output that chains have left for the stack. The stack reads it
//! while it is awake, and frames do not change it during that time. Data that the kernel's side may have written is
//! treated as plain numbers. An offset is compared with the arena's size before it is used, and a read beyond
//! the end returns no bytes.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use bytemuck::{AnyBitPattern, NoUninit};
use libbpf_rs::{AsRawLibbpf, Map, MapHandle, RingBuffer, RingBufferBuilder};
use libbpf_sys::bpf_map__initial_value;

/// The arena of a loaded object. It must not outlive the object.
#[derive(Debug)]
pub(super) struct Arena {
    first: NonNull<u8>,
    len: usize,
}

// SAFETY: it is a mapping, and no part of it is bound to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Returns the arena of a loaded map of `len` bytes.
    pub(super) fn from_map(map: &Map<'_>, len: usize) -> Option<Arena> {
        // SAFETY: the map is loaded, and libbpf returns the address of its mapping.
        let first = unsafe { bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &mut 0) };
        NonNull::new(first.cast()).map(|first| Arena { first, len })
    }

    fn range(&self, at: u64, len: usize) -> Option<NonNull<u8>> {
        let begin = usize::try_from(at).ok()?;
        let end = begin.checked_add(len)?;
        // SAFETY: the range ends within the mapping.
        (end <= self.len).then(|| unsafe { self.first.add(begin) })
    }

    /// Returns `len` bytes from `at` on, or an empty slice if they would end beyond the arena.
    pub(super) fn bytes(&self, at: u64, len: usize) -> &[u8] {
        match self.range(at, len) {
            // SAFETY: the bytes are mapped, and only this side writes them while it owns the memory. The
            // slice borrows the arena, and giving the memory away takes an exclusive borrow.
            Some(first) => unsafe { std::slice::from_raw_parts(first.as_ptr(), len) },
            None => &[],
        }
    }

    /// Writes bytes at `at`, if they fit.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        if let Some(first) = self.range(at, bytes.len()) {
            // SAFETY: the range is mapped and ours, and does not overlap `bytes`.
            unsafe { first.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        }
    }

    /// Clears `len` bytes from `at` on, which also allocates their pages: programs in the kernel have no
    /// other memory.
    pub(super) fn clear(&mut self, at: u64, len: usize) {
        if let Some(first) = self.range(at, len) {
            // SAFETY: the same as for `write`.
            unsafe { first.write_bytes(0, len) };
        }
    }

    pub(super) fn get<T: AnyBitPattern>(&self, at: u64) -> Option<T> {
        let bytes = self.bytes(at, size_of::<T>());
        (!bytes.is_empty()).then(|| bytemuck::pod_read_unaligned(bytes))
    }

    pub(super) fn put<T: NoUninit>(&mut self, at: u64, value: &T) {
        self.write(at, bytemuck::bytes_of(value));
    }

    /// Returns the word at `at`, which both sides may write at any time.
    pub(super) fn word(&self, at: u64) -> Option<&AtomicU64> {
        let first = self.range(at, size_of::<u64>())?;
        // SAFETY: it is mapped, its offset is aligned, and it is only accessed atomically.
        at.is_multiple_of(8).then(|| unsafe { first.cast().as_ref() })
    }
}

/// The ring buffer by which programs in the kernel wake the stack.
#[derive(Debug)]
pub(super) struct WakeRing {
    ring: RingBuffer<'static>,
    #[expect(dead_code, reason = "to hold it is its use")]
    map: MapHandle,
}

// SAFETY: libbpf's ring buffers are memory and descriptors, and no part of them is bound to a thread.
unsafe impl Send for WakeRing {}

impl WakeRing {
    pub(super) fn new(map: MapHandle) -> libbpf_rs::Result<WakeRing> {
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, |_| 0)?;
        let ring = builder.build()?;
        Ok(WakeRing { ring, map })
    }

    /// Consumes all pending wake-ups.
    pub(super) fn clear(&self) {
        // The entries are all equal, so they are not read.
        let _ = self.ring.consume_raw();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    const LEN: usize = 64;

    fn arena(memory: &mut [u64; LEN / 8]) -> Arena {
        Arena { first: NonNull::from(memory).cast(), len: LEN }
    }

    #[test]
    fn written_values_are_read_at_any_offset() {
        let mut memory = [u64::MAX; LEN / 8];
        let mut arena = arena(&mut memory);
        for at in [0, 3, LEN as u64 - 8] {
            arena.put(at, &0x0102_0304_0506_0708_u64);
            assert_eq!(arena.get(at), Some(0x0102_0304_0506_0708_u64));
        }
        arena.clear(3, 8);
        assert_eq!(arena.bytes(2, 10), [6, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]);
        let word = arena.word(8).expect("a word");
        word.store(5, Ordering::Relaxed);
        assert_eq!(arena.get(8), Some(5_u64));
    }

    #[test]
    fn accesses_beyond_the_arena_are_empty() {
        let mut memory = [0; LEN / 8];
        let mut arena = arena(&mut memory);
        for (at, len) in [(57, 8), (64, 1), (65, 0), (u64::MAX, 1), (1, usize::MAX)] {
            assert!(arena.bytes(at, len).is_empty(), "{len} bytes at {at}");
        }
        for at in [57, 64, u64::MAX - 3] {
            arena.put(at, &u64::MAX);
            arena.clear(at, 8);
            assert_eq!((arena.get::<u64>(at), arena.word(at).is_none()), (None, true));
        }
        assert!(arena.word(4).is_none(), "no word begins there");
        assert_eq!(memory, [0; LEN / 8]);
    }
}
