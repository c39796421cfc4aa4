//! Buffers for events and records, and the memory that a chain runs on.
//!
//! All buffers are 8-byte aligned, so that generated C can read them as structures.

use bytemuck::{Pod, bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};

use crate::abi::{EventHeader, Icmp, Net, ON_GLOBAL, Op, Packet, RecordHeader, RecordKind};
use crate::module::{AppOp, ContextId, EventId};

/// A vector of words with the first `used` in use. The words beyond are initialised but keep their previous
/// contents, so that clearing and writing again is free.
#[derive(Clone, Debug, Default)]
struct Words {
    all: Vec<u64>,
    used: usize,
}

impl Words {
    #[inline]
    fn used(&self) -> &[u64] {
        &self.all[..self.used]
    }

    /// Returns at least `count` words behind those in use, with arbitrary contents.
    #[inline]
    fn room(&mut self, count: usize) -> &mut [u64] {
        let end = self.used + count;
        if self.all.len() < end {
            self.all.resize(end, 0);
        }
        &mut self.all[self.used..]
    }

    /// Takes `count` more words into use and returns their bytes; the last word is zeroed first.
    fn take(&mut self, count: usize) -> &mut [u8] {
        self.room(count);
        let start = self.used;
        self.used += count;
        if let Some(last) = self.all[start..self.used].last_mut() {
            *last = 0;
        }
        cast_slice_mut(&mut self.all[start..self.used])
    }
}

/// The bytes that generated code wrote into a buffer are not a sequence of whole events or records. The
/// generated code has a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("generated code wrote bytes that are not a sequence of events or records")]
pub struct Malformed;

/// An ordered list of events of different sizes. It is reused: clearing keeps the memory.
#[derive(Clone, Debug, Default)]
pub struct EventBuf {
    words: Words,
    starts: Vec<u32>,
}

impl EventBuf {
    /// Removes all events.
    #[inline]
    pub fn clear(&mut self) {
        self.words.used = 0;
        self.starts.clear();
    }

    /// Keeps only the first `len` events.
    pub fn truncate(&mut self, len: usize) {
        if let Some(start) = self.starts.get(len) {
            self.words.used = *start as usize;
            self.starts.truncate(len);
        }
    }

    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Appends an event, given as its number and its bytes (a multiple of 8, header first).
    pub fn push(&mut self, event: EventId, bytes: &[u8]) {
        self.starts.push(self.words.used as u32);
        let room = self.words.take(bytes.len().div_ceil(8));
        room[..bytes.len()].copy_from_slice(bytes);
        let number = std::mem::offset_of!(EventHeader, event);
        room[number..number + 2].copy_from_slice(&(event.0 as u16).to_ne_bytes());
    }

    /// Returns room for at least `bytes` bytes behind the last event. Generated code writes events there,
    /// back to back, and [`EventBuf::commit`] makes them part of the list. Allocates only if the buffer has
    /// never been that large.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> &mut [u64] {
        self.words.room(bytes.div_ceil(8))
    }

    /// Appends `bytes` bytes that were written to [`EventBuf::room`]. `size_of` returns the size in bytes of
    /// an event by its number.
    ///
    /// # Errors
    /// If the bytes are not a sequence of whole events. The list is unchanged in that case.
    pub fn commit(&mut self, bytes: usize, size_of: impl Fn(u16) -> Option<usize>) -> Result<(), Malformed> {
        let before = self.starts.len();
        let end = self.words.used + bytes / 8;
        let mut at = self.words.used;
        while at < end {
            let number = self
                .words
                .all
                .get(at..)
                .and_then(event_number)
                .filter(|_| bytes.is_multiple_of(8));
            let size = number
                .and_then(&size_of)
                .filter(|size| *size >= std::mem::size_of::<EventHeader>())
                .unwrap_or(usize::MAX);
            if size > (end - at) * 8 || end > self.words.all.len() {
                self.starts.truncate(before);
                return Err(Malformed);
            }
            self.starts.push(at as u32);
            at += size.div_ceil(8);
        }
        self.words.used = end;
        Ok(())
    }

    /// Returns the bytes of the i-th event.
    #[must_use]
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let (a, b) = self.range(i);
        cast_slice(&self.words.all[a..b])
    }

    /// Returns the bytes of the i-th event, mutably.
    #[inline]
    pub fn get_mut(&mut self, i: usize) -> &mut [u8] {
        let (a, b) = self.range(i);
        cast_slice_mut(&mut self.words.all[a..b])
    }

    #[inline]
    fn range(&self, i: usize) -> (usize, usize) {
        let end = self.starts.get(i + 1).map_or(self.words.used, |s| *s as usize);
        (self.starts[i] as usize, end)
    }
}

