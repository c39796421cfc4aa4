//! A wire in memory between two stacks in one thread. Each direction has a lane of slots that are reused,
//! with one copy on each side, as in a shared-memory ring. It serves benchmarks of stacks without a device.
//!
//! Invariants: a lane never has more than [`SLOTS`] packets in flight, and does not allocate after its first
//! round.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_time::Instant;

/// The number of packets that a lane holds.
const SLOTS: usize = 4096;
/// The bytes of a slot for one packet of at most 1,500 bytes.
const PACKET: usize = 2048;
/// The bytes of a slot for a super-segment.
const SUPER: usize = 65_536;

/// The memory of one packet.
pub struct PacketSlot {
    bytes: Box<[u8]>,
    len: usize,
    seg_size: u16,
}

impl PacketSlot {
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// One direction of a wire.
#[derive(Default)]
pub struct WireDirection {
    waiting: VecDeque<PacketSlot>,
    free: Vec<PacketSlot>,
    made: usize,
    takes_super: bool,
    /// The number of packets put in so far.
    pub packets: u64,
}

/// A lane that both ends share.
pub type SharedDirection = Rc<RefCell<WireDirection>>;

impl WireDirection {
    /// Makes a lane whose slots can hold super-segments.
    #[must_use]
    pub fn of_super_segments() -> WireDirection {
        WireDirection { takes_super: true, ..WireDirection::default() }
    }

    /// Takes a slot for one packet of `len` bytes, which `write` fills. Returns false if the lane is full.
    /// `seg_size` is the payload of each packet of a super-segment, or 0 for a single packet.
    pub fn put(&mut self, len: usize, seg_size: u16, write: impl FnOnce(&mut [u8])) -> bool {
        let Some(mut slot) = self.slot() else { return false };
        let Some(room) = slot.bytes.get_mut(..len) else {
            return false;
        };
        write(room);
        (slot.len, slot.seg_size) = (len, seg_size);
        self.waiting.push_back(slot);
        self.packets += 1;
        true
    }

    fn slot(&mut self) -> Option<PacketSlot> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let more = self.made < SLOTS;
        self.made += usize::from(more);
        let size = if self.takes_super { SUPER } else { PACKET };
        more.then(|| PacketSlot { bytes: vec![0; size].into_boxed_slice(), len: 0, seg_size: 0 })
    }

    /// Returns whether a packet can be put in.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.made < SLOTS
    }

    /// Takes the next packet out.
    pub fn take(&mut self) -> Option<PacketSlot> {
        self.waiting.pop_front()
    }

    /// Returns a packet's memory to the lane.
    pub fn give(&mut self, slot: PacketSlot) {
        self.free.push(slot);
    }
}

/// One end of a wire, for Hawser's engine.
pub struct WireEnd {
    caps: Caps,
    outward: SharedDirection,
    inward: SharedDirection,
    batch: Vec<PacketSlot>,
}

impl WireEnd {
    /// Makes an end that puts packets of at most `mtu` bytes into `outward` and takes packets from `inward`.
    /// It also sends super-segments if `outward` takes them. Checksums are not computed, as between two
    /// virtual machines on one host; with `sums`, the stacks compute them in software.
    #[must_use]
    pub fn new(outward: &SharedDirection, inward: &SharedDirection, mtu: u32, sums: bool) -> WireEnd {
        let caps = Caps {
            medium: Medium::Ip,
            mtu,
            tx_csum: !sums,
            gso_max: if outward.borrow().takes_super { 65_535 } else { 0 },
            rx_queue_bytes: SLOTS as u64 * u64::from(mtu),
        };
        WireEnd {
            caps,
            outward: Rc::clone(outward),
            inward: Rc::clone(inward),
            batch: Vec::new(),
        }
    }
}

impl Wire for WireEnd {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let mut lane = self.inward.borrow_mut();
        let count = lane.waiting.len().min(max);
        self.batch.extend(lane.waiting.drain(..count));
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        let slot = &self.batch[i];
        RxFrame {
            head: slot.packet(),
            tail: &[],
            csum: match self.caps.tx_csum {
                true => Csum::Complete,
                false => Csum::Unverified,
            },
            seg_size: slot.seg_size,
            at: Instant::ORIGIN,
        }
    }

    fn release(&mut self) {
        self.inward.borrow_mut().free.append(&mut self.batch);
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let mut lane = self.outward.borrow_mut();
        for (i, frame) in frames.iter().enumerate() {
            let taken = lane.put(frame.len(), frame.gso_size, |room| {
                let (head, mut rest) = room.split_at_mut(frame.head.len());
                head.copy_from_slice(&frame.head);
                for piece in &frame.payload {
                    let (here, after) = rest.split_at_mut(piece.len());
                    here.copy_from_slice(piece.bytes());
                    rest = after;
                }
            });
            if !taken {
                return Ok(i);
            }
        }
        Ok(frames.len())
    }
}
