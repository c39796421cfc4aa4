//! Candidates: what the race knows of them, and how they connect.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use serde::Serialize;
use socket2::{Protocol, SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use hawser_carrier::OpenError;
use hawser_carrier_quic::QuicError;
use hawser_race::{Failure, Family, Handshake, Security};
use hawser_resolve::Service;
use hawser_session_driver::PlainStream;

use super::Destination;
use super::features::{About, Features, SharedStreams, Tuning};
use super::place::Place;

/// A connected stream, whatever it runs over. Shutting down its writer ends this direction alone.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// Ends both directions at once, so that the peer sees no orderly end where the transport
    /// distinguishes the two.
    fn abort(self: Box<Self>);

    /// What is known of it.
    fn about(&self) -> About {
        About::default()
    }

    /// What its transport does for an application.
    fn features(&self) -> Features {
        Features::STREAM
    }

    /// The other streams of its transport connection, if that can have several.
    fn streams(&self) -> Option<SharedStreams> {
        None
    }

    /// Bytes that were written and that the peer's transport has not acknowledged, if it reports them.
    fn unacknowledged(&mut self) -> Option<u64> {
        None
    }

    /// Asks for what `tuning` contains, as far as the transport has a use for it.
    ///
    /// # Errors
    /// The system's.
    fn tune(&self, tuning: &Tuning) -> io::Result<()> {
        let _ = tuning;
        Ok(())
    }

    /// How urgent it is beside the other streams of its transport connection: lower comes first.
    fn prioritize(&self, priority: u64) {
        let _ = priority;
    }

    /// Takes bytes off the front of `queue`, as many as the transport accepts, without a copy where
    /// it can. Pending: none now.
    fn poll_write_queue(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        const SLICES: usize = 32;
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = queue.len().min(SLICES);
        for (slice, bytes) in slices.iter_mut().zip(queue.iter()) {
            *slice = IoSlice::new(bytes);
        }
        let written = ready!(Pin::new(self).poll_write_vectored(cx, &slices[..count]))?;
        take_off(queue, written);
        Poll::Ready(Ok(written))
    }
}

/// Takes so many bytes off the front.
fn take_off(queue: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(front) = queue.front_mut() {
        if front.len() > count {
            return front.advance(count);
        }
        count -= front.len();
        queue.pop_front();
    }
}

impl Duplex for TcpStream {
    fn abort(self: Box<Self>) {
        // Closing then sends a reset; a socket that cannot linger is closed all the same.
        let _ = SockRef::from(&*self).set_linger(Some(Duration::ZERO));
    }

    fn about(&self) -> About {
        let (local, peer) = (self.local_addr().ok(), self.peer_addr().ok());
        About { transport: "tcp", local, peer, protocol: None }
    }

    fn features(&self) -> Features {
        let protocol = SockRef::from(self).protocol().ok().flatten();
        Features {
            multipath: protocol == Some(Protocol::MPTCP),
            tunable: true,
            ..Features::STREAM
        }
    }

    fn unacknowledged(&mut self) -> Option<u64> {
        let statistics = hawser_carrier_tcp::statistics(&SockRef::from(&*self));
        Some(statistics.queued + statistics.in_flight)
    }

    fn tune(&self, tuning: &Tuning) -> io::Result<()> {
        tune_tcp(&SockRef::from(self), tuning)
    }
}

/// Sets the options of a TCP socket.
pub(super) fn tune_tcp(socket: &SockRef<'_>, tuning: &Tuning) -> io::Result<()> {
    if let Some(idle) = tuning.keep_alive {
        // The kernel counts in seconds.
        let idle = idle.max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(idle))?;
    }
    socket.set_tcp_user_timeout(tuning.timeout)?;
    if let Some(code_point) = tuning.code_point {
        let octet = u32::from(code_point) << 2;
        match socket.local_addr()?.is_ipv6() {
            true => socket.set_tclass_v6(octet)?,
            false => socket.set_tos_v4(octet)?,
        }
    }
    socket.set_tcp_nodelay(tuning.is_eager)
}

impl Duplex for PlainStream {
    fn abort(self: Box<Self>) {
        PlainStream::abort(*self);
    }

    fn about(&self) -> About {
        let description = self.description();
        About {
            transport: description.transport,
            local: Some(description.local),
            peer: Some(description.peer),
            protocol: description.alpn.clone(),
        }
    }

    fn features(&self) -> Features {
        let description = self.description();
        let security = if description.secure {
            Security::Encrypted
        } else {
            Security::None
        };
        // One path of several hosts' addresses is what the carriers of those names use.
        let multipath = matches!(description.transport, "mptcp" | "sctp");
        Features {
            security,
            multipath,
            // Associations of SCTP have heartbeats (RFC 9260, 8.3).
            keep_alive: description.transport == "sctp",
            ..Features::STREAM
        }
    }

    fn unacknowledged(&mut self) -> Option<u64> {
        let statistics = self.statistics();
        Some(statistics.queued + statistics.in_flight)
    }

    fn poll_write_queue(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        PlainStream::poll_write_queue(self, cx, queue)
    }
}

/// An attempt under way. Dropping it gives it up.
pub type Attempt = Pin<Box<dyn Future<Output = Result<Box<dyn Duplex>, AttemptError>> + Send>>;

