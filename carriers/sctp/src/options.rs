//! What an association and the stack are asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The UDP port that IANA has for SCTP in UDP (RFC 6951 7).
pub const ENCAPSULATION_PORT: u16 = 9_899;

/// What an association is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SctpOptions {
    /// The UDP port at which the peer has SCTP (RFC 6951).
    pub peer_udp_port: u16,
    /// How long connecting may take.
    pub handshake_timeout: Duration,
    /// Close when nothing came from the peer's transport for about so long, with data outstanding or without
    /// (heartbeats, RFC 9260 8). At least 2 s.
    pub idle_timeout: Duration,
    /// Bytes that are kept for the application until it reads them. The peer sends no more than that.
    pub receive_buffer: u32,
    /// Bytes that are kept until the peer has acknowledged them.
    pub send_buffer: u32,
    /// Associations that wait to be accepted.
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
