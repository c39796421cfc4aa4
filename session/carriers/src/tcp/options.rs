//! The options of a carrier's socket.

use std::time::Duration;

/// The segment size, in bytes, that fits into packets of 1,280 bytes, which every IPv6 link takes (RFC 8200,
/// 5). The IPv6 header takes 40 bytes and TCP's 20 (RFC 9293, 3.7.1).
pub const SMALL_SEGMENT: u32 = 1_220;

/// The options of a carrier's socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Wait for full packets (RFC 896). Off by default, because the session cuts the segments.
    pub nagle: bool,
    /// The time after which the connection is closed if the peer's transport is silent. It applies with data
    /// outstanding (TCP_USER_TIMEOUT, RFC 5482) and without (keepalive, RFC 9293, 3.8.4).
    pub idle_timeout: Option<Duration>,
    /// The name of the congestion control; the system's default if `None`.
    pub congestion: Option<String>,
    /// Bytes that the kernel keeps unsent before it takes no more (TCP_NOTSENT_LOWAT). By default 16 KiB, or
    /// the data that the connection sends in 40 ms if that is more, up to 1 MiB.
    pub not_sent: Option<u32>,
    /// The maximum sending rate, in bytes per second (SO_MAX_PACING_RATE).
    pub pacing: Option<u64>,
    /// The interface to use. The socket is bound by SO_BINDTODEVICE, or by IP_UNICAST_IF if the privilege for
    /// that is missing.
    pub interface: Option<String>,
    /// Request MPTCP (RFC 8684). The kernel falls back to TCP on its own, which the carrier's description
    /// reports.
    pub mptcp: bool,
    /// The maximum segment size of both ends, in bytes (TCP_MAXSEG), for a path that silently loses longer
    /// packets.
    pub max_segment: Option<u32>,
}
