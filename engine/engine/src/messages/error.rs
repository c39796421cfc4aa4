//! Failures of messages and calls.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Errno, RequestError};
use hawser_ir::AppOp;

/// A network has stopped. The errors of its sockets contain this one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NetworkEnd {
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[source] Arc<io::Error>),
    /// The task that drives the network has ended, for instance together with its runtime.
    #[error("the task that drives the network has ended")]
    Task,
}

impl From<NetworkEnd> for io::Error {
    fn from(end: NetworkEnd) -> io::Error {
        io::Error::other(end)
    }
}

/// A message was not carried, or a call has no reply.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MessageError {
    /// `EMSGSIZE`: the message is longer than allowed.
    #[error("the message has {len} bytes; the limit is {longest}")]
    TooLong {
        /// The length of the message, in bytes.
        len: u64,
        /// The maximum length in bytes, by the socket's options or by the program's limit.
        longest: u64,
    },
    /// `EMSGSIZE`: the program refused the message.
    #[error("the message of {len} bytes is too long for the program")]
    TooLongForProgram {
        /// The length of the message, in bytes.
        len: u64,
    },
    /// `EINVAL`: the message is empty; a message has at least one byte.
    #[error("a message needs at least one byte")]
    Empty,
    /// `EOPNOTSUPP`: the program does not offer the request.
    #[error("the program does not offer the request `{}`", .0.name())]
    Unsupported(AppOp),
    /// `EOPNOTSUPP`: the program offers neither messages nor streams.
    #[error(
        "the program offers neither messages nor streams: it registers neither `call` nor `message`, and \
         not `connect` with `open`"
    )]
    NoMessages,
    /// `ETIMEDOUT`: the call's deadline has passed.
    #[error("the deadline has passed without a reply")]
    Deadline,
    /// `ECANCELED`: the caller gave the call up.
    #[error("the call was canceled")]
    Canceled,
    /// The program reported a failure: `ETIMEDOUT` if the peer does not answer.
    #[error("the call to {peer} failed: {error}")]
    Failed {
        /// The called peer.
        peer: SocketAddr,
        /// The error that the program reported.
        error: Errno,
    },
    /// The connection that carried the call has ended; the next call opens another.
    #[error("the connection to {peer} has ended: {error}")]
    Broken {
        /// The called peer.
        peer: SocketAddr,
        /// The reason for the end of the connection.
        error: Errno,
    },
    /// The peer received the call and will not reply: `EMSGSIZE` if the message is too long for it,
    /// `ECANCELED` if its application dropped the request.
    #[error("{peer} refused: {error}")]
    Refused {
        /// The called peer.
        peer: SocketAddr,
        /// The peer's reason.
        error: Errno,
    },
    /// The local stack refused the request.
    #[error(transparent)]
    Request(RequestError),
    /// `EBADF`: the socket was closed, or the call or request is over.
    #[error("the socket, the call or the request has ended")]
    Over,
    /// `EIO`: the network has stopped.
    #[error(transparent)]
    Network(#[from] NetworkEnd),
}

impl MessageError {
    /// Returns the closest errno.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            MessageError::TooLong { .. } | MessageError::TooLongForProgram { .. } => MESSAGE_SIZE,
            MessageError::Empty => Errno::INVALID,
            MessageError::Unsupported(_) | MessageError::NoMessages => UNSUPPORTED,
            MessageError::Deadline => TIMED_OUT,
            MessageError::Canceled => CANCELED,
            MessageError::Failed { error, .. }
            | MessageError::Broken { error, .. }
            | MessageError::Refused { error, .. } => *error,
            MessageError::Request(error) => error.errno(),
            MessageError::Over => Errno(9),
            MessageError::Network(_) => Errno(5),
        }
    }

    /// Converts the stack's refusal of a message of `len` bytes.
    pub(super) fn of_request(error: RequestError, len: u64) -> MessageError {
        match error {
            RequestError::MessageTooLong(longest) => MessageError::TooLong { len, longest },
            RequestError::MessageEmpty => MessageError::Empty,
            RequestError::Unsupported(op) => MessageError::Unsupported(op),
            RequestError::Refused(MESSAGE_SIZE) => MessageError::TooLongForProgram { len },
            error => MessageError::Request(error),
        }
    }
}

impl From<MessageError> for io::Error {
    /// Converts to an error with the kind of the errno, and the whole text.
    fn from(error: MessageError) -> io::Error {
        io::Error::new(error.errno().to_io().kind(), error)
    }
}

/// `EMSGSIZE`.
pub(super) const MESSAGE_SIZE: Errno = Errno(90);
/// `EOPNOTSUPP`.
const UNSUPPORTED: Errno = Errno(95);
/// `ECONNRESET`.
pub(super) const RESET: Errno = Errno(104);
/// `ETIMEDOUT`.
pub(super) const TIMED_OUT: Errno = Errno(110);
/// `ECANCELED`.
pub(super) const CANCELED: Errno = Errno(125);
/// `EPROTO`.
pub(super) const PROTOCOL: Errno = Errno(71);
