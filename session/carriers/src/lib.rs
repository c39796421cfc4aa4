//! The session's view of a transport: a connected, ordered byte stream, and its statistics.
//!
//! * [`Carrier`]: the stream; [`Description`]: its properties; [`send`]: sends a whole queue
//! * [`OpenError`]: reasons why a carrier could not be opened
//! * [`Statistics`]: figures of one carrier, which schedulers and the detection of lost carriers read;
//!   [`observables`]: the same figures from the variables of a transport program
//!
//! Without features, this crate performs no I/O. Each of the features `tcp`, `quic`, `sctp` and `mtp` adds the carriers over one
//! transport, in a module of its name; `tls` adds TLS 1.3 over any byte stream.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod carrier;
mod error;
#[cfg(feature = "mtp")]
pub mod mtp;
pub mod observables;
#[cfg(feature = "quic")]
pub mod quic;
#[cfg(feature = "sctp")]
pub mod sctp;
mod statistics;
#[cfg(feature = "tcp")]
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;

pub use carrier::{Carrier, Description, send};
pub use error::OpenError;
pub use statistics::Statistics;
