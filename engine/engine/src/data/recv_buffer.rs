//! A receiving ordered data unit: bytes arrive at their offsets, in any order, and are delivered in order
//! once the program flushes them.
//!
//! ```text
//!      taken        flushed          ready                 flushed + cap
//!        |  readable   |  contiguous   |  some bytes are here    |
//! ```
//!
//! Bytes within `cap` of the flush point are kept and never given up. Memory is allocated in pages as bytes
//! arrive. A byte that was never received can never be read: each page records its present bytes, and a flush
//! does not go beyond the contiguous ones.

use std::collections::VecDeque;

/// The number of bytes per page.
pub(crate) const PAGE: usize = 4096;

/// A page with one bit for each byte that is present in it. Bits below the unit's `ready` point have no
/// meaning.
#[derive(Debug)]
pub(crate) struct Page {
    bytes: [u8; PAGE],
    present: [u64; PAGE / 64],
    /// True if any of the bits is set.
    has_present: bool,
}

/// Returned pages, kept for reuse.
#[derive(Debug, Default)]
pub(crate) struct PagePool {
    spare: Vec<Box<Page>>,
    #[allow(clippy::vec_box)] // The boxes themselves are reused.
    lists: Vec<Box<UnitBytes>>,
}

/// The maximum number of spare pages kept: 4 MiB.
const SPARE_PAGES: usize = 1024;
/// The maximum number of emptied units' lists that are kept, and of pages that such a list has room for.
const SPARE_LISTS: usize = 1024;
const SPARE_ROOM: usize = 64;

impl PagePool {
    fn take(&mut self) -> Box<Page> {
        match self.spare.pop() {
            Some(mut page) => {
                if std::mem::take(&mut page.has_present) {
                    page.present.fill(0);
                }
                page
            }
            None => Box::new(Page { bytes: [0; PAGE], present: [0; PAGE / 64], has_present: false }),
        }
    }

    fn give(&mut self, page: Box<Page>) {
        if self.spare.len() < SPARE_PAGES {
            self.spare.push(page);
        }
    }
}

/// A receiving ordered data unit.
#[derive(Debug)]
pub(crate) struct RecvBuffer {
    taken: u64,
    flushed: u64,
    cap: u64,
    size: u64,
    held: Option<Box<UnitBytes>>,
}

/// The bytes of a unit that has any beyond the taken ones.
#[derive(Debug, Default)]
struct UnitBytes {
    pages: VecDeque<Option<Box<Page>>>,
    /// The offset of the first page; a multiple of [`PAGE`].
    base: u64,
    /// The number of pages in use.
    resident: usize,
    ready: u64,
    /// The offset behind the last byte present.
    highest: u64,
}

impl RecvBuffer {
    /// Creates a unit of `size` bytes in total that keeps bytes within `cap` of its flush point.
    pub(crate) fn new(size: u64, cap: u64) -> RecvBuffer {
        RecvBuffer { taken: 0, flushed: 0, cap, size, held: None }
    }

