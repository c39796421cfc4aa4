//! Why there is no QUIC connection, or no more of it.

use std::io;
use std::net::SocketAddr;

use hawser_carrier::OpenError;
use quinn::crypto::rustls::NoInitialCipherSuite;
use quinn::{ConnectError, ConnectionError, VarIntBoundsExceeded};

/// Why there is no connection, or no listener.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The idle timeout is longer than QUIC can say.
    #[error("idle timeout: {0}")]
    IdleTimeout(#[source] VarIntBoundsExceeded),
    /// TLS has no cipher suite for the first packets.
    #[error(transparent)]
    Tls(#[from] NoInitialCipherSuite),
    /// The socket cannot be had.
    #[error(transparent)]
    Socket(#[from] OpenError),
    /// No connection can begin: the name or the address cannot be a peer's.
    #[error("connecting to {peer}: {error}")]
    Connect {
        /// The peer.
        peer: SocketAddr,
        /// Why not.
        #[source]
        error: ConnectError,
    },
    /// It began, and broke.
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl QuicError {
    /// The kind of what the system or the network said.
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

    /// Whether the peer's certificate or protocol is the reason, and not the network.
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

/// A connection has ended, or did not come to be.
#[derive(Clone, Debug, thiserror::Error)]
#[error("QUIC with {peer}: {error}")]
pub struct Broken {
    /// The peer.
    pub peer: SocketAddr,
    /// Why.
    #[source]
    pub error: ConnectionError,
}

impl Broken {
    pub(crate) fn with(peer: SocketAddr) -> impl FnOnce(ConnectionError) -> Broken {
        move |error| Broken { peer, error }
    }

    /// Whether a handshake of TLS failed (RFC 9001, 4.8: errors 0x100 to 0x1ff).
    #[must_use]
    pub fn is_security(&self) -> bool {
        let code = match &self.error {
            ConnectionError::TransportError(error) => u64::from(error.code),
            ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
            _ => return false,
        };
        (0x100..=0x1ff).contains(&code)
    }

    /// Whether this side does not trust the peer's certificate: its own alert is one of those of certificates, 42 to
    /// 48 (RFC 8446, 6.2; RFC 9001, 4.8).
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        let ConnectionError::TransportError(error) = &self.error else {
            return false;
        };
        (0x100 + 42..=0x100 + 48).contains(&u64::from(error.code))
    }

    /// The kind that suits it: bad data where TLS failed, as it is over TCP.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self.is_security() {
            true => io::ErrorKind::InvalidData,
            false => io::Error::from(self.error.clone()).kind(),
        }
    }
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        Self::new(broken.kind(), broken)
    }
}
