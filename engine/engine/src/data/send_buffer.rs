//! A sending ordered data unit: the bytes [retired, end) of an application's stream or message.
//!
//! Bytes are appended to a chunk of at most 64 KB. A chunk is never moved or resized. Packets refer to its
//! bytes, and it is reused when the last reference is gone. So the bytes of a packet do not change when they
//! are retired or when the unit ends. Memory that an application shares takes the place of a chunk and is
//! never copied.
//!
//! Invariants: a unit that holds no bytes holds no memory. A chunk is at most about as large as the bytes
//! that the unit held when the chunk was taken. Many connections with a few bytes each thus stay small. The
//! pool contains only chunks, never an application's memory.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::wire::PayRef;

/// The smallest chunk, in bytes.
const CHUNK_MIN: usize = 2 * 1024;
/// The largest chunk, in bytes.
const CHUNK_MAX: usize = 64 * 1024;
/// The number of chunk sizes: powers of two from the smallest to the largest.
const SIZES: usize = (CHUNK_MAX / CHUNK_MIN).ilog2() as usize + 1;
/// The smallest piece of an application's memory that is referenced rather than copied, in bytes.
const SHARED_MIN: usize = 1024;
/// The maximum number of bytes of emptied chunks that are kept of each size, unless `SPARE_CHUNKS` chunks are
/// more.
const SPARE_BYTES: usize = 512 << 10;
/// The number of emptied chunks that are kept of each size in any case; of the largest size, they are a whole
/// send buffer. Memory that is returned to the system costs page faults when it is allocated again, as much
/// as filling it.
const SPARE_CHUNKS: usize = 64;
/// The maximum number of emptied units' lists that are kept, and of pieces that such a list has room for.
const SPARE_LISTS: usize = 1024;
const SPARE_PIECES: usize = 64;

/// Memory that sending units returned, kept for reuse. The most recently used memory comes first, because it
/// is still in the processor's caches.
#[derive(Debug, Default)]
pub(crate) struct ChunkPool {
    chunks: [Vec<BytesMut>; SIZES],
    #[allow(clippy::vec_box)] // The boxes themselves are reused.
    lists: Vec<Box<UnitBytes>>,
}

impl ChunkPool {
    fn take(&mut self, size: usize) -> BytesMut {
        self.chunks[index(size)]
            .pop()
            .unwrap_or_else(|| BytesMut::with_capacity(size))
    }

    /// Takes back a chunk of this size, unless other references to it exist; then it is freed with the last
    /// of them.
    fn give(&mut self, mut chunk: BytesMut, size: usize) {
        let chunks = &mut self.chunks[index(size)];
        chunk.clear();
        if chunks.len() < (SPARE_BYTES / size).max(SPARE_CHUNKS) && chunk.try_reclaim(size) {
            chunks.push(chunk);
        }
    }
}

/// Returns the index of a chunk size.
fn index(size: usize) -> usize {
    (size / CHUNK_MIN).ilog2() as usize
}

/// A sending ordered data unit.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    retired: u64,
    /// The offset below which all bytes have been in a packet or are retired.
    sent: u64,
    end: u64,
    /// The total number of bytes; the unit is over when all of them have been retired.
    size: u64,
    held: Option<Box<UnitBytes>>,
}

/// The bytes of a unit that has any.
#[derive(Debug, Default)]
struct UnitBytes {
    /// Sealed pieces, adjacent and in order.
    pieces: VecDeque<BufferPiece>,
    /// The open chunk: the bytes up to `end` that no packet has referred to.
    tail: BytesMut,
    /// The size of the open chunk; 0 if there is no open chunk.
    chunk: usize,
}

/// Bytes that packets may refer to.
#[derive(Debug)]
struct BufferPiece {
    /// The offset of the first byte.
    start: u64,
    bytes: Bytes,
    /// The size of the chunk that contains the bytes; 0 if the memory is an application's.
    chunk: usize,
}

