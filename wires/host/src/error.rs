//! Errors of opening a wire, with remedies.

use std::fmt;
use std::io;

/// A wire could not be opened. The text states a remedy.
#[derive(Debug)]
pub enum OpenError {
    /// The name is empty, or longer than the 15 bytes of an interface's name.
    Name(String),
    /// There is no interface of this name.
    Missing(String),
    /// The interface exists, but has not been brought up.
    Down(String),
    /// Another program uses the TUN device.
    Busy(String),
    /// The interface is of another kind than the wire needs.
    Kind {
        /// The name of the interface.
        name: String,
        /// The kind that the wire needs.
        wanted: &'static str,
    },
    /// There is no `/dev/net/tun`.
    NoTun,
    /// `/dev/net/tun` may not be opened for reading and writing.
    TunUnreadable,
    /// The operation needs a capability in the network namespace.
    Permission {
        /// The operation that failed.
        action: &'static str,
        /// The name of the capability.
        capability: &'static str,
    },
    /// Any other failed operation.
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl OpenError {
    /// Converts the error of an operation that a capability would permit.
    pub(crate) fn needs(capability: &'static str, action: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => OpenError::Permission { action, capability },
            _ => OpenError::Io { action, error },
        }
    }

    /// Converts the error of an operation without a remedy.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |error| OpenError::Io { action, error }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Name(name) => write!(f, "'{name}' cannot be an interface's name (1 to 15 bytes)"),
            OpenError::Missing(name) => write!(
                f,
                "the interface '{name}' does not exist in this network \
                 namespace"
            ),
            OpenError::Down(name) => {
                write!(
                    f,
                    "the interface '{name}' is down; bring it up: ip link set {name} up"
                )
            }
            OpenError::Busy(name) => write!(f, "the TUN device '{name}' is in use by another program"),
            OpenError::Kind { name, wanted } => write!(f, "the interface '{name}' is not {wanted}"),
            OpenError::NoTun => f.write_str(
                "/dev/net/tun does not exist; load the module tun, or use a packet socket on an Ethernet \
                 interface instead",
            ),
            OpenError::TunUnreadable => f.write_str(
                "this user has no permission to open /dev/net/tun; use a packet socket on an Ethernet \
                 interface instead (a veth pair in namespaces of one's own needs no privilege), or let the \
                 user read and write /dev/net/tun",
            ),
            OpenError::Permission { action, capability } => write!(
                f,
                "no permission to {action}: it needs {capability}; run inside namespaces of your own \
                 (unshare --map-root-user --net), or grant the capability (setcap {}+ep PROGRAM)",
                capability.to_lowercase()
            ),
            OpenError::Io { action, error } => write!(f, "cannot {action}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { error, .. } => Some(error),
            OpenError::Name(_)
            | OpenError::Missing(_)
            | OpenError::Down(_)
            | OpenError::Busy(_)
            | OpenError::Kind { .. }
            | OpenError::NoTun
            | OpenError::TunUnreadable
            | OpenError::Permission { .. } => None,
        }
    }
}
