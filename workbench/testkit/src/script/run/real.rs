//! Common parts of real devices: their name, the errors of opening one, and waiting for one.

use std::io;
use std::time::Duration;

use hawser_host::netns::NamespaceError;
use hawser_host::{Clock, OpenError};
use hawser_time::Instant;

/// The device's name.
pub(super) const NAME: &str = "hawser-script";
/// The longest sleep. The clock and the peer's end are polled at least this often.
const NAP: Duration = Duration::from_millis(1);

/// A device to run scripts on could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    /// The device, or the packet socket at its other end, could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device could not be brought up.
    #[error(transparent)]
    Up(#[from] NamespaceError),
    /// The device could not be opened by AF_XDP.
    #[cfg(feature = "xdp")]
    #[error(transparent)]
    Xdp(#[from] hawser_xdp::OpenError),
    /// The program's chains could not be loaded into the kernel.
    #[cfg(feature = "xdp")]
    #[error(transparent)]
    Chains(#[from] hawser_xdp::ChainsError),
    /// The program could not be emitted as C for the kernel.
    #[cfg(feature = "xdp")]
    #[error("the program cannot be printed in C for the kernel: {0}")]
    Emit(String),
    /// The port of DPDK could not be opened.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Dpdk(#[from] hawser_dpdk::OpenError),
    /// The peer has the address of the router.
    #[error(
        "the peer's address {0} is that of the router here: choose one that differs from the own in more than its last bit"
    )]
    Router(std::net::IpAddr),
    /// This build lacks the target.
    #[error("{0}")]
    Absent(&'static str),
}

/// Waits with `wait`, at most until `until` and at most `NAP`.
pub(super) fn nap(until: Instant, wait: impl FnOnce(Option<Duration>) -> io::Result<()>) -> io::Result<()> {
    let left = until - Clock.now();
    if left.is_zero() {
        Ok(())
    } else {
        wait(Some(left.min(NAP)))
    }
}
