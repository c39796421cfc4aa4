//! The engine's interface to devices, through which packets come in and go out.

use std::io;

use bytes::Bytes;
use hawser_time::Instant;

use crate::front::{Front, FrontResults};

/// The capabilities of a wire. Ask for capabilities, never for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The format of frames: they start with an Ethernet header or with an IP header.
    pub medium: Medium,
    /// The largest IP packet in bytes, apart from super-segments.
    pub mtu: u32,
    /// True if the wire completes transport checksums ([`TxFrame::csum`]).
    pub tx_csum: bool,
    /// The largest super-segment that the wire can segment, in bytes; 0 if it cannot.
    pub gso_max: u32,
    /// The capacity of the receive queue, in bytes. Frames beyond it are dropped and repaired like any other
    /// loss; windows are not reduced because of it.
    pub rx_queue_bytes: u64,
}

/// The format of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// IP packets.
    Ip,
    /// Ethernet frames, with the stack's own address.
    Ethernet([u8; 6]),
    /// IP packets whose headers represent the metadata that a socket of the host gives for a datagram. The
    /// host's kernel receives, answers and routes for its own addresses, and the wire has one port of them.
    /// Every datagram that it delivers is for this stack, and the stack sends no packets of its own network
    /// layer.
    Socket,
}

/// The state of a received frame's transport checksum.
pub use hawser_ir::abi::Csum;

/// A received frame, valid until [`Wire::release`].
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// The first bytes of the frame, with all headers.
    pub head: &'a [u8],
    /// The rest of the frame if the payload is stored elsewhere; often empty.
    pub tail: &'a [u8],
    /// The state of the transport checksum.
    pub csum: Csum,
    /// For a super-segment, the number of payload bytes of each packet except the last; 0 for a single
    /// packet.
    pub seg_size: u16,
    /// The time of arrival.
    pub at: Instant,
}

/// A shared, immutable, reference-counted piece of payload. Cloning does not copy the bytes.
///
/// It refers to a chunk of a stream's bytes, which is freed with the last reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayRef(Bytes);

impl PayRef {
    /// Returns the bytes of this piece.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the piece is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes [from, to) of this piece as a piece, for wires that cut super-segments.
    ///
    /// # Panics
    /// Panics if the range is not inside the piece.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> PayRef {
        PayRef(self.0.slice(from..to))
    }
}

impl From<Bytes> for PayRef {
    fn from(bytes: Bytes) -> PayRef {
        PayRef(bytes)
    }
}

impl From<Vec<u8>> for PayRef {
    fn from(bytes: Vec<u8>) -> PayRef {
        PayRef(bytes.into())
    }
}

/// A frame to send.
#[derive(Clone, Debug, Default)]
pub struct TxFrame {
    /// The link, network and transport headers.
    pub head: Vec<u8>,
    /// The payload, in pieces.
    pub payload: Vec<PayRef>,
    /// An Internet checksum to complete: the start of the summed bytes and the position of the field, both
    /// counted from the start of `head`. `None` if the checksum is complete.
    pub csum: Option<(u16, u16)>,
    /// The number of payload bytes of each packet into which the frame is to be cut; 0 if it is not to be
    /// cut.
    pub gso_size: u16,
    /// The link-layer priority.
    pub prio: u8,
    /// The number of the instruction that caused the frame, as the observer of the stack's events counts
    /// them, starting at 1. It is 0 without an observer, and for frames that no program sent.
    pub cause: u32,
}

impl TxFrame {
    /// Empties the frame and keeps its memory for reuse.
    pub fn clear(&mut self) {
        self.head.clear();
        self.payload.clear();
        self.csum = None;
        self.gso_size = 0;
        self.prio = 0;
        self.cause = 0;
    }

    /// Returns the number of bytes of the whole frame.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.iter().map(PayRef::len).sum::<usize>()
    }

    /// Returns true if the frame has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A source and sink of frames: a simulated link or a device.
///
/// The call order for each batch is [`Wire::receive`], any number of [`Wire::frame`], [`Wire::release`].
/// [`Wire::transmit`] may be called at any time.
pub trait Wire {
    /// Returns the capabilities of the wire, which never change.
    fn caps(&self) -> &Caps;

    /// Receives up to `max` frames and returns their number; 0 if no frame is waiting.
    ///
    /// # Errors
    /// Returns an error if the device has failed for good.
    fn receive(&mut self, max: usize) -> io::Result<usize>;

    /// Returns the i-th frame of the batch.
    fn frame(&self, i: usize) -> RxFrame<'_>;

    /// Returns the batch to the wire.
    fn release(&mut self);

    /// Returns the approximate number of bytes that the wire accepts now. Further bytes would wait in the
    /// wire's queue, where the program's priorities and ranks can no longer reorder them (Linux's byte queue
    /// limits have the same aim). The last frame may exceed the number. A wire without a queue accepts
    /// everything, which is the default.
    ///
    /// The engine asks only when frames are waiting to be sent, so a wire that answers 0 knows that there are
    /// more.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// Sends frames from the front of `frames` and returns how many were taken. The number is lower if the
    /// device is full for now. Frames that the device cannot send at all are dropped and counted, as a
    /// network may do.
    ///
    /// # Errors
    /// Returns an error if the device has failed for good.
    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize>;

    /// Returns the time at which the wire must be polled even if the device is idle, because it holds frames
    /// that are due then. A driver sleeps no longer than that. `None` means never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns the results of the chains that [`Wire::front`] ran on the i-th frame of the batch before the
    /// stack received it.
    fn ran(&self, _i: usize) -> Option<FrontResults<'_>> {
        None
    }

    /// Returns the front that runs chains while the stack sleeps, if the wire has one.
    fn front(&mut self) -> Option<&mut dyn Front> {
        None
    }
}
