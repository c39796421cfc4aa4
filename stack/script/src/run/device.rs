//! A script on a device of this machine, in real time: the stack has a TUN device, and the peer the
//! other end of its cable.

use std::io;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_host::netns::{NamespaceError, Netlink};
use hawser_host::peer::Peer;
use hawser_host::{Clock, OpenError, TunOptions, TunWire};
use hawser_time::Instant;

use super::Target;
use super::config::Config;
use super::world::World;

/// The device's name.
pub(super) const NAME: &str = "hawser-script";
/// The longest sleep: the clock and the peer's end are looked at no less often.
const NAP: Duration = Duration::from_millis(1);

/// Why there is no device to run a script on.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    /// The device, or the packet socket at its other end, does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device does not come up.
    #[error(transparent)]
    Up(#[from] NamespaceError),
    /// The device does not open by AF_XDP.
    #[cfg(feature = "xdp")]
    #[error(transparent)]
    Xdp(#[from] hawser_xdp::OpenError),
    /// The program does not run in the kernel.
    #[cfg(feature = "xdp")]
    #[error(transparent)]
    Chains(#[from] hawser_xdp::ChainsError),
    /// The peer has the address of the router.
    #[cfg(feature = "xdp")]
    #[error(
        "the peer's address {0} is that of the router here: choose one that differs from the own in more than its last bit"
    )]
    Router(std::net::IpAddr),
    /// There is no C of the program for the kernel.
    #[cfg(feature = "xdp")]
    #[error("the program cannot be printed in C for the kernel: {0}")]
    Emit(String),
    /// This build has no AF_XDP.
    #[cfg(not(feature = "xdp"))]
    #[error("{NO_XDP}")]
    Absent,
}

/// Why there is no AF_XDP.
pub(super) const NO_XDP: &str = "this build has no AF_XDP: build with the feature `xdp` (of the command: `ebpf`), which takes: \
                                 apt-get install clang libelf-dev zlib1g-dev pkg-config";

/// Waits as `wait` does, until `until` at most and not for long.
pub(super) fn nap(until: Instant, wait: impl FnOnce(Option<Duration>) -> io::Result<()>) -> io::Result<()> {
    let left = until - Clock.now();
    if left.is_zero() {
        Ok(())
    } else {
        wait(Some(left.min(NAP)))
    }
}

/// The device of a target that is in real time.
pub(super) fn open(
    target: Target,
    config: &Config,
    program: &dyn Program,
) -> Result<Box<dyn World>, DeviceError> {
    match target {
        Target::Xdp => on_cable(config, program),
        Target::Sim | Target::Host => Ok(Box::new(OnDevice::open(config.mtu)?)),
    }
}

#[cfg(feature = "xdp")]
fn on_cable(config: &Config, program: &dyn Program) -> Result<Box<dyn World>, DeviceError> {
    Ok(Box::new(super::cable::OnCable::open(config, program)?))
}

#[cfg(not(feature = "xdp"))]
fn on_cable(_: &Config, _: &dyn Program) -> Result<Box<dyn World>, DeviceError> {
    Err(DeviceError::Absent)
}

/// A TUN device and a packet socket at its other end.
pub(super) struct OnDevice {
    wire: TunWire,
    peer: Peer,
}

impl OnDevice {
    /// Makes a device for packets of up to `mtu` bytes. It is gone when this is dropped.
    pub(super) fn open(mtu: u32) -> Result<OnDevice, DeviceError> {
        // Without offloads: each packet is as it would be on a cable.
        let mut wire = TunWire::open(NAME, TunOptions { offload: false })?;
        wire.set_mtu(mtu)?;
        Netlink::open()?.bring_up(wire.name())?;
        let peer = Peer::open(wire.name())?;
        Ok(OnDevice { wire, peer })
    }
}

impl World for OnDevice {
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
