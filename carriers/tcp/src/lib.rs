//! Carriers over the kernel's TCP and MPTCP, with TLS 1.3 or without.
//!
//! * [`connect`], [`TcpListener`]: how to get a [`TcpCarrier`]
//! * [`TcpOptions`]: what a carrier's socket is asked for; TLS is that of `hawser-carrier-tls`
//! * `socket`: options, and the interface that a socket is bound to; `info`: `TCP_INFO` and
//!   `MPTCP_INFO`
//!
//! Invariants: a carrier keeps at most one TLS record and 16 KB unsent before it takes no more
//! (TCP_NOTSENT_LOWAT), so that a control segment overtakes nothing but those.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod carrier;
mod info;
mod options;
mod socket;

pub use carrier::{TcpCarrier, TcpIncoming, TcpListener, connect};
pub use info::statistics;
pub use options::{SMALL_SEGMENT, TcpOptions};
