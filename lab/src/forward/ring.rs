//! Received frames in memory shared with the kernel (`packet(7)`, TPACKET_V2), each with the time
//! at which it came. No system call per frame, and no limit on socket buffers that a user without
//! privilege cannot raise.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use hawser_engine::wire::Nanos;

use crate::sys;

/// TPACKET_V2 of `enum tpacket_versions`.
const VERSION_2: libc::c_int = 1;
/// Bytes of a block, which holds whole frames.
const BLOCK: usize = 64 << 10;
/// What the kernel puts in front of a frame at max: `tpacket2_hdr`, `sockaddr_ll`, alignment.
const FRONT: usize = 96;
/// Frames of at max 1500 bytes that the ring holds: 24 ms at 1 Gbit/s, 4 MB.
const FRAMES: usize = 2048;

// Offsets in `struct tpacket2_hdr`; its first field is the status.
const LEN: usize = 4;
const CAPTURED: usize = 8;
const START: usize = 12;
const SECONDS: usize = 16;
const NANOS: usize = 20;

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    bytes: usize,
    frame: usize,
    frames: usize,
    next: usize,
}

// SAFETY: the memory is owned by the ring, and nothing of it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives a socket a ring for frames of a link with this MTU; before it is bound.
    pub(super) fn new(socket: BorrowedFd<'_>, mtu: u32) -> io::Result<Ring> {
        let frame = (FRONT + mtu as usize).next_power_of_two().max(2048);
        let frames = (FRAMES * 2048 / frame).max(512);
        let bytes = frame * frames;
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, VERSION_2)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (bytes / BLOCK) as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: frames as u32,
        };
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of the ring's full length.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
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
        Ok(Ring {
            memory,
            bytes,
            frame,
            frames,
            next: 0,
        })
    }

    /// Shows up to `max` frames with the times (CLOCK_REALTIME) of their arrival, and gives them
    /// back to the kernel. Returns how many places it went over; frames that are longer than a
    /// place are left out.
    pub(super) fn take(&mut self, max: usize, mut show: impl FnMut(Nanos, &[u8])) -> usize {
        for taken in 0..max {
            let status = self.status(self.next);
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return taken;
            }
            if let Some((at, frame)) = self.read(self.next) {
                show(at, frame);
            }
            self.status(self.next)
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.frames;
        }
        max
    }

    /// A frame that is ours; nothing when it was cut short.
    fn read(&self, index: usize) -> Option<(Nanos, &[u8])> {
        let bytes = self.place(index);
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (len, captured) = (number(LEN) as usize, number(CAPTURED) as usize);
        let start = usize::from(u16::from_ne_bytes([bytes[START], bytes[START + 1]]));
        let frame = bytes.get(start..start + captured).filter(|_| captured == len)?;
        Some((
            Nanos::from(number(SECONDS)) * 1_000_000_000 + Nanos::from(number(NANOS)),
            frame,
        ))
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the offset is a multiple of 2048 inside the mapping, which lives as long as
        // `self`; the kernel accesses the status atomically, too.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(index * self.frame).cast()) }
    }

    /// All bytes of a place that is ours. Places follow each other without gaps, since a block is
    /// a multiple of them.
    fn place(&self, index: usize) -> &[u8] {
        // SAFETY: the place lies inside the mapping, and the kernel does not write to it before
        // its status is set back, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(index * self.frame), self.frame) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// A packet socket on one interface.
#[derive(Debug)]
pub(super) struct Port {
    // Before the socket: it is unmapped first.
    ring: Ring,
    socket: std::os::fd::OwnedFd,
    /// Frames that the kernel had no room for, or would not send.
    pub(super) overrun: u64,
    pub(super) refused: u64,
}

impl Port {
    /// Opens the interface `name` of the calling thread's network namespace.
    pub(super) fn open(name: &str, mtu: u32) -> io::Result<Port> {
        let name = std::ffi::CString::new(name)?;
        let socket = sys::packet_socket()?;
        let ring = Ring::new(socket.as_fd(), mtu)?;
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        sys::bind_packet(socket.as_fd(), sys::interface_number(&name)?)?;
        Ok(Port {
            ring,
            socket,
            overrun: 0,
            refused: 0,
        })
    }

    /// Shows up to `max` frames that came; see [`Ring::take`].
    pub(super) fn receive(&mut self, max: usize, show: impl FnMut(Nanos, &[u8])) -> usize {
        self.ring.take(max, show)
    }

    /// Sends all frames; those that the kernel refuses, as when the interface is down, are lost.
    pub(super) fn send(&mut self, frames: &[&[u8]]) {
        let mut rest = frames;
        while !rest.is_empty() {
            match sys::send_all(self.socket.as_fd(), rest.iter().copied()) {
                Ok(sent) => rest = &rest[sent.max(1)..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.refused += 1;
                    rest = &rest[1..];
                }
            }
        }
    }

    /// Takes the kernel's error about an interface that went down: until then the socket
    /// is readable, and its next frame is refused.
    pub(super) fn clear_error(&self) {
        sys::clear_error(self.socket.as_fd());
    }

    /// Counts what the kernel had no room for.
    pub(super) fn count_overrun(&mut self) {
        self.overrun += sys::packet_drops(self.socket.as_fd());
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
