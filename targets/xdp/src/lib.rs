//! A wire of a Linux host by AF_XDP: Ethernet frames in memory that is shared with the kernel, behind a small eBPF
//! program on an existing interface.
//!
//! What it is for: frames reach the stack before the kernel has made a packet of them, and a batch of them costs no more
//! system calls than one. What it has not: super-segments, and checksums by the device. So it is for small messages and
//! for devices with zero copy; in bulk on a veth pair, a packet socket (`hawser_host::PacketWire`) carries more.
//!
//! * `XdpWire`: the wire
//! * `program` and `bpf/`: which frames are the stack's, in the kernel; `attach_for_libxdp` is that alone, for sockets of others
//! * `front` and `bpf/front.h`: chains of the stack's program in the kernel, while the stack sleeps
//! * `socket`: the AF_XDP socket and its four rings
//!
//! `unsafe` is confined to `shared` and `front/arena`, where memory is shared with the kernel, and to one call in `program`.
#![cfg(feature = "ebpf")]
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod front;
mod program;
#[allow(unsafe_code)] // It shares memory with the kernel.
mod shared;
mod socket;
mod wire;

pub use error::OpenError;
pub use front::{ChainsError, chains_in_kernel};
pub use program::attach_for_libxdp;
pub use wire::{Mode, XdpOptions, XdpWire};
