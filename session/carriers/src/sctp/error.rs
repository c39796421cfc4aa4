//! Errors, divided by their cause.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The library's file, with the version of its interface: the structures are those of release 0.9.5.
pub(crate) const FILE: &str = "libusrsctp.so.2";

/// An association could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SctpError {
    /// The library is not installed on this machine.
    #[error(
        "SCTP needs the library {library}, which cannot be loaded ({reason}); \
         install it: `apt-get install libusrsctp2` on Debian and Ubuntu, `dnf install usrsctp` on Fedora"
    )]
    NoLibrary {
        /// The name of the library's file.
        library: &'static str,
        /// The error of the loader.
        reason: String,
    },
    /// The UDP port for encapsulation is in use.
    #[error("the UDP port {port} for SCTP is not available: {error}; choose another port")]
    Port {
        /// The port number.
        port: u16,
        /// The error of the system.
        error: io::Error,
    },
    /// The library could not start.
    #[error("SCTP cannot start: {0}")]
    Start(String),
    /// An address is not one of this machine's, as far as the library knows.
    #[error(
        "cannot use the local addresses {}: {error}; SCTP knows only the addresses that the machine had \
         when SCTP started in this process",
        list(addresses)
    )]
    Local {
        /// The requested addresses.
        addresses: Vec<IpAddr>,
        /// The error of the library.
        error: io::Error,
    },
    /// The addresses are invalid: none was given, there are too many, or their ports differ.
    #[error("cannot connect: {0}")]
    Addresses(&'static str),
    /// The peer refused: it sent ABORT, or no process uses its port.
    #[error("{} refused the association: {what}", list(peers))]
    Refused {
        /// The peer's addresses that were tried.
        peers: Vec<SocketAddr>,
        /// The error of the network.
        what: &'static str,
    },
    /// The network reported that there is no route.
    #[error("{} cannot be reached: {error}", list(peers))]
    Unreachable {
        /// The peer's addresses that were tried.
        peers: Vec<SocketAddr>,
        /// The error of the network.
        error: io::Error,
    },
    /// The peer did not answer in time.
    #[error("{} did not answer in {} ms", list(peers), limit.as_millis())]
    TimedOut {
        /// The peer's addresses that were tried.
        peers: Vec<SocketAddr>,
        /// The time that was allowed.
        limit: Duration,
    },
    /// The SCTP process has ended, and is started again.
    #[error("the SCTP process has ended and is being restarted")]
    Gone,
    /// The library reported another error.
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

/// An error in the SCTP process. System errors are numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    NoLibrary(String),
    Start(String),
    Local {
        addresses: Vec<IpAddr>,
        error: i32,
    },
    /// The peer has refused.
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
    /// Converts the fault to an error for the caller that wanted these peers.
    pub(crate) fn about(self, peers: &[SocketAddr]) -> SctpError {
        let error = io::Error::from_raw_os_error;
        let refused = |what| SctpError::Refused { peers: peers.into(), what };
        match self {
            Self::NoLibrary(reason) => SctpError::NoLibrary { library: FILE, reason },
            Self::Start(reason) => SctpError::Start(reason),
            Self::Local { addresses, error: number } => SctpError::Local { addresses, error: error(number) },
            Self::Refused => refused("the peer rejected it, or no process listens at the port"),
            Self::Aborted => refused("the peer aborted the handshake"),
            Self::Unreachable(number) => SctpError::Unreachable { peers: peers.into(), error: error(number) },
            Self::Gone => SctpError::Gone,
            Self::Other(number) => SctpError::Other(error(number)),
        }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
