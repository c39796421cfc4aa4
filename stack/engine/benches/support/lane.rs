//! A wire of memory between two stacks: slots that go around, one copy on each side, as over a
//! shared ring. Checksums are not computed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};

/// Packets under way in one direction.
const SLOTS: usize = 4096;

struct Slot {
    bytes: Box<[u8]>,
    len: usize,
    seg_size: u16,
}

/// One direction.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: VecDeque<Slot>,
    free: Vec<Slot>,
    made: usize,
    /// Frames that were put in.
    pub(crate) frames: u64,
}

/// A lane that both ends hold.
pub(crate) type Shared = Rc<RefCell<Lane>>;

/// One end.
pub(crate) struct End {
    caps: Caps,
    outward: Shared,
    inward: Shared,
    batch: Vec<Slot>,
}

impl End {
    /// The end that puts packets into `outward` and takes them from `inward`.
    pub(crate) fn new(outward: &Shared, inward: &Shared, gso_max: u32) -> End {
        let caps = Caps {
            medium: Medium::Ip,
            mtu: 1500,
            tx_csum: true,
            gso_max,
            rx_queue_bytes: (SLOTS * 1500) as u64,
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
        let slot = &self.batch[i];
        RxFrame {
            head: &slot.bytes[..slot.len],
            tail: &[],
            csum: Csum::Complete,
            seg_size: slot.seg_size,
            at: 0,
        }
    }

    fn release(&mut self) {
        self.inward.borrow_mut().free.append(&mut self.batch);
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let mut lane = self.outward.borrow_mut();
        let size = if self.caps.gso_max > 0 { 65_536 } else { 2048 };
        for (i, frame) in frames.iter().enumerate() {
            let slot = match lane.free.pop() {
                Some(slot) => slot,
                None if lane.made < SLOTS => {
                    lane.made += 1;
                    Slot {
                        bytes: vec![0; size].into_boxed_slice(),
                        len: 0,
                        seg_size: 0,
                    }
                }
                None => return Ok(i),
            };
            let mut slot = slot;
            let mut at = frame.head.len();
            slot.bytes[..at].copy_from_slice(&frame.head);
            for piece in &frame.payload {
                slot.bytes[at..at + piece.len()].copy_from_slice(piece.bytes());
                at += piece.len();
            }
            (slot.len, slot.seg_size) = (at, frame.gso_size);
            lane.waiting.push_back(slot);
            lane.frames += 1;
        }
        Ok(frames.len())
    }
}
