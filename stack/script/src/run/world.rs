//! The wire between the stack and the scripted peer, and the clock that both share.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_time::Instant;

/// Where a script runs: in virtual time, or on a device.
pub(crate) trait World {
    /// What time it is.
    fn now(&self) -> Instant;

    /// The router at the other end of the stack's cable; nothing where packets are not addressed to a link's hosts.
    fn router(&self) -> Option<IpAddr> {
        None
    }

    /// The stack's wire.
    fn wire(&mut self) -> &mut dyn Wire;

    /// The peer sends a packet; one longer than `seg_size` counts as merged from such packets.
    fn inject(&mut self, frame: Vec<u8>, seg_size: u16) -> io::Result<()>;

    /// Whether time passes by itself. Then packets cannot arrive merged, and an event may be late
    /// because nobody woke in time.
    fn is_real(&self) -> bool {
        false
    }

    /// Packets that the program's chains have handled in the kernel.
    fn handled(&self) -> u64 {
        0
    }

    /// The packets that the stack has sent, in order, each with its time.
    fn sent(&mut self) -> io::Result<Vec<(Instant, Vec<u8>)>>;

    /// Waits until `until`, or until the stack or the peer has a packet to receive.
    fn wait(&mut self, until: Instant) -> io::Result<()>;
}

/// When virtual time begins: some programs measure from events before the first.
const EPOCH: Instant = Instant::after(Duration::from_secs(1_000));

/// Packets wait in queues, and time passes when it is asked to.
#[derive(Debug)]
pub(crate) struct Virtual {
    now: Instant,
    wire: Queues,
}

impl Virtual {
    /// A wire for packets of up to `mtu` bytes.
    pub(crate) fn new(mtu: u32) -> Virtual {
        // Without offloads: each packet comes out as it would be on a cable, checksums and all.
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

impl World for Virtual {
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
    /// How many of them are being received.
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