    /// Returns true if all bytes of its size have been delivered, or if it was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.flushed == self.size
    }

    /// Returns true if all bytes of its size have been delivered and not a single one was taken: a whole
    /// message. A unit that was ended early is not whole.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_over() && self.cap > 0 && self.taken == 0 && self.flushed > 0
    }

    /// Ends the unit, which accepts no more bytes. Flushed bytes can still be read; others are discarded.
    pub(crate) fn end(&mut self, pool: &mut PagePool) {
        self.size = self.flushed;
        self.cap = 0; // distinguishes it from a whole unit
        if self.readable() == 0 {
            self.clear(pool);
        } else if let Some(held) = &mut self.held {
            held.truncate(self.flushed, pool);
        }
    }

    /// Returns the number of bytes that the application can read.
    pub(crate) fn readable(&self) -> u64 {
        self.flushed - self.taken
    }

    /// Returns the number of bytes that the application has taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the number of bytes of memory in use.
    pub(crate) fn memory(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| (held.resident * PAGE) as u64)
    }

    /// Copies bytes, which come in pieces, to their place. Bytes below the contiguous point are already
    /// present; bytes beyond the window or the unit's size are left out. Returns the number of the given
    /// bytes that are now present.
    pub(crate) fn add<'a>(
        &mut self,
        offset: u64,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        pool: &mut PagePool,
    ) -> u64 {
        let limit = self.flushed.saturating_add(self.cap).min(self.size);
        let taken = self.taken;
        let ready = self.held.as_ref().map_or(taken, |held| held.ready);
        let mut end = offset;
        for bytes in pieces {
            let begin = end;
            end = begin.saturating_add(bytes.len() as u64);
            let (start, kept_end) = (begin.max(ready), end.min(limit));
            if start < kept_end {
                let held = self.held.get_or_insert_with(|| UnitBytes::begin(taken, pool));
                let kept = &bytes[(start - begin) as usize..(kept_end - begin) as usize];
                held.write(start, kept, pool);
            }
        }
        let (start, kept_end) = (offset.max(ready), end.min(limit));
        if let Some(held) = self.held.as_mut().filter(|_| start < kept_end) {
            held.add(start, kept_end);
        }
        kept_end.saturating_sub(offset)
    }

    /// Delivers the next `len` contiguous bytes to the application. Returns the number of missing bytes.
    pub(crate) fn flush(&mut self, len: u64) -> u64 {
        let given = self
            .held
            .as_ref()
            .map_or(0, |held| len.min(held.ready - self.flushed));
        self.flushed += given;
        len - given
    }

    /// Copies readable bytes out, frees their pages, and returns their number.
    pub(crate) fn read(&mut self, out: &mut [u8], pool: &mut PagePool) -> usize {
        let len = (out.len() as u64).min(self.readable()) as usize;
        if let Some(held) = &self.held {
            held.copy(self.taken, &mut out[..len]);
        }
        self.skip(len as u64, pool);
        len
    }

    /// Discards up to `len` readable bytes and returns their number.
    pub(crate) fn skip(&mut self, len: u64, pool: &mut PagePool) -> u64 {
        let len = len.min(self.readable());
        self.taken += len;
        let Some(held) = &mut self.held else { return len };
        while held.base + PAGE as u64 <= self.taken {
            held.base += PAGE as u64;
            if let Some(page) = held.pages.pop_front().flatten() {
                held.resident -= 1;
                pool.give(page);
            }
        }
        if self.taken == held.highest {
            // An idle stream keeps no memory.
            self.clear(pool);
        }
        len
    }

    /// Returns all memory to the pool. Bytes that were held and not taken are lost.
    pub(crate) fn clear(&mut self, pool: &mut PagePool) {
        let Some(mut held) = self.held.take() else { return };
        self.taken = self.flushed;
        held.pages.drain(..).flatten().for_each(|page| pool.give(page));
        if pool.lists.len() < SPARE_LISTS && held.pages.capacity() <= SPARE_ROOM {
            pool.lists.push(held);
        }
    }
}

impl UnitBytes {
    /// Starts holding bytes for a unit that has only the `taken` ones so far.
    fn begin(taken: u64, pool: &mut PagePool) -> Box<UnitBytes> {
        let mut held = pool.lists.pop().unwrap_or_default();
        held.base = taken / PAGE as u64 * PAGE as u64;
        held.resident = 0;
        (held.ready, held.highest) = (taken, taken);
        held
    }

    /// Returns the page of an offset, counted from `base`, and the position in it.
    fn locate(&self, offset: u64) -> (usize, usize) {
        let from_base = offset - self.base;
        (
            (from_base / PAGE as u64) as usize,
            (from_base % PAGE as u64) as usize,
        )
    }

