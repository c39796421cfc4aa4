//! The options of an association and of the stack.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The UDP port that IANA has assigned to SCTP in UDP (RFC 6951, 7).
pub const ENCAPSULATION_PORT: u16 = 9_899;

/// The options of an association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SctpOptions {
    /// The UDP port on which the peer receives SCTP (RFC 6951).
    pub peer_udp_port: u16,
    /// The maximum time for connecting.
    pub handshake_timeout: Duration,
    /// The approximate time after which the association is closed if the peer's transport is silent, with
    /// data outstanding or without (heartbeats, RFC 9260, 8). At least 2 s.
    pub idle_timeout: Duration,
    /// Bytes that are buffered until the application reads them. The peer sends no more than that.
    pub receive_buffer: u32,
    /// Bytes that are buffered until the peer has acknowledged them.
    pub send_buffer: u32,
    /// The maximum number of associations that wait to be accepted.
    pub backlog: u16,
}

impl Default for SctpOptions {
    fn default() -> Self {
        Self {
            peer_udp_port: ENCAPSULATION_PORT,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            receive_buffer: 1 << 20,
            send_buffer: 1 << 20,
            backlog: 128,
        }
    }
}