/// Returns the number in the header of the event at the start of these words, or `None` if there are too few
/// words.
#[inline]
fn event_number(words: &[u64]) -> Option<u16> {
    let header = words.get(..size_of::<EventHeader>() / 8)?;
    Some(pod_read_unaligned::<EventHeader>(cast_slice(header)).event)
}

/// Returns the header of an event, given its bytes.
#[must_use]
#[inline]
pub fn event_header(event: &[u8]) -> EventHeader {
    pod_read_unaligned(&event[..size_of::<EventHeader>()])
}

/// Writes an event's header.
#[inline]
pub fn set_event_header(event: &mut [u8], header: &EventHeader) {
    event[..size_of::<EventHeader>()].copy_from_slice(bytes_of(header));
}

/// Instruction records, one after another, and the set of signals to record among them.
#[derive(Clone, Debug)]
pub struct RecordBuf {
    words: Words,
    wanted: u64,
}

impl Default for RecordBuf {
    /// No records; every signal is wanted.
    fn default() -> RecordBuf {
        RecordBuf { words: Words::default(), wanted: u64::MAX }
    }
}

impl RecordBuf {
    /// Selects the signals whose bits ([`crate::SignalId::bit`]) are set, and deselects all others.
    pub fn want(&mut self, signals: u64) {
        self.wanted = signals;
    }

    /// The signals that chains record. Other signals leave no record and have no other effect.
    #[must_use]
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Removes all records; the selection of signals stays.
    #[inline]
    pub fn clear(&mut self) {
        self.words.used = 0;
    }

    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        cast_slice(self.words.used())
    }

    /// Appends a record whose first field is a [`RecordHeader`], followed by the bytes of `tail`. Fills in
    /// kind, context and length.
    pub fn push<R: Pod>(&mut self, kind: RecordKind, on: u8, record: &R, tail: &[u8]) {
        self.push_on(kind, (on, 0), record, tail);
    }

    /// Appends a record about a `GLOBAL` context, given the index of the context's type; otherwise like
    /// `push`.
    pub fn push_global<R: Pod>(&mut self, kind: RecordKind, global: u16, record: &R, tail: &[u8]) {
        self.push_on(kind, (ON_GLOBAL, global), record, tail);
    }

    fn push_on<R: Pod>(&mut self, kind: RecordKind, (on, global): (u8, u16), record: &R, tail: &[u8]) {
        let size = size_of::<R>();
        let total = (size + tail.len()).next_multiple_of(8);
        let room = self.words.take(total / 8);
        room[..size].copy_from_slice(bytes_of(record));
        room[size..size + tail.len()].copy_from_slice(tail);
        let header = RecordHeader { kind: kind as u8, on, global, len: total as u32 };
        room[..size_of::<RecordHeader>()].copy_from_slice(bytes_of(&header));
    }

    /// Returns room for at least `bytes` bytes behind the last record. Generated code writes records there,
    /// back to back, and [`RecordBuf::commit`] makes them part of the list. Allocates only if the buffer has
    /// never been that large.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> &mut [u64] {
        self.words.room(bytes.div_ceil(8))
    }

    /// Appends `bytes` bytes that were written to [`RecordBuf::room`].
    ///
    /// # Errors
    /// If the bytes are not a sequence of whole records. The list is unchanged in that case.
    pub fn commit(&mut self, bytes: usize) -> Result<(), Malformed> {
        let written = self.words.all.get(self.words.used..self.words.used + bytes / 8);
        let mut rest = written.filter(|_| bytes.is_multiple_of(8)).ok_or(Malformed)?;
        while let Some(word) = rest.first() {
            let header: RecordHeader = bytemuck::cast(*word);
            let known = RecordKind::from_u8(header.kind).is_some();
            let words = header.len as usize / 8;
            if !known || words == 0 || !header.len.is_multiple_of(8) || words > rest.len() {
                return Err(Malformed);
            }
            rest = &rest[words..];
        }
        self.words.used += bytes / 8;
        Ok(())
    }

    #[inline]
    pub fn iter(&self) -> Records<'_> {
        Records { rest: self.bytes() }
    }
}