/// Begins an attempt. It is ready when all is done that the request needs, security included.
pub type Connect = Arc<dyn Fn() -> Attempt + Send + Sync>;

/// A candidate of a race: its description, and how it connects.
#[derive(Clone)]
pub struct Candidate {
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
    /// Begins an attempt.
    pub connect: Connect,
}

impl Candidate {
    /// A candidate of a transport to an address: without protection, by the transport's own handshake, in the
    /// best class, unless the caller sets these.
    pub(super) fn to_address<K, D, F>(
        transport: &K,
        address: SocketAddr,
        name: &str,
        interface: Option<&str>,
        connect: impl Fn(Arc<K>, SocketAddr) -> F + Send + Sync + 'static,
    ) -> Candidate
    where
        K: Clone + Send + Sync + 'static,
        D: Duplex + 'static,
        F: Future<Output = Result<D, AttemptError>> + Send + 'static,
    {
        let transport = Arc::new(transport.clone());
        Candidate {
            description: Description {
                transport: name.into(),
                remote: address.to_string().into(),
                interface: interface.unwrap_or_default().into(),
            },
            family: if address.is_ipv6() {
                Family::Ipv6
            } else {
                Family::Ipv4
            },
            priority: 0,
            security: Security::None,
            handshake: Handshake::Transport,
            connect: Arc::new(move || {
                let attempt = connect(Arc::clone(&transport), address);
                Box::pin(async move { Ok(Box::new(attempt.await?) as Box<dyn Duplex>) })
            }),
        }
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

/// What identifies a candidate; alike for candidates that succeed or fail together on a network.
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
        if self.interface.is_empty() {
            Ok(())
        } else {
            write!(f, " over {}", self.interface)
        }
    }
}

/// A transport that candidates are made of. The race and those who ask for connections know nothing else of
/// it: another transport is another implementation.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Candidates to an address of the destination: none, one, or one for each interface. `service` is
    /// the record that named it, if one did; a transport that does not speak its protocols offers none.
    fn to_address(&self, address: SocketAddr, service: Option<&Service>) -> Vec<Candidate>;

    /// Candidates that need no address of the destination, because a relay looks it up, such as a session's
    /// far end.
    fn to_destination(&self, destination: &Destination) -> Vec<Candidate> {
        let _ = destination;
        Vec::new()
    }

    /// What its streams do for an application.
    fn features(&self) -> Features {
        Features::STREAM
    }

    /// Where datagrams to the same destinations may leave this host: where its streams do, if they go to the
    /// destination itself. None for a transport whose streams go through somebody else, whom datagrams would
    /// pass over.
    fn datagrams(&self) -> Option<Place> {
        None
    }

    /// Whether it speaks HTTP over TLS or QUIC with the destination, so that HTTPS records state where, at
    /// whatever port (RFC 9460, 9.1).
    fn is_https(&self) -> bool {
        false
    }

    /// Whether it has a use for addresses. Where none of a request's transports has, no name server is
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
    /// Nothing beyond is reachable: it is the network that has no route, not the host.
    pub is_network: bool,
    /// The error of the system or the transport.
    pub why: String,
}

impl AttemptError {
    /// One of this host's own making, of which nothing is to be learnt.
    #[must_use]
    pub fn local(error: &io::Error, what: &str) -> AttemptError {
        AttemptError {
            failure: Failure::Local,
            is_network: false,
            why: format!("{what}: {error}"),
        }
    }

    /// One of a handshake: what the peer's certificate or protocol was not is no failure of the network.
    fn of_handshake(is_security: bool, kind: io::ErrorKind, why: &impl fmt::Display) -> AttemptError {
        let error = AttemptError::of_kind(kind, why);
        match is_security {
            true => AttemptError { failure: Failure::Security, ..error },
            false => error,
        }
    }

    fn of_kind(kind: io::ErrorKind, why: &impl fmt::Display) -> AttemptError {
        use io::ErrorKind as Of;
        let (failure, is_network) = match kind {
            Of::ConnectionRefused => (Failure::Refused, false),
            Of::ConnectionReset | Of::ConnectionAborted | Of::BrokenPipe | Of::UnexpectedEof => {
                (Failure::Reset, false)
            }
            Of::HostUnreachable => (Failure::Unreachable, false),
            // Without an address of the family there is nothing to leave by.
            Of::NetworkUnreachable | Of::NetworkDown | Of::AddrNotAvailable => (Failure::Unreachable, true),
            Of::PermissionDenied => (Failure::Prohibited, false),
            Of::TimedOut => (Failure::Timeout, false),
            _ => (Failure::Local, false),
        };
        AttemptError { failure, is_network, why: why.to_string() }
    }
}

impl From<io::Error> for AttemptError {
    fn from(error: io::Error) -> AttemptError {
        AttemptError::of_kind(error.kind(), &error)
    }
}

impl From<OpenError> for AttemptError {
    fn from(error: OpenError) -> AttemptError {
        let attempt = AttemptError::of_handshake(error.is_security(), error.kind(), &error);
        match error.is_protocol() {
            true => AttemptError { failure: Failure::Protocol, ..attempt },
            false => attempt,
        }
    }
}

impl From<QuicError> for AttemptError {
    fn from(error: QuicError) -> AttemptError {
        AttemptError::of_handshake(error.is_security(), error.kind(), &error)
    }
}
