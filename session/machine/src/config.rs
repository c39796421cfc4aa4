//! The configuration of a session.

use std::time::Duration;

use crate::opening::{Candidate, Opening};
use crate::segment::Security;

/// The configuration of a session. [`Config::default`] suits a download over a few access networks.
#[derive(Clone, Debug)]
pub struct Config {
    /// The mechanism that proves that a carrier belongs to the session.
    pub security: Security,
    /// The maximum number of carriers at once: 1 to 64.
    pub carriers: u8,
    /// The number of streams that the peer may have open at once; at least 128.
    pub streams: u32,
    /// Bytes that the peer may send ahead of the application's reads, over all streams; at least 64 KiB.
    pub session_credit: u64,
    /// Bytes that the peer may send ahead of the application's reads, on one stream; at least 64 KiB.
    pub stream_credit: u64,
    /// The limit, in bytes, up to which either credit grows while the application reads as fast as data
    /// arrives. A session holds at most this much unread data. Not less than the two credits.
    pub max_credit: u64,
    /// Bytes that a stream keeps for sending, acknowledged or not, before a write has to wait. It keeps more
    /// if the peer's credit allows more.
    pub send_buffer: u64,
    /// The same limit over all streams.
    pub send_memory: u64,
    /// The time for which a session without carriers is kept.
    pub resume: Duration,
    /// The time for which a client tries to reach an unreachable server before the session ends. Zero: each
    /// candidate is tried once.
    pub open_timeout: Duration,
    /// The time without a segment after which the session is closed. Zero: never.
    pub idle: Duration,
    /// The time without a segment after which a PING is sent on a carrier. Zero: never.
    pub keep_alive: Duration,
    /// The order in which carriers are opened (client).
    pub opening: Opening,
    /// The candidates from which carriers are opened, best first (client).
    pub candidates: Vec<Candidate>,
    /// True if long packets are known to be lost on this network. Paths then begin with small ones (client).
    pub small_packets: bool,
    /// True if an otherwise idle carrier sends the tail of the data a second time, when its copy
    /// would arrive sooner.
    pub reinject: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            security: Security::Tls,
            carriers: 8,
            streams: 1_024,
            session_credit: 16 << 20,
            stream_credit: 8 << 20,
            max_credit: 32 << 20,
            send_buffer: 8 << 20,
            send_memory: 64 << 20,
            resume: Duration::from_secs(300),
            open_timeout: Duration::ZERO,
            idle: Duration::ZERO,
            keep_alive: Duration::from_secs(15),
            opening: Opening::default(),
            candidates: Vec::new(),
            small_packets: false,
            reinject: true,
        }
    }
}
