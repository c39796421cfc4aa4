//! Reasons why a QUIC connection was not opened, or has ended.

use std::io;
use std::net::SocketAddr;

use crate::OpenError;
use quinn::crypto::rustls::NoInitialCipherSuite;
use quinn::{ConnectError, ConnectionError, VarIntBoundsExceeded};

/// A connection or a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The idle timeout is too long for QUIC's encoding.
    #[error("invalid idle timeout: {0}")]
    IdleTimeout(#[source] VarIntBoundsExceeded),
    /// TLS has no cipher suite for the initial packets.
    #[error(transparent)]
    Tls(#[from] NoInitialCipherSuite),
    /// The socket could not be opened.
    #[error(transparent)]
    Socket(#[from] OpenError),
    /// The connection could not begin, because the name or the address is not valid for a peer.
    #[error("cannot connect to {peer}: {error}")]
    Connect {
        /// The peer.
        peer: SocketAddr,
        /// The reason.
        #[source]
        error: ConnectError,
    },
    /// The connection began and failed.
    #[error(transparent)]
    Broken(#[from] ConnectionBroken),
}

impl QuicError {
    /// Returns the kind of the error that the system or the network reported.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            QuicError::IdleTimeout(_) | QuicError::Tls(_) | QuicError::Connect { .. } => {
                io::ErrorKind::InvalidInput
            }
            QuicError::Socket(error) => error.kind(),
            QuicError::Broken(broken) => broken.kind(),
        }
    }

    /// Returns true if the peer's certificate or protocol is the reason, and not the network.
    #[must_use]
    pub fn is_security(&self) -> bool {
        matches!(self, QuicError::Broken(broken) if broken.is_security())
    }
}

impl From<QuicError> for io::Error {
    fn from(error: QuicError) -> Self {
        match error {
            QuicError::Socket(error) => error.into(),
            error => Self::new(error.kind(), error),
        }
    }
}

/// A connection has ended, or could not be established.
#[derive(Clone, Debug, thiserror::Error)]
#[error("QUIC with {peer} failed: {error}")]
pub struct ConnectionBroken {
    /// The peer.
    pub peer: SocketAddr,
    /// The reason.
    #[source]
    pub error: ConnectionError,
}

impl ConnectionBroken {
    pub(crate) fn with(peer: SocketAddr) -> impl FnOnce(ConnectionError) -> ConnectionBroken {
        move |error| ConnectionBroken { peer, error }
    }

    /// Returns true if a TLS handshake failed (RFC 9001, 4.8: errors 0x100 to 0x1ff).
    #[must_use]
    pub fn is_security(&self) -> bool {
        let code = match &self.error {
            ConnectionError::TransportError(error) => u64::from(error.code),
            ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
            _ => return false,
        };
        (0x100..=0x1ff).contains(&code)
    }

    /// Returns true if this side does not trust the peer's certificate. In that case its own alert is one of
    /// those for certificates, 42 to 48 (RFC 8446, 6.2; RFC 9001, 4.8).
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        let ConnectionError::TransportError(error) = &self.error else {
            return false;
        };
        (0x100 + 42..=0x100 + 48).contains(&u64::from(error.code))
    }

    /// Returns a suitable error kind: invalid data if TLS failed, as over TCP.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self.is_security() {
            true => io::ErrorKind::InvalidData,
            false => io::Error::from(self.error.clone()).kind(),
        }
    }
}

impl From<ConnectionBroken> for io::Error {
    fn from(broken: ConnectionBroken) -> Self {
        Self::new(broken.kind(), broken)
    }
}
