//! A receive ring shared with the kernel (TPACKET_V2, `packet(7)` and the kernel's
//! `packet_mmap.rst`): for a packet socket whose receive buffer may not be made large.
//!
//! Invariants: a frame belongs to the kernel unless its status has TP_STATUS_USER; what belongs to
//! us stays as it is until [`Ring::release`].

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use hawser_engine::wire::{Csum, Nanos, RxFrame};

use crate::sys::{self, Plain};
use crate::{WireCounters, vnet};

/// Room for the ring's own header, a virtio-net and an Ethernet header and the longest IP packet,
/// in whole pages.
const FRAME: usize = 17 * 4096;
const FRAMES_PER_BLOCK: usize = 15;
const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 32;

/// Frames in the ring.
pub(crate) const FRAMES: usize = FRAMES_PER_BLOCK * BLOCKS;

/// TPACKET_V2 of `enum tpacket_versions`.
const VERSION_2: c_int = 1;

// Offsets in `struct tpacket2_hdr`; its first field is the status.
const LEN: usize = 4;
const CAPTURED: usize = 8;
const START: usize = 12;

/// One received frame, by its place in the ring.
#[derive(Clone, Copy, Debug)]
struct Received {
    index: usize,
    start: usize,
    len: usize,
    csum: Csum,
    seg_size: u16,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: NonNull<u8>,
    /// The frame that the kernel fills next.
    next: usize,
    /// Frames of the running batch.
    batch: Vec<Received>,
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
    pub(crate) fn new(socket: BorrowedFd<'_>) -> io::Result<Ring> {
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &VERSION_2)?;
        let mut request = libc::tpacket_req::zeroed();
        request.tp_block_size = BLOCK as u32;
        request.tp_block_nr = BLOCKS as u32;
        request.tp_frame_size = FRAME as u32;
        request.tp_frame_nr = FRAMES as u32;
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of the ring's full length.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), BLOCK * BLOCKS, access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { memory, next: 0, batch: Vec::new(), first: 0, taken: 0, at: 0 })
    }

    /// Takes frames until none waits, or `max` is reached. Returns how many the batch has.
    pub(crate) fn fill(&mut self, max: usize, counters: &mut WireCounters) -> usize {
        self.at = sys::monotonic_nanos();
        while self.batch.len() < max && self.taken < FRAMES {
            if self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            match self.read(self.next) {
                Some(received) => {
                    self.batch.push(received);
                    counters.received += 1;
                }
                None => counters.malformed += 1,
            }
            self.next = (self.next + 1) % FRAMES;
            self.taken += 1;
        }
        self.batch.len()
    }

    /// The i-th frame of the batch.
    pub(crate) fn frame(&self, i: usize) -> RxFrame<'_> {
        let received = self.batch[i];
        RxFrame {
            head: &self.bytes(received.index)[received.start..received.start + received.len],
            tail: &[],
            csum: received.csum,
            seg_size: received.seg_size,
            at: self.at,
        }
    }

    /// Gives the batch back to the kernel.
    pub(crate) fn release(&mut self) {
        for i in 0..self.taken {
            let index = (self.first + i) % FRAMES;
            self.status(index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.batch.clear();
        self.first = self.next;
        self.taken = 0;
    }

    /// Reads the headers of a frame that is ours; nothing when it was cut short.
    fn read(&self, index: usize) -> Option<Received> {
        let bytes = self.bytes(index);
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (len, captured) = (number(LEN) as usize, number(CAPTURED) as usize);
        let start = usize::from(u16::from_ne_bytes([bytes[START], bytes[START + 1]]));
        if captured < len || start < vnet::HEADER || start + len > FRAME {
            return None;
        }
        let (csum, seg_size) = vnet::read(bytes[start - vnet::HEADER..].first_chunk()?);
        Some(Received { index, start, len, csum, seg_size })
    }

    fn offset(index: usize) -> usize {
        index / FRAMES_PER_BLOCK * BLOCK + index % FRAMES_PER_BLOCK * FRAME
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the offset is a multiple of 4096 inside the mapping, which lives as long as
        // `self`; the kernel accesses the status atomically, too.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(Ring::offset(index)).cast()) }
    }

    /// All bytes of a frame that is ours.
    fn bytes(&self, index: usize) -> &[u8] {
        // SAFETY: the frame lies inside the mapping, and the kernel does not write to it before
        // `release`, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(Ring::offset(index)), FRAME) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}
