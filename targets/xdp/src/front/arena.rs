//! Memory that is shared with programs in the kernel (BPF_MAP_TYPE_ARENA), addressed by offsets.
//!
//! Invariant: all of it belongs to one side at a time, which the word of `turn` says; only who has the turn reads and writes
//! anything else, but for what chains have left for the stack, which it reads while it is awake and frames then leave alone. What the kernel's side may have written is numbers: an offset is compared with the arena's size before it
//! is used, and a read beyond it gives nothing.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use bytemuck::{AnyBitPattern, NoUninit};
use libbpf_rs::{AsRawLibbpf, Map, MapHandle, RingBuffer, RingBufferBuilder};
use libbpf_sys::bpf_map__initial_value;

/// The arena of a loaded object, which it must not outlive.
#[derive(Debug)]
pub(super) struct Arena {
    first: NonNull<u8>,
    len: usize,
}

// SAFETY: it is a mapping, of which nothing is bound to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Where the arena of a loaded map of `len` bytes is mapped.
    pub(super) fn of(map: &Map<'_>, len: usize) -> Option<Arena> {
        // SAFETY: the map is loaded, and libbpf says where it has mapped it.
        let first = unsafe { bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &mut 0) };
        NonNull::new(first.cast()).map(|first| Arena { first, len })
    }

    fn range(&self, at: u64, len: usize) -> Option<NonNull<u8>> {
        let begin = usize::try_from(at).ok()?;
        let end = begin.checked_add(len)?;
        // SAFETY: it ends within the mapping.
        (end <= self.len).then(|| unsafe { self.first.add(begin) })
    }

    /// So many bytes from `at` on; none where they would end beyond the arena.
    pub(super) fn bytes(&self, at: u64, len: usize) -> &[u8] {
        match self.range(at, len) {
            // SAFETY: the bytes are mapped, and while this side has the turn nobody else writes them: who holds the slice
            // holds the arena, and the turn is given away by what holds it exclusively.
            Some(first) => unsafe { std::slice::from_raw_parts(first.as_ptr(), len) },
            None => &[],
        }
    }

    /// Writes bytes at `at`, as many as there are place for.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        if let Some(first) = self.range(at, bytes.len()) {
            // SAFETY: the place is mapped and ours, and `bytes` are not in it.
            unsafe { first.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        }
    }

    /// Clears `len` bytes from `at` on, so that there is memory for them: programs in the kernel have it no other way.
    pub(super) fn clear(&mut self, at: u64, len: usize) {
        if let Some(first) = self.range(at, len) {
            // SAFETY: as for `write`.
            unsafe { first.write_bytes(0, len) };
        }
    }

    /// A structure at `at`.
    pub(super) fn get<T: AnyBitPattern>(&self, at: u64) -> Option<T> {
        let bytes = self.bytes(at, size_of::<T>());
        (!bytes.is_empty()).then(|| bytemuck::pod_read_unaligned(bytes))
    }

    /// Writes a structure at `at`.
    pub(super) fn put<T: NoUninit>(&mut self, at: u64, value: &T) {
        self.write(at, bytemuck::bytes_of(value));
    }

    /// The word at `at`, which both sides write at any time.
    pub(super) fn word(&self, at: u64) -> Option<&AtomicU64> {
        let first = self.range(at, size_of::<u64>())?;
        // SAFETY: it is mapped, aligned where offsets are, and only ever accessed atomically.
        at.is_multiple_of(8).then(|| unsafe { first.cast().as_ref() })
    }
}

/// What the programs ring when the stack has to wake up.
#[derive(Debug)]
pub(super) struct Bell {
    ring: RingBuffer<'static>,
    #[expect(dead_code, reason = "to hold it is its use")]
    map: MapHandle,
}

// SAFETY: libbpf's ring buffers are memory and descriptors, of which nothing is bound to a thread.
unsafe impl Send for Bell {}

impl Bell {
    /// The bell of a map.
    pub(super) fn new(map: MapHandle) -> libbpf_rs::Result<Bell> {
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, |_| 0)?;
        let ring = builder.build()?;
        Ok(Bell { ring, map })
    }

    /// It was heard.
    pub(super) fn silence(&self) {
        // What it holds are sounds, all alike.
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
    fn what_is_written_is_read_wherever_it_is() {
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
    fn places_beyond_it_are_not_there() {
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
