//! Carriers over QUIC: one bidirectional stream of a connection of its own (RFC 9000).
//!
//! * [`QuicListener`], [`QuicEndpoint`]: open a [`QuicCarrier`]; there is one endpoint for each interface
//! * [`QuicConnection`]: a connection whose streams are opened and accepted individually, each a
//!   [`QuicStream`]; for peers that do not speak the session protocol
//! * [`QuicError`]: reasons why a connection was not opened; [`ConnectionBroken`]: the reason why one has
//!   ended
//! * [`QuicOptions`]: the options of a connection
//! * `figures`: a congestion controller that reports its figures
//!
//! The session manages several paths; each connection has only one. HELLO and JOIN are bound to the
//! connection by its TLS exporter, so 0-RTT is never used.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod endpoint;
mod error;
mod figures;
mod streams;

pub use carrier::QuicCarrier;
pub use endpoint::{Congestion, QuicEndpoint, QuicIncoming, QuicListener, QuicOptions};
pub use error::{ConnectionBroken, QuicError};
pub use streams::{QuicConnection, QuicStream};
