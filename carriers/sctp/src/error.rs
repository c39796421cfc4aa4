//! What goes wrong, and whose fault it is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

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
    /// The process has one stack with one port, and it is another.
    #[error(
        "SCTP already runs over UDP port {present} in this process, and cannot run over {wanted} as well: \
         a process has one port for all its associations"
    )]
    OtherPort {
        /// The port it has.
        present: u16,
        /// The port that was asked for.
        wanted: u16,
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
            SctpError::OtherPort { .. } => ErrorKind::AddrInUse,
            SctpError::Addresses(_) => ErrorKind::InvalidInput,
            SctpError::Refused { .. } => ErrorKind::ConnectionRefused,
            SctpError::TimedOut { .. } => ErrorKind::TimedOut,
        };
        io::Error::new(kind, error)
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
