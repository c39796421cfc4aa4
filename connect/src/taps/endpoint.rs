//! Endpoints: the local and the remote end of a Connection (RFC 9622, 6.1).
//!
//! Each identifier is present at most once: setting it again replaces it. Several addresses are several
//! endpoints.

use std::net::{IpAddr, SocketAddr};

use super::EstablishmentError;

/// The peer to connect to, or a peer from which connections are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteEndpoint {
    pub(super) host_name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) service: Option<String>,
    pub(super) address: Option<IpAddr>,
    pub(super) interface: Option<String>,
    pub(super) protocol: Option<String>,
}

/// The address and interface at which to listen, or from which to connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalEndpoint {
    pub(super) port: Option<u16>,
    pub(super) service: Option<String>,
    pub(super) address: Option<IpAddr>,
    pub(super) interface: Option<String>,
}

impl RemoteEndpoint {
    /// Makes an endpoint without identifiers.
    #[must_use]
    pub fn new() -> RemoteEndpoint {
        RemoteEndpoint::default()
    }

    /// Sets a fully qualified name, which is resolved when a Connection is begun.
    #[must_use]
    pub fn with_host_name(mut self, name: &str) -> RemoteEndpoint {
        self.host_name = Some(name.to_owned());
        self
    }

    /// Sets a port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> RemoteEndpoint {
        self.port = Some(port);
        self
    }

    /// Sets the name of a service, whose port is in the system's table (services(5)).
    #[must_use]
    pub fn with_service(mut self, service: &str) -> RemoteEndpoint {
        self.service = Some(service.to_owned());
        self
    }

    /// Sets an address, which is then the only one that is connected to.
    #[must_use]
    pub fn with_ip_address(mut self, address: impl Into<IpAddr>) -> RemoteEndpoint {
        self.address = Some(address.into());
        self
    }

    /// Sets the interface that a link-local address belongs to.
    #[must_use]
    pub fn with_interface(mut self, interface: &str) -> RemoteEndpoint {
        self.interface = Some(interface.to_owned());
        self
    }

    /// Restricts the endpoint to the transport of this name, as in
    /// [`crate::Description::transport`].
    #[must_use]
    pub fn with_protocol(mut self, protocol: &str) -> RemoteEndpoint {
        self.protocol = Some(protocol.to_owned());
        self
    }

    /// Returns the host name.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        self.host_name.as_deref()
    }

    /// Returns the address.
    #[must_use]
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the port.
    ///
    /// # Errors
    /// When there is neither a port nor a service that the system knows.
    pub fn port(&self) -> Result<u16, EstablishmentError> {
        port(self.port, self.service.as_deref())
    }

    /// Returns the host: the address if there is one, else the name.
    pub(super) fn host(&self) -> Option<String> {
        self.address
            .map(|address| address.to_string())
            .or_else(|| self.host_name.clone())
    }

    /// Returns whether a peer at this address matches the endpoint. Names match by their addresses, `named`.
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
    /// Makes an endpoint without identifiers: every address of this host.
    #[must_use]
    pub fn new() -> LocalEndpoint {
        LocalEndpoint::default()
    }

    /// Sets a port; 0 selects a free one.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> LocalEndpoint {
        self.port = Some(port);
        self
    }

    /// Sets the name of a service, whose port is in the system's table.
    #[must_use]
    pub fn with_service(mut self, service: &str) -> LocalEndpoint {
        self.service = Some(service.to_owned());
        self
    }

    /// Sets an address of this host.
    #[must_use]
    pub fn with_ip_address(mut self, address: impl Into<IpAddr>) -> LocalEndpoint {
        self.address = Some(address.into());
        self
    }

    /// Sets an interface, to which all candidates are bound.
    #[must_use]
    pub fn with_interface(mut self, interface: &str) -> LocalEndpoint {
        self.interface = Some(interface.to_owned());
        self
    }

    /// Returns the address.
    #[must_use]
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the interface.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Returns the port.
    ///
    /// # Errors
    /// When there is neither a port nor a service that the system knows.
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
            EstablishmentError::Endpoint(format!("the port of the service {service:?} is unknown"))
        }),
        (None, None) => Err(EstablishmentError::Endpoint(
            "an endpoint needs a port or a service".into(),
        )),
    }
}

/// Finds the port of a service in the system's table, for any protocol.
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
    // Web ports are known even without the table.
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
    fn a_second_identifier_replaces_the_first() {
        let endpoint = RemoteEndpoint::new()
            .with_ip_address([192, 0, 2, 1])
            .with_ip_address([192, 0, 2, 2]);
        assert_eq!(endpoint.ip_address(), Some([192, 0, 2, 2].into()));
    }

    #[test]
    fn services_map_to_ports() {
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
    fn a_remote_endpoint_restricts_accepted_peers() {
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
