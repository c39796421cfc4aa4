//! TLS 1.3 over any byte stream, for the carriers whose transport has none of its own.
//!
//! * [`MaybeTls`]: a byte stream with TLS 1.3 or without, read and written as carriers are
//! * [`TlsClient`], [`TlsServer`]: what each side brings to the handshake
//! * [`EXPORTER`]: the label under which both sides derive the same 32 bytes
//!
//! Invariant: no 0-RTT data, which could be replayed.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod config;
mod stream;

pub use config::{EXPORTER, TlsClient, TlsServer};
pub use stream::MaybeTls;
