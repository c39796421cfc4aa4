//! The sending half of a stream: the application's data, kept until the session acknowledges it.
//!
//! Invariants: every byte from `base` to `written` is in `chunks` or `tail`; every byte below `fresh` was
//! sent; a sent byte is acknowledged, in flight on the carriers of its [`Flight`], or in `again`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::ranges::Ranges;

/// Writes smaller than this, in bytes, are gathered.
const GATHERED_BELOW: usize = 16_384;
/// The maximum number of gathered bytes before they become a chunk.
const GATHERED: usize = 65_536;

/// A set of carriers of one session; bit n stands for slot n.
pub(crate) type Slots = u64;

/// A range of bytes that were sent on the same carriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    end: u64,
    on: Slots,
}

/// The part of a stream that may be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendRange {
    pub(crate) offset: u64,
    /// The number of bytes from `offset` that may go into one segment.
    pub(crate) length: usize,
    /// True if they were sent before.
    pub(crate) again: bool,
}

/// The state of the stream's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinState {
    Open,
    /// It is to be sent.
    Due,
    /// It was sent on these carriers.
    Sent(Slots),
    Acked,
}

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct Send {
    /// All bytes below this offset are acknowledged and freed.
    base: u64,
    /// The data from `base` on, in chunks with their first offsets.
    chunks: VecDeque<(u64, Bytes)>,
    /// A buffer that gathers small writes; follows the last chunk.
    tail: BytesMut,
    /// The offset after the last byte that was written.
    written: u64,
    /// The offset of the first byte that was never sent.
    fresh: u64,
    acked: Ranges,
    flights: BTreeMap<u64, Flight>,
    again: Ranges,
    end: FinState,
}

