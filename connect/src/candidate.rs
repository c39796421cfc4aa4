//! The candidates of a race: their descriptions, and the way in which they connect.

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

use hawser_carriers::OpenError;
use hawser_carriers::quic::QuicError;
use hawser_race::resolve::ServiceRecord;
use hawser_race::{Failure, Family, Handshake, Security};
use hawser_session::PlainStream;

use super::Destination;
use super::features::{About, Features, SharedStreams, Tuning};
use super::local_constraint::LocalConstraint;

/// A connected stream over any transport. Shutting down its writer ends only this direction.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// Ends both directions at once. The peer sees an abort, if the transport distinguishes it from an
    /// orderly close.
    fn abort(self: Box<Self>);

    /// Describes the stream, as far as known.
    fn about(&self) -> About {
        About::default()
    }

    /// Returns the features that its transport offers to an application.
    fn features(&self) -> Features {
        Features::STREAM
    }

    /// Returns the other streams of its transport connection, if that can have several.
    fn streams(&self) -> Option<SharedStreams> {
        None
    }

    /// Returns the number of written bytes that the peer's transport has not acknowledged, if the transport
    /// reports it.
    fn unacknowledged(&mut self) -> Option<u64> {
        None
    }

    /// Applies the settings of `tuning` that the transport supports.
    ///
    /// # Errors
    /// The error of the system.
    fn tune(&self, tuning: &Tuning) -> io::Result<()> {
        let _ = tuning;
        Ok(())
    }

    /// Sets its urgency among the streams of its transport connection: lower values come first.
    fn prioritize(&self, priority: u64) {
        let _ = priority;
    }

    /// Takes bytes off the front of `queue`, as many as the transport accepts, without a copy if possible.
    /// Returns `Pending` if it accepts none now.
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

/// Takes `count` bytes off the front.
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
        // A close then sends a reset; a socket that cannot linger is closed in any case.
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
        let statistics = hawser_carriers::tcp::statistics(&SockRef::from(&*self));
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
        // The carriers of these names use several paths, one for each pair of addresses.
        let multipath = matches!(description.transport, "mptcp" | "sctp");
        Features {
            security,
            multipath,
            // SCTP associations have heartbeats (RFC 9260, 8.3).
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

/// An attempt that is in progress. Dropping it cancels it.
pub type Attempt = Pin<Box<dyn Future<Output = Result<Box<dyn Duplex>, AttemptError>> + Send>>;

/// Begins an attempt. It completes when all requirements of the request are met, including security.
pub type Connect = Arc<dyn Fn() -> Attempt + Send + Sync>;

/// A candidate of a race: its description, and the function that connects it.
#[derive(Clone)]
pub struct Candidate {
    /// Identifies it in memory and reports.
    pub description: Description,
    /// The family of the remote address.
    pub family: Family,
    /// Its class: 0 is the best.
    pub priority: u16,
    /// The protection that it gives.
    pub security: Security,
    /// The handshake that shows that the peer is present.
    pub handshake: Handshake,
    /// Begins an attempt.
    pub connect: Connect,
}

impl Candidate {
    /// Makes a candidate of a transport to an address. By default it is without protection, has the
    /// transport's own handshake, and is in the best class.
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

/// Identifies a candidate; equal for candidates that succeed or fail together on a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The transport's name.
    pub transport: Arc<str>,
    /// The remote end: an address with its port, as text.
    pub remote: Arc<str>,
    /// The local interface; empty if the system chooses.
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

/// A transport, which makes candidates. The race and its callers use only this trait, so that another
/// transport is another implementation.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Makes candidates to an address of the destination: none, one, or one for each interface. The record
    /// that named the address is `service`, if there is one. A transport that does not speak its protocols
    /// makes no candidate.
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate>;

    /// Makes candidates that need no address of the destination, because a relay looks it up, such as a
    /// session's far end.
    fn to_destination(&self, destination: &Destination) -> Vec<Candidate> {
        let _ = destination;
        Vec::new()
    }

    /// Returns the features that its streams offer to an application.
    fn features(&self) -> Features {
        Features::STREAM
    }

    /// Returns the interface and family for datagrams to the same destinations: those of its streams, if the
    /// streams go to the destination itself. Returns `None` for a transport whose streams go through a relay,
    /// which datagrams would bypass.
    fn datagrams(&self) -> Option<LocalConstraint> {
        None
    }

    /// Returns whether it speaks HTTP over TLS or QUIC with the destination. HTTPS records then give the
    /// endpoint, at any port (RFC 9460, 9.1).
    fn is_https(&self) -> bool {
        false
    }

    /// Returns whether it needs addresses. If no transport of a request does, no name server is asked.
    fn needs_addresses(&self) -> bool {
        true
    }
}

/// The failure of an attempt.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct AttemptError {
    /// The class of the failure, which determines the next attempts, the remembered outcome and the answer.
    pub failure: Failure,
    /// True if the network itself is unreachable, and not only the peer.
    pub is_network: bool,
    /// The error of the system or the transport.
    pub why: String,
}

impl AttemptError {
    /// Makes an error that this host caused itself, which is not remembered as an outcome.
    #[must_use]
    pub fn local(error: &io::Error, what: &str) -> AttemptError {
        AttemptError {
            failure: Failure::Local,
            is_network: false,
            why: format!("{what}: {error}"),
        }
    }

    /// Makes the error of a handshake: a wrong certificate or protocol of the peer is not a failure of the
    /// network.
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
            // Without a local address of the family, no packet can be sent.
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
