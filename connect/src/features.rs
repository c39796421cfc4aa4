//! The features that a transport declares, and the settings and queries of a connected stream beyond its
//! bytes.
//!
//! Code that chooses between transports uses these features, never a transport's name.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hawser_race::Security;

use super::Duplex;

/// The features of a transport, in the terms of RFC 9622, 6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// True if all data arrives, without loss or duplication.
    pub reliability: bool,
    /// True if data arrives in the order in which it was sent.
    pub order: bool,
    /// True if the ends of messages are preserved.
    pub boundaries: bool,
    /// True if messages may differ in reliability.
    pub message_reliability: bool,
    /// True if several streams share one transport connection.
    pub multistreaming: bool,
    /// True if every byte is covered by a checksum, in both directions.
    pub full_checksum: bool,
    /// True if it controls congestion.
    pub congestion_control: bool,
    /// True if the transport can keep an idle connection alive.
    pub keep_alive: bool,
    /// True if [`Duplex::tune`] has an effect on its streams.
    pub tunable: bool,
    /// True if a first message can be sent with the handshake.
    pub zero_rtt: bool,
    /// True if ICMP errors that do not end the connection are reported.
    pub soft_errors: bool,
    /// True if several paths are used at once, if there are several.
    pub multipath: bool,
    /// True if the peer learns of a stream before any data is written to it, so that the peer may write
    /// first.
    pub announces_itself: bool,
    /// The protection that it gives.
    pub security: Security,
}

impl Features {
    /// One reliable, ordered byte stream without protection.
    pub const STREAM: Features = Features {
        reliability: true,
        order: true,
        boundaries: false,
        message_reliability: false,
        multistreaming: false,
        full_checksum: true,
        congestion_control: true,
        keep_alive: true,
        tunable: false,
        zero_rtt: false,
        soft_errors: false,
        multipath: false,
        announces_itself: true,
        security: Security::None,
    };
}

/// The description of a connected stream. Unknown members are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The transport's name, for people.
    pub transport: &'static str,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// The remote address.
    pub peer: Option<SocketAddr>,
    /// The negotiated application protocol (RFC 7301).
    pub protocol: Option<Vec<u8>>,
}

/// Settings that may be applied to a stream at any time. `None` selects the system's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The idle time after which keep-alive probes are sent.
    pub keep_alive: Option<Duration>,
    /// The time after which the connection fails if data is not acknowledged.
    pub timeout: Option<Duration>,
    /// The differentiated services code point (RFC 2474), 0 to 63.
    pub code_point: Option<u8>,
    /// True if small writes are sent at once instead of being combined.
    pub is_eager: bool,
}

/// A future of another stream.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// The other streams of the transport connection that a stream belongs to.
pub trait Streams: Send + Sync {
    /// Opens another stream.
    fn open(&self) -> Opening;
    /// Accepts the next stream that the peer opens.
    fn accept(&self) -> Opening;
    /// Waits for the next change of the paths below, described for people; `None` when no more changes will
    /// be reported.
    fn next_change(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> {
        Box::pin(std::future::ready(None))
    }
}

/// Shared access to the streams of a connection.
pub type SharedStreams = Arc<dyn Streams>;
