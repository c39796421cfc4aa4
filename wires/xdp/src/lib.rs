//! A wire of a Linux host by AF_XDP: Ethernet frames in memory that is shared with the kernel, behind a small
//! eBPF program on an existing interface.
//!
//! Frames reach the stack before the kernel has made packets of them, and a batch of them costs no more
//! system calls than a single frame. The wire lacks super-segments, and checksums by the device. It is
//! therefore for small messages and for devices with zero copy. For bulk data on a veth pair, a packet socket
//! (`hawser_host::PacketWire`) is faster.
//!
//! * `XdpWire`: the wire
//! * `program` and `bpf/`: the selection of the stack's frames, in the kernel; `attach_for_libxdp` attaches
//!   only this program, for sockets of other libraries
//! * `front` and `bpf/front.h`: chains of the stack's program in the kernel, while the stack sleeps
//! * `socket`: the AF_XDP socket and its four rings
//!
//! `unsafe` is confined to `shared` and `front/arena`, where memory is shared with the kernel, and to one
//! call in `program`.
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
