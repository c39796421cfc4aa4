//! Why something did not come to be.

use std::io;

use super::framer::FramingError;
use hawser_race::Failure;

/// Why there is no Connection, or no Listener (RFC 9622, 7.1, 7.2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstablishmentError {
    /// An endpoint is missing, or states too little or too much.
    #[error("endpoints: {0}")]
    Endpoint(String),
    /// What was required and prohibited cannot be had together, or not here.
    #[error("properties: {0}")]
    Properties(String),
    /// The security parameters cannot be fulfilled.
    #[error("security: {0}")]
    Security(String),
    /// Nobody could be connected to.
    #[error("{why}")]
    Unreachable {
        /// The most specific class.
        failure: Failure,
        /// Each candidate, and why it failed.
        why: String,
    },
    /// It was not established in the time given to it.
    #[error("nothing was connected in the time given")]
    Timeout,
    /// This side gave it up.
    #[error("it was aborted before it was there")]
    Aborted,
    /// The system refused something.
    #[error("{0}")]
    System(String),
}

/// Why a message was not sent (RFC 9622, 9.2.2.3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// A message marked Final was sent before (9.1.3.5).
    #[error("a final message was sent before: nothing follows it")]
    AfterFinal,
    /// The Connection is being closed.
    #[error("the Connection is being closed")]
    Closing,
    /// The Connection is for receiving alone (6.2.16).
    #[error("the Connection is for receiving alone")]
    ReceivesOnly,
    /// The message's properties contradict the Connection's.
    #[error("{0}")]
    Properties(String),
    /// A framer refused it.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The Connection ended before it was sent.
    #[error("it was not sent: {0}")]
    Ended(#[from] Ended),
}

/// Why nothing is received (RFC 9622, 9.3.2.3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The peer has finished: no message will follow (9.3.3.3).
    #[error("the peer has sent its last message")]
    Finished,
    /// The peer's data ended within a message.
    #[error("the peer's data ended within a message")]
    Truncated,
    /// The Connection is for sending alone (6.2.16).
    #[error("the Connection is for sending alone")]
    SendsOnly,
    /// What came is no message.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The Connection has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// Why a Connection ended otherwise than by closing (RFC 9622, 10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// This side aborted it.
    #[error("aborted by this side")]
    LocalAbort,
    /// Data was not delivered in time (8.1.3).
    #[error("data was not delivered in time")]
    Timeout,
    /// What came is no message.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The transport failed, or the peer aborted.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// What a transport, or the system below it, has said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TransportError {
    kind: io::ErrorKind,
    why: String,
}

impl TransportError {
    /// What kind of failure it is: [`io::ErrorKind::ConnectionReset`] where the peer aborted.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> TransportError {
        TransportError { kind: error.kind(), why: error.to_string() }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> ConnectionError {
        ConnectionError::Transport(error.into())
    }
}

/// Why a Connection was not cloned, or left its group (RFC 9622, 7.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloneError {
    /// There is nothing to clone.
    #[error("the Connection is not established")]
    NotEstablished,
    /// A Connection that came to a Listener without other streams has no path back.
    #[error("the transport has one stream alone, and the peer has not stated where it listens")]
    NoReturnPath,
    /// The group's limit.
    #[error("a group has {0} Connections at most")]
    Limit(usize),
    /// A property of the group could not be applied to this Connection.
    #[error("{0}")]
    Property(String),
}

/// The Connection has ended, and why: its last event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// It was closed, by either side.
    #[error("the Connection has been closed")]
    Closed,
    /// It was never established.
    #[error("the Connection was not established: {0}")]
    Establishment(#[from] EstablishmentError),
    /// It ended otherwise.
    #[error("the Connection has ended: {0}")]
    Connection(#[from] ConnectionError),
}
