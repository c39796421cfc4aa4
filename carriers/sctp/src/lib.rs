//! Carriers over SCTP (RFC 9260) that use several paths at once: usrsctp with concurrent multipath
//! transfer, in UDP (RFC 6951), without privilege.
//!
//! * [`Stack`]: the process's one stack; [`Stack::connect`], [`Stack::listen`] and [`SctpListener`]: the two
//!   ways to an [`SctpCarrier`]
//! * [`SctpOptions`]: what an association is asked for; [`SctpError`]: why there is none
//! * [`PathStatistics`], [`PathEvent`]: the paths of an association
//! * `library`: the C library, loaded when it is first wanted, and its sockets; `abi`, `address`,
//!   `notice`: its data; `bell`: from its threads to tasks; `reaper`: the thread in which sockets end
//!
//! Invariants: `unsafe` is confined to `library`. The stack is begun once and never ended. No call into
//! the library is made from its callbacks, none blocks, and no lock is held across one. Memory is bounded
//! by the two buffers of each association.
//!
//! SCTP is **not secure**: no key, no certificate, no encryption. What needs security does not get it
//! here ([`Description::secure`](hawser_carrier::Description::secure) is false, there is no exporter).

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod abi;
mod address;
mod bell;
mod carrier;
mod connect;
mod error;
mod figures;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod interpose;
mod library;
mod listener;
mod notice;
mod options;
mod packet;
mod reaper;
mod stack;
mod udp;

pub use carrier::SctpCarrier;
pub use error::SctpError;
pub use figures::PathStatistics;
pub use listener::SctpListener;
pub use notice::{PathEvent, PathState};
pub use options::{ENCAPSULATION_PORT, SctpOptions};
pub use stack::Stack;
