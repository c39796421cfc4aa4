//! Transports written in MTP, on a stack of this process, with TLS 1.3 or without.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_carriers::OpenError;
use hawser_carriers::mtp::{MtpOptions, MtpStack};
use hawser_carriers::tls::TlsClient;

use crate::{Candidate, Features, Transport};
use hawser_race::resolve::ServiceRecord;
use hawser_race::{Handshake, Security};
use hawser_session::{PlainStream, Trust};

use super::tcp::is_of_use;
use super::tls::{client, security_of};
use super::{ConfigError, has_https};

/// A transport written in MTP. An attempt completes when the peer has answered or, with TLS, has
/// authenticated itself.
#[derive(Clone, Debug)]
pub struct Mtp {
    stack: MtpStack,
    tls: Option<(TlsClient, Security)>,
    priority: u16,
}

impl Mtp {
    /// Makes a transport on this stack, in this class: 0 is the best.
    #[must_use]
    pub fn new(stack: MtpStack, priority: u16) -> Mtp {
        Mtp { stack, tls: None, priority }
    }

    /// Adds TLS, with peers that `trust` admits and that have this name, and with one of these application
    /// protocols if there are any.
    ///
    /// # Errors
    /// When the certificates to be trusted cannot be read, or the name is not valid.
    pub fn with_tls(self, trust: &Trust, name: &str, protocols: &[String]) -> Result<Mtp, ConfigError> {
        Ok(Mtp {
            tls: Some((client(trust, name, protocols)?, security_of(trust))),
            ..self
        })
    }

    async fn connect(&self, address: SocketAddr) -> Result<PlainStream, OpenError> {
        let tls = self.tls.as_ref().map(|(tls, _)| tls);
        let carrier = self.stack.connect(address, &MtpOptions::default(), tls).await?;
        Ok(PlainStream::new(Box::new(carrier)))
    }
}

impl Transport for Mtp {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        if !service.is_none_or(is_of_use) {
            return Vec::new();
        }
        let transport = self.stack.transport();
        let (transport, handshake) = match self.tls {
            Some(_) => (format!("tls/{transport}"), Handshake::Secure),
            None => (transport.to_owned(), Handshake::Transport),
        };
        let connect = |transport: Arc<Mtp>, address| async move { Ok(transport.connect(address).await?) };
        let interface = self.stack.own_interface();
        let candidate = Candidate::to_address(self, address, &transport, interface, connect);
        vec![Candidate {
            priority: self.priority,
            security: self.features().security,
            handshake,
            ..candidate
        }]
    }

    fn is_https(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|(tls, _)| has_https(&tls.config.alpn_protocols))
    }

    fn features(&self) -> Features {
        let security = self
            .tls
            .as_ref()
            .map_or(Security::None, |(_, security)| *security);
        Features { security, keep_alive: false, ..Features::STREAM }
    }
}
