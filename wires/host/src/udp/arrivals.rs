//! Received datagrams and errors, as IP packets.
//!
//! Invariant: at most [`BATCH`] buffers of [`SLOT`] bytes are ever allocated, each on first use. At most
//! [`MAX_REPORTS`] errors wait.

use std::io::IoSliceMut;
use std::ops::Range;

use hawser_engine::wire::{Csum, RxFrame};
use hawser_time::Instant;

use super::control::{DatagramEnd, Incoming};
use super::headers::{self, IcmpError, PacketAddresses, ROOM};
use crate::sys;

/// The maximum number of system calls for a batch.
const BATCH: usize = 64;
/// The number of bytes after which a batch takes no more.
const BATCH_BYTES: usize = 256 << 10;
/// The size of a slot in bytes, with room for a header and the longest datagram, or for as many as the kernel
/// merges.
const SLOT: usize = ROOM + 65_536;
/// The maximum number of waiting errors. Further ones are dropped, as a network may do.
const MAX_REPORTS: usize = 64;

/// The storage of a packet.
#[derive(Clone, Debug)]
enum PacketStorage {
    /// The packet is the only one in a slot.
    Slot(usize),
    /// The packet was built in the shared buffer.
    Made,
}

/// The packets of a batch, and those that wait for the next one.
#[derive(Debug, Default)]
pub(super) struct DatagramQueue {
    slots: Vec<Box<[u8]>>,
    used: usize,
    made: Vec<u8>,
    frames: Vec<(PacketStorage, Range<usize>)>,
    /// The number of frames that were released, and of those in the current batch.
    done: usize,
    out: usize,
    bytes: usize,
    reports: usize,
    /// The maximum number of system calls for the next batch; 0 before the first.
    appetite: usize,
    at: Instant,
}

impl DatagramQueue {
    /// Returns how many system calls the next batch may make. It is one at first, and doubles each time the
    /// last batch did not reach the end. A caller that receives datagrams one by one therefore makes no
    /// system call to learn that there is no second one.
    pub(super) fn appetite(&self) -> usize {
        self.appetite.clamp(1, BATCH)
    }

    /// Records whether the batch reached the end.
    pub(super) fn sated(&mut self, is_end: bool) {
        self.appetite = if is_end {
            1
        } else {
            (self.appetite() * 2).min(BATCH)
        };
    }

    /// Returns whether packets wait that were in no batch yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.done + self.out < self.frames.len()
    }

    /// Returns whether the batch has reached its limits.
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.used >= BATCH || self.bytes >= BATCH_BYTES || self.frames.len() - self.done >= max
    }

    /// Returns a buffer for one system call.
    pub(super) fn buffer(&mut self) -> IoSliceMut<'_> {
        if self.used == self.slots.len() {
            self.slots.push(vec![0; SLOT].into_boxed_slice());
        }
        IoSliceMut::new(&mut self.slots[self.used][ROOM..])
    }

    /// Accepts the content of [`DatagramQueue::buffer`], and returns the number of datagrams in it.
    pub(super) fn take(&mut self, incoming: &Incoming, own: DatagramEnd) -> u64 {
        self.begin();
        let flow = PacketAddresses { from: incoming.remote, to: own, tos: incoming.tos, ttl: incoming.ttl };
        self.bytes += incoming.len;
        let size = usize::from(incoming.segment);
        if size == 0 || size >= incoming.len {
            let slot = &mut self.slots[self.used];
            if let Some(room) = slot.first_chunk_mut() {
                let header = headers::write(room, &flow, incoming.len);
                let range = ROOM - header..ROOM + incoming.len;
                self.frames.push((PacketStorage::Slot(self.used), range));
            }
            self.used += 1;
            return 1;
        }
        // The kernel has merged several datagrams. Each gets its own header, and the slot becomes free again.
        let mut count = 0;
        for datagram in self.slots[self.used][ROOM..][..incoming.len].chunks(size) {
            let mut room = [0; ROOM];
            let header = headers::write(&mut room, &flow, datagram.len());
            let start = self.made.len();
            self.made.extend_from_slice(&room[ROOM - header..]);
            self.made.extend_from_slice(datagram);
            self.frames.push((PacketStorage::Made, start..self.made.len()));
            count += 1;
        }
        count
    }

    /// Starts a set of packets that are received together and have the same time.
    fn begin(&mut self) {
        if self.frames.is_empty() {
            self.at = sys::monotonic();
        }
    }

    /// Accepts an error. Returns false if too many wait.
    pub(super) fn report(&mut self, report: &IcmpError<'_>) -> bool {
        if self.reports >= MAX_REPORTS {
            return false;
        }
        self.begin();
        self.reports += 1;
        let start = self.made.len();
        headers::report(&mut self.made, report);
        self.frames.push((PacketStorage::Made, start..self.made.len()));
        true
    }

    /// Hands out the next packets, and returns their number.
    pub(super) fn hand_out(&mut self, max: usize) -> usize {
        self.out = (self.frames.len() - self.done).min(max);
        self.out
    }

    /// Returns the i-th packet of the current batch.
    pub(super) fn frame(&self, i: usize) -> RxFrame<'_> {
        let (place, range) = &self.frames[self.done + i];
        let bytes = match place {
            PacketStorage::Slot(slot) => &self.slots[*slot],
            PacketStorage::Made => &self.made[..],
        };
        RxFrame {
            head: &bytes[range.clone()],
            tail: &[],
            csum: Csum::Complete,
            seg_size: 0,
            at: self.at,
        }
    }

    /// Releases the packets of the current batch.
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