impl BufferPiece {
    /// Returns the offset behind the last byte.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl SendBuffer {
    /// Creates a unit of `size` bytes, which is over when all of them are retired. [`u64::MAX`] stands for
    /// any number.
    pub(crate) fn new(size: u64) -> SendBuffer {
        SendBuffer { retired: 0, sent: 0, end: 0, size, held: None }
    }

    /// Returns true if all bytes of its size have been retired, or if it was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.retired >= self.size && self.retired == self.end
    }

    /// Ends the unit and discards its bytes. Returns the number of bytes that it held.
    pub(crate) fn end(&mut self, pool: &mut ChunkPool) -> u64 {
        let held = self.held();
        self.clear(pool);
        self.size = 0;
        held
    }

    /// Returns the number of bytes held: accepted and not retired.
    pub(crate) fn held(&self) -> u64 {
        self.end - self.retired
    }

    /// Returns the number of bytes held that no packet has carried yet.
    pub(crate) fn unsent(&self) -> u64 {
        self.end - self.sent.max(self.retired)
    }

    /// Returns the number of bytes retired so far.
    pub(crate) fn retired(&self) -> u64 {
        self.retired
    }

    /// Copies bytes to the end of the unit.
    pub(crate) fn append(&mut self, mut bytes: &[u8], pool: &mut ChunkPool) {
        if bytes.is_empty() {
            return;
        }
        let held = self
            .held
            .get_or_insert_with(|| pool.lists.pop().unwrap_or_default());
        while !bytes.is_empty() {
            let room = held.tail.capacity() - held.tail.len();
            if room == 0 {
                held.seal(self.end);
                let wanted = bytes.len().max((self.end - self.retired) as usize);
                held.chunk = wanted.clamp(CHUNK_MIN, CHUNK_MAX).next_power_of_two();
                held.tail = pool.take(held.chunk);
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            held.tail.extend_from_slice(now);
            self.end += now.len() as u64;
            bytes = later;
        }
    }

    /// Appends a reference to bytes to the unit. A few bytes are copied instead, which costs less than a
    /// separate piece.
    pub(crate) fn share(&mut self, bytes: Bytes, pool: &mut ChunkPool) {
        if bytes.len() < SHARED_MIN {
            return self.append(&bytes, pool);
        }
        let held = self
            .held
            .get_or_insert_with(|| pool.lists.pop().unwrap_or_default());
        held.seal(self.end);
        let start = self.end;
        self.end += bytes.len() as u64;
        held.pieces.push_back(BufferPiece { start, bytes, chunk: 0 });
    }

    /// Retires the first `len` bytes, to which later packets cannot refer. Returns how many there were.
    pub(crate) fn retire(&mut self, len: u64, pool: &mut ChunkPool) -> u64 {
        let len = len.min(self.held());
        self.retired += len;
        if self.retired == self.end {
            self.clear(pool);
        } else if let Some(held) = &mut self.held {
            while held
                .pieces
                .front()
                .is_some_and(|piece| piece.end() <= self.retired)
            {
                held.retire_piece(pool);
            }
        }
        len
    }

    /// Returns all memory to the pool. The held bytes are lost.
    pub(crate) fn clear(&mut self, pool: &mut ChunkPool) {
        self.retired = self.end;
        let Some(mut held) = self.held.take() else { return };
        // The open chunk is dropped before the last piece, so that the piece has the only reference. If both
        // are parts of one chunk, they return to the pool together.
        let (tail, chunk) = (std::mem::take(&mut held.tail), std::mem::take(&mut held.chunk));
        match held.pieces.back() {
            Some(piece) if piece.bytes.as_ptr_range().end == tail.as_ptr() => drop(tail),
            _ if chunk > 0 => pool.give(tail, chunk),
            _ => {}
        }
        while !held.pieces.is_empty() {
            held.retire_piece(pool);
        }
        if pool.lists.len() < SPARE_LISTS && held.pieces.capacity() <= SPARE_PIECES {
            pool.lists.push(held);
        }
    }

    /// Appends references to bytes [off, off + len) to `out` and returns the number of bytes.
    ///
    /// Bytes beyond the end are left out. A range that starts below the retired point returns no bytes. The
    /// packet's header describes its first byte, so leaving out only the retired ones would put the rest in
    /// the wrong place.
    pub(crate) fn refer(&mut self, off: u64, len: u32, out: &mut Vec<PayRef>) -> u32 {
        let end = off.saturating_add(u64::from(len)).min(self.end);
        let Some(held) = self.held.as_mut().filter(|_| off >= self.retired && off < end) else {
            return 0;
        };
        if end > self.end - held.tail.len() as u64 {
            held.seal(self.end);
        }
        self.sent = self.sent.max(end);
        let first = held.pieces.partition_point(|piece| piece.end() <= off);
        for piece in held.pieces.range(first..).take_while(|piece| piece.start < end) {
            let from = off.saturating_sub(piece.start) as usize;
            let to = (end.min(piece.end()) - piece.start) as usize;
            out.push(PayRef::from(piece.bytes.slice(from..to)));
        }
        (end - off) as u32
    }
}

