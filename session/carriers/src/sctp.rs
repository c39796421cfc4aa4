//! Carriers over SCTP (RFC 9260) that use several paths at once: usrsctp with concurrent multipath transfer,
//! in UDP (RFC 6951). The library runs without privilege in a process of its own.
//!
//! * [`SctpStack`]: a stack with its UDP port and its process; [`SctpStack::connect`], [`SctpStack::listen`]
//!   and [`SctpListener`]: open an [`SctpCarrier`]
//! * [`SctpOptions`]: the options of an association; [`SctpError`]: reasons why it could not be opened
//! * [`PathStatistics`], [`PathEvent`]: the paths of an association
//! * `process`: starts the process, watches it and restarts it; `protocol`: the messages between both;
//!   `remote`: the process's reports on an association
//! * `helper`: the process, with the C library; `packet`: the check of datagrams before the library reads
//!   them; `udp`: the sockets
//!
//! Invariants: the library runs only in the process, which has no rights except to move packets. A process
//! that fails takes its associations with it, but does not affect the program otherwise.
//!
//! SCTP is **not secure**: it has no key, no certificate and no encryption. It is not suitable for data that
//! needs security ([`Description::secure`](crate::Description::secure) is false, and there is no
//! exporter).

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
pub use stack::SctpStack;
