//! What the engine knows of how packets come in and go out.

use std::io;

use bytes::Bytes;
use hawser_time::Instant;

use crate::front::{Front, Ran};

/// What a wire can do. Ask for capabilities, never for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Frames start with an Ethernet header; otherwise with IP.
    pub medium: Medium,
    /// The largest IP packet in bytes, apart from super-segments.
    pub mtu: u32,
    /// The wire completes transport checksums ([`TxFrame::csum`]).
    pub tx_csum: bool,
    /// The largest super-segment that it cuts, in bytes; 0: none.
    pub gso_max: u32,
    /// Bytes that its receive queue holds. What arrives beyond them is dropped, and repaired as any
    /// other loss: windows are not made smaller for it.
    pub rx_queue_bytes: u64,
}

/// What frames are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// IP packets.
    Ip,
    /// Ethernet frames, and the stack's own address.
    Ethernet([u8; 6]),
    /// IP packets whose headers stand for what a socket of the host says of a datagram. The host's kernel receives,
    /// answers and routes for its own addresses, of which the wire has one port: what it delivers is for this stack,
    /// and the stack sends no packets of its own network layer.
    Socket,
}

/// How a received frame's transport checksum stands.
pub use hawser_ir::abi::Csum;

/// A received frame. It stays as it is until [`Wire::release`].
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// The first bytes; all headers are here.
    pub head: &'a [u8],
    /// What follows, where the payload lies elsewhere; often empty.
    pub tail: &'a [u8],
    /// The transport checksum's standing.
    pub csum: Csum,
    /// For a super-segment: payload bytes of each packet but the last; 0 for one packet.
    pub seg_size: u16,
    /// When it arrived.
    pub at: Instant,
}

/// A piece of payload: shared, immutable, counted. Cloning takes no copy.
///
/// It refers to a chunk of a stream's bytes, which is freed when the last reference is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayRef(Bytes);

impl PayRef {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes [from, to) of this piece, as a piece: for wires that cut super-segments.
    ///
    /// # Panics
    /// When the range is not inside the piece.
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
    /// Link, network and transport headers.
    pub head: Vec<u8>,
    /// The payload, in pieces.
    pub payload: Vec<PayRef>,
    /// An Internet checksum left to complete: where summing starts in the frame, and where the
    /// field is, both from the start of `head`. `None`: nothing is left to do.
    pub csum: Option<(u16, u16)>,
    /// Cut the payload into packets of this many bytes; 0: as it is.
    pub gso_size: u16,
    /// Link-layer priority.
    pub prio: u8,
    /// The instruction that it comes from, as the observer of the stack's events counts them: the first is 1. 0: nobody
    /// observes, or no program sent it.
    pub cause: u32,
}

impl TxFrame {
    /// Empties the frame and keeps its memory, for use again.
    pub fn clear(&mut self) {
        self.head.clear();
        self.payload.clear();
        self.csum = None;
        self.gso_size = 0;
        self.prio = 0;
        self.cause = 0;
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.iter().map(PayRef::len).sum::<usize>()
    }

    /// True for a frame without a byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where frames come in and go out: a simulated link, a device.
///
/// Call order per batch: [`Wire::receive`], any number of [`Wire::frame`], [`Wire::release`];
/// [`Wire::transmit`] at any time.
pub trait Wire {
    /// What it can do; constant.
    fn caps(&self) -> &Caps;

    /// Takes up to `max` frames in and returns how many there are; 0 when none waits.
    ///
    /// # Errors
    /// When the device failed for good.
    fn receive(&mut self, max: usize) -> io::Result<usize>;

    /// The i-th frame of the batch.
    fn frame(&self, i: usize) -> RxFrame<'_>;

    /// Gives the batch back.
    fn release(&mut self);

    /// About how many bytes it takes now: what it is handed beyond them would wait in it, where no priority and
    /// no rank of the program can move it any more (Linux's byte queue limits have the same aim). The last frame may
    /// exceed them. A wire with no queue of its own, and by default every wire, takes all.
    ///
    /// Asked only when something waits to be sent, so that a wire which answers 0 knows that there is more.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// Sends frames from the front of `frames` and returns how many were taken; fewer than all
    /// when the device is full for now. Frames that the device cannot take at all are dropped
    /// and counted, as a network may.
    ///
    /// # Errors
    /// When the device failed for good.
    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize>;

    /// When the wire has to be asked again though the device is idle: it holds frames that are
    /// due then. A driver sleeps no longer than that. `None`: never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// What became of the i-th frame of the batch before the stack got it, where [`Wire::front`] ran chains on it.
    fn ran(&self, _i: usize) -> Option<Ran<'_>> {
        None
    }

    /// What runs chains in front of the stack while that sleeps, if there is something.
    fn front(&mut self) -> Option<&mut dyn Front> {
        None
    }
}
