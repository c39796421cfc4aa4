//! Carriers over QUIC: one bidirectional stream of a connection of its own (RFC 9000).
//!
//! * [`QuicListener`], [`QuicEndpoint`]: how to get a [`QuicCarrier`]; one endpoint for each
//!   interface
//! * [`QuicConnection`]: a connection whose streams are opened and taken one by one, each a
//!   [`QuicStream`]; for peers that speak no session
//! * [`QuicError`]: why there is none; [`Broken`]: why there is no more of it
//! * [`QuicOptions`]: what a connection is asked for
//! * `figures`: a congestion controller that reports what it sees
//!
//! Several paths are the session's business: each connection has one. HELLO and JOIN are bound to
//! the connection by its TLS exporter, so 0-RTT is never used.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod endpoint;
mod error;
mod figures;
mod streams;

pub use carrier::QuicCarrier;
pub use endpoint::{Congestion, QuicEndpoint, QuicIncoming, QuicListener, QuicOptions};
pub use error::{Broken, QuicError};
pub use streams::{QuicConnection, QuicStream};
