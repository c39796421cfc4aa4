//! A stream of a QUIC connection (RFC 9000), with others beside it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_carriers::quic::{QuicConnection, QuicEndpoint, QuicError, QuicOptions, QuicStream};

use crate::{About, AttemptError, Candidate, Duplex, Features, Opening, SharedStreams, Streams, Transport};
use hawser_race::resolve::ServiceRecord;
use hawser_race::{Handshake, Security};
use hawser_session::Trust;

use super::tls::{client_config, security_of};
use super::{ConfigError, has_https};

/// The maximum number of simultaneous streams that a peer may open.
pub(crate) const STREAMS: u32 = 256;

/// QUIC with an application protocol, which is mandatory (RFC 9001, 8.1).
#[derive(Clone)]
pub struct Quic {
    tls: Arc<rustls::ClientConfig>,
    name: Arc<str>,
    security: Security,
    interface: Option<String>,
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Quic {
    /// Makes a transport to peers that `trust` admits and that have this name, with one of these application
    /// protocols.
    ///
    /// # Errors
    /// When the certificates to be trusted cannot be read, or there is no protocol.
    pub fn new(trust: &Trust, name: &str, protocols: &[String]) -> Result<Quic, ConfigError> {
        if protocols.is_empty() {
            return Err(ConfigError::NoProtocol);
        }
        let tls = client_config(trust, protocols)?;
        Ok(Quic { tls, name: name.into(), security: security_of(trust), interface: None })
    }

    /// Restricts it to this interface; `None` allows any.
    #[must_use]
    pub fn by(self, interface: Option<String>) -> Quic {
        Quic { interface, ..self }
    }

    async fn connect(&self, address: SocketAddr) -> Result<QuicDuplex, AttemptError> {
        let options = QuicOptions { interface: self.interface.clone(), ..QuicOptions::default() };
        let endpoint = QuicEndpoint::open(address, None, options)
            .map_err(|error| AttemptError::local(&error.into(), "cannot open a socket"))?;
        let connection = endpoint
            .connect_streams(address, &self.name, Arc::clone(&self.tls), STREAMS)
            .await;
        let stream = connection?.open().await.map_err(QuicError::from)?;
        Ok(QuicDuplex { stream })
    }
}

impl Transport for Quic {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        // A protocol of the record must be among those that this connection offers (RFC 9460, 7.1.2).
        let speaks = |service: &ServiceRecord| {
            let ours = |name: &String| self.tls.alpn_protocols.iter().any(|own| own == name.as_bytes());
            !service.no_default_alpn || service.alpn.iter().any(ours)
        };
        if !service.is_none_or(speaks) {
            return Vec::new();
        }
        let connect = |transport: Arc<Quic>, address| async move { transport.connect(address).await };
        let candidate = Candidate::to_address(self, address, "quic", self.interface.as_deref(), connect);
        vec![Candidate { security: self.security, handshake: Handshake::Secure, ..candidate }]
    }

    fn is_https(&self) -> bool {
        has_https(&self.tls.alpn_protocols)
    }

    fn features(&self) -> Features {
        Features { security: self.security, ..FEATURES }
    }
}

/// The features of its streams.
const FEATURES: Features = Features {
    multistreaming: true,
    announces_itself: false,
    keep_alive: false,
    security: Security::Encrypted,
    ..Features::STREAM
};

/// A stream of a connection.
pub(crate) struct QuicDuplex {
    pub(crate) stream: QuicStream,
}

crate::delegate!(QuicDuplex, stream);

impl Duplex for QuicDuplex {
    fn abort(self: Box<Self>) {
        self.stream.reset();
    }

    fn about(&self) -> About {
        let description = self.stream.connection().describe();
        About {
            transport: description.transport,
            local: Some(description.local),
            peer: Some(description.peer),
            protocol: description.alpn,
        }
    }

    fn features(&self) -> Features {
        FEATURES
    }

    fn streams(&self) -> Option<SharedStreams> {
        Some(Arc::new(QuicStreams {
            connection: self.stream.connection().clone(),
        }))
    }

    fn prioritize(&self, priority: u64) {
        self.stream.prioritize(priority);
    }
}

/// A connection's streams.
struct QuicStreams {
    connection: QuicConnection,
}

impl Streams for QuicStreams {
    fn open(&self) -> Opening {
        let connection = self.connection.clone();
        Box::pin(async move { Ok(Box::new(QuicDuplex { stream: connection.open().await? }) as _) })
    }

    fn accept(&self) -> Opening {
        let connection = self.connection.clone();
        Box::pin(async move { Ok(Box::new(QuicDuplex { stream: connection.accept().await? }) as _) })
    }
}
