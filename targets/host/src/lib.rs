//! Wires of a Linux host: TUN, AF_PACKET and UDP sockets.
//!
//! * [`TunWire`]: bare IP through a TUN device: for bulk, and where the stack has a subnet of its own
//! * [`PacketWire`]: Ethernet through a packet socket on an existing interface
//! * [`UdpWire`]: datagrams through an ordinary UDP socket, for programs in UDP
//! * [`netns`]: namespaces, virtual cables and addresses to try either in, without being root
//! * [`netlink`]: requests to the kernel, and what it reports
//! * [`peer`]: the kernel's end of a TUN device, for who plays a stack's peer
//! * [`port`]: frames of an interface as they are, for who forwards them
//! * [`Interface`]: what a wire must know of an Ethernet interface
//! * [`Clock`]: the host's monotonic time
//!
//! The first two exchange super-segments of up to 64 KB with the kernel, described by virtio-net
//! headers, at one system call each.
//!
//! Which one: a TUN device needs `/dev/net/tun` to be readable, and some systems keep it for
//! root. A packet socket needs CAP_NET_RAW alone, which everybody has in a network namespace of
//! their own ([`netns::enter_user_namespace`]). A UDP socket needs nothing.
//!
//! `unsafe` is confined to `sys`, `ring` and `linux_tcp`.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod batch;
pub mod claim;
pub mod clock;
mod error;
mod filter;
mod interface;
#[allow(unsafe_code)] // It calls the system.
pub mod linux_tcp;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod peer;
pub mod port;
mod queue_limit;
#[allow(unsafe_code)] // It shares memory with the kernel.
mod ring;
mod slots;
#[allow(unsafe_code)] // It calls the system.
mod sys;
pub mod tun;
pub mod udp;
mod vnet;

pub use clock::Clock;
pub use error::OpenError;
pub use interface::{Interface, Presence};
pub use packet::{PacketOptions, PacketWire};
pub use sys::{set_busy_poll, wait, wait_for_either};
pub use tun::{TunOptions, TunWire};
pub use udp::UdpWire;

/// What a wire has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the device would not take: malformed to it, too long, or sent while it was down.
    pub refused: u64,
    /// Received frames that were no frames: shorter than their virtio-net header.
    pub malformed: u64,
    /// System calls made to send and receive.
    pub system_calls: u64,
}
