//! Why there is no carrier.

use std::io;
use std::net::SocketAddr;

/// Why a transport gives no connection, or no listener.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The socket cannot be bound to the interface.
    #[error("binding to the interface {interface:?}: {error}")]
    Interface {
        /// The interface.
        interface: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The socket cannot be bound to this end's address.
    #[error("binding to {local}: {error}")]
    Local {
        /// The address.
        local: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The address cannot be listened on.
    #[error("listening on {local}: {error}")]
    Listen {
        /// The address.
        local: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The system does not let the connection have this congestion control.
    #[error("congestion control {name:?}: {error}")]
    CongestionControl {
        /// Its name.
        name: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The system takes no bound on the length of segments.
    #[error("the largest segment: {0}")]
    MaxSegment(#[source] io::Error),
    /// The peer, or the way to it, gives no connection.
    #[error("connecting to {peer}: {error}")]
    Connect {
        /// The peer.
        peer: SocketAddr,
        /// What the network said.
        #[source]
        error: io::Error,
    },
    /// The handshake of TLS failed: [`io::ErrorKind::InvalidData`] where a certificate or a protocol does not fit.
    #[error("TLS with {peer}: {error}")]
    Handshake {
        /// The peer.
        peer: SocketAddr,
        /// What TLS, or the transport below, said.
        #[source]
        error: io::Error,
    },
    /// The peer's answer to the handshake of TLS is no message of TLS.
    #[error("{peer} does not speak TLS: {error}")]
    NoTls {
        /// The peer.
        peer: SocketAddr,
        /// The error of TLS.
        #[source]
        error: io::Error,
    },
    /// The client took too long for the handshake of TLS.
    #[error("TLS handshake took over 10 s")]
    HandshakeTimeout,
    /// The system refused anything else.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl OpenError {
    /// The kind of what the system or the network said.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            OpenError::Interface { error, .. }
            | OpenError::Local { error, .. }
            | OpenError::Listen { error, .. }
            | OpenError::CongestionControl { error, .. }
            | OpenError::MaxSegment(error)
            | OpenError::Connect { error, .. }
            | OpenError::Handshake { error, .. }
            | OpenError::NoTls { error, .. }
            | OpenError::System(error) => error.kind(),
            OpenError::HandshakeTimeout => io::ErrorKind::TimedOut,
        }
    }

    /// Returns whether the peer speaks TLS, and its certificate, its protocol or an alert is the reason.
    #[must_use]
    pub fn is_security(&self) -> bool {
        matches!(self, OpenError::Handshake { error, .. } if error.kind() == io::ErrorKind::InvalidData)
    }

    /// Returns whether the peer speaks another protocol.
    #[must_use]
    pub fn is_protocol(&self) -> bool {
        matches!(self, OpenError::NoTls { .. })
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::System(error) => error,
            error => Self::new(error.kind(), error),
        }
    }
}
