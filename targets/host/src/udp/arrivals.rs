//! Datagrams and errors that were received, as packets of IP.
//!
//! Invariant: at most [`BATCH`] buffers of [`SLOT`] bytes are ever allocated, each when it is first needed; at most
//! [`MAX_REPORTS`] errors wait.

use std::io::IoSliceMut;
use std::ops::Range;

use hawser_engine::wire::{Csum, RxFrame};
use hawser_time::Instant;

use super::control::{End, Incoming};
use super::headers::{self, Flow, ROOM, Report};
use crate::sys;

/// System calls per batch, at most.
const BATCH: usize = 64;
/// Bytes after which a batch takes no more.
const BATCH_BYTES: usize = 256 << 10;
/// Room for a header and the longest datagram, or for as many as the kernel merges.
const SLOT: usize = ROOM + 65_536;
/// Errors that wait, at most; further ones are dropped, as a network may.
const MAX_REPORTS: usize = 64;

/// Where a packet lies.
#[derive(Clone, Debug)]
enum Place {
    /// In a slot, as the only one.
    Slot(usize),
    /// Among those that were made here.
    Made,
}

/// The packets of a batch, and those that wait for the next.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    slots: Vec<Box<[u8]>>,
    used: usize,
    made: Vec<u8>,
    frames: Vec<(Place, Range<usize>)>,
    /// Frames that were given back, and those that are out now.
    done: usize,
    out: usize,
    bytes: usize,
    reports: usize,
    /// The maximum number of system calls for the next batch; 0 before the first.
    appetite: usize,
    at: Instant,
}

impl Arrivals {
    /// How many system calls the next batch may take: one at first, and twice as many as the last one where that did not
    /// find the end. So whoever gets datagrams one by one pays no system call to learn that there is no second.
    pub(super) fn appetite(&self) -> usize {
        self.appetite.clamp(1, BATCH)
    }

    /// The end was found, or not.
    pub(super) fn sated(&mut self, is_end: bool) {
        self.appetite = if is_end {
            1
        } else {
            (self.appetite() * 2).min(BATCH)
        };
    }

    /// Whether packets wait that no batch has had.
    pub(super) fn is_waiting(&self) -> bool {
        self.done + self.out < self.frames.len()
    }

    /// Whether it has as much as a batch may.
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.used >= BATCH || self.bytes >= BATCH_BYTES || self.frames.len() - self.done >= max
    }

    /// Room for what one system call brings.
    pub(super) fn buffer(&mut self) -> IoSliceMut<'_> {
        if self.used == self.slots.len() {
            self.slots.push(vec![0; SLOT].into_boxed_slice());
        }
        IoSliceMut::new(&mut self.slots[self.used][ROOM..])
    }

    /// Takes what [`Arrivals::buffer`] has got, and returns how many datagrams it is.
    pub(super) fn take(&mut self, incoming: &Incoming, own: End) -> u64 {
        self.begin();
        let flow = Flow { from: incoming.remote, to: own, tos: incoming.tos, ttl: incoming.ttl };
        self.bytes += incoming.len;
        let size = usize::from(incoming.segment);
        if size == 0 || size >= incoming.len {
            let slot = &mut self.slots[self.used];
            if let Some(room) = slot.first_chunk_mut() {
                let header = headers::write(room, &flow, incoming.len);
                let range = ROOM - header..ROOM + incoming.len;
                self.frames.push((Place::Slot(self.used), range));
            }
            self.used += 1;
            return 1;
        }
        // Merged by the kernel: each gets a header of its own. The slot is free again.
        let mut count = 0;
        for datagram in self.slots[self.used][ROOM..][..incoming.len].chunks(size) {
            let mut room = [0; ROOM];
            let header = headers::write(&mut room, &flow, datagram.len());
            let start = self.made.len();
            self.made.extend_from_slice(&room[ROOM - header..]);
            self.made.extend_from_slice(datagram);
            self.frames.push((Place::Made, start..self.made.len()));
            count += 1;
        }
        count
    }

    /// Packets that are taken together have one time.
    fn begin(&mut self) {
        if self.frames.is_empty() {
            self.at = sys::monotonic();
        }
    }

    /// Takes an error; false when too many wait.
    pub(super) fn report(&mut self, report: &Report<'_>) -> bool {
        if self.reports >= MAX_REPORTS {
            return false;
        }
        self.begin();
        self.reports += 1;
        let start = self.made.len();
        headers::report(&mut self.made, report);
        self.frames.push((Place::Made, start..self.made.len()));
        true
    }

    /// Hands out the next packets, and returns how many.
    pub(super) fn hand_out(&mut self, max: usize) -> usize {
        self.out = (self.frames.len() - self.done).min(max);
        self.out
    }

    /// The i-th packet that is out.
    pub(super) fn frame(&self, i: usize) -> RxFrame<'_> {
        let (place, range) = &self.frames[self.done + i];
        let bytes = match place {
            Place::Slot(slot) => &self.slots[*slot],
            Place::Made => &self.made[..],
        };
        RxFrame {
            head: &bytes[range.clone()],
            tail: &[],
            csum: Csum::Complete,
            seg_size: 0,
            at: self.at,
        }
    }

    /// Gives those that are out back.
    pub(super) fn release(&mut self) {
        self.done += self.out;
        self.out = 0;
        if self.done == self.frames.len() {
            self.frames.clear();
            self.made.clear();
            (self.done, self.used, self.bytes, self.reports) = (0, 0, 0, 0);
        }
    }
}
