//! A receive ring shared with the kernel (TPACKET_V2, `packet(7)` and the kernel's
//! `packet_mmap.rst`): looking whether a frame has come costs no system call.
//!
//! Its frames hold either the longest packets, or one packet of the usual MTU. In the second case
//! a super-segment waits in the socket's buffer, and its frame says so (TP_STATUS_COPY): the ring
//! has the order, and memory is taken as it is needed.
//!
//! Invariants: a frame belongs to the kernel unless its status has TP_STATUS_USER; what belongs to
//! us stays as it is until [`Ring::release`]. In the ring's order, at least as many packets wait in
//! the socket's buffer as frames say so.

use std::ffi::c_int;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use hawser_engine::wire::{Csum, Nanos, RxFrame};

use crate::slots::{self, Slots};
use crate::sys::{self, Plain};
use crate::{WireCounters, vnet};

/// How a ring lies in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of a frame, headers included; a multiple of 16.
    frame: usize,
    frames_per_block: usize,
    /// Bytes of a block; whole pages.
    block: usize,
    blocks: usize,
    /// Packets that are longer than a frame wait in the socket's buffer.
    spills: bool,
}

impl Shape {
    /// Room in each frame for the ring's own header, a virtio-net and an Ethernet header and the
    /// longest IP packet, in whole pages; 32 MB.
    pub(crate) const LARGE: Shape = Shape {
        frame: 17 * 4096,
        frames_per_block: 15,
        block: 1 << 20,
        blocks: 32,
        spills: false,
    };
    /// Room for the headers and a packet of 1500 bytes; 8 MB.
    pub(crate) const SMALL: Shape = Shape {
        frame: 2048,
        frames_per_block: 32,
        block: 64 << 10,
        blocks: 128,
        spills: true,
    };

    /// The same with room for at least `frames` frames, in whole blocks, but with no more than it has.
    pub(crate) fn with_frames(self, frames: usize) -> Shape {
        Shape {
            blocks: frames.div_ceil(self.frames_per_block).clamp(1, self.blocks),
            ..self
        }
    }

    /// Frames in the ring.
    pub(crate) const fn frames(&self) -> usize {
        self.frames_per_block * self.blocks
    }

    /// Whether packets that are longer than a frame wait in the socket's buffer.
    pub(crate) const fn spills(&self) -> bool {
        self.spills
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

/// Bytes that a processor fetches at a time.
const CACHE_LINE: usize = 64;

/// One received frame, by its place in the ring.
#[derive(Clone, Copy, Debug)]
struct Received {
    index: usize,
    start: usize,
    len: usize,
    csum: Csum,
    seg_size: u16,
}

/// Where a frame of the batch is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Ring(Received),
    /// This one of those read from the socket's buffer.
    Buffer(usize),
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    shape: Shape,
    memory: NonNull<u8>,
    /// What was read from the socket's buffer.
    spilt: Slots,
    /// The frame that the kernel fills next.
    next: usize,
    /// Frames of the running batch.
    batch: Vec<Place>,
    /// Ring places taken by the running batch, from the first on; more than `batch` has when some
    /// held no frame.
    first: usize,
    taken: usize,
    at: Nanos,
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
        request.tp_frame_size = shape.frame as u32;
        request.tp_frame_nr = shape.frames() as u32;
        if shape.spills {
            // Any number but 0 will do (`packet(7)`, PACKET_COPY_THRESH).
            let spills: c_int = 1;
            sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &spills)?;
        }
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of the ring's full length.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                shape.bytes(),
                access,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let spilt = Slots::default();
        Ok(Ring {
            shape,
            memory,
            spilt,
            next: 0,
            batch: Vec::new(),
            first: 0,
            taken: 0,
            at: 0,
        })
    }

    /// Frames in the ring.
    pub(crate) fn frames(&self) -> usize {
        self.shape.frames()
    }

    /// Takes frames until none waits, or `max` is reached, or as many super-segments as
    /// [`Slots::is_full`] allows. Returns how many the batch has.
    pub(crate) fn fill(&mut self, file: &File, max: usize, counters: &mut WireCounters) -> io::Result<usize> {
        while self.batch.len() < max && self.taken < self.frames() && !self.spilt.is_full() {
            let status = self.status(self.next).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            self.fetch(self.next);
            if status & libc::TP_STATUS_COPY != 0 {
                if self.spilt.read(file, counters)? == slots::Read::Frame {
                    self.batch.push(Place::Buffer(self.spilt.len() - 1));
                }
            } else if let Some(received) = self.read(self.next) {
                self.batch.push(Place::Ring(received));
                counters.received += 1;
            } else {
                counters.malformed += 1;
            }
            self.next = (self.next + 1) % self.frames();
            self.taken += 1;
        }
        if !self.batch.is_empty() {
            self.at = sys::monotonic_nanos();
        }
        Ok(self.batch.len())
    }

    /// The i-th frame of the batch.
    pub(crate) fn frame(&self, i: usize) -> RxFrame<'_> {
        match &self.batch[i] {
            Place::Buffer(slot) => self.spilt.frame(*slot),
            Place::Ring(received) => RxFrame {
                head: &self.bytes(received.index)[received.start..received.start + received.len],
                tail: &[],
                csum: received.csum,
                seg_size: received.seg_size,
                at: self.at,
            },
        }
    }

    /// Gives the batch back to the kernel.
    pub(crate) fn release(&mut self) {
        for i in 0..self.taken {
            let index = (self.first + i) % self.frames();
            self.status(index)
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.batch.clear();
        self.spilt.release();
        self.first = self.next;
        self.taken = 0;
    }

    /// Reads the headers of a frame that is ours; nothing when it was cut short.
    fn read(&self, index: usize) -> Option<Received> {
        let bytes = self.bytes(index);
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (len, captured) = (number(LEN) as usize, number(CAPTURED) as usize);
        let start = usize::from(u16::from_ne_bytes([bytes[START], bytes[START + 1]]));
        if captured < len || start < vnet::HEADER || start + len > self.shape.frame {
            return None;
        }
        let (csum, seg_size) = vnet::read(bytes[start - vnet::HEADER..].first_chunk()?);
        Some(Received {
            index,
            start,
            len,
            csum,
            seg_size,
        })
    }

    fn offset(&self, index: usize) -> usize {
        let Shape {
            frame,
            frames_per_block,
            block,
            ..
        } = self.shape;
        index / frames_per_block * block + index % frames_per_block * frame
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the offset is a multiple of 16 inside the mapping, which lives as long as
        // `self`; the kernel accesses the status atomically, too.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(self.offset(index)).cast()) }
    }

    /// Lets the processor fetch the headers of a frame that is ours, which another one has just
    /// written, all at once rather than one line after the other.
    fn fetch(&self, index: usize) {
        let bytes = self.bytes(index);
        black_box(bytes[CACHE_LINE] ^ bytes[2 * CACHE_LINE]);
    }

    /// All bytes of a frame that is ours.
    fn bytes(&self, index: usize) -> &[u8] {
        // SAFETY: the frame lies inside the mapping, and the kernel does not write to it before
        // `release`, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.offset(index)), self.shape.frame) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.shape.bytes()) };
    }
}
