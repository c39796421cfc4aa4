//! A script on a device of this machine, in real time. The stack has a TUN device, and the peer is its other
//! end.

use std::io;

use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_host::netns::Netlink;
use hawser_host::peer::Peer;
use hawser_host::{Clock, TunOptions, TunWire};
use hawser_time::Instant;

use super::RunTarget;
use super::cable::OnCable;
use super::config::Config;
use super::real::{DeviceError, NAME, nap};
use super::world::Environment;

/// Opens the device of a real-time target.
pub(super) fn open(
    target: RunTarget,
    config: &Config,
    program: &dyn Program,
) -> Result<Box<dyn Environment>, DeviceError> {
    match target {
        RunTarget::Xdp | RunTarget::Dpdk => Ok(Box::new(OnCable::open(target, config, program)?)),
        RunTarget::Sim | RunTarget::Host => Ok(Box::new(OnDevice::open(config.mtu)?)),
    }
}

/// A TUN device and a packet socket at its other end.
pub(super) struct OnDevice {
    wire: TunWire,
    peer: Peer,
}

impl OnDevice {
    /// Creates a device for packets of up to `mtu` bytes. It is removed on drop.
    pub(super) fn open(mtu: u32) -> Result<OnDevice, DeviceError> {
        // Without offloads, each packet is as it would be on a cable.
        let mut wire = TunWire::open(NAME, TunOptions { offload: false })?;
        wire.set_mtu(mtu)?;
        Netlink::open()?.bring_up(wire.name())?;
        let peer = Peer::open(wire.name())?;
        Ok(OnDevice { wire, peer })
    }
}

impl Environment for OnDevice {
    fn now(&self) -> Instant {
        Clock.now()
    }

    fn wire(&mut self) -> &mut dyn Wire {
        &mut self.wire
    }

    fn is_real(&self) -> bool {
        true
    }

    fn inject(&mut self, frame: Vec<u8>, _seg_size: u16) -> io::Result<()> {
        self.peer.send(&frame)
    }

    fn sent(&mut self) -> io::Result<Vec<(Instant, Vec<u8>)>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.peer.receive()? {
            frames.push((Clock.now(), frame.to_vec()));
        }
        Ok(frames)
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        nap(until, |limit| self.wire.wait(limit))
    }
}
