//! TLS 1.3 over the kernel's TCP, or its Multipath TCP.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_carriers::OpenError;
use hawser_carriers::tcp::TcpOptions;
use hawser_carriers::tls::TlsClient;
use rustls::pki_types::ServerName;

use crate::{Candidate, Features, Transport};
use hawser_race::resolve::ServiceRecord;
use hawser_race::{Handshake, Security};
use hawser_session::{PlainStream, Trust, TrustError};

use super::tcp::is_of_use;
use super::{ConfigError, has_https};

/// TLS 1.3 over TCP. An attempt completes when the peer has authenticated itself.
#[derive(Clone, Debug)]
pub struct Tls {
    client: TlsClient,
    security: Security,
    is_multipath: bool,
    interface: Option<String>,
    priority: u16,
}

impl Tls {
    /// Makes a transport to peers that `trust` admits and that have this name, with one of these application
    /// protocols if there are any.
    ///
    /// # Errors
    /// When the certificates to be trusted cannot be read, or the name is not valid.
    pub fn new(trust: &Trust, name: &str, protocols: &[String]) -> Result<Tls, ConfigError> {
        let client = client(trust, name, protocols)?;
        Ok(Tls {
            client,
            security: security_of(trust),
            is_multipath: false,
            interface: None,
            priority: 0,
        })
    }

    /// Uses Multipath TCP; with a peer that does not support it, the connection is TCP.
    #[must_use]
    pub fn over_several_paths(self) -> Tls {
        Tls { is_multipath: true, ..self }
    }

    /// Sets its class: 0 is the best.
    #[must_use]
    pub fn in_class(self, priority: u16) -> Tls {
        Tls { priority, ..self }
    }

    /// Restricts it to this interface; `None` allows any.
    #[must_use]
    pub fn by(self, interface: Option<String>) -> Tls {
        Tls { interface, ..self }
    }

    async fn connect(&self, address: SocketAddr) -> Result<PlainStream, OpenError> {
        let options = TcpOptions {
            interface: self.interface.clone(),
            mptcp: self.is_multipath,
            ..TcpOptions::default()
        };
        let carrier = hawser_carriers::tcp::connect(address, None, &options, Some(&self.client)).await?;
        Ok(PlainStream::new(Box::new(carrier)))
    }
}

impl Transport for Tls {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        if !service.is_none_or(is_of_use) {
            return Vec::new();
        }
        let transport = if self.is_multipath { "tls/mptcp" } else { "tls/tcp" };
        let connect = |transport: Arc<Tls>, address| async move { Ok(transport.connect(address).await?) };
        let candidate = Candidate::to_address(self, address, transport, self.interface.as_deref(), connect);
        vec![Candidate {
            priority: self.priority,
            security: self.security,
            handshake: Handshake::Secure,
            ..candidate
        }]
    }

    fn is_https(&self) -> bool {
        has_https(&self.client.config.alpn_protocols)
    }

    fn features(&self) -> Features {
        Features {
            multipath: self.is_multipath,
            security: self.security,
            keep_alive: false,
            ..Features::STREAM
        }
    }
}

/// Makes the TLS client for a handshake with a peer of this name.
pub(super) fn client(trust: &Trust, name: &str, protocols: &[String]) -> Result<TlsClient, ConfigError> {
    let config = client_config(trust, protocols)?;
    let name = ServerName::try_from(name.to_owned()).map_err(|_| ConfigError::Name(name.to_owned()))?;
    Ok(TlsClient { config, name })
}

/// Makes a client's TLS configuration with only the application's protocols.
pub(super) fn client_config(
    trust: &Trust,
    protocols: &[String],
) -> Result<Arc<rustls::ClientConfig>, TrustError> {
    let mut config = rustls::ClientConfig::clone(&*trust.client(&[])?);
    config.alpn_protocols = protocols.iter().map(|name| name.clone().into_bytes()).collect();
    Ok(Arc::new(config))
}

/// Returns the protection of peers that `trust` admits.
pub(super) fn security_of(trust: &Trust) -> Security {
    match trust {
        Trust::Anyone => Security::Encrypted,
        Trust::File(_) | Trust::Pin(_) | Trust::System => Security::Authenticated,
    }
}