/// An iterator over records, in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Returns the next record as an iterator of its own.
    pub fn next_alone(&mut self) -> Option<Records<'a>> {
        let record = self.next()?;
        Some(Records { rest: record.bytes })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let header: RecordHeader = pod_read_unaligned(&self.rest[..size_of::<RecordHeader>()]);
        let (bytes, after) = self.rest.split_at(header.len as usize);
        self.rest = after;
        RecordKind::from_u8(header.kind).map(|kind| Record { kind, on: header.on, bytes })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub kind: RecordKind,
    /// The context that the record refers to: an `ON_…` constant.
    pub on: u8,
    /// All its bytes, header first.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns the `GLOBAL` context that the record refers to, if it refers to one.
    #[must_use]
    #[inline]
    pub fn global(&self) -> Option<ContextId> {
        (self.on == ON_GLOBAL).then(|| ContextId(self.fixed::<RecordHeader>().global.into()))
    }

    /// Returns the fixed part; `R` must be the type that [`RecordKind`] names for this kind.
    #[must_use]
    #[inline]
    pub fn fixed<R: Pod>(&self) -> R {
        pod_read_unaligned(&self.bytes[..size_of::<R>()])
    }

    /// Returns a reference to the fixed part. It needs no copy because records are 8-byte aligned.
    ///
    /// # Panics
    /// If the record does not lie in a [`RecordBuf`].
    #[must_use]
    #[inline]
    pub fn view<R: Pod>(&self) -> &'a R {
        bytemuck::from_bytes(&self.bytes[..size_of::<R>()])
    }

    /// Returns the bytes behind the fixed part `R`.
    #[must_use]
    #[inline]
    pub fn tail<R: Pod>(&self) -> &'a [u8] {
        &self.bytes[size_of::<R>()..]
    }
}

/// The input of a parser.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A received packet.
    Packet(Packet<'a>),
    /// An ICMP error, and the packet of this host that it quotes.
    Icmp(Packet<'a>, &'a Icmp),
    /// An application's request.
    App(AppOp, &'a Op),
    /// The start of the program.
    Start,
}

pub const NET_ZERO: Net = Net {
    src_ip: [0; 16],
    dst_ip: [0; 16],
    tot_len: 0,
    flow_label: 0,
    hdr_len: 0,
    segs: 0,
    seg_size: 0,
    protocol: 0,
    ttl: 0,
    ecn: 0,
    dscp: 0,
    prio: 0,
    version: 0,
    path_mtu: 0,
    src_port: 0,
    dst_port: 0,
    pad: [0; 4],
};

/// The memory that a chain runs on.
#[derive(Debug)]
pub struct Regions<'a> {
    /// The keyed context that was found by the event's ids.
    pub keyed: Option<(ContextId, &'a mut [u8])>,
    /// The slot reserved for `new_ctx`: zero except for the id in its header.
    pub fresh: Option<&'a mut [u8]>,
    /// All `GLOBAL` contexts, indexed by [`ContextId`]; the other entries are empty slices.
    pub globals: &'a mut [Vec<u8>],
    pub scratch: &'a mut [u8],
}

#[cfg(test)]
mod tests;
