//! A port of DPDK for smoltcp: the same wire that our own stack has.
//!
//! Frames are received and sent in batches, as for Hawser. Frames that smoltcp builds are copied into the
//! port's memory once more; Hawser's payload is sent from its own memory. The port neither computes nor
//! verifies checksums, so smoltcp does both, as Hawser does.

use std::io;
use std::time::Duration;

use hawser::host::DpdkWire;
use hawser_engine::wire::{TxFrame, Wire};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

use super::smoltcp::{Link, Smoltcp};
use super::spec::{Spec, StackKind};

/// The number of frames that are received or sent at a time.
const BATCH: usize = 64;
/// The bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Opens a port and runs smoltcp on it.
///
/// # Errors
/// The orders are invalid, or the device failed.
pub(crate) fn smoltcp(spec: &Spec) -> io::Result<Smoltcp<Port>> {
    let StackKind::Smoltcp { device, .. } = &spec.stack else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let wire = DpdkWire::open(device.trim_start_matches("dpdk:")).map_err(io::Error::other)?;
    let port = Port {
        wire,
        received: 0,
        next: 0,
        queue: vec![TxFrame::default(); BATCH],
        queued: 0,
    };
    Smoltcp::new(port, spec)
}

/// The port, a batch of received frames, and one of frames to send.
pub(crate) struct Port {
    wire: DpdkWire,
    received: usize,
    next: usize,
    /// The frames to send come first; the rest is spare memory.
    queue: Vec<TxFrame>,
    queued: usize,
}

impl Port {
    /// Returns whether there is room for one more frame to send.
    fn has_room(&mut self) -> bool {
        if self.queued == BATCH {
            // A failed wire reports its error at the next flush.
            let _ = self.flush();
        }
        self.queued < BATCH
    }
}

impl Link for Port {
    fn flush(&mut self) -> io::Result<()> {
        let taken = self.wire.transmit(&self.queue[..self.queued])?;
        self.queue[..self.queued].rotate_left(taken);
        self.queued -= taken;
        Ok(())
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        self.wire.wait(limit)
    }
}

impl Device for Port {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Room<'_>)> {
        if !self.has_room() {
            return None;
        }
        if self.next == self.received {
            self.wire.release();
            self.next = 0;
            self.received = self.wire.receive(BATCH).ok()?;
        }
        if self.received == 0 {
            return None;
        }
        let frame = self.wire.frame(self.next).head;
        self.next += 1;
        let room = Room { queue: &mut self.queue, queued: &mut self.queued };
        Some((Received(frame), room))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.has_room()
            .then_some(Room { queue: &mut self.queue, queued: &mut self.queued })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.wire.caps().mtu as usize + ETHERNET;
        capabilities
    }
}

/// A received frame.
pub(crate) struct Received<'a>(&'a [u8]);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

/// Room for a frame to send.
pub(crate) struct Room<'a> {
    queue: &'a mut [TxFrame],
    queued: &'a mut usize,
}

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let head = &mut self.queue[*self.queued].head;
        *self.queued += 1;
        head.resize(len, 0);
        fill(head)
    }
}
