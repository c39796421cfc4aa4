//! What an endpoint needs of a device besides packets: a clock, and a function that sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[cfg(feature = "dpdk")]
use hawser_dpdk::DpdkWire;
use hawser_engine::wire::Wire;
use hawser_host::{Clock, PacketWire, TunWire, UdpWire};
use hawser_time::Instant;
#[cfg(feature = "xdp")]
use hawser_xdp::XdpWire;

/// A wire on a real device.
pub trait Device: Wire + Send {
    /// The clock that all of the endpoint's times are on.
    fn now(&self) -> Instant {
        Clock.now()
    }

    /// What becomes readable when packets arrive, and writable when a device that had no room for more takes frames again.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// What becomes readable, too, when there is something to do that came another way.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sleeps until packets arrive, a device that had no room takes frames again, or `limit` has passed.
    ///
    /// # Errors
    /// When the device failed for good.
    fn wait(&self, limit: Option<Duration>) -> io::Result<()>;
}

impl Device for TunWire {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        TunWire::wait(self, limit)
    }
}

impl Device for PacketWire {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        PacketWire::wait(self, limit)
    }
}

#[cfg(feature = "xdp")]
impl Device for XdpWire {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        XdpWire::wait(self, limit)
    }
}

#[cfg(feature = "dpdk")]
impl Device for DpdkWire {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        DpdkWire::wait(self, limit)
    }
}

impl Device for UdpWire {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        UdpWire::wait(self, limit)
    }
}
