//! The wire of a simulated host: an inbox and an outbox.

use std::io;
use std::sync::Arc;

use hawser_engine::wire::{Caps, Medium, RxFrame, TxFrame, Wire};
use hawser_time::Instant;

use crate::frame::Frame;
use crate::inbox::Inbox;
use crate::link::queue::Pool;
use crate::segment;

/// The maximum number of frames that wait to be received; further ones are lost.
const INBOX_MAX: usize = 65_536;

/// The queue of a host's device, which accepts frames ahead of the line.
#[derive(Debug)]
struct DeviceQueue {
    /// The bytes that wait in front of all lines of the host.
    pool: Arc<Pool>,
    /// The maximum number of bytes in the pool.
    limit: u64,
}

/// A wire between a stack and a simulated network.
///
/// Checksums stay partial in transit, and the payload stays where the sender put it.
#[derive(Debug)]
pub struct SimWire {
    caps: Caps,
    inbox: Inbox,
    outbox: Vec<Frame>,
    /// The number of bytes in the outbox.
    outbox_bytes: u64,
    device: Option<DeviceQueue>,
    overflow: u64,
    super_segments: u64,
}

impl SimWire {
    /// Creates a wire for IP packets of up to `mtu` bytes.
    #[must_use]
    pub fn new(mtu: u32) -> SimWire {
        let caps = Caps {
            medium: Medium::Ip,
            mtu,
            tx_csum: true,
            gso_max: 0,
            rx_queue_bytes: INBOX_MAX as u64 * u64::from(mtu),
        };
        SimWire {
            caps,
            inbox: Inbox::default(),
            outbox: Vec::new(),
            outbox_bytes: 0,
            device: None,
            overflow: 0,
            super_segments: 0,
        }
    }

    /// Creates the same wire with a device that cuts super-segments of up to 65,535 bytes: the network sees
    /// the packets.
    #[must_use]
    pub fn cutting(mtu: u32) -> SimWire {
        let mut wire = SimWire::new(mtu);
        wire.caps.gso_max = 65_535;
        wire
    }

    /// Limits the device to `limit` bytes ahead of its lines, whose queues share `pool`.
    #[must_use]
    pub fn behind(self, pool: Arc<Pool>, limit: u64) -> SimWire {
        SimWire { device: Some(DeviceQueue { pool, limit }), ..self }
    }

    /// Returns the number of super-segments that were cut.
    #[must_use]
    pub fn super_segments(&self) -> u64 {
        self.super_segments
    }

    /// Adds a frame for the stack to receive.
    pub fn arrive(&mut self, at: Instant, frame: Frame) {
        if self.inbox.len() < INBOX_MAX {
            self.inbox.push(at, frame);
        } else {
            self.overflow += 1;
        }
    }

    /// Returns true while frames wait to be received.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        self.inbox.len() > 0
    }

    /// Returns the number of frames lost because the inbox was full.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Returns the number of bytes that the device can accept now.
    #[must_use]
    pub fn free(&self) -> usize {
        let Some(DeviceQueue { pool, limit }) = &self.device else {
            return usize::MAX;
        };
        limit.saturating_sub(pool.used() + self.outbox_bytes) as usize
    }

    /// Takes the frames that the stack has sent.
    pub fn sent(&mut self) -> impl Iterator<Item = Frame> + '_ {
        self.outbox_bytes = 0;
        self.outbox.drain(..)
    }
}

impl Wire for SimWire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        Ok(self.inbox.take(max))
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.inbox.frame(i)
    }

    fn release(&mut self) {
        self.inbox.release();
    }

    fn room(&mut self) -> usize {
        self.free()
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for frame in frames {
            self.super_segments += u64::from(frame.gso_size > 0);
            let frame = Frame::sent(frame, self.caps.medium);
            self.outbox_bytes += frame.len() as u64;
            if frame.seg_size == 0 {
                self.outbox.push(frame);
            } else {
                self.outbox.extend(segment::cut(frame));
            }
        }
        Ok(frames.len())
    }
}
