//! Carriers over SCTP (RFC 9260) that use several paths at once: usrsctp with concurrent multipath
//! transfer, in UDP (RFC 6951), without privilege, in a process of its own.
//!
//! * [`Stack`]: a stack with its UDP port and its process; [`Stack::connect`], [`Stack::listen`] and
//!   [`SctpListener`]: the two ways to an [`SctpCarrier`]
//! * [`SctpOptions`]: what an association is asked for; [`SctpError`]: reasons why there is none
//! * [`PathStatistics`], [`PathEvent`]: the paths of an association
//! * `process`: starts the process, watches it and starts it again; `protocol`: the messages between both;
//!   `remote`: what the process has reported
//! * `helper`: the process, with the C library; `packet`: the check of datagrams before the library reads
//!   them; `udp`: the sockets
//!
//! Invariants: the library runs in the process alone, which has no rights but to move packets. A process
//! that fails takes its associations with it, and nothing of the program.
//!
//! SCTP is **not secure**: no key, no certificate, no encryption. What needs security does not get it
//! here ([`Description::secure`](hawser_carrier::Description::secure) is false, there is no exporter).

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod carrier;
mod connect;
mod error;
mod helper;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod listener;
mod options;
mod packet;
mod path;
mod process;
mod protocol;
mod queue;
mod remote;
mod stack;
mod udp;

pub use carrier::SctpCarrier;
pub use error::SctpError;
pub use listener::SctpListener;
pub use options::{ENCAPSULATION_PORT, SctpOptions};
pub use path::{PathEvent, PathState, PathStatistics};
pub use stack::Stack;
