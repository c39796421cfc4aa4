//! The options of a message socket.

use std::time::Duration;

/// Limits and times of a message socket. At a limit new work waits or is refused, and accepted work is kept.
///
/// ```
/// use std::time::Duration;
/// use hawser_engine::messages::MessageOptions;
///
/// let options = MessageOptions { deadline: Some(Duration::from_millis(50)), ..MessageOptions::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOptions {
    /// The maximum size of a message in bytes, sent or received; 1,000,000.
    pub size: usize,
    /// The maximum duration of a call that states no other, including the wait for room; 60 s. `None` lets a
    /// call last for as long as the transport keeps trying.
    pub deadline: Option<Duration>,
    /// The maximum number of calls and messages of this socket in progress; 1,024. The next one waits.
    pub calls: usize,
    /// The maximum number of received requests without an answer; 1,024. At the limit connections are not
    /// read from. A program that carries messages itself gets a call back unread, and its peer may offer it
    /// again.
    pub requests: usize,
    /// The maximum number of connections, if messages are framed on connections; 256. An idle one makes room
    /// for a new one.
    pub connections: usize,
    /// The time for which a connection without traffic is kept, if messages are framed on connections; 60 s.
    /// It is twice as long at the end that accepted the connection. After that an idle connection is closed,
    /// and one within a message is reset.
    pub idle: Duration,
    /// The maximum number of bytes of frames that wait for the transport, if messages are framed on
    /// connections; 16 MiB.
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