    /// Copies present bytes into `out`.
    fn copy(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let (page, at) = self.locate(offset + done as u64);
            let n = (PAGE - at).min(out.len() - done);
            if let Some(page) = &self.pages[page] {
                out[done..done + n].copy_from_slice(&page.bytes[at..at + n]);
            }
            done += n;
        }
    }

    fn write(&mut self, offset: u64, mut bytes: &[u8], pool: &mut PagePool) {
        let (mut page, mut at) = self.locate(offset);
        while !bytes.is_empty() {
            if page >= self.pages.len() {
                self.pages.resize_with(page + 1, || None);
            }
            let slot = &mut self.pages[page];
            if slot.is_none() {
                self.resident += 1;
            }
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - at));
            slot.get_or_insert_with(|| pool.take()).bytes[at..at + now.len()].copy_from_slice(now);
            bytes = later;
            page += 1;
            at = 0;
        }
    }

    /// Records [from, to), which was just written, and moves the contiguous point if possible.
    fn add(&mut self, from: u64, to: u64) {
        self.highest = self.highest.max(to);
        if from != self.ready {
            return self.set_present(from, to);
        }
        self.ready = to;
        if self.highest > to {
            self.extend_ready();
        }
    }

    /// Records [from, to), which was just written, as present.
    fn set_present(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let (page, bit) = self.locate(at);
            let len = (64 - bit % 64).min((to - at) as usize);
            if let Some(page) = &mut self.pages[page] {
                page.has_present = true;
                page.present[bit / 64] |= (u64::MAX >> (64 - len)) << (bit % 64);
            }
            at += len as u64;
        }
    }

    /// Discards the bytes from `end` on; `end` lies within the contiguous bytes.
    fn truncate(&mut self, end: u64, pool: &mut PagePool) {
        (self.ready, self.highest) = (end, end);
        let needed = (end - self.base).div_ceil(PAGE as u64) as usize;
        for page in self.pages.drain(needed.min(self.pages.len())..).flatten() {
            self.resident -= 1;
            pool.give(page);
        }
    }

    /// Moves the contiguous point over bytes that arrived earlier.
    fn extend_ready(&mut self) {
        loop {
            let (page, bit) = self.locate(self.ready);
            let Some(Some(page)) = self.pages.get(page) else {
                return;
            };
            let present = (page.present[bit / 64] >> (bit % 64)).trailing_ones();
            self.ready += u64::from(present);
            if (present as usize) < 64 - bit % 64 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rand;
    use std::collections::BTreeMap;

    /// Compares with a model that has one map entry per byte.
    #[test]
    fn a_receive_buffer_agrees_with_a_map_of_bytes() {
        for seed in 0..60 {
            let mut rand = Rand::from_seed(seed);
            let (cap, size) = (1 + rand.below(30_000), 60_000 + rand.below(200_000));
            let mut unit = RecvBuffer::new(size, cap);
            let mut pool = PagePool::default();
            let mut held = BTreeMap::<u64, u8>::new();
            let (mut taken, mut flushed) = (0u64, 0u64);
            for _ in 0..600 {
                match rand.below(4) {
                    0 | 1 => {
                        let offset = (flushed + rand.below(cap + 2000)).saturating_sub(1000);
                        // The same offset always has the same byte, as in an honest stream.
                        let len = rand.below(4000);
                        let bytes: Vec<u8> = (offset..offset + len).map(byte_at).collect();
                        let (first, rest) = bytes.split_at(rand.below(len + 1) as usize);
                        let (second, third) = rest.split_at(rand.below(rest.len() as u64 + 1) as usize);
                        let kept = unit.add(offset, [first, second, third], &mut pool);
                        let limit = (flushed + cap).min(size);
                        let within = (offset..offset + len).filter(|o| *o < limit).count();
                        assert_eq!(kept as usize, within, "seed {seed}");
                        held.extend(
                            (offset..offset + len)
                                .filter(|o| *o < limit)
                                .map(|o| (o, byte_at(o))),
                        );
                    }
                    2 => {
                        let contiguous = (flushed..).take_while(|o| held.contains_key(o)).count() as u64;
                        let len = rand.below(contiguous * 2 + 10);
                        assert_eq!(unit.flush(len), len.saturating_sub(contiguous), "seed {seed}");
                        flushed += len.min(contiguous);
                    }
                    _ => {
                        let mut out = vec![0; rand.below(20_000) as usize];
                        let n = unit.read(&mut out, &mut pool);
                        assert_eq!(n as u64, (flushed - taken).min(out.len() as u64));
                        assert!((0..n).all(|i| out[i] == held[&(taken + i as u64)]), "seed {seed}");
                        taken += n as u64;
                    }
                }
                assert_eq!(unit.readable(), flushed - taken);
                assert!(unit.memory() <= flushed - taken + cap + 2 * PAGE as u64);
            }
        }
    }

    fn byte_at(offset: u64) -> u8 {
        (offset.wrapping_mul(0x9e37_79b9) >> 13) as u8
    }

    #[test]
    fn memory_is_used_again_without_old_presence_bits() {
        let mut pool = PagePool::default();
        let mut unit = RecvBuffer::new(u64::MAX, 1 << 20);
        unit.add(10, [&[1; 100][..]], &mut pool);
        unit.clear(&mut pool);
        let mut unit = RecvBuffer::new(u64::MAX, 1 << 20);
        unit.add(0, [&[2; 10][..]], &mut pool);
        assert_eq!(unit.flush(110), 100, "only ten bytes were received");
    }

    #[test]
    fn an_idle_unit_holds_no_memory() {
        let mut pool = PagePool::default();
        let mut unit = RecvBuffer::new(u64::MAX, 1 << 20);
        unit.add(0, [&[1; 5000][..]], &mut pool);
        assert_eq!(unit.memory(), 2 * PAGE as u64);
        unit.flush(5000);
        assert_eq!(unit.read(&mut [0; 5000], &mut pool), 5000);
        assert_eq!(unit.memory(), 0);
        unit.add(5000, [&[3; 5000][..]], &mut pool);
        unit.flush(5000);
        let mut out = [0; 5000];
        assert_eq!(unit.read(&mut out, &mut pool), 5000);
        assert_eq!(out, [3; 5000]);
    }

    #[test]
    fn a_receive_buffer_handles_offsets_near_the_maximum() {
        let mut pool = PagePool::default();
        let mut unit = RecvBuffer::new(u64::MAX, 1000);
        assert_eq!(
            unit.add(u64::MAX - 5, [&[1; 100][..]], &mut pool),
            0,
            "beyond the window"
        );
        assert_eq!(unit.flush(1), 1);
        assert_eq!(unit.memory(), 0);
    }
}
