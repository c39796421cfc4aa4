//! The wire between the stack and the scripted peer, and the clock that both share.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_time::Instant;

/// The environment of a script: virtual time, or a device.
pub(crate) trait Environment {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Returns the router at the other end of the stack's cable, or `None` if the link does not address
    /// hosts.
    fn router(&self) -> Option<IpAddr> {
        None
    }

    /// Returns the stack's wire.
    fn wire(&mut self) -> &mut dyn Wire;

    /// Sends a packet from the peer. A packet longer than `seg_size` counts as merged from packets of that
    /// size.
    fn inject(&mut self, frame: Vec<u8>, seg_size: u16) -> io::Result<()>;

    /// Returns whether time passes by itself. In that case, packets cannot arrive merged, and scheduling may
    /// delay an event.
    fn is_real(&self) -> bool {
        false
    }

    /// Returns the number of packets that the program's chains have handled in the kernel.
    fn handled(&self) -> u64 {
        0
    }

    /// Returns the packets that the stack has sent, in order, with their times.
    fn sent(&mut self) -> io::Result<Vec<(Instant, Vec<u8>)>>;

    /// Waits until `until`, or until the stack or the peer has a packet to receive.
    fn wait(&mut self, until: Instant) -> io::Result<()>;
}

/// The start of virtual time. It is not 0, because some programs measure from events before the first.
const EPOCH: Instant = Instant::after(Duration::from_secs(1_000));

/// Virtual time: packets wait in queues, and time passes only on request.
#[derive(Debug)]
pub(crate) struct Virtual {
    now: Instant,
    wire: Queues,
}

impl Virtual {
    /// Creates a wire for packets of up to `mtu` bytes.
    pub(crate) fn new(mtu: u32) -> Virtual {
        // Without offloads, each packet is as it would be on a cable, with its checksums.
        let caps = Caps {
            medium: Medium::Ip,
            mtu,
            tx_csum: false,
            gso_max: 0,
            rx_queue_bytes: 1 << 30,
        };
        Virtual {
            now: EPOCH,
            wire: Queues { caps, arriving: VecDeque::new(), batch: 0, sent: Vec::new() },
        }
    }
}

impl Environment for Virtual {
    fn now(&self) -> Instant {
        self.now
    }

    fn wire(&mut self) -> &mut dyn Wire {
        &mut self.wire
    }

    fn inject(&mut self, frame: Vec<u8>, seg_size: u16) -> io::Result<()> {
        self.wire.arriving.push_back((self.now, seg_size, frame));
        Ok(())
    }

    fn sent(&mut self) -> io::Result<Vec<(Instant, Vec<u8>)>> {
        let now = self.now;
        Ok(self.wire.sent.drain(..).map(|frame| (now, frame)).collect())
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        self.now = self.now.max(until);
        Ok(())
    }
}

#[derive(Debug)]
struct Queues {
    caps: Caps,
    arriving: VecDeque<(Instant, u16, Vec<u8>)>,
    /// The number of packets that are being received.
    batch: usize,
    sent: Vec<Vec<u8>>,
}

impl Wire for Queues {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        self.batch = self.arriving.len().min(max);
        Ok(self.batch)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        let (at, seg_size, frame) = &self.arriving[i];
        RxFrame {
            head: frame,
            tail: &[],
            csum: Csum::Unverified,
            seg_size: *seg_size,
            at: *at,
        }
    }

    fn release(&mut self) {
        self.arriving.drain(..self.batch);
        self.batch = 0;
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        self.sent.extend(frames.iter().map(|frame| {
            let mut bytes = frame.head.clone();
            frame.payload.iter().for_each(|piece| bytes.extend(piece.bytes()));
            bytes
        }));
        Ok(frames.len())
    }
}
