//! Why a request of an application failed.

use hawser_ir::AppOp;

use crate::chain::Denied;
use crate::net;
use crate::state::Errno;

/// Why a request was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The program refused it.
    #[error("{0}")]
    Refused(Errno),
    /// What the request may need is not free now; it can be repeated after a poll.
    #[error("no room for the request now")]
    WouldBlock,
    /// A stated limit is reached.
    #[error("the limit `{0}` is reached")]
    Limit(&'static str),
    /// The handle was released, or never was one.
    #[error("no such handle")]
    BadHandle,
    /// The connection is over, or this is no connection.
    #[error("not connected")]
    NotConnected,
    /// Messages leave endpoints, and this is a connection.
    #[error("not an endpoint: messages leave what listens")]
    NotAnEndpoint,
    /// The address and port are in use.
    #[error("address in use")]
    AddressInUse,
    /// The program's chains ran, and none made a context or refused.
    #[error(
        "the program opened nothing: no chain made a context for the request; does `deploy` register its chains?"
    )]
    NothingOpened,
    /// All ephemeral ports are in use towards this remote end.
    #[error("no free port")]
    NoPort,
    /// Packets from the remote address come to another of the stacks that share their addresses.
    #[error("answers from there come to another shard")]
    OtherShard,
    /// There is no route to the remote address.
    #[error("{0}")]
    Unreachable(net::Unreachable),
    /// A message is longer than what a connection may hold for sending, in bytes.
    #[error("the message is too long: a connection holds {0} bytes for sending")]
    MessageTooLong(u64),
    /// A message has at least one byte.
    #[error("a message has at least one byte")]
    MessageEmpty,
    /// The program's params ask for a larger receive buffer than the stack holds for a connection, in bytes.
    #[error(
        "the program's receive buffer is larger than the {0} bytes that a connection may hold: lower its param, or raise \
         the limit `rx_bytes` (--buffer)"
    )]
    ReceiveBuffer(u64),
    /// The program has no such request.
    #[error("the program does not offer the request `{}`", .0.name())]
    Unsupported(AppOp),
}

impl RequestError {
    /// The nearest errno.
    #[must_use]
    pub fn errno(self) -> Errno {
        Errno(match self {
            RequestError::Refused(errno) => errno.0,
            RequestError::WouldBlock => 11,                        // EAGAIN
            RequestError::Limit(_) => 105,                         // ENOBUFS
            RequestError::ReceiveBuffer(_) => 105,                 // ENOBUFS
            RequestError::BadHandle => 9,                          // EBADF
            RequestError::NotConnected => 107,                     // ENOTCONN
            RequestError::AddressInUse => 98,                      // EADDRINUSE
            RequestError::NoPort | RequestError::OtherShard => 99, // EADDRNOTAVAIL
            RequestError::MessageTooLong(_) => 90,                 // EMSGSIZE
            RequestError::MessageEmpty | RequestError::NotAnEndpoint => 22, // EINVAL
            RequestError::Unreachable(_) => 101,                   // ENETUNREACH
            RequestError::Unsupported(_) | RequestError::NothingOpened => 95, // EOPNOTSUPP
        })
    }
}

impl From<Denied> for RequestError {
    fn from(denied: Denied) -> RequestError {
        match denied {
            Denied::Refused(errno) => RequestError::Refused(errno),
            Denied::NoRoom => RequestError::WouldBlock,
            Denied::Limit(name) => RequestError::Limit(name),
        }
    }
}
