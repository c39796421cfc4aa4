//! The kernel's TCP, and its Multipath TCP.

use std::net::SocketAddr;
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};

use crate::transports::LocalConstraint;
use crate::{AttemptError, Candidate, Features, Transport};
use hawser_race::resolve::ServiceRecord;

/// The idle time after which keep-alive probes are sent, because a tunnel has no other way to detect a dead
/// peer.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(60);

/// The kernel's TCP, or Multipath TCP (RFC 8684).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// True if Multipath TCP is offered; with a peer that does not support it, the connection is TCP.
    pub is_multipath: bool,
    /// The local interface; `None` if the system chooses.
    pub interface: Option<String>,
    /// Its class: 0 is the best.
    pub priority: u16,
}

impl Transport for Tcp {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        if !service.is_none_or(is_of_use) {
            return Vec::new();
        }
        let transport = if self.is_multipath { "mptcp" } else { "tcp" };
        let connect = |transport: Arc<Tcp>, address| async move { transport.connect(address).await };
        let candidate = Candidate::to_address(self, address, transport, self.interface.as_deref(), connect);
        vec![Candidate { priority: self.priority, ..candidate }]
    }

    fn features(&self) -> Features {
        Features { multipath: self.is_multipath, tunable: true, ..Features::STREAM }
    }

    fn datagrams(&self) -> Option<LocalConstraint> {
        Some(LocalConstraint { interface: self.interface.clone(), family: None })
    }
}

/// Returns whether a record names a protocol that TCP carries: protocols over UDP cannot be used (RFC 9460,
/// 7.1.2).
pub(super) fn is_of_use(service: &ServiceRecord) -> bool {
    !service.no_default_alpn || service.alpn.iter().any(|protocol| !protocol.starts_with("h3"))
}

impl Tcp {
    async fn connect(&self, address: SocketAddr) -> Result<TcpStream, AttemptError> {
        let socket = self.socket(address)?;
        let socket = TcpSocket::from_std_stream(socket.into());
        Ok(socket.connect(address).await?)
    }

    fn socket(&self, address: SocketAddr) -> Result<Socket, AttemptError> {
        let protocol = if self.is_multipath {
            Protocol::MPTCP
        } else {
            Protocol::TCP
        };
        let local = |error| AttemptError::local(&error, "cannot open a socket");
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol)).map_err(local)?;
        socket.set_nonblocking(true).map_err(local)?;
        if let Some(interface) = &self.interface {
            let bound = socket.bind_device(Some(interface.as_bytes()));
            bound.map_err(|error| AttemptError::local(&error, &format!("cannot bind to {interface}")))?;
        }
        socket.set_tcp_nodelay(true).map_err(local)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        socket.set_tcp_keepalive(&keepalive).map_err(local)?;
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(transport: &dyn Transport, address: &str, service: Option<&ServiceRecord>) -> Vec<String> {
        let candidates = transport.to_address(address.parse().expect("an address"), service);
        candidates
            .into_iter()
            .map(|candidate| candidate.description.to_string())
            .collect()
    }

    /// RFC 9460, 7.1.2: the protocols of a record are those of its list and, unless it states otherwise, the
    /// scheme's default.
    #[test]
    fn a_quic_only_service_yields_no_tcp_candidate() {
        let mut service = ServiceRecord {
            priority: 1,
            target: "a.example.".to_owned(),
            port: None,
            alpn: vec!["h3".to_owned()],
            no_default_alpn: true,
            ipv4_hints: Vec::new(),
            ipv6_hints: Vec::new(),
        };
        let transport = Tcp::default();
        assert_eq!(describe(&transport, "192.0.2.1:443", Some(&service)).len(), 0);
        service.no_default_alpn = false;
        assert_eq!(describe(&transport, "192.0.2.1:443", Some(&service)).len(), 1);
        (service.no_default_alpn, service.alpn) = (true, vec!["h3".to_owned(), "h2".to_owned()]);
        assert_eq!(describe(&transport, "192.0.2.1:443", Some(&service)).len(), 1);
    }
}
