//! Carriers over the kernel's TCP and MPTCP, with or without TLS 1.3.
//!
//! * [`connect`], [`TcpListener`]: open a [`TcpCarrier`]
//! * [`TcpOptions`]: the options of a carrier's socket; TLS is that of the module [`tls`](crate::tls)
//! * `socket`: options, and the interface that a socket is bound to; `info`: `TCP_INFO` and `MPTCP_INFO`
//! * `unsent_limit`: the number of bytes that the kernel keeps unsent
//!
//! Invariants: before it takes no more, a carrier keeps unsent at most one TLS record and 16 KB. If its
//! connection sends more than that in 40 ms, the limit is that amount, up to 1 MiB (TCP_NOTSENT_LOWAT). A
//! control segment waits for no more than that.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod carrier;
mod info;
mod options;
mod socket;
mod unsent_limit;

pub use carrier::{TcpCarrier, TcpIncoming, TcpListener, connect};
pub use info::statistics;
pub use options::{SMALL_SEGMENT, TcpOptions};
pub use socket::lacks_of_mptcp;