impl UnitBytes {
    /// Makes the open bytes, which go up to `end`, available to packets; the rest of the chunk stays open.
    fn seal(&mut self, end: u64) {
        if !self.tail.is_empty() {
            self.pieces.push_back(BufferPiece {
                start: end - self.tail.len() as u64,
                bytes: self.tail.split().freeze(),
                chunk: self.chunk,
            });
        }
    }

    fn retire_piece(&mut self, pool: &mut ChunkPool) {
        if let Some(BufferPiece { bytes, chunk, .. }) = self.pieces.pop_front()
            && chunk > 0
            && let Ok(bytes) = bytes.try_into_mut()
        {
            pool.give(bytes, chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rand;

    fn joined(refs: &[PayRef]) -> Vec<u8> {
        refs.iter().flat_map(|r| r.bytes().to_vec()).collect()
    }

    /// Compares with a model that keeps the whole stream in one vector.
    #[test]
    fn a_send_buffer_agrees_with_a_vector() {
        for seed in 0..60 {
            let mut rand = Rand::from_seed(seed);
            let (mut unit, mut stream, mut retired) = (SendBuffer::new(u64::MAX), Vec::<u8>::new(), 0);
            let mut pool = ChunkPool::default();
            let mut issued: Vec<(Vec<PayRef>, Vec<u8>)> = Vec::new();
            for _ in 0..300 {
                match rand.below(4) {
                    action @ 0..=1 => {
                        let len = if rand.below(8) == 0 {
                            rand.below(150_000)
                        } else {
                            rand.below(3000)
                        };
                        let bytes: Vec<u8> = (0..len).map(|_| rand.bits() as u8).collect();
                        match action {
                            0 => unit.append(&bytes, &mut pool),
                            _ => unit.share(Bytes::copy_from_slice(&bytes), &mut pool),
                        }
                        stream.extend(&bytes);
                    }
                    2 => {
                        let len = rand.below(4000);
                        let want = len.min((stream.len() - retired) as u64);
                        assert_eq!(unit.retire(len, &mut pool), want);
                        retired += want as usize;
                    }
                    _ => {
                        let off = rand.below(stream.len() as u64 + 10) as usize;
                        let len = rand.below(20_000) as usize;
                        let end = (off + len).min(stream.len());
                        let want = if off < retired || off >= end {
                            &[]
                        } else {
                            &stream[off..end]
                        };
                        let mut refs = Vec::new();
                        assert_eq!(unit.refer(off as u64, len as u32, &mut refs) as usize, want.len());
                        assert!(joined(&refs) == want, "seed {seed}");
                        issued.push((refs, want.to_vec()));
                    }
                }
                assert_eq!(unit.held() as usize, stream.len() - retired);
            }
            unit.clear(&mut pool);
            unit.append(&[0; 100_000], &mut pool); // reuses only memory without references
            assert!(
                issued.iter().all(|(refs, want)| joined(refs) == *want),
                "seed {seed}: bytes changed later"
            );
        }
    }

    #[test]
    fn shared_memory_is_referred_to_and_given_back() {
        let (mut unit, mut pool) = (SendBuffer::new(u64::MAX), ChunkPool::default());
        let own = Bytes::from(vec![3; 200_000]);
        unit.append(&[1; 10], &mut pool);
        unit.share(own.slice(7..), &mut pool);
        unit.append(&[2; 10], &mut pool);
        let mut refs = Vec::new();
        assert_eq!(unit.refer(0, 300_000, &mut refs), 10 + 199_993 + 10);
        assert_eq!(refs[1].bytes().as_ptr(), own[7..].as_ptr(), "no copy");
        assert!(joined(&refs) == [&[1; 10][..], &own[7..], &[2; 10]].concat());
        unit.retire(199_000, &mut pool);
        refs.clear();
        assert!(!own.is_unique(), "bytes of it have yet to be retired");
        unit.retire(1013, &mut pool);
        assert!(own.is_unique());
        // The pool does not keep it either once all other references are gone.
        let spare = |pool: &ChunkPool| pool.chunks.each_ref().map(Vec::len);
        let before = spare(&pool);
        unit.share(own.slice(..CHUNK_MAX), &mut pool);
        drop(own);
        unit.clear(&mut pool);
        assert_eq!(spare(&pool), before);
    }

    #[test]
    fn small_appends_share_a_piece() {
        let (mut unit, mut pool) = (SendBuffer::new(u64::MAX), ChunkPool::default());
        (0..1000).for_each(|i| unit.append(&[i as u8], &mut pool));
        let mut refs = Vec::new();
        assert_eq!(unit.refer(0, 1000, &mut refs), 1000);
        assert_eq!(refs.len(), 1);
    }

    #[test]
    fn unreferenced_chunks_are_reused() {
        let (mut unit, mut pool) = (SendBuffer::new(u64::MAX), ChunkPool::default());
        let mut refs = Vec::new();
        let spare = |pool: &ChunkPool| pool.chunks.each_ref().map(Vec::len);
        for round in 0..10 {
            unit.append(&[1; 1500], &mut pool);
            assert_eq!(unit.refer(round * 1500, 1500, &mut refs), 1500);
            refs.clear();
            assert_eq!(unit.retire(1500, &mut pool), 1500);
            assert!(unit.held.is_none());
            assert_eq!(
                spare(&pool),
                [1, 0, 0, 0, 0, 0],
                "one chunk of 2 KB, again and again"
            );
        }
        unit.append(&[1; 200_000], &mut pool);
        assert_eq!(unit.refer(15_000, 70_000, &mut refs), 70_000);
        unit.retire(200_000, &mut pool);
        assert_eq!(
            spare(&pool),
            [1, 0, 0, 0, 0, 2],
            "two of the four are still referred to"
        );
        assert!(joined(&refs) == [1; 70_000]);
    }

    #[test]
    fn offsets_pass_four_gigabytes() {
        let start = u64::from(u32::MAX) - 10;
        let mut unit = SendBuffer { retired: start, end: start, ..SendBuffer::new(u64::MAX) };
        let mut pool = ChunkPool::default();
        unit.append(&[7; 100], &mut pool);
        let mut refs = Vec::new();
        assert_eq!(unit.refer(start + 20, 30, &mut refs), 30);
        assert_eq!(unit.retire(100, &mut pool), 100);
        assert_eq!(unit.refer(start + 20, 30, &mut refs), 0);
    }
}
