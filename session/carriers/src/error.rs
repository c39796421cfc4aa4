//! Reasons why a carrier could not be opened.

use std::io;
use std::net::SocketAddr;

/// A transport could not open a connection or a listener.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The socket could not be bound to the interface.
    #[error("cannot bind to the interface {interface:?}: {error}")]
    Interface {
        /// The interface's name.
        interface: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The socket could not be bound to this end's address.
    #[error("cannot bind to {local}: {error}")]
    Local {
        /// The address.
        local: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The socket could not listen on the address.
    #[error("cannot listen on {local}: {error}")]
    Listen {
        /// The address.
        local: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The system does not allow this congestion control for the connection.
    #[error("cannot use the congestion control {name:?}: {error}")]
    CongestionControl {
        /// Its name.
        name: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The system does not accept a limit on the length of segments.
    #[error("cannot set the largest segment: {0}")]
    MaxSegment(#[source] io::Error),
    /// The connection attempt failed at the peer or on the path.
    #[error("cannot connect to {peer}: {error}")]
    Connect {
        /// The peer.
        peer: SocketAddr,
        /// The error that the network reported.
        #[source]
        error: io::Error,
    },
    /// The TLS handshake failed. The error's kind is [`io::ErrorKind::InvalidData`] if a certificate or a
    /// protocol is not acceptable.
    #[error("TLS with {peer} failed: {error}")]
    Handshake {
        /// The peer.
        peer: SocketAddr,
        /// The error of TLS, or of the transport below.
        #[source]
        error: io::Error,
    },
    /// The peer's answer in the TLS handshake is not a TLS message.
    #[error("{peer} does not speak TLS: {error}")]
    NoTls {
        /// The peer.
        peer: SocketAddr,
        /// The error of TLS.
        #[source]
        error: io::Error,
    },
    /// The client took too long for the TLS handshake.
    #[error("the TLS handshake did not complete within 10 s")]
    HandshakeTimeout,
    /// Another system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl OpenError {
    /// Returns the kind of the error that the system or the network reported.
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

    /// Returns true if the peer speaks TLS, and its certificate, its protocol or an alert is the reason.
    #[must_use]
    pub fn is_security(&self) -> bool {
        matches!(self, OpenError::Handshake { error, .. } if error.kind() == io::ErrorKind::InvalidData)
    }

    /// Returns true if the peer speaks another protocol.
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
