//! Endpoints: who speaks, and with whom (RFC 9622, 6.1).
//!
//! Each identifier is there at most once: setting it again replaces it. Several addresses are several
//! endpoints.

use std::net::{IpAddr, SocketAddr};

use super::EstablishmentError;

/// Whom to connect to, or whom connections may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteEndpoint {
    pub(super) host_name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) service: Option<String>,
    pub(super) address: Option<IpAddr>,
    pub(super) interface: Option<String>,
    pub(super) protocol: Option<String>,
}

/// Where to listen, or where to connect from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalEndpoint {
    pub(super) port: Option<u16>,
    pub(super) service: Option<String>,
    pub(super) address: Option<IpAddr>,
    pub(super) interface: Option<String>,
}

impl RemoteEndpoint {
    /// One without any identifier.
    #[must_use]
    pub fn new() -> RemoteEndpoint {
        RemoteEndpoint::default()
    }

    /// A name, fully qualified, which is resolved when a Connection is begun.
    #[must_use]
    pub fn with_host_name(mut self, name: &str) -> RemoteEndpoint {
        self.host_name = Some(name.to_owned());
        self
    }

    /// A port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> RemoteEndpoint {
        self.port = Some(port);
        self
    }

    /// The name of a service, whose port is in the system's table (services(5)).
    #[must_use]
    pub fn with_service(mut self, service: &str) -> RemoteEndpoint {
        self.service = Some(service.to_owned());
        self
    }

    /// An address: nobody else is connected to.
    #[must_use]
    pub fn with_ip_address(mut self, address: impl Into<IpAddr>) -> RemoteEndpoint {
        self.address = Some(address.into());
        self
    }

    /// The interface that a link-local address belongs to.
    #[must_use]
    pub fn with_interface(mut self, interface: &str) -> RemoteEndpoint {
        self.interface = Some(interface.to_owned());
        self
    }

    /// Only for the transport of this name, as in [`hawser_connect::Description::transport`].
    #[must_use]
    pub fn with_protocol(mut self, protocol: &str) -> RemoteEndpoint {
        self.protocol = Some(protocol.to_owned());
        self
    }

    /// The name.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        self.host_name.as_deref()
    }

    /// The address.
    #[must_use]
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The port.
    ///
    /// # Errors
    /// Neither a port nor a service that the system knows.
    pub fn port(&self) -> Result<u16, EstablishmentError> {
        port(self.port, self.service.as_deref())
    }

    /// The host: the address if there is one, else the name.
    pub(super) fn host(&self) -> Option<String> {
        self.address
            .map(|address| address.to_string())
            .or_else(|| self.host_name.clone())
    }

    /// Whether a peer at this address is meant. Names are met by their addresses.
    pub(super) fn admits(&self, peer: SocketAddr, named: &[IpAddr]) -> bool {
        let is_host = match self.address {
            Some(address) => address == peer.ip().to_canonical(),
            None => self.host_name.is_none() || named.contains(&peer.ip().to_canonical()),
        };
        is_host && self.port.is_none_or(|port| port == peer.port())
    }
}

impl From<SocketAddr> for RemoteEndpoint {
    fn from(address: SocketAddr) -> RemoteEndpoint {
        RemoteEndpoint::new()
            .with_ip_address(address.ip())
            .with_port(address.port())
    }
}

impl LocalEndpoint {
    /// One without any identifier: every address of this host.
    #[must_use]
    pub fn new() -> LocalEndpoint {
        LocalEndpoint::default()
    }

    /// A port; 0 for one that is free.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> LocalEndpoint {
        self.port = Some(port);
        self
    }

    /// The name of a service, whose port is in the system's table.
    #[must_use]
    pub fn with_service(mut self, service: &str) -> LocalEndpoint {
        self.service = Some(service.to_owned());
        self
    }

    /// An address of this host.
    #[must_use]
    pub fn with_ip_address(mut self, address: impl Into<IpAddr>) -> LocalEndpoint {
        self.address = Some(address.into());
        self
    }

    /// An interface: all candidates are bound to it.
    #[must_use]
    pub fn with_interface(mut self, interface: &str) -> LocalEndpoint {
        self.interface = Some(interface.to_owned());
        self
    }

    /// The address.
    #[must_use]
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The interface.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// The port.
    ///
    /// # Errors
    /// Neither a port nor a service that the system knows.
    pub fn port(&self) -> Result<u16, EstablishmentError> {
        port(self.port, self.service.as_deref())
    }
}

impl From<SocketAddr> for LocalEndpoint {
    fn from(address: SocketAddr) -> LocalEndpoint {
        LocalEndpoint::new()
            .with_ip_address(address.ip())
            .with_port(address.port())
    }
}

fn port(port: Option<u16>, service: Option<&str>) -> Result<u16, EstablishmentError> {
    match (port, service) {
        (Some(port), _) => Ok(port),
        (None, Some(service)) => port_of(service).ok_or_else(|| {
            EstablishmentError::Endpoint(format!("no port is known of the service {service:?}"))
        }),
        (None, None) => Err(EstablishmentError::Endpoint(
            "an endpoint needs a port or a service".into(),
        )),
    }
}

/// The port of a service by the system's table, for whatever protocol that has it.
fn port_of(service: &str) -> Option<u16> {
    let table = std::fs::read_to_string("/etc/services").unwrap_or_default();
    let in_table = table.lines().find_map(|line| {
        let line = line.split('#').next()?;
        let mut words = line.split_whitespace();
        let (name, port) = (words.next()?, words.next()?);
        let is_meant = std::iter::once(name)
            .chain(words)
            .any(|word| word.eq_ignore_ascii_case(service));
        is_meant.then(|| port.split('/').next()?.parse().ok()).flatten()
    });
    // A system without the table knows the web all the same.
    in_table.or(match service {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_there_once() {
        let endpoint = RemoteEndpoint::new()
            .with_ip_address([192, 0, 2, 1])
            .with_ip_address([192, 0, 2, 2]);
        assert_eq!(endpoint.ip_address(), Some([192, 0, 2, 2].into()));
    }

    #[test]
    fn services_have_ports() {
        let of = |service| RemoteEndpoint::new().with_service(service).port();
        assert_eq!(of("https"), Ok(443));
        assert!(of("no-such-service").is_err());
        assert!(RemoteEndpoint::new().port().is_err());
        assert_eq!(
            RemoteEndpoint::new().with_service("https").with_port(8443).port(),
            Ok(8443)
        );
    }

    #[test]
    fn a_remote_endpoint_limits_who_may_connect() {
        let peer: SocketAddr = "192.0.2.1:5".parse().expect("an address");
        assert!(RemoteEndpoint::new().admits(peer, &[]));
        assert!(
            RemoteEndpoint::new()
                .with_ip_address([192, 0, 2, 1])
                .admits(peer, &[])
        );
        assert!(
            !RemoteEndpoint::new()
                .with_ip_address([192, 0, 2, 2])
                .admits(peer, &[])
        );
        assert!(!RemoteEndpoint::new().with_port(6).admits(peer, &[]));
        let named = RemoteEndpoint::new().with_host_name("a.example");
        assert!(named.admits(peer, &[[192, 0, 2, 1].into()]) && !named.admits(peer, &[]));
    }
}
