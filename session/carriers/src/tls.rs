//! TLS 1.3 over any byte stream, for carriers whose transport has no encryption of its own.
//!
//! * [`MaybeTls`]: a byte stream with or without TLS 1.3, with a carrier's read and write operations
//! * [`TlsClient`], [`TlsServer`]: the configuration of each side
//! * [`EXPORTER`]: the label under which both sides derive the same 32 bytes
//!
//! Invariant: 0-RTT data, which could be replayed, is never sent.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod config;
mod stream;

pub use config::{EXPORTER, TlsClient, TlsServer};
pub use stream::MaybeTls;
