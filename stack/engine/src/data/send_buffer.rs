//! An ordered data unit that is sent: bytes [retired, end) of an application's stream or message.
//!
//! Bytes are appended to a chunk of at most 64 KB. A chunk is never moved or resized; packets
//! refer to its bytes, and it is used again when the last reference is gone. So bytes that a packet
//! refers to stay as they are when they are retired, and when the unit dies. Memory that an application shares takes a
//! chunk's place, and is copied by nobody.
//!
//! Invariants: a unit that holds no byte holds no memory; a chunk is at most about as large as what
//! the unit held when it was taken, so that many connections with a few bytes each stay small. The pool has
//! chunks alone, no memory of an application.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::wire::PayRef;

/// The smallest chunk, in bytes.
const CHUNK_MIN: usize = 2 * 1024;
/// The largest chunk, in bytes.
const CHUNK_MAX: usize = 64 * 1024;
/// Sizes of chunks: powers of two from one to the other.
const SIZES: usize = (CHUNK_MAX / CHUNK_MIN).ilog2() as usize + 1;
/// The fewest bytes of an application's memory that are referred to.
const SHARED_MIN: usize = 1024;
/// The maximum number of bytes of emptied chunks that are kept of each size,
const SPARE_BYTES: usize = 512 << 10;
/// unless these are fewer chunks: of the largest, a whole send buffer's. Memory that goes back to
/// the system costs page faults when it is taken again, as much as filling it.
const SPARE_CHUNKS: usize = 64;
/// The most emptied units' lists that are kept, and pieces that such a list has room for.
const SPARE_LISTS: usize = 1024;
const SPARE_PIECES: usize = 64;

/// Memory that sending units gave back, for use again; what was used last comes first, since the
/// processor still has it at hand.
#[derive(Debug, Default)]
pub(crate) struct ChunkPool {
    chunks: [Vec<BytesMut>; SIZES],
    #[allow(clippy::vec_box)] // The boxes are what is used again.
    lists: Vec<Box<Held>>,
}

impl ChunkPool {
    fn take(&mut self, size: usize) -> BytesMut {
        self.chunks[index(size)]
            .pop()
            .unwrap_or_else(|| BytesMut::with_capacity(size))
    }

    /// Takes a chunk of this size back, unless something still refers to it: then it goes with that.
    fn give(&mut self, mut chunk: BytesMut, size: usize) {
        let chunks = &mut self.chunks[index(size)];
        chunk.clear();
        if chunks.len() < (SPARE_BYTES / size).max(SPARE_CHUNKS) && chunk.try_reclaim(size) {
            chunks.push(chunk);
        }
    }
}

/// The place of a size of chunks among all sizes.
fn index(size: usize) -> usize {
    (size / CHUNK_MIN).ilog2() as usize
}

/// A sending unit.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    retired: u64,
    /// Bytes below this have been in a packet, or are retired.
    sent: u64,
    end: u64,
    /// With as many bytes retired, and none held, it is over.
    size: u64,
    held: Option<Box<Held>>,
}

/// The bytes of a unit that has any.
#[derive(Debug, Default)]
struct Held {
    /// Sealed pieces, adjacent and in order.
    pieces: VecDeque<Piece>,
    /// The open chunk: bytes up to `end` that no packet has referred to.
    tail: BytesMut,
    /// The size of that chunk; 0: none was taken.
    chunk: usize,
}

/// Bytes that packets may refer to.
#[derive(Debug)]
struct Piece {
    /// The offset of the first.
    start: u64,
    bytes: Bytes,
    /// The size of the chunk that they are in; 0: the memory is an application's.
    chunk: usize,
}

impl Piece {
    /// The offset behind the last byte.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl SendBuffer {
    /// A unit for `size` bytes: it is over when they are retired. [`u64::MAX`]: for any number.
    pub(crate) fn new(size: u64) -> SendBuffer {
        SendBuffer { retired: 0, sent: 0, end: 0, size, held: None }
    }

    /// True when all bytes of its size have been retired, or it was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.retired >= self.size && self.retired == self.end
    }

    /// Gives everything up: it is over. Returns how many bytes it held.
    pub(crate) fn end(&mut self, pool: &mut ChunkPool) -> u64 {
        let held = self.held();
        self.clear(pool);
        self.size = 0;
        held
    }

    /// Bytes held: accepted and not retired.
    pub(crate) fn held(&self) -> u64 {
        self.end - self.retired
    }

    /// Bytes held that no packet has had yet.
    pub(crate) fn unsent(&self) -> u64 {
        self.end - self.sent.max(self.retired)
    }

    /// Bytes retired so far.
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

    /// Puts a reference to bytes at the end of the unit. A few bytes are copied, which costs less than a piece of their
    /// own.
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
        held.pieces.push_back(Piece { start, bytes, chunk: 0 });
    }

    /// Retires the first `len` bytes: later packets cannot refer to them. Returns how many there
    /// were.
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

    /// Gives all memory back. What was held is gone.
    pub(crate) fn clear(&mut self, pool: &mut ChunkPool) {
        self.retired = self.end;
        let Some(mut held) = self.held.take() else { return };
        // Before the last piece, so that this one finds itself alone. What is left of its own chunk
        // goes with it.
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

    /// Appends references to bytes [off, off + len) to `out` and returns how many bytes they are.
    ///
    /// What lies beyond the end is left out. A range that starts below the retired point gives
    /// nothing at all: the packet's header speaks of its first byte, so leaving only that out
    /// would put the rest in the wrong place.
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

impl Held {
    /// Makes the open bytes, which go up to `end`, referable; what is left of the chunk stays open.
    fn seal(&mut self, end: u64) {
        if !self.tail.is_empty() {
            self.pieces.push_back(Piece {
                start: end - self.tail.len() as u64,
                bytes: self.tail.split().freeze(),
                chunk: self.chunk,
            });
        }
    }

    fn retire_piece(&mut self, pool: &mut ChunkPool) {
        if let Some(Piece { bytes, chunk, .. }) = self.pieces.pop_front()
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

    /// The model: the whole stream in one vector.
    #[test]
    fn agrees_with_a_vector() {
        for seed in 0..60 {
            let mut rand = Rand::of(seed);
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
            unit.append(&[0; 100_000], &mut pool); // where nothing refers to any more
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
        // The pool does not keep it either when nobody else has it.
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
    fn memory_is_used_again_when_nothing_refers_to_it() {
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
