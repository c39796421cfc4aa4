//! Errors of applications' requests.

use hawser_ir::AppOp;

use crate::chain::Denied;
use crate::net;
use crate::state::Errno;

/// A request was refused. Its state has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The program refused the request.
    #[error("{0}")]
    Refused(Errno),
    /// The request's worst case is not free now; it can be repeated after a poll.
    #[error("the stack has no room for the request now")]
    WouldBlock,
    /// A stated limit has been reached.
    #[error("the limit `{0}` is reached")]
    Limit(&'static str),
    /// The handle was released or never existed.
    #[error("the handle does not exist")]
    BadHandle,
    /// The connection has ended, or the handle is not a connection.
    #[error("not connected")]
    NotConnected,
    /// The handle is a connection, but messages leave endpoints only.
    #[error("messages can be sent from an endpoint only")]
    NotAnEndpoint,
    /// The address and port are in use.
    #[error("address in use")]
    AddressInUse,
    /// The program's chains ran without creating a context or refusing the request.
    #[error(
        "the program did not open a connection: no chain created a context for the request; check that \
         `deploy` registers its chains"
    )]
    NothingOpened,
    /// All ephemeral ports are in use towards this remote end.
    #[error("no free port")]
    NoPort,
    /// Packets from the remote address arrive at another of the stacks that share the addresses.
    #[error("answers from this peer arrive at another shard")]
    OtherShard,
    /// There is no route to the remote address.
    #[error("{0}")]
    Unreachable(net::Unreachable),
    /// The message is longer than a connection may hold for sending; the limit is in bytes.
    #[error("the message is too long: a connection has a send buffer of {0} bytes")]
    MessageTooLong(u64),
    /// The message is empty; a message has at least one byte.
    #[error("a message has at least one byte")]
    MessageEmpty,
    /// The program's params ask for a larger receive buffer than the stack allows a connection; the limit is
    /// in bytes.
    #[error(
        "the program's receive buffer exceeds the {0} bytes that a connection may hold: lower its param, or \
         raise the limit `rx_bytes` (--buffer)"
    )]
    ReceiveBuffer(u64),
    /// The program does not offer this request.
    #[error("the program does not offer the request `{}`", .0.name())]
    Unsupported(AppOp),
}

impl RequestError {
    /// Returns the closest errno.
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
