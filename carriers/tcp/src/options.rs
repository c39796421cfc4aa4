//! What a carrier's socket is asked for.

use std::time::Duration;

/// Segments of so many bytes fit into packets of 1,280 bytes, which every link of IPv6 takes (RFC 8200, 5):
/// 40 bytes of its header and 20 of TCP's (RFC 9293, 3.7.1).
pub const SMALL_SEGMENT: u32 = 1_220;

/// What a carrier's socket is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Wait for full packets (RFC 896). Off by default: segments are cut by the session.
    pub nagle: bool,
    /// Close when nothing came from the peer's transport for so long, with data outstanding
    /// (TCP_USER_TIMEOUT, RFC 5482) or without (keepalive, RFC 9293 3.8.4).
    pub idle_timeout: Option<Duration>,
    /// The congestion control by name; the system's own if none.
    pub congestion: Option<String>,
    /// Bytes that the kernel keeps unsent before it takes no more (TCP_NOTSENT_LOWAT). By default 16 KiB, or what
    /// the connection sends in 40 ms if that is more, up to 1 MiB.
    pub not_sent: Option<u32>,
    /// At most so many bytes a second (SO_MAX_PACING_RATE).
    pub pacing: Option<u64>,
    /// The interface to use. Bound to with the least privilege that works: SO_BINDTODEVICE, else
    /// IP_UNICAST_IF.
    pub interface: Option<String>,
    /// Ask for MPTCP (RFC 8684). The kernel falls back to TCP by itself; the carrier's description
    /// says so.
    pub mptcp: bool,
    /// Neither end sends segments of more than so many bytes (TCP_MAXSEG): for a path that loses longer
    /// packets without a sign.
    pub max_segment: Option<u32>,
}
