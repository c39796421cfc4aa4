//! A receive ring shared with the kernel (TPACKET_V2, `packet(7)` and the kernel's
//! `packet_mmap.rst`): looking whether a frame has come costs no system call.
//!
//! Invariants: a place belongs to the kernel unless its status has TP_STATUS_USER; what belongs to us stays as
//! it is until [`Ring::release`]. A [`Place`] is made by its ring alone, at most one for each place at a time, so
//! that who holds one may read the place's bytes.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use hawser_time::Instant;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::sys::{self, Plain};

/// How a ring lies in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of a place, headers included; a multiple of 16.
    pub(crate) place: usize,
    pub(crate) places_per_block: usize,
    /// Bytes of a block; whole pages.
    pub(crate) block: usize,
    pub(crate) blocks: usize,
}

impl Shape {
    /// Places in the ring.
    pub(crate) const fn places(&self) -> usize {
        self.places_per_block * self.blocks
    }

    const fn bytes(&self) -> usize {
        self.block * self.blocks
    }
}

/// TPACKET_V2 of `enum tpacket_versions`.
const VERSION_2: c_int = 1;

// Offsets in `struct tpacket2_hdr`; its first field is the status.
const LEN: usize = 4;
const CAPTURED: usize = 8;
const START: usize = 12;
const SECONDS: usize = 16;
const NANOS: usize = 20;

/// A place of the ring that belongs to us.
#[derive(Debug)]
pub(crate) struct Place {
    index: usize,
    status: u32,
}

impl Place {
    /// Whether the packet is longer than the place and waits in the socket's buffer.
    pub(crate) fn is_in_buffer(&self) -> bool {
        self.status & libc::TP_STATUS_COPY != 0
    }
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    shape: Shape,
    memory: NonNull<u8>,
    /// The place that the kernel fills next.
    next: usize,
    /// Places that belong to us.
    held: usize,
}

// SAFETY: the memory is owned by the ring, and nothing of it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives the socket a ring; before it is bound.
    pub(crate) fn new(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<Ring> {
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &VERSION_2)?;
        let mut request = libc::tpacket_req::zeroed();
        request.tp_block_size = shape.block as u32;
        request.tp_block_nr = shape.blocks as u32;
        request.tp_frame_size = shape.place as u32;
        request.tp_frame_nr = shape.places() as u32;
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of the ring's full length.
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

    /// Places in the ring.
    pub(crate) fn places(&self) -> usize {
        self.shape.places()
    }

    /// The place that the kernel has filled next, if it has; it is given back by [`Ring::release`].
    pub(crate) fn take(&mut self) -> Option<Place> {
        let index = self.next;
        let status = self.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 || self.held == self.places() {
            return None;
        }
        self.next = (index + 1) % self.places();
        self.held += 1;
        Some(Place { index, status })
    }

    /// Gives a place back to the kernel.
    pub(crate) fn release(&mut self, place: Place) {
        self.held -= 1;
        self.status(place.index)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Where in the place's bytes its frame is; nothing when it was cut short.
    pub(crate) fn frame(&self, place: &Place) -> Option<Range<usize>> {
        let (len, captured) = (self.number(place, LEN), self.number(place, CAPTURED));
        let bytes = self.bytes(place);
        let start = usize::from(u16::from_ne_bytes([bytes[START], bytes[START + 1]]));
        let end = start + len as usize;
        (captured >= len && end <= bytes.len()).then_some(start..end)
    }

    /// When the frame came, by CLOCK_REALTIME.
    pub(crate) fn time(&self, place: &Place) -> Instant {
        let [seconds, nanos] = [SECONDS, NANOS].map(|at| u64::from(self.number(place, at)));
        Instant::from_nanos(seconds * 1_000_000_000 + nanos)
    }

    /// All bytes of a place.
    pub(crate) fn bytes(&self, place: &Place) -> &[u8] {
        // SAFETY: the place lies inside the mapping, and the kernel does not write to it before
        // `release`, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at(place.index).as_ptr(), self.shape.place) }
    }

    fn number(&self, place: &Place, at: usize) -> u32 {
        let bytes = self.bytes(place);
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the place starts at a multiple of 16 inside the mapping, which lives as long as
        // `self`; the kernel accesses the status atomically, too.
        unsafe { AtomicU32::from_ptr(self.at(index).as_ptr().cast()) }
    }

    fn at(&self, index: usize) -> NonNull<u8> {
        let Shape { place, places_per_block, block, .. } = self.shape;
        let offset = index / places_per_block * block + index % places_per_block * place;
        // SAFETY: every index is less than the number of places, which the mapping has room for.
        unsafe { self.memory.add(offset) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let memory: *mut c_void = self.memory.as_ptr().cast();
        // SAFETY: the mapping of `new`, to which no reference is left. It is mapped, so that this cannot fail.
        let _ = unsafe { munmap(memory, self.shape.bytes()) };
    }
}
