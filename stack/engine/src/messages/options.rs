//! What an application may choose for a socket of messages.

use std::time::Duration;

/// Limits and times of a socket of messages. At a limit new work waits or is refused, and what was accepted is kept.
///
/// ```
/// use std::time::Duration;
/// use hawser_engine::messages::MessageOptions;
///
/// let options = MessageOptions { deadline: Some(Duration::from_millis(50)), ..MessageOptions::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOptions {
    /// Bytes of a message, sent or received; 1,000,000.
    pub size: usize,
    /// How long a call may take, the wait for room included, unless it states another time; 60 s. `None`: as long as
    /// the transport goes on trying.
    pub deadline: Option<Duration>,
    /// Calls and messages of this socket that are under way at a time; 1,024. The next one waits.
    pub calls: usize,
    /// Requests that have come and are not answered yet; 1,024. Beyond, a connection is not read from; a program that
    /// carries messages by itself gets a call back unread, and its peer may offer it again.
    pub requests: usize,
    /// Connections, where messages are framed on connections; 256. One that nothing is under way on makes room.
    pub connections: usize,
    /// How long a connection is kept that nothing moves on, where messages are framed on connections; 60 s, and
    /// twice that at the end that accepted it. Then an idle one is closed, and one within a message is reset.
    pub idle: Duration,
    /// Bytes of frames that wait to be taken by the transport, where messages are framed on connections; 16 MiB.
    pub unsent: usize,
}

impl Default for MessageOptions {
    fn default() -> MessageOptions {
        MessageOptions {
            size: 1_000_000,
            deadline: Some(Duration::from_secs(60)),
            calls: 1024,
            requests: 1024,
            connections: 256,
            idle: Duration::from_secs(60),
            unsent: 16 << 20,
        }
    }
}
