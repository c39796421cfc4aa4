//! Wires of a Linux host: TUN, AF_PACKET and UDP sockets.
//!
//! * [`TunWire`]: bare IP through a TUN device, for bulk transfers and for stacks with their own subnet
//! * [`PacketWire`]: Ethernet through a packet socket on an existing interface
//! * [`UdpWire`]: datagrams through an ordinary UDP socket, for programs in UDP
//! * [`netns`]: namespaces, virtual cables and addresses to try either in, without root
//! * [`netlink`]: requests to the kernel, and its reports
//! * [`peer`]: the kernel's end of a TUN device, for callers that play a stack's peer
//! * [`port`]: raw frames of an interface, for forwarders
//! * [`Interface`]: the properties of an Ethernet interface that a wire needs
//! * [`Clock`]: the host's monotonic time
//!
//! The first two exchange super-segments of up to 64 KB with the kernel, described by virtio-net headers, at
//! one system call each.
//!
//! The choice depends on permissions. A TUN device needs `/dev/net/tun` to be readable, and some systems
//! reserve it for root. A packet socket only needs CAP_NET_RAW, which every user has in a separate network
//! namespace ([`netns::enter_user_namespace`]). A UDP socket needs no permission.
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
#[allow(unsafe_code)] // Makes system calls.
pub mod linux_tcp;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod peer;
pub mod port;
mod queue_limit;
#[allow(unsafe_code)] // Shares memory with the kernel.
mod ring;
mod slots;
#[allow(unsafe_code)] // Makes system calls.
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

/// The counters of a wire since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the device rejected: malformed, too long, or sent while it was down.
    pub refused: u64,
    /// Received frames that were invalid because they were shorter than their virtio-net header.
    pub malformed: u64,
    /// System calls for sending and receiving.
    pub system_calls: u64,
}
