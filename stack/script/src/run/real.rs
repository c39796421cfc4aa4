//! What devices have in common: their name, the errors of opening one, and how one waits for it.

use std::io;
use std::time::Duration;

use hawser_host::netns::NamespaceError;
use hawser_host::{Clock, OpenError};
use hawser_time::Instant;

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
    /// There is no C of the program for the kernel.
    #[cfg(feature = "xdp")]
    #[error("the program cannot be printed in C for the kernel: {0}")]
    Emit(String),
    /// The port of DPDK does not open.
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

/// Waits as `wait` does, until `until` at most and not for long.
pub(super) fn nap(until: Instant, wait: impl FnOnce(Option<Duration>) -> io::Result<()>) -> io::Result<()> {
    let left = until - Clock.now();
    if left.is_zero() {
        Ok(())
    } else {
        wait(Some(left.min(NAP)))
    }
}
