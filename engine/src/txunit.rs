//! An ordered data unit on its way out: bytes [retired, end) of an application's stream or message.
//!
//! Bytes are appended to a chunk of at most 64 KB. A chunk is never moved or resized; packets
//! refer to its bytes, and it is freed when the last reference is gone. So bytes that a packet
//! refers to stay as they are when they are retired, and when the unit dies.
//!
//! Chunks start small and double, so that ten thousand idle connections do not hold 64 KB each.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::wire::PayRef;

/// The first chunk of a unit, in bytes.
const CHUNK_MIN: usize = 2 * 1024;
/// The largest chunk, in bytes.
const CHUNK_MAX: usize = 64 * 1024;

/// A sending unit.
#[derive(Debug, Default)]
pub(crate) struct TxUnit {
    /// Sealed pieces with their offsets, adjacent and in order.
    pieces: VecDeque<(u64, Bytes)>,
    /// The open chunk: bytes up to `end` that no packet has referred to.
    tail: BytesMut,
    /// Size of the last chunk taken.
    chunk: usize,
    retired: u64,
    end: u64,
}

impl TxUnit {
    /// Bytes held: accepted and not retired.
    pub(crate) fn held(&self) -> u64 {
        self.end - self.retired
    }

    /// Copies bytes to the end of the unit.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.tail.capacity() - self.tail.len();
            if room == 0 {
                self.open_chunk(bytes.len());
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.tail.extend_from_slice(now);
            self.end += now.len() as u64;
            bytes = later;
        }
    }

    fn open_chunk(&mut self, wanted: usize) {
        self.seal();
        self.chunk = wanted.next_power_of_two().max(self.chunk * 2).clamp(CHUNK_MIN, CHUNK_MAX);
        self.tail = BytesMut::with_capacity(self.chunk);
    }

    /// Makes the open bytes referable; what is left of the chunk stays open.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let start = self.end - self.tail.len() as u64;
            self.pieces.push_back((start, self.tail.split().freeze()));
        }
    }

    /// Retires the first `len` bytes: later packets cannot refer to them. Returns how many there
    /// were.
    pub(crate) fn retire(&mut self, len: u64) -> u64 {
        let len = len.min(self.held());
        self.retired += len;
        while self.pieces.front().is_some_and(|(start, piece)| start + piece.len() as u64 <= self.retired) {
            self.pieces.pop_front();
        }
        len
    }

    /// Appends references to bytes [off, off + len) to `out` and returns how many bytes they are.
    ///
    /// What lies beyond the end is left out. A range that starts below the retired point gives
    /// nothing at all: the packet's header speaks of its first byte, so leaving only that out
    /// would put the rest in the wrong place.
    pub(crate) fn refer(&mut self, off: u64, len: u32, out: &mut Vec<PayRef>) -> u32 {
        let end = off.saturating_add(u64::from(len)).min(self.end);
        if off < self.retired || off >= end {
            return 0;
        }
        if end > self.end - self.tail.len() as u64 {
            self.seal();
        }
        let first = self.pieces.partition_point(|(start, piece)| start + piece.len() as u64 <= off);
        for (start, piece) in self.pieces.range(first..).take_while(|(start, _)| *start < end) {
            let from = off.saturating_sub(*start) as usize;
            let to = (end - start).min(piece.len() as u64) as usize;
            out.push(PayRef::from(piece.slice(from..to)));
        }
        (end - off) as u32
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
            let mut rand = Rand::new(seed);
            let (mut unit, mut stream, mut retired) = (TxUnit::default(), Vec::<u8>::new(), 0);
            let mut issued: Vec<(Vec<PayRef>, Vec<u8>)> = Vec::new();
            for _ in 0..300 {
                match rand.below(4) {
                    0 => {
                        let len = if rand.below(8) == 0 { rand.below(150_000) } else { rand.below(3000) };
                        let bytes: Vec<u8> = (0..len).map(|_| rand.bits() as u8).collect();
                        unit.append(&bytes);
                        stream.extend(&bytes);
                    }
                    1 => {
                        let len = rand.below(4000);
                        let want = len.min((stream.len() - retired) as u64);
                        assert_eq!(unit.retire(len), want);
                        retired += want as usize;
                    }
                    _ => {
                        let off = rand.below(stream.len() as u64 + 10) as usize;
                        let len = rand.below(20_000) as usize;
                        let end = (off + len).min(stream.len());
                        let want = if off < retired || off >= end { &[] } else { &stream[off..end] };
                        let mut refs = Vec::new();
                        assert_eq!(unit.refer(off as u64, len as u32, &mut refs) as usize, want.len());
                        assert!(joined(&refs) == want, "seed {seed}");
                        issued.push((refs, want.to_vec()));
                    }
                }
                assert_eq!(unit.held() as usize, stream.len() - retired);
            }
            drop(unit);
            assert!(
                issued.iter().all(|(refs, want)| joined(refs) == *want),
                "seed {seed}: bytes changed later"
            );
        }
    }

    #[test]
    fn small_appends_share_a_piece() {
        let mut unit = TxUnit::default();
        (0..1000).for_each(|i| unit.append(&[i as u8]));
        let mut refs = Vec::new();
        assert_eq!(unit.refer(0, 1000, &mut refs), 1000);
        assert_eq!(refs.len(), 1);
    }

    #[test]
    fn offsets_pass_four_gigabytes() {
        let start = u64::from(u32::MAX) - 10;
        let mut unit = TxUnit { retired: start, end: start, ..TxUnit::default() };
        unit.append(&[7; 100]);
        let mut refs = Vec::new();
        assert_eq!(unit.refer(start + 20, 30, &mut refs), 30);
        assert_eq!(unit.retire(100), 100);
        assert_eq!(unit.refer(start + 20, 30, &mut refs), 0);
    }
}
