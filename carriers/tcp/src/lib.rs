//! Carriers over the kernel's TCP and MPTCP, with TLS 1.3 or without.
//!
//! * [`connect`], [`TcpListener`]: how to get a [`TcpCarrier`]
//! * [`TcpOptions`]: what a carrier's socket is asked for; TLS is that of `hawser-carrier-tls`
//! * `socket`: options, and the interface that a socket is bound to; `info`: `TCP_INFO` and
//!   `MPTCP_INFO`
//!
//! * `ahead`: the bytes that the kernel keeps unsent
//!
//! Invariants: before it takes no more, a carrier keeps unsent at most one TLS record and 16 KB, or what its
//! connection sends in 40 ms if that is more, up to 1 MiB (TCP_NOTSENT_LOWAT): a control segment waits for no
//! more than that.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod ahead;
mod carrier;
mod info;
mod options;
mod socket;

pub use carrier::{TcpCarrier, TcpIncoming, TcpListener, connect};
pub use info::statistics;
pub use options::{SMALL_SEGMENT, TcpOptions};
pub use socket::lacks_of_mptcp;
