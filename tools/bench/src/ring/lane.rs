//! A wire of memory: slots that go around, one lane for each direction.
//!
//! Invariants: a lane never has more than [`SLOTS`] packets under way, and takes no memory after its
//! first round.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};

use super::MTU;

/// Packets that a lane holds.
const SLOTS: usize = 4096;

/// A packet's memory.
pub(crate) struct Slot {
    bytes: Box<[u8; 2048]>,
    len: usize,
}

impl Slot {
    /// The packet.
    pub(crate) fn packet(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// One direction.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: VecDeque<Slot>,
    free: Vec<Slot>,
    made: usize,
    /// Packets that were put in.
    pub(crate) packets: u64,
}

/// A lane that both ends hold.
pub(crate) type Shared = Rc<RefCell<Lane>>;

impl Lane {
    /// Room for one packet of `len` bytes, which `write` fills; false when the lane is full.
    pub(crate) fn put(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let Some(mut slot) = self.slot() else { return false };
        let Some(room) = slot.bytes.get_mut(..len) else {
            return false;
        };
        write(room);
        slot.len = len;
        self.waiting.push_back(slot);
        self.packets += 1;
        true
    }

    fn slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let more = self.made < SLOTS;
        self.made += usize::from(more);
        more.then(|| Slot {
            bytes: Box::new([0; 2048]),
            len: 0,
        })
    }

    /// Whether a packet can be put in.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.made < SLOTS
    }

    /// The next packet.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.waiting.pop_front()
    }

    /// Gives a packet's memory back.
    pub(crate) fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }
}

/// One end of a wire, for our engine.
pub(crate) struct End {
    caps: Caps,
    outward: Shared,
    inward: Shared,
    batch: Vec<Slot>,
}

impl End {
    /// The end that puts packets into `outward` and takes them from `inward`. Checksums are not
    /// computed, as between two machines in one memory.
    pub(crate) fn new(outward: &Shared, inward: &Shared) -> End {
        let caps = Caps {
            medium: Medium::Ip,
            mtu: MTU as u32,
            tx_csum: true,
            gso_max: 0,
            rx_queue_bytes: (SLOTS * MTU) as u64,
        };
        End {
            caps,
            outward: Rc::clone(outward),
            inward: Rc::clone(inward),
            batch: Vec::new(),
        }
    }
}

impl Wire for End {
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
        RxFrame {
            head: self.batch[i].packet(),
            tail: &[],
            csum: Csum::Complete,
            seg_size: 0,
            at: 0,
        }
    }

    fn release(&mut self) {
        self.inward.borrow_mut().free.append(&mut self.batch);
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let mut lane = self.outward.borrow_mut();
        for (i, frame) in frames.iter().enumerate() {
            let taken = lane.put(frame.len(), |room| {
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
