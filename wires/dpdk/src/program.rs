//! The eBPF program that redirects frames to a port's AF_XDP sockets.
//!
//! DPDK's driver would attach a program that takes every frame and stays when the process is killed. The
//! driver opens its sockets by libxdp, which takes our program for its own. Ours is attached before, by a
//! link that ends with the process, and leaves the kernel's frames to the kernel.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::OpenError;

/// Attaches it, until the descriptor is closed, for a stack with these addresses and this number of queues.
#[cfg(feature = "ebpf")]
pub(crate) fn attach(
    device: &str,
    interface: u32,
    addresses: &[IpAddr],
    count: u16,
) -> Result<OwnedFd, OpenError> {
    let interface = hawser_host::Interface::numbered(interface)?;
    hawser_xdp::attach_for_libxdp(&interface, interface.neighbour(), addresses, count)
        .map_err(|error| OpenError::Program { device: device.to_owned(), error: error.into() })
}

#[cfg(not(feature = "ebpf"))]
pub(crate) fn attach(device: &str, _: u32, _: &[IpAddr], _: u16) -> Result<OwnedFd, OpenError> {
    Err(OpenError::Program {
        device: device.to_owned(),
        error: "this build loads no eBPF program: build with the feature `xdp` (of the command: `ebpf`), \
                too, which needs: apt-get install clang libelf-dev zlib1g-dev pkg-config; net_af_packet \
                needs none"
            .into(),
    })
}
