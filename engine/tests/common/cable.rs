//! A wire in memory: two ends, no delay, loss from a seed, and room for a stated number of frames.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

pub struct Cable {
    pub inbound: Queue,
    pub outbound: Queue,
    /// The most frames under way; what is beyond is not taken.
    pub room: usize,
    batch: Vec<Vec<u8>>,
    loss_percent: u64,
    dice: u64,
    caps: Caps,
}

pub fn caps() -> Caps {
    Caps { medium: Medium::Ip, mtu: 1500, tx_csum: false, gso_max: 0, rx_queue_bytes: 1 << 20 }
}

/// Both ends of a cable.
pub fn cable(loss_percent: u64, seed: u64) -> [Cable; 2] {
    let (there, back) = (Queue::default(), Queue::default());
    let end = |inbound: &Queue, outbound: &Queue, dice| Cable {
        inbound: inbound.clone(),
        outbound: outbound.clone(),
        room: 1000,
        batch: Vec::new(),
        loss_percent,
        dice,
        caps: caps(),
    };
    [end(&back, &there, seed * 2 + 1), end(&there, &back, seed * 2 + 2)]
}

impl Cable {
    /// Knuth's MMIX generator; its upper bits are good enough to lose frames by.
    fn lost(&mut self) -> bool {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % 100 < self.loss_percent
    }
}

impl Wire for Cable {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let mut inbound = self.inbound.lock().expect("not poisoned");
        let count = max.min(inbound.len());
        self.batch.extend(inbound.drain(..count));
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame { head: &self.batch[i], tail: &[], csum: Csum::Unverified, seg_size: 0, at: 0 }
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for (i, frame) in frames.iter().enumerate() {
            if self.outbound.lock().expect("not poisoned").len() >= self.room {
                return Ok(i);
            }
            let mut bytes = frame.head.clone();
            frame.payload.iter().for_each(|piece| bytes.extend_from_slice(piece.bytes()));
            if !self.lost() {
                self.outbound.lock().expect("not poisoned").push_back(bytes);
            }
        }
        Ok(frames.len())
    }
}