impl Send {
    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            chunks: VecDeque::new(),
            tail: BytesMut::new(),
            written: 0,
            fresh: 0,
            acked: Ranges::default(),
            flights: BTreeMap::new(),
            again: Ranges::default(),
            end: FinState::Open,
        }
    }

    /// Takes data that the application wrote.
    pub(crate) fn write(&mut self, bytes: Bytes) {
        debug_assert!(self.end == FinState::Open, "nothing is written after the end");
        if bytes.len() < GATHERED_BELOW {
            return self.write_slice(&bytes);
        }
        let length = bytes.len() as u64;
        self.close_tail();
        self.chunks.push_back((self.written, bytes));
        self.written += length;
    }

    /// Like `write`, but copies the bytes. This is the only copy before a carrier.
    pub(crate) fn write_slice(&mut self, bytes: &[u8]) {
        debug_assert!(self.end == FinState::Open, "nothing is written after the end");
        if self.tail.len() + bytes.len() > GATHERED {
            self.close_tail();
        }
        self.tail.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
    }

    /// Turns the gathered bytes into a chunk.
    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let start = self.written - self.tail.len() as u64;
            self.chunks.push_back((start, self.tail.split().freeze()));
        }
    }

    /// Ends the stream after the data written so far.
    pub(crate) fn finish(&mut self) {
        if self.end == FinState::Open {
            self.end = FinState::Due;
        }
    }

    /// Abandons the stream, of which no byte is sent any more. Returns its final offset, for RESET.
    pub(crate) fn abandon(&mut self) -> u64 {
        self.chunks.clear();
        self.tail.clear();
        self.flights.clear();
        self.again = Ranges::default();
        self.written = self.fresh;
        self.base = self.fresh;
        self.end = FinState::Acked;
        self.fresh
    }

    /// Returns the part to send next, with new bytes only below `credit`. `None` if there is none now.
    pub(crate) fn next(&self, credit: u64) -> Option<SendRange> {
        if let Some(range) = self.again.first() {
            let length = (range.end - range.start) as usize;
            return Some(SendRange { offset: range.start, length, again: true });
        }
        let limit = self.written.min(credit);
        if self.fresh < limit {
            return Some(SendRange {
                offset: self.fresh,
                length: (limit - self.fresh) as usize,
                again: false,
            });
        }
        (self.end == FinState::Due && self.fresh == self.written).then_some(SendRange {
            offset: self.written,
            length: 0,
            again: false,
        })
    }

    /// Returns the lowest bytes that are in flight and were not sent on `slot`. A second copy of these helps
    /// most.
    pub(crate) fn copy_for(&self, slot: u32) -> Option<SendRange> {
        let bit = 1 << slot;
        let found = self.flights.iter().find(|(_, flight)| flight.on & bit == 0);
        found.map(|(&offset, flight)| SendRange {
            offset,
            length: (flight.end - offset) as usize,
            again: true,
        })
    }

    /// Returns the carriers on which the byte at `offset` is in flight.
    pub(crate) fn carriers_of(&self, offset: u64) -> Slots {
        match self.flights.range(..=offset).next_back() {
            Some((_, flight)) if flight.end > offset => flight.on,
            _ => 0,
        }
    }

    /// Returns the slot of the only carrier on which the lowest bytes are in flight; `None` if there are
    /// several.
    pub(crate) fn lowest_alone_on(&self) -> Option<usize> {
        let (_, lowest) = self.flights.first_key_value()?;
        (lowest.on.count_ones() == 1).then(|| lowest.on.trailing_zeros() as usize)
    }

    /// Cuts at most `max` bytes at `offset` for the carrier in `slot`. Also returns true if they are the
    /// stream's last.
    pub(crate) fn cut(&mut self, offset: u64, max: usize, slot: u32) -> (Bytes, bool) {
        let bytes = self.bytes_at(offset, max);
        let last = offset + bytes.len() as u64;
        self.again.remove(offset..last);
        let fresh = self.fresh;
        self.fresh = self.fresh.max(last);
        let on = if last <= fresh {
            self.carriers_of(offset) | 1 << slot
        } else {
            1 << slot
        };
        self.fly(offset..last, on);
        let end = self.end != FinState::Open && last == self.written;
        if end {
            let before = if let FinState::Sent(on) = self.end { on } else { 0 };
            self.end = FinState::Sent(before | 1 << slot);
        }
        (bytes, end)
    }

    /// Returns at most `max` bytes from `offset` on, within one chunk.
    fn bytes_at(&mut self, offset: u64, max: usize) -> Bytes {
        if offset >= self.written {
            return Bytes::new();
        }
        if offset >= self.written - self.tail.len() as u64 {
            self.close_tail();
        }
        let index = self.chunks.partition_point(|(start, _)| *start <= offset) - 1;
        let (start, chunk) = &self.chunks[index];
        let from = (offset - start) as usize;
        chunk.slice(from..chunk.len().min(from.saturating_add(max)))
    }

    /// Records that `range` is in flight on `on`, in place of any earlier record.
    fn fly(&mut self, range: Range<u64>, on: Slots) {
        if range.is_empty() {
            return;
        }
        self.land(range.clone());
        // Adjacent ranges on the same carriers become one range.
        let mut start = range.start;
        if let Some((&before, flight)) = self.flights.range_mut(..range.start).next_back()
            && flight.end == range.start
            && flight.on == on
        {
            flight.end = range.end;
            start = before;
        }
        if start == range.start {
            self.flights.insert(start, Flight { end: range.end, on });
        }
    }

    /// Removes `range` from the bytes in flight.
    fn land(&mut self, range: Range<u64>) {
        while let Some((&start, &flight)) = self.flights.range(..range.end).next_back() {
            if flight.end <= range.start {
                break;
            }
            self.flights.remove(&start);
            if start < range.start {
                self.flights.insert(start, Flight { end: range.start, ..flight });
            }
            if flight.end > range.end {
                self.flights.insert(range.end, flight);
            }
        }
    }

    /// Records that the session has bytes below `cumulative`, those of `ranges`, and with `end` the whole
    /// stream. Returns the number of freed bytes, or `None` if the acknowledgement covers bytes that were
    /// never sent.
    pub(crate) fn ack(&mut self, cumulative: u64, ranges: &[Range<u64>], end: bool) -> Option<u64> {
        let highest = ranges.last().map_or(cumulative, |range| range.end);
        if highest > self.fresh || (end && (self.end == FinState::Open || cumulative != self.written)) {
            return None;
        }
        let before = self.base;
        if cumulative > self.base {
            self.got(self.base..cumulative);
        }
        for range in ranges {
            if range.end > self.base {
                self.got(range.start.max(self.base)..range.end);
            }
        }
        while let Some(range) = self.acked.first().filter(|range| range.start <= self.base) {
            self.base = self.base.max(range.end);
            self.acked.remove(range);
        }
        while self
            .chunks
            .front()
            .is_some_and(|(start, chunk)| start + chunk.len() as u64 <= self.base)
        {
            self.chunks.pop_front();
        }
        if end {
            self.end = FinState::Acked;
        }
        Some(self.base - before)
    }

    /// Records that the session has all data and the end.
    pub(crate) fn ack_all(&mut self) -> u64 {
        let freed = self.written - self.base;
        self.base = self.written;
        self.fresh = self.written;
        self.chunks.clear();
        self.tail.clear();
        self.flights.clear();
        self.acked = Ranges::default();
        self.again = Ranges::default();
        self.end = FinState::Acked;
        freed
    }

    fn got(&mut self, range: Range<u64>) {
        self.land(range.clone());
        self.again.remove(range.clone());
        self.acked.insert(range);
    }

    /// Handles the loss or suspicion of the carrier in `slot`. Bytes in flight only there are sent again.
    pub(crate) fn lost(&mut self, slot: u32) {
        let bit = 1 << slot;
        let mut gone = Vec::new();
        for (&start, flight) in &mut self.flights {
            flight.on &= !bit;
            if flight.on == 0 {
                gone.push(start..flight.end);
            }
        }
        for range in gone {
            self.flights.remove(&range.start);
            self.again.insert(range);
        }
        if let FinState::Sent(on) = self.end {
            self.end = if on & !bit == 0 {
                FinState::Due
            } else {
                FinState::Sent(on & !bit)
            };
        }
    }

    /// Returns true if bytes are in flight on any carrier.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Returns true if bytes or the end are in flight on `slot`.
    pub(crate) fn is_on(&self, slot: u32) -> bool {
        let bit = 1 << slot;
        self.flights.values().any(|flight| flight.on & bit != 0)
            || matches!(self.end, FinState::Sent(on) if on & bit != 0)
    }

    /// Returns the larger count of two: separate ranges that the peer has, and ranges in flight. The peer's
    /// acknowledgements decide how many there are.
    pub(crate) fn pieces(&self) -> usize {
        self.acked.count().max(self.flights.len())
    }

    /// Returns the number of bytes that were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written - self.fresh
    }

    /// Returns the number of bytes that are kept.
    pub(crate) fn kept(&self) -> u64 {
        self.written - self.base
    }

    /// Returns the first offset that was never sent.
    pub(crate) fn fresh(&self) -> u64 {
        self.fresh
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns true if the application has finished it.
    pub(crate) fn is_finished(&self) -> bool {
        self.end != FinState::Open
    }

    /// Returns true if the session has all of it, including the end.
    pub(crate) fn is_acked(&self) -> bool {
        self.end == FinState::Acked && self.base == self.written
    }
}
