//! The receiving half of a stream, which puts arriving pieces in order.
//!
//! Invariants: bytes below `next` have been handed on in order or wait in `ready` and `tail`; `ranges` holds
//! disjoint pieces above `next` that do not touch it; no byte is kept twice.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

/// A piece smaller than this, in bytes, is copied, so that it does not keep a whole read buffer (64 KiB)
/// alive. A waiting piece therefore occupies at most four times its bytes.
const COPIED_BELOW: usize = 16_384;

/// The number of bytes that `tail` gathers before they move to `ready`.
const GATHERED: usize = 65_536;

/// The peer gave two different ends of the stream, or sent data beyond its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongEnd;

/// The effect of one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gain {
    /// The increase of the highest offset, on which credit is counted.
    pub(crate) higher: u64,
    /// Bytes that had already been received.
    pub(crate) again: u64,
    /// True if there is more to read in order, or the end is reached.
    pub(crate) readable: bool,
}

/// The receiving half of one stream.
#[derive(Debug, Default)]
pub(crate) struct Receive {
    /// All bytes below this offset have been received.
    next: u64,
    /// The offset after the highest received byte.
    highest: u64,
    /// Bytes in order that have not been read yet.
    ready: VecDeque<Bytes>,
    /// A buffer that gathers small pieces; follows `ready`.
    tail: BytesMut,
    /// Bytes in `ready` and `tail`.
    waiting: u64,
    /// Pieces above a gap, by their first offset.
    ranges: BTreeMap<u64, Bytes>,
    /// The offset at which the stream ends.
    end: Option<u64>,
}

impl Receive {
    /// Takes a piece. The caller has checked it against the credit.
    pub(crate) fn take(&mut self, offset: u64, bytes: Bytes, end: bool) -> Result<Gain, WrongEnd> {
        let last = offset + bytes.len() as u64;
        if end {
            self.end_at(last)?;
        } else if self.end.is_some_and(|known| last > known) {
            return Err(WrongEnd);
        }
        let higher = last.saturating_sub(self.highest);
        self.highest = self.highest.max(last);
        let before = self.next;
        let again = bytes.len() as u64 - self.store(offset, bytes);
        let readable = self.next > before || (end && self.end == Some(self.next));
        Ok(Gain { higher, again, readable })
    }

    /// Sets the end of the stream to `offset`.
    pub(crate) fn end_at(&mut self, offset: u64) -> Result<(), WrongEnd> {
        if self.end.is_some_and(|known| known != offset) || offset < self.highest {
            return Err(WrongEnd);
        }
        self.end = Some(offset);
        Ok(())
    }

    /// Stores the new bytes of a piece, and returns their number.
    fn store(&mut self, offset: u64, mut bytes: Bytes) -> u64 {
        let last = offset + bytes.len() as u64;
        if last <= self.next || bytes.is_empty() {
            return 0;
        }
        let mut at = offset;
        if at < self.next {
            bytes.advance((self.next - at) as usize);
            at = self.next;
        }
        if self.ranges.is_empty() && at == self.next {
            let new = bytes.len() as u64;
            self.deliver(bytes);
            return new;
        }
        let mut new = 0;
        for gap in self.missing(at..last) {
            let start = (gap.start - at) as usize;
            let piece = bytes.slice(start..start + (gap.end - gap.start) as usize);
            new += piece.len() as u64;
            if gap.start == self.next {
                self.deliver(piece);
            } else {
                let piece = if piece.len() < COPIED_BELOW {
                    Bytes::copy_from_slice(&piece)
                } else {
                    piece
                };
                self.ranges.insert(gap.start, piece);
            }
        }
        while let Some(entry) = self.ranges.first_entry() {
            if *entry.key() != self.next {
                break;
            }
            let piece = entry.remove();
            self.deliver(piece);
        }
        new
    }

    fn deliver(&mut self, piece: Bytes) {
        self.next += piece.len() as u64;
        self.waiting += piece.len() as u64;
        if piece.len() < COPIED_BELOW {
            self.tail.extend_from_slice(&piece);
            if self.tail.len() < GATHERED {
                return;
            }
        }
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze());
        }
        if piece.len() >= COPIED_BELOW {
            self.ready.push_back(piece);
        }
    }

    /// Returns the parts of `whole` (at or above `next`) that no range holds, ascending.
    fn missing(&self, whole: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = whole.start;
        let below = self.ranges.range(..=whole.start).next_back();
        for (&start, piece) in below
            .into_iter()
            .chain(self.ranges.range(whole.start + 1..whole.end))
        {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(start + piece.len() as u64);
        }
        if at < whole.end {
            gaps.push(at..whole.end);
        }
        gaps
    }

    /// Returns the next bytes in order, at most `max`.
    pub(crate) fn read(&mut self, max: usize) -> Option<Bytes> {
        let piece = match self.ready.front_mut() {
            Some(front) if front.len() > max => front.split_to(max),
            Some(_) => self.ready.pop_front()?,
            None if self.tail.is_empty() => return None,
            None => self.tail.split_to(max.min(self.tail.len())).freeze(),
        };
        self.waiting -= piece.len() as u64;
        Some(piece)
    }

    /// Returns true if the application has read everything up to the end.
    pub(crate) fn at_end(&self) -> bool {
        self.end == Some(self.next) && self.waiting == 0
    }

    /// Returns true if everything up to the end has been received.
    pub(crate) fn complete(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Ends the stream at `end` because the peer gave it up. Data that is held or still arrives is dropped.
    pub(crate) fn give_up(&mut self, end: u64) {
        self.ready.clear();
        self.tail.clear();
        self.waiting = 0;
        self.ranges.clear();
        self.next = end;
        self.highest = end;
        self.end = Some(end);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns the offset up to which the application has read.
    pub(crate) fn read_to(&self) -> u64 {
        self.next - self.waiting
    }

    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// The number of separate pieces that are kept out of order.
    pub(crate) fn pieces(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the lowest `max` ranges above the first gap.
    pub(crate) fn ranges(&self, max: usize) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&start, piece) in &self.ranges {
            let end = start + piece.len() as u64;
            if let Some(last) = ranges.last_mut().filter(|last| last.end == start) {
                last.end = end;
            } else if ranges.len() < max {
                ranges.push(start..end);
            } else {
                break;
            }
        }
        ranges
    }
}
