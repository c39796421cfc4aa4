//! What a session is asked to be.

use std::time::Duration;

use crate::opening::{Candidate, Opening};
use crate::segment::Security;

/// What a session is asked to be. [`Config::default`] suits a download over a few access networks.
#[derive(Clone, Debug)]
pub struct Config {
    /// What proves that a carrier belongs to the session.
    pub security: Security,
    /// Carriers at once: 1 to 64.
    pub carriers: u8,
    /// Streams that the peer may have open at once; at least 128.
    pub streams: u32,
    /// Bytes that the peer may send beyond what was read, over all streams; at least 64 KiB.
    pub session_credit: u64,
    /// Bytes that the peer may send beyond what was read, of one stream; at least 64 KiB.
    pub stream_credit: u64,
    /// To what either may grow while the application reads as fast as it is filled: the most that a
    /// session keeps of what was not read. No less than they are.
    pub max_credit: u64,
    /// Bytes that a stream keeps for sending, acknowledged or not, before writing has to wait; more
    /// where the peer gave credit for more.
    pub send_buffer: u64,
    /// The same over all streams.
    pub send_memory: u64,
    /// How long a session without carriers is kept.
    pub resume: Duration,
    /// How long a server that cannot be reached is tried for before the session ends; zero: every
    /// candidate once (client).
    pub open_timeout: Duration,
    /// After how long without a segment the session is closed; zero: never.
    pub idle: Duration,
    /// After how long without a segment a carrier is asked for a sign of life; zero: never.
    pub keep_alive: Duration,
    /// In which order carriers are opened (client).
    pub opening: Opening,
    /// What carriers may be opened, best first (client).
    pub candidates: Vec<Candidate>,
    /// Long packets are known to be lost on this network: paths begin with small ones (client).
    pub small_packets: bool,
    /// Send the tail of the data once more on a carrier that has nothing else to do and would have
    /// it there sooner.
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
