//! The requirements of an endpoint on a device besides packets: a clock, and a function that sleeps.

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
    /// Returns the time of the clock that all times of the endpoint refer to.
    fn now(&self) -> Instant {
        Clock.now()
    }

    /// Returns a descriptor that becomes readable when packets arrive, and writable when a full device takes
    /// frames again.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Returns a second descriptor that becomes readable when there is work from another source than the
    /// device.
    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sleeps until packets arrive, a full device takes frames again, or `limit` has passed.
    ///
    /// # Errors
    /// Returns an error if the device has failed for good.
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
