//! A wire by DPDK: Ethernet frames of any port for which DPDK has a driver, without system calls if the
//! driver needs none.
//!
//! * `DpdkWire`: the wire
//! * `environment`: DPDK itself, which a process starts once
//! * `port` and `c/`: a port, its queues and its memory
//! * `shared`: the sockets of ports in shared memory, which only the user may access
//! * `program`: the eBPF program that redirects frames to a port's AF_XDP sockets
//!
//! `unsafe` is confined to `port`, which calls C.
#![cfg(feature = "dpdk")]
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod environment;
mod error;
mod pace;
#[allow(unsafe_code)] // It calls C.
mod port;
mod program;
mod shared;
mod wire;

pub use error::OpenError;
pub use wire::DpdkWire;
