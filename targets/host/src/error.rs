//! Why a wire cannot be opened, and what to do about it.

use std::fmt;
use std::io;

/// Why a wire cannot be opened. The text states what would help.
#[derive(Debug)]
pub enum OpenError {
    /// The name is empty, or longer than the 15 bytes of an interface's name.
    Name(String),
    /// There is no such interface.
    Missing(String),
    /// The interface exists, but has not been brought up.
    Down(String),
    /// Another program has the TUN device.
    Busy(String),
    /// The interface is of another kind than the wire needs.
    Kind {
        /// The interface.
        name: String,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// There is no `/dev/net/tun`.
    NoTun,
    /// `/dev/net/tun` may not be opened for reading and writing.
    TunUnreadable,
    /// The operation needs a capability in the network namespace.
    Permission {
        /// What was tried.
        action: &'static str,
        /// The capability.
        capability: &'static str,
    },
    /// Anything else.
    Io {
        /// What was tried.
        action: &'static str,
        /// How it failed.
        error: io::Error,
    },
}

impl OpenError {
    /// For a failed operation whose lack of permission a capability would cure.
    pub(crate) fn needs(capability: &'static str, action: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => OpenError::Permission { action, capability },
            _ => OpenError::Io { action, error },
        }
    }

    /// For a failed operation without a cure.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |error| OpenError::Io { action, error }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Name(name) => write!(f, "'{name}' cannot be an interface's name (1 to 15 bytes)"),
            OpenError::Missing(name) => write!(f, "there is no interface '{name}' in this network namespace"),
            OpenError::Down(name) => {
                write!(f, "the interface '{name}' is down; bring it up: ip link set {name} up")
            }
            OpenError::Busy(name) => write!(f, "the TUN device '{name}' is in use by another program"),
            OpenError::Kind { name, wanted } => write!(f, "the interface '{name}' is not {wanted}"),
            OpenError::NoTun => f.write_str(
                "there is no /dev/net/tun; load the module tun, or use a packet socket on an Ethernet \
                 interface instead",
            ),
            OpenError::TunUnreadable => f.write_str(
                "/dev/net/tun may not be opened by this user; use a packet socket on an Ethernet interface \
                 instead (a veth pair in namespaces of one's own needs no privilege), or let the user read and \
                 write /dev/net/tun",
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
