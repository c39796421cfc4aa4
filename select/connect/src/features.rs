//! What a transport declares, and what a connected stream can be set to and asked beyond
//! its bytes.
//!
//! Whoever chooses between transports asks for these, never for a name.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hawser_race::Security;

use super::Duplex;

/// What a transport does for its application, in the terms of RFC 9622, 6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// All data arrives, without loss or duplication.
    pub reliability: bool,
    /// Data arrives in the order in which it was sent.
    pub order: bool,
    /// The ends of messages arrive with them.
    pub boundaries: bool,
    /// Messages may differ in reliability.
    pub message_reliability: bool,
    /// Several streams share one transport connection.
    pub multistreaming: bool,
    /// Every byte is covered by a checksum, in both directions.
    pub full_checksum: bool,
    /// It is congestion controlled.
    pub congestion_control: bool,
    /// An idle connection can be kept alive by the transport.
    pub keep_alive: bool,
    /// [`Duplex::tune`] has an effect on its streams.
    pub tunable: bool,
    /// A first message can leave with the handshake.
    pub zero_rtt: bool,
    /// ICMP errors that end nothing are reported.
    pub soft_errors: bool,
    /// Several paths are used at once, if there are several.
    pub multipath: bool,
    /// The peer learns of a stream before anything was written to it, so that it may write first.
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

/// What is known of a connected stream. What is not known is not stated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The transport's name, for people.
    pub transport: &'static str,
    /// This end.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub peer: Option<SocketAddr>,
    /// The application protocol that was agreed on (RFC 7301).
    pub protocol: Option<Vec<u8>>,
}

/// What may be asked of a stream at any time. None: the system's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Ask an idle peer for a sign of life after so long.
    pub keep_alive: Option<Duration>,
    /// Give up when data was not acknowledged for so long.
    pub timeout: Option<Duration>,
    /// The differentiated services code point (RFC 2474), 0 to 63.
    pub code_point: Option<u8>,
    /// Send small pieces at once rather than together.
    pub is_eager: bool,
}

/// The result of asking for another stream.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// The other streams of the transport connection that a stream belongs to.
pub trait Streams: Send + Sync {
    /// Opens another one.
    fn open(&self) -> Opening;
    /// The next one that the peer opens.
    fn accept(&self) -> Opening;
    /// What becomes of the paths below, as words for people; none when nothing more will be reported.
    fn next_change(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> {
        Box::pin(std::future::ready(None))
    }
}

/// Streams that several may hold.
pub type SharedStreams = Arc<dyn Streams>;
