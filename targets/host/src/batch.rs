//! Frames that a wire takes from a ring, and gives back all at once.
//!
//! Its places hold either the longest packets, or one packet of the usual MTU. In the second case
//! a super-segment waits in the socket's buffer, and its place is marked so (TP_STATUS_COPY): the ring
//! has the order, and memory is taken as it is needed.
//!
//! Invariant: in the ring's order, at least as many packets wait in the socket's buffer as places are marked so.

use std::ffi::c_int;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use hawser_engine::wire::{Csum, RxFrame};
use hawser_time::Instant;

use crate::ring::{Place, Ring, Shape};
use crate::slots::{self, Slots};
use crate::{WireCounters, sys, vnet};

/// What a place of a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Any packet: the ring's own header, a virtio-net and an Ethernet header and the longest IP packet, in whole
    /// pages; 32 MB.
    All,
    /// The headers and a packet of 1500 bytes, longer ones being in the socket's buffer; 8 MB.
    Usual,
}

impl Holds {
    /// The shape with room for at least `frames` frames, in whole blocks, but with no more than the largest.
    pub(crate) fn shape(self, frames: usize) -> Shape {
        let largest = match self {
            Holds::All => Shape { place: 17 * 4096, places_per_block: 15, block: 1 << 20, blocks: 32 },
            Holds::Usual => Shape { place: 2048, places_per_block: 32, block: 64 << 10, blocks: 128 },
        };
        Shape {
            blocks: frames.div_ceil(largest.places_per_block).clamp(1, largest.blocks),
            ..largest
        }
    }
}

/// Bytes that a processor fetches at a time.
const CACHE_LINE: usize = 64;

/// One received frame.
#[derive(Debug)]
enum Received {
    Ring {
        /// One of the batch's places.
        place: usize,
        bytes: Range<usize>,
        csum: Csum,
        seg_size: u16,
    },
    /// One of those read from the socket's buffer.
    Buffer(usize),
}

/// The running batch and its ring.
#[derive(Debug)]
pub(crate) struct Batch {
    ring: Ring,
    /// What was read from the socket's buffer.
    spilt: Slots,
    frames: Vec<Received>,
    /// Places taken by the batch; more than it has frames when some held none.
    places: Vec<Place>,
    at: Instant,
}

impl Batch {
    /// Gives the socket a ring; before it is bound.
    pub(crate) fn new(socket: BorrowedFd<'_>, holds: Holds, shape: Shape) -> io::Result<Batch> {
        if holds == Holds::Usual {
            // Any number but 0 will do (`packet(7)`, PACKET_COPY_THRESH).
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

    /// Takes frames until none waits, or `max` is reached, or as many super-segments as
    /// [`Slots::is_full`] allows. Returns how many the batch has.
    pub(crate) fn fill(&mut self, file: &File, max: usize, counters: &mut WireCounters) -> io::Result<usize> {
        while self.frames.len() < max && !self.spilt.is_full() {
            let Some(place) = self.ring.take() else { break };
            prefetch(self.ring.bytes(&place));
            let spilt = place.is_in_buffer();
            self.places.push(place);
            if spilt {
                if self.spilt.read(file, counters)? == slots::Read::Frame {
                    self.frames.push(Received::Buffer(self.spilt.len() - 1));
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

    /// The i-th frame of the batch.
    pub(crate) fn frame(&self, i: usize) -> RxFrame<'_> {
        match &self.frames[i] {
            Received::Buffer(slot) => self.spilt.frame(*slot),
            Received::Ring { place, bytes, csum, seg_size } => RxFrame {
                head: &self.ring.bytes(&self.places[*place])[bytes.clone()],
                tail: &[],
                csum: *csum,
                seg_size: *seg_size,
                at: self.at,
            },
        }
    }

    /// Gives the batch back to the kernel.
    pub(crate) fn release(&mut self) {
        self.places.drain(..).for_each(|place| self.ring.release(place));
        self.frames.clear();
        self.spilt.release();
    }

    /// Reads the headers of a frame; nothing when it was cut short.
    fn read(&self, place: usize) -> Option<Received> {
        let bytes = self.ring.frame(&self.places[place])?;
        let header = bytes.start.checked_sub(vnet::HEADER)?;
        let (csum, seg_size) = vnet::read(self.ring.bytes(&self.places[place])[header..].first_chunk()?);
        Some(Received::Ring { place, bytes, csum, seg_size })
    }
}

/// Lets the processor fetch the headers of a frame, which another one has just written, all at once
/// rather than one line after the other.
fn prefetch(bytes: &[u8]) {
    black_box(bytes[CACHE_LINE] ^ bytes[2 * CACHE_LINE]);
}
