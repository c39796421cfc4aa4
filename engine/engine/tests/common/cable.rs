//! A wire in memory with two ends and no delay. It loses frames by a seed, and has room for a stated number
//! of frames.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_testing::internet_checksum;
use hawser_time::Instant;
use parking_lot::Mutex;

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

pub struct Cable {
    pub inbound: Queue,
    pub outbound: Queue,
    /// The maximum number of frames in flight; further ones are not taken.
    pub slots: usize,
    /// The room that it reports, in bytes.
    pub takes: usize,
    /// The number of times that it was asked for its room.
    pub asked: usize,
    batch: Vec<Vec<u8>>,
    loss_percent: u64,
    /// The percentage of packets that are cut to 52 bytes, as a switch without room for them does.
    pub trim_percent: u64,
    rng: fastrand::Rng,
    pub caps: Caps,
    /// The number of super-segments taken, before they were cut.
    pub joined: usize,
}

pub fn caps() -> Caps {
    Caps {
        medium: Medium::Ip,
        mtu: 1500,
        tx_csum: false,
        gso_max: 0,
        rx_queue_bytes: 1 << 20,
    }
}

/// Returns both ends of a cable.
pub fn cable(loss_percent: u64, seed: u64) -> [Cable; 2] {
    let (there, back) = (Queue::default(), Queue::default());
    let end = |inbound: &Queue, outbound: &Queue, seed| Cable {
        inbound: inbound.clone(),
        outbound: outbound.clone(),
        slots: 1000,
        takes: usize::MAX,
        asked: 0,
        batch: Vec::new(),
        loss_percent,
        trim_percent: 0,
        rng: fastrand::Rng::with_seed(seed),
        caps: caps(),
        joined: 0,
    };
    [end(&back, &there, seed * 2 + 1), end(&there, &back, seed * 2 + 2)]
}

impl Cable {
    fn lost(&mut self) -> bool {
        self.rng.u64(..100) < self.loss_percent
    }
}

impl Wire for Cable {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let mut inbound = self.inbound.lock();
        let count = max.min(inbound.len());
        self.batch.extend(inbound.drain(..count));
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        // If the device completes checksums, its peer need not verify them.
        let csum = if self.caps.tx_csum {
            Csum::Complete
        } else {
            Csum::Unverified
        };
        RxFrame {
            head: &self.batch[i],
            tail: &[],
            csum,
            seg_size: 0,
            at: Instant::ORIGIN,
        }
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn room(&mut self) -> usize {
        self.asked += 1;
        self.takes
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for (i, frame) in frames.iter().enumerate() {
            if self.outbound.lock().len() >= self.slots {
                return Ok(i);
            }
            self.takes = self.takes.saturating_sub(frame.len());
            self.joined += usize::from(frame.gso_size > 0);
            for mut bytes in cut(frame) {
                if self.trim_percent > 0 && self.rng.u64(..100) < self.trim_percent {
                    bytes.truncate(52);
                }
                if !self.lost() {
                    self.outbound.lock().push_back(bytes);
                }
            }
        }
        Ok(frames.len())
    }
}

/// Returns the packets that a frame stands for: for a super-segment of TCP over IPv4, those that a device
/// makes.
fn cut(frame: &TxFrame) -> Vec<Vec<u8>> {
    let payload: Vec<u8> = frame
        .payload
        .iter()
        .flat_map(|piece| piece.bytes().to_vec())
        .collect();
    if frame.gso_size == 0 {
        return vec![[frame.head.clone(), payload].concat()];
    }
    let count = payload.chunks(frame.gso_size.into()).count();
    let sum = |head: &[u8]| u16::from_be_bytes([head[36], head[37]]);
    let packet = |(i, bytes): (usize, &[u8])| {
        let mut head = frame.head.clone();
        let seq = u32::from_be_bytes([head[24], head[25], head[26], head[27]]);
        let seq = seq.wrapping_add(i as u32 * u32::from(frame.gso_size));
        head[24..28].copy_from_slice(&seq.to_be_bytes());
        if i + 1 < count {
            head[33] &= !0x09;
        }
        let sum = sum(&head) - payload.len() as u16 + bytes.len() as u16;
        head[36..38].copy_from_slice(&sum.to_be_bytes());
        head[2..4].copy_from_slice(&((frame.head.len() + bytes.len()) as u16).to_be_bytes());
        head[10..12].fill(0);
        let sum = internet_checksum(&[&head[..20]]);
        head[10..12].copy_from_slice(&sum);
        [head, bytes.to_vec()].concat()
    };
    payload
        .chunks(frame.gso_size.into())
        .enumerate()
        .map(packet)
        .collect()
}
