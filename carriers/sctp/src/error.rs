//! What goes wrong, and whose fault it is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The library's file, with the version of its interface: the structures of release 0.9.5.
pub(crate) const FILE: &str = "libusrsctp.so.2";

/// Why there is no association.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SctpError {
    /// The library is not on this machine.
    #[error(
        "SCTP needs the library {library}, which cannot be loaded ({reason}); \
         install it: `apt-get install libusrsctp2` on Debian and Ubuntu, `dnf install usrsctp` on Fedora"
    )]
    NoLibrary {
        /// The file that was looked for.
        library: &'static str,
        /// The error of the loader.
        reason: String,
    },
    /// The UDP port for encapsulation is in use.
    #[error("UDP port {port}, which is to carry SCTP, cannot be had: {error}; choose another one")]
    Port {
        /// The port.
        port: u16,
        /// The error of the system.
        error: io::Error,
    },
    /// The library could not begin.
    #[error("SCTP cannot begin: {0}")]
    Start(String),
    /// Not an address of this machine, as the library knows it.
    #[error(
        "cannot use the local addresses {}: {error}; only addresses that the machine had when SCTP began \
         in this process are known",
        list(addresses)
    )]
    Local {
        /// What was asked for.
        addresses: Vec<IpAddr>,
        /// The error of the library.
        error: io::Error,
    },
    /// No address to connect to, or more than fit, or unequal ports.
    #[error("cannot connect: {0}")]
    Addresses(&'static str),
    /// The peer answered no: ABORT, or no process has its port.
    #[error("{} refused the association: {what}", list(peers))]
    Refused {
        /// The peer's addresses that were tried.
        peers: Vec<SocketAddr>,
        /// The error of the network.
        what: &'static str,
    },
    /// The network reports that there is no route.
    #[error("{} cannot be reached: {error}", list(peers))]
    Unreachable {
        /// The peer's addresses that were tried.
        peers: Vec<SocketAddr>,
        /// The error of the network.
        error: io::Error,
    },
    /// No answer in time.
    #[error("{} did not answer in {} ms", list(peers), limit.as_millis())]
    TimedOut {
        /// The peer's addresses that were tried.
        peers: Vec<SocketAddr>,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The SCTP process has ended; it is started again.
    #[error("the SCTP process has ended, and is started again")]
    Gone,
    /// Any other error of the library.
    #[error("SCTP: {0}")]
    Other(#[from] io::Error),
}

impl From<SctpError> for io::Error {
    fn from(error: SctpError) -> Self {
        use io::ErrorKind;
        let kind = match &error {
            SctpError::NoLibrary { .. } | SctpError::Start(_) => ErrorKind::Unsupported,
            SctpError::Port { error, .. }
            | SctpError::Local { error, .. }
            | SctpError::Unreachable { error, .. }
            | SctpError::Other(error) => error.kind(),
            SctpError::Addresses(_) => ErrorKind::InvalidInput,
            SctpError::Refused { .. } => ErrorKind::ConnectionRefused,
            SctpError::Gone => ErrorKind::ConnectionReset,
            SctpError::TimedOut { .. } => ErrorKind::TimedOut,
        };
        io::Error::new(kind, error)
    }
}

/// An error in the SCTP process. Errors of the system are numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    NoLibrary(String),
    Start(String),
    Local {
        addresses: Vec<IpAddr>,
        error: i32,
    },
    /// The peer has answered no.
    Refused,
    /// The peer has aborted a handshake that had begun.
    Aborted,
    /// There is no route.
    Unreachable(i32),
    /// The process has ended.
    Gone,
    Other(i32),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Self::Aborted,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable(number),
            _ => Self::Other(number),
        }
    }
}

impl Fault {
    /// The error for the caller, who wanted these peers.
    pub(crate) fn about(self, peers: &[SocketAddr]) -> SctpError {
        let error = io::Error::from_raw_os_error;
        let refused = |what| SctpError::Refused { peers: peers.into(), what };
        match self {
            Self::NoLibrary(reason) => SctpError::NoLibrary { library: FILE, reason },
            Self::Start(reason) => SctpError::Start(reason),
            Self::Local { addresses, error: number } => SctpError::Local { addresses, error: error(number) },
            Self::Refused => refused("it answered no, or no process has its port"),
            Self::Aborted => refused("it aborted the handshake"),
            Self::Unreachable(number) => SctpError::Unreachable { peers: peers.into(), error: error(number) },
            Self::Gone => SctpError::Gone,
            Self::Other(number) => SctpError::Other(error(number)),
        }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
