//! Frames that a wire takes from a ring and returns all at once.
//!
//! The places of the ring hold either the longest packets, or one packet of the usual MTU. In the second case
//! a super-segment waits in the socket's buffer, and its place is marked accordingly (TP_STATUS_COPY). The
//! ring keeps the order, and memory is taken as needed.
//!
//! Invariant: in the ring's order, the socket's buffer holds at least as many packets as there are marked
//! places.

use std::ffi::c_int;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use hawser_engine::wire::{Csum, RxFrame};
use hawser_time::Instant;

use crate::ring::{Ring, RingLayout, RingSlot};
use crate::slots::{self, Slots};
use crate::{WireCounters, sys, vnet};

/// The capacity of a place in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotCapacity {
    /// Any packet: the ring's own header, a virtio-net and an Ethernet header and the longest IP packet, in
    /// whole pages; 32 MB in total.
    All,
    /// The headers and a packet of 1500 bytes; longer packets wait in the socket's buffer; 8 MB in total.
    Usual,
}

impl SlotCapacity {
    /// Returns the shape with room for at least `frames` frames, in whole blocks, up to the largest shape.
    pub(crate) fn shape(self, frames: usize) -> RingLayout {
        let largest = match self {
            SlotCapacity::All => {
                RingLayout { place: 17 * 4096, places_per_block: 15, block: 1 << 20, blocks: 32 }
            }
            SlotCapacity::Usual => {
                RingLayout { place: 2048, places_per_block: 32, block: 64 << 10, blocks: 128 }
            }
        };
        RingLayout {
            blocks: frames.div_ceil(largest.places_per_block).clamp(1, largest.blocks),
            ..largest
        }
    }
}

/// The number of bytes that a processor fetches at a time.
const CACHE_LINE: usize = 64;

/// One received frame.
#[derive(Debug)]
enum ReceivedFrame {
    Ring {
        /// An index into the batch's places.
        place: usize,
        bytes: Range<usize>,
        csum: Csum,
        seg_size: u16,
    },
    /// An index into the frames read from the socket's buffer.
    Buffer(usize),
}

/// The current batch and its ring.
#[derive(Debug)]
pub(crate) struct Batch {
    ring: Ring,
    /// The frames read from the socket's buffer.
    spilt: Slots,
    frames: Vec<ReceivedFrame>,
    /// The places that the batch has taken. There are more places than frames if some were empty.
    places: Vec<RingSlot>,
    at: Instant,
}

impl Batch {
    /// Sets up a ring on the socket, which must not be bound yet.
    pub(crate) fn new(socket: BorrowedFd<'_>, holds: SlotCapacity, shape: RingLayout) -> io::Result<Batch> {
        if holds == SlotCapacity::Usual {
            // Any number except 0 works (`packet(7)`, PACKET_COPY_THRESH).
            let spills: c_int = 1;
            sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &spills)?;
        }
        Ok(Batch {
            ring: Ring::new(socket, shape)?,
            spilt: Slots::default(),
            frames: Vec::new(),
            places: Vec::new(),
            at: Instant::ORIGIN,
        })
    }

    /// Takes frames until the ring is empty, `max` is reached, or [`Slots::is_full`] allows no more
    /// super-segments. Returns the number of frames in the batch.
    pub(crate) fn fill(&mut self, file: &File, max: usize, counters: &mut WireCounters) -> io::Result<usize> {
        while self.frames.len() < max && !self.spilt.is_full() {
            let Some(place) = self.ring.take() else { break };
            prefetch(self.ring.bytes(&place));
            let spilt = place.is_in_buffer();
            self.places.push(place);
            if spilt {
                if self.spilt.read(file, counters)? == slots::Read::Frame {
                    self.frames.push(ReceivedFrame::Buffer(self.spilt.len() - 1));
                }
            } else if let Some(received) = self.read(self.places.len() - 1) {
                self.frames.push(received);
                counters.received += 1;
            } else {
                counters.malformed += 1;
            }
        }
        if !self.frames.is_empty() {
            self.at = sys::monotonic();
        }
        Ok(self.frames.len())
    }

    /// Returns the i-th frame of the batch.
    pub(crate) fn frame(&self, i: usize) -> RxFrame<'_> {
        match &self.frames[i] {
            ReceivedFrame::Buffer(slot) => self.spilt.frame(*slot),
            ReceivedFrame::Ring { place, bytes, csum, seg_size } => RxFrame {
                head: &self.ring.bytes(&self.places[*place])[bytes.clone()],
                tail: &[],
                csum: *csum,
                seg_size: *seg_size,
                at: self.at,
            },
        }
    }

    /// Returns the batch to the kernel.
    pub(crate) fn release(&mut self) {
        self.places.drain(..).for_each(|place| self.ring.release(place));
        self.frames.clear();
        self.spilt.release();
    }

    /// Reads the headers of a frame. Returns `None` if it was truncated.
    fn read(&self, place: usize) -> Option<ReceivedFrame> {
        let bytes = self.ring.frame(&self.places[place])?;
        let header = bytes.start.checked_sub(vnet::HEADER)?;
        let (csum, seg_size) = vnet::read(self.ring.bytes(&self.places[place])[header..].first_chunk()?);
        Some(ReceivedFrame::Ring { place, bytes, csum, seg_size })
    }
}

/// Lets the processor fetch all headers of a frame at once, instead of one line after the other. Another
/// processor has just written them.
fn prefetch(bytes: &[u8]) {
    black_box(bytes[CACHE_LINE] ^ bytes[2 * CACHE_LINE]);
}
