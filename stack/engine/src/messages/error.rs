//! Why a message was not carried, or a call has no reply.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Errno, RequestError};
use hawser_ir::AppOp;

/// Why a network does nothing any more: what its sockets' errors have within them.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NetworkEnd {
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[source] Arc<io::Error>),
    /// The task that drives it has ended, as with its runtime.
    #[error("the task that drives the network has ended")]
    Task,
}

impl From<NetworkEnd> for io::Error {
    fn from(end: NetworkEnd) -> io::Error {
        io::Error::other(end)
    }
}

/// Why a message was not carried, or a call has no reply.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MessageError {
    /// `EMSGSIZE`: it is longer than is allowed.
    #[error("the message is too long: {len} bytes, and at most {longest} are allowed")]
    TooLong {
        /// Its bytes.
        len: u64,
        /// The most that it may have: by the socket's options, or as the program has it.
        longest: u64,
    },
    /// `EMSGSIZE`: the program refused it.
    #[error("the message is too long for the program: {len} bytes")]
    TooLongForProgram {
        /// Its bytes.
        len: u64,
    },
    /// `EINVAL`: a message has at least one byte.
    #[error("a message has at least one byte")]
    Empty,
    /// `EOPNOTSUPP`: the program does not offer the request.
    #[error("the program does not offer the request `{}`", .0.name())]
    Unsupported(AppOp),
    /// `EOPNOTSUPP`: the program has neither.
    #[error(
        "the program offers neither messages nor streams to frame them on: it registers no `call` or `message`, and no `connect`, or `open` beside it"
    )]
    NoMessages,
    /// `ETIMEDOUT`: the call's deadline has passed.
    #[error("the deadline has passed without a reply")]
    Deadline,
    /// `ECANCELED`: the caller gave the call up.
    #[error("the call was canceled")]
    Canceled,
    /// The program reported a failure: `ETIMEDOUT` when the peer does not answer.
    #[error("the call to {peer} failed: {error}")]
    Failed {
        /// Who was called.
        peer: SocketAddr,
        /// What the program reported.
        error: Errno,
    },
    /// The connection that carried the call is gone; the next call opens another.
    #[error("the connection to {peer} is gone: {error}")]
    Broken {
        /// Who was called.
        peer: SocketAddr,
        /// Why.
        error: Errno,
    },
    /// The peer took the call and will not reply: `EMSGSIZE` when the message is too long for it, `ECANCELED`
    /// when its application dropped the request.
    #[error("{peer} refused: {error}")]
    Refused {
        /// Who was called.
        peer: SocketAddr,
        /// Why.
        error: Errno,
    },
    /// The request was refused here.
    #[error(transparent)]
    Request(RequestError),
    /// `EBADF`: the socket was given back, or what the number meant is over.
    #[error("the socket, the call or the request is over")]
    Over,
    /// `EIO`: the network has stopped.
    #[error(transparent)]
    Network(#[from] NetworkEnd),
}

impl MessageError {
    /// The nearest errno.
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

    /// Of a message of so many bytes that the stack refused.
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
    /// With the kind of its errno, and the whole text.
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
