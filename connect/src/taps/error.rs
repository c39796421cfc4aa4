//! The errors of establishment, of messages and of Connections.

use std::io;

use super::framer::FramingError;
use hawser_race::Failure;

/// The reasons for which a Connection, or a Listener, is not established (RFC 9622, 7.1, 7.2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstablishmentError {
    /// An endpoint is missing, or has too few or too many identifiers.
    #[error("endpoints: {0}")]
    Endpoint(String),
    /// The required and prohibited properties contradict each other, or are not available here.
    #[error("properties: {0}")]
    Properties(String),
    /// The security parameters cannot be fulfilled.
    #[error("security: {0}")]
    Security(String),
    /// No candidate could connect.
    #[error("{why}")]
    Unreachable {
        /// The most specific class of failure.
        failure: Failure,
        /// The reason of failure of each candidate.
        why: String,
    },
    /// The Connection was not established in time.
    #[error("the Connection was not established in time")]
    Timeout,
    /// This side aborted it.
    #[error("the Connection was aborted before it was established")]
    Aborted,
    /// The system refused an operation.
    #[error("{0}")]
    System(String),
}

/// The reasons for which a message is not sent (RFC 9622, 9.2.2.3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// A message marked Final was sent before (9.1.3.5).
    #[error("a final message was sent before; no message can follow it")]
    AfterFinal,
    /// The Connection is being closed.
    #[error("the Connection is being closed")]
    Closing,
    /// The Connection only receives (6.2.16).
    #[error("the Connection is for receiving only")]
    ReceivesOnly,
    /// The message's properties contradict the Connection's.
    #[error("{0}")]
    Properties(String),
    /// A framer refused it.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The Connection ended before the message was sent.
    #[error("the message was not sent: {0}")]
    Ended(#[from] ConnectionEnded),
}

/// The reasons for which no message is received (RFC 9622, 9.3.2.3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The peer has finished: no message will follow (9.3.3.3).
    #[error("the peer has sent its last message")]
    Finished,
    /// The peer's data ended within a message.
    #[error("the peer's data ended within a message")]
    Truncated,
    /// The Connection only sends (6.2.16).
    #[error("the Connection is for sending only")]
    SendsOnly,
    /// A framer could not parse the received data.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The Connection has ended.
    #[error(transparent)]
    Ended(#[from] ConnectionEnded),
}

/// The reasons for which a Connection ends other than by a close (RFC 9622, 10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// This side aborted it.
    #[error("aborted by this side")]
    LocalAbort,
    /// Data was not delivered in time (8.1.3).
    #[error("the data was not delivered in time")]
    Timeout,
    /// A framer could not parse the received data.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The transport failed, or the peer aborted.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// An error reported by a transport, or by the system below it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TransportError {
    kind: io::ErrorKind,
    why: String,
}

impl TransportError {
    /// Returns the kind of failure: [`io::ErrorKind::ConnectionReset`] if the peer aborted.
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

/// The reasons for which a Connection is not cloned, or leaves its group (RFC 9622, 7.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloneError {
    /// The Connection is not established, so there is no stream to clone.
    #[error("the Connection is not established")]
    NotEstablished,
    /// A Connection that a Listener accepted has no return path, if its transport has no further streams.
    #[error("the transport has only one stream, and the peer has not stated where it listens")]
    NoReturnPath,
    /// The group is full.
    #[error("a group has at most {0} Connections")]
    Limit(usize),
    /// A property of the group could not be applied to this Connection.
    #[error("{0}")]
    Property(String),
}

/// The Connection has ended; the value is the reason, from its last event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionEnded {
    /// It was closed, by either side.
    #[error("the Connection has been closed")]
    Closed,
    /// It was never established.
    #[error("the Connection was not established: {0}")]
    Establishment(#[from] EstablishmentError),
    /// It ended in another way.
    #[error("the Connection has ended: {0}")]
    Connection(#[from] ConnectionError),
}
