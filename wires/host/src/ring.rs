//! A receive ring shared with the kernel (TPACKET_V2, `packet(7)` and the kernel's `packet_mmap.rst`).
//! Checking for a frame costs no system call.
//!
//! Invariants: a place belongs to the kernel unless its status has TP_STATUS_USER. A place that belongs to us
//! does not change until [`Ring::release`]. Only its ring creates a [`RingSlot`], at most one for each place
//! at a time, so that its holder may read the place's bytes.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use hawser_time::Instant;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::sys::{self, Plain};

/// The memory layout of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLayout {
    /// The size of a place in bytes, including headers; a multiple of 16.
    pub(crate) place: usize,
    pub(crate) places_per_block: usize,
    /// The size of a block in bytes; whole pages.
    pub(crate) block: usize,
    pub(crate) blocks: usize,
}

impl RingLayout {
    /// Returns the number of places in the ring.
    pub(crate) const fn places(&self) -> usize {
        self.places_per_block * self.blocks
    }

    const fn bytes(&self) -> usize {
        self.block * self.blocks
    }
}

/// TPACKET_V2 of `enum tpacket_versions`.
const VERSION_2: c_int = 1;

// Offsets in `struct tpacket2_hdr`, whose first field is the status.
const LEN: usize = 4;
const CAPTURED: usize = 8;
const START: usize = 12;
const SECONDS: usize = 16;
const NANOS: usize = 20;

/// A place of the ring that belongs to us.
#[derive(Debug)]
pub(crate) struct RingSlot {
    index: usize,
    status: u32,
}

impl RingSlot {
    /// Returns whether the packet is longer than the place and waits in the socket's buffer.
    pub(crate) fn is_in_buffer(&self) -> bool {
        self.status & libc::TP_STATUS_COPY != 0
    }
}

#[derive(Debug)]
pub(crate) struct Ring {
    shape: RingLayout,
    memory: NonNull<u8>,
    /// The index of the place that the kernel fills next.
    next: usize,
    /// The number of places that belong to us.
    held: usize,
}

// SAFETY: the ring owns the memory, no part of which is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Sets up a ring on the socket, which must not be bound yet.
    pub(crate) fn new(socket: BorrowedFd<'_>, shape: RingLayout) -> io::Result<Ring> {
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &VERSION_2)?;
        let mut request = libc::tpacket_req::zeroed();
        request.tp_block_size = shape.block as u32;
        request.tp_block_nr = shape.blocks as u32;
        request.tp_frame_size = shape.place as u32;
        request.tp_frame_nr = shape.places() as u32;
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: creates a new mapping at an address of the kernel's choice, with the ring's full length.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                shape.bytes(),
                access,
                MapFlags::SHARED,
                socket,
                0,
            )
        }?;
        Ok(Ring {
            shape,
            memory: NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            next: 0,
            held: 0,
        })
    }

    /// Returns the number of places in the ring.
    pub(crate) fn places(&self) -> usize {
        self.shape.places()
    }

    /// Takes the next place if the kernel has filled it. [`Ring::release`] returns it.
    pub(crate) fn take(&mut self) -> Option<RingSlot> {
        let index = self.next;
        let status = self.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 || self.held == self.places() {
            return None;
        }
        self.next = (index + 1) % self.places();
        self.held += 1;
        Some(RingSlot { index, status })
    }

    /// Returns a place to the kernel.
    pub(crate) fn release(&mut self, place: RingSlot) {
        self.held -= 1;
        self.status(place.index)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Returns the range of the frame in the place's bytes, or `None` if it was truncated.
    pub(crate) fn frame(&self, place: &RingSlot) -> Option<Range<usize>> {
        let (len, captured) = (self.number(place, LEN), self.number(place, CAPTURED));
        let bytes = self.bytes(place);
        let start = usize::from(u16::from_ne_bytes([bytes[START], bytes[START + 1]]));
        let end = start + len as usize;
        (captured >= len && end <= bytes.len()).then_some(start..end)
    }

    /// Returns the time of the frame's arrival by CLOCK_REALTIME.
    pub(crate) fn time(&self, place: &RingSlot) -> Instant {
        let [seconds, nanos] = [SECONDS, NANOS].map(|at| u64::from(self.number(place, at)));
        Instant::from_nanos(seconds * 1_000_000_000 + nanos)
    }

    /// Returns all bytes of a place.
    pub(crate) fn bytes(&self, place: &RingSlot) -> &[u8] {
        // SAFETY: the place lies inside the mapping, and the kernel does not write to it before
        // `release`, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at(place.index).as_ptr(), self.shape.place) }
    }

    fn number(&self, place: &RingSlot, at: usize) -> u32 {
        let bytes = self.bytes(place);
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the place starts at a multiple of 16 inside the mapping, which lives as long as `self`. The
        // kernel also accesses the status atomically.
        unsafe { AtomicU32::from_ptr(self.at(index).as_ptr().cast()) }
    }

    fn at(&self, index: usize) -> NonNull<u8> {
        let RingLayout { place, places_per_block, block, .. } = self.shape;
        let offset = index / places_per_block * block + index % places_per_block * place;
        // SAFETY: every index is less than the number of places, for which the mapping has room.
        unsafe { self.memory.add(offset) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let memory: *mut c_void = self.memory.as_ptr().cast();
        // SAFETY: this is the mapping from `new`, to which no reference is left. It is mapped, so that the
        // call cannot fail.
        let _ = unsafe { munmap(memory, self.shape.bytes()) };
    }
}
