//! Ways to connect: what the race is told of them, and how they are gone.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::race::{Failure, Family, Handshake, Security};
use crate::resolve::Service;
use crate::session::PlainStream;

use super::Destination;

/// A connected stream, whatever it runs over. Shutting down its writer ends this direction alone.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// Ends both directions at once, so that the peer sees no orderly end where the transport can
    /// tell the two apart.
    fn abort(self: Box<Self>);
}

impl Duplex for TcpStream {
    fn abort(self: Box<Self>) {
        // Closing then sends a reset; a socket that cannot linger is closed all the same.
        let _ = SockRef::from(&*self).set_linger(Some(Duration::ZERO));
    }
}

impl Duplex for PlainStream {
    fn abort(self: Box<Self>) {
        PlainStream::abort(*self);
    }
}

/// An attempt under way. Dropping it gives it up.
pub type Attempt = Pin<Box<dyn Future<Output = Result<Box<dyn Duplex>, AttemptError>> + Send>>;

/// Begins an attempt. It is ready when all is done that the request needs, security included.
pub type Connect = Arc<dyn Fn() -> Attempt + Send + Sync>;

/// One way to connect: its description for the race, and how it is gone.
#[derive(Clone)]
pub struct Way {
    /// What identifies it in memory and reports.
    pub description: Description,
    /// The family of the address that it connects to.
    pub family: Family,
    /// Its class: 0 is the best.
    pub priority: u16,
    /// The protection that it gives.
    pub security: Security,
    /// What shows that the peer is there.
    pub handshake: Handshake,
    /// How it is gone.
    pub connect: Connect,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("description", &self.description).finish_non_exhaustive()
    }
}

/// What identifies a way; alike for ways that stand and fall together on a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The transport's name.
    pub transport: Arc<str>,
    /// Whom it connects to: an address with its port, as text.
    pub remote: Arc<str>,
    /// The interface that it leaves by; empty where the system chooses.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub interface: Arc<str>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.transport, self.remote)?;
        if self.interface.is_empty() { Ok(()) } else { write!(f, " over {}", self.interface) }
    }
}

/// A kind of candidate. The race and those who ask for connections know no other thing about
/// transports: another transport is another `Kind`.
pub trait Kind: fmt::Debug + Send + Sync {
    /// Ways to an address of the destination: none, one, or one for each interface. `service` is
    /// the record that named it, if one did; a kind that does not speak its protocols offers none.
    fn to_address(&self, address: SocketAddr, service: Option<&Service>) -> Vec<Way>;

    /// Ways that need no address of the destination, because somebody further on looks it up: by a
    /// relay, such as a session's far end.
    fn to_destination(&self, destination: &Destination) -> Vec<Way> {
        let _ = destination;
        Vec::new()
    }

    /// Whether it has a use for addresses. Where none of a request's kinds has, no name server is
    /// asked.
    fn needs_addresses(&self) -> bool {
        true
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct AttemptError {
    /// Its class, which decides what is tried next, remembered and answered.
    pub failure: Failure,
    /// Nothing beyond is reachable: it is the network that has no way, not the host.
    pub is_network: bool,
    /// What the system or the transport said.
    pub why: String,
}

impl AttemptError {
    /// One of this host's own making, of which nothing is to be learnt.
    #[must_use]
    pub fn local(error: &io::Error, what: &str) -> AttemptError {
        AttemptError { failure: Failure::Local, is_network: false, why: format!("{what}: {error}") }
    }
}

impl From<io::Error> for AttemptError {
    fn from(error: io::Error) -> AttemptError {
        use io::ErrorKind as Of;
        let (failure, is_network) = match error.kind() {
            Of::ConnectionRefused => (Failure::Refused, false),
            Of::ConnectionReset | Of::ConnectionAborted | Of::BrokenPipe => (Failure::Reset, false),
            Of::HostUnreachable => (Failure::Unreachable, false),
            // Without an address of the family there is nothing to leave by.
            Of::NetworkUnreachable | Of::NetworkDown | Of::AddrNotAvailable => (Failure::Unreachable, true),
            Of::PermissionDenied => (Failure::Prohibited, false),
            Of::TimedOut => (Failure::Timeout, false),
            _ => (Failure::Local, false),
        };
        AttemptError { failure, is_network, why: error.to_string() }
    }
}
