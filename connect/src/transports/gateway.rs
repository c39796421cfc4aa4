//! Connections through a gateway: streams of the one session with it.

use std::fmt;
use std::sync::Arc;

use crate::{AttemptError, Candidate, Description, Destination, Duplex, Transport};
use hawser_race::resolve::ServiceRecord;
use hawser_race::{Failure, Family, Handshake, Security};
use hawser_session::relay::{ClientError, Gateway, GatewayStream, Reply};

/// A session's far end that connects onwards. It looks names up itself, so no address is needed.
///
/// It adds no security towards the destination, because the protection of the session ends at the gateway.
#[derive(Clone)]
pub struct Via {
    gateway: Gateway,
    /// The name in reports.
    name: Arc<str>,
    priority: u16,
}

impl Via {
    /// Makes a transport through this gateway, in this class: 0 is the best.
    #[must_use]
    pub fn new(gateway: Gateway, priority: u16) -> Via {
        let name = gateway.name().into();
        Via { gateway, name, priority }
    }
}

impl fmt::Debug for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Via { name, priority, gateway: _ } = self;
        f.debug_struct("Via")
            .field("name", name)
            .field("priority", priority)
            .finish()
    }
}

impl Transport for Via {
    fn to_address(&self, _: std::net::SocketAddr, _: Option<&ServiceRecord>) -> Vec<Candidate> {
        Vec::new()
    }

    fn to_destination(&self, destination: &Destination) -> Vec<Candidate> {
        // A name that its protocol cannot carry is one that it could not look up.
        let Ok(onwards) = hawser_session::relay::Destination::parse(&destination.to_string()) else {
            return Vec::new();
        };
        let gateway = self.gateway.clone();
        vec![Candidate {
            description: Description {
                transport: "session".into(),
                remote: format!("{destination} by {}", self.name).into(),
                interface: "".into(),
            },
            // The candidate has no family; this one is preferred between equals.
            family: Family::Ipv6,
            priority: self.priority,
            security: Security::None,
            handshake: Handshake::Transport,
            connect: Arc::new(move || {
                let (gateway, onwards) = (gateway.clone(), onwards.clone());
                Box::pin(async move { Ok(Box::new(gateway.connect(&onwards).await?) as Box<dyn Duplex>) })
            }),
        }]
    }

    fn needs_addresses(&self) -> bool {
        false
    }
}

impl Duplex for GatewayStream {
    fn abort(self: Box<Self>) {
        self.reset();
    }
}

impl From<ClientError> for AttemptError {
    fn from(error: ClientError) -> AttemptError {
        let why = error.to_string();
        let (failure, is_network) = match error {
            ClientError::Unreachable(error) | ClientError::Broken(error) => {
                return AttemptError { why, ..AttemptError::from(error) };
            }
            ClientError::Insecure
            | ClientError::Denied(Reply::Succeeded | Reply::Failure | Reply::UnknownKind) => {
                (Failure::Local, false)
            }
            ClientError::Unauthenticated | ClientError::Denied(Reply::NotAllowed) => {
                (Failure::Prohibited, false)
            }
            ClientError::Denied(Reply::Refused) => (Failure::Refused, false),
            ClientError::Denied(Reply::NetworkUnreachable) => (Failure::Unreachable, true),
            ClientError::Denied(Reply::HostUnreachable) => (Failure::Unreachable, false),
            ClientError::Denied(Reply::TimedOut) | ClientError::NotAccepted | ClientError::NoAnswer => {
                (Failure::Timeout, false)
            }
        };
        AttemptError { failure, is_network, why }
    }
}
