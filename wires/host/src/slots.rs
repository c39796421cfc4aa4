//! Frames to and from a file descriptor that transfers one frame for each system call: a TUN device or a
//! packet socket.
//!
//! Invariant: at most [`BATCH`] buffers of [`SLOT`] bytes are ever allocated, each on first use.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};

use hawser_engine::wire::{Csum, RxFrame, TxFrame};
use hawser_time::Instant;

use crate::{WireCounters, sys, vnet};

/// The maximum number of frames in a batch.
pub(crate) const BATCH: usize = 64;

/// The number of bytes after which a batch takes no more, so that it is processed while the data is still in
/// the processor's cache.
const BATCH_BYTES: usize = 256 << 10;

/// The size of a slot in bytes, with room for a virtio-net header, an Ethernet header and the longest IP
/// packet.
pub(crate) const SLOT: usize = vnet::HEADER + 14 + 65_536;

/// The number of pieces of a frame that need no allocation.
const USUAL_PIECES: usize = 24;

/// The maximum number of pieces in one system call (IOV_MAX).
const MAX_PIECES: usize = 1024;

/// The number of bytes up to which a frame is gathered into one buffer. Copying it is cheaper than describing
/// its pieces to the kernel.
const SMALL: usize = 512;

/// One received frame.
#[derive(Debug)]
struct Slot {
    bytes: Box<[u8]>,
    len: usize,
    csum: Csum,
    seg_size: u16,
}

/// The buffers of a batch.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    used: usize,
    /// The number of bytes of the frames in use.
    bytes: usize,
    /// The maximum number of frames of the next batch; 0 before the first.
    appetite: usize,
    at: Instant,
}

/// The result of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Frame,
    /// An invalid frame; more frames may follow.
    Malformed,
    Nothing,
}

impl Slots {
    /// Reads frames until the device is empty, or until `max` or the batch is full. Returns the number of
    /// frames in the batch.
    ///
    /// A batch begins with one frame, and may be twice as large as the last one while frames wait. A caller
    /// that receives frames one by one, as in a request-response exchange, makes no system call to learn that
    /// there is no second one.
    pub(crate) fn fill(&mut self, file: &File, max: usize, counters: &mut WireCounters) -> io::Result<usize> {
        let limit = max.min(self.appetite.max(1));
        while self.used < limit && !self.is_full() {
            match self.read(file, counters)? {
                Read::Frame | Read::Malformed => {}
                Read::Nothing => {
                    self.appetite = 1;
                    return Ok(self.used);
                }
            }
        }
        self.appetite = (limit * 2).min(BATCH);
        Ok(self.used)
    }

    /// Returns whether the batch has reached its limits.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= BATCH || self.bytes >= BATCH_BYTES
    }

    /// Returns the number of frames in the batch.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Reads one frame into a batch that is not full.
    pub(crate) fn read(&mut self, mut file: &File, counters: &mut WireCounters) -> io::Result<Read> {
        if self.used == self.slots.len() {
            let bytes = vec![0; SLOT].into_boxed_slice();
            self.slots
                .push(Slot { bytes, len: 0, csum: Csum::Unverified, seg_size: 0 });
        }
        let slot = &mut self.slots[self.used];
        loop {
            counters.system_calls += 1;
            let len = match io::Read::read(&mut file, &mut slot.bytes) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Read::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A packet socket reports once that its interface went down. The interface may come up again.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => return Ok(Read::Nothing),
                Err(error) => return Err(error),
            };
            let Some(header) = slot.bytes.first_chunk().filter(|_| len > vnet::HEADER) else {
                counters.malformed += 1;
                return Ok(Read::Malformed);
            };
            if self.used == 0 {
                self.at = sys::monotonic();
            }
            (slot.csum, slot.seg_size) = vnet::read(header);
            slot.len = len;
            self.used += 1;
            self.bytes += len;
            counters.received += 1;
            return Ok(Read::Frame);
        }
    }

    /// Returns the i-th frame of the batch.
    pub(crate) fn frame(&self, i: usize) -> RxFrame<'_> {
        let slot = &self.slots[i];
        RxFrame {
            head: &slot.bytes[vnet::HEADER..slot.len],
            tail: &[],
            csum: slot.csum,
            seg_size: slot.seg_size,
            at: self.at,
        }
    }

    /// Releases the batch.
    pub(crate) fn release(&mut self) {
        self.used = 0;
        self.bytes = 0;
    }
}

/// A device for sending frames.
pub(crate) trait Transmit {
    /// Sends a contiguous frame.
    fn send(&mut self, frame: &[u8]) -> io::Result<usize>;

    /// Sends a frame in pieces.
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;
}

/// Sends frames from the front of `frames`, each by one system call, until the device is full. Returns how
/// many were accepted or dropped. `network` is the offset of their network header.
pub(crate) fn send(
    device: &mut impl Transmit,
    frames: &[TxFrame],
    network: usize,
    counters: &mut WireCounters,
) -> io::Result<usize> {
    let mut taken = 0;
    while let Some(frame) = frames.get(taken) {
        let header = vnet::write(frame, network).filter(|_| frame.payload.len() + 2 <= MAX_PIECES);
        let Some(header) = header else {
            counters.refused += 1;
            taken += 1;
            continue;
        };
        counters.system_calls += 1;
        match send_one(device, &header, frame) {
            Ok(_) => counters.sent += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_refusal(&error) => counters.refused += 1,
            Err(error) => return Err(error),
        }
        taken += 1;
    }
    Ok(taken)
}

/// Returns whether an error concerns this frame, or a device that may come back, rather than a device that is
/// gone.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EMSGSIZE | libc::ENOBUFS | libc::ENOMEM | libc::ENETDOWN | libc::EIO)
    )
}

fn send_one(device: &mut impl Transmit, header: &[u8], frame: &TxFrame) -> io::Result<usize> {
    let pieces = frame.payload.len() + 2;
    if header.len() + frame.len() <= SMALL {
        let mut bytes = [0; SMALL];
        let mut end = 0;
        let payload = frame.payload.iter().map(|piece| piece.bytes());
        for piece in [header, &frame.head].into_iter().chain(payload) {
            bytes[end..end + piece.len()].copy_from_slice(piece);
            end += piece.len();
        }
        device.send(&bytes[..end])
    } else if pieces <= USUAL_PIECES {
        let mut slices = [IoSlice::new(&[]); USUAL_PIECES];
        describe(&mut slices, header, frame);
        device.send_pieces(&slices[..pieces])
    } else {
        let mut slices = vec![IoSlice::new(&[]); pieces];
        describe(&mut slices, header, frame);
        device.send_pieces(&slices)
    }
}

fn describe<'a>(slices: &mut [IoSlice<'a>], header: &'a [u8], frame: &'a TxFrame) {
    slices[0] = IoSlice::new(header);
    slices[1] = IoSlice::new(&frame.head);
    for (slice, piece) in slices[2..].iter_mut().zip(&frame.payload) {
        *slice = IoSlice::new(piece.bytes());
    }
}
