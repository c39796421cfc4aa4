//! A connected, ordered byte stream over one transport and one interface.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::Statistics;

/// What a carrier is, for people and for policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// `tcp`, `quic`, `mptcp`.
    pub transport: &'static str,
    /// Whether TLS 1.3 or QUIC protects it.
    pub secure: bool,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The interface that it is bound to.
    pub interface: Option<String>,
    /// What was asked for and is not so: MPTCP that fell back to TCP.
    pub fallback: Option<String>,
    /// The application protocol that TLS agreed on.
    pub alpn: Option<Vec<u8>>,
}

/// A connected, ordered byte stream. The end of the stream is the end of a carrier, nothing more.
pub trait Carrier: Send + Unpin {
    /// What it is.
    fn describe(&self) -> Description;

    /// Statistics of its transport at this moment.
    fn statistics(&mut self) -> Statistics;

    /// 32 bytes that TLS exports under `EXPORTER-hawser-session`, the same on both sides and on no
    /// other connection. None without TLS 1.3.
    fn exporter(&self) -> Option<[u8; 32]>;

    /// Whether long packets were lost while it was opened, so that it keeps to small ones.
    fn is_kept_small(&self) -> bool {
        false
    }

    /// The peer has proved that the carrier belongs to a session: from now on the transport may keep
    /// as much for it as it was asked to. Before, an accepted one keeps little.
    fn admit(&mut self) {}

    /// The next bytes, as many as there are. Empty: the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>>;

    /// Takes bytes off the front of `queue`, as many as the transport accepts, without copying where
    /// it can. Pending: none now.
    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>>;

    /// Sends what was accepted and still waits in this process.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Finishes this direction, after everything before.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends it at once: what is in the transport's buffers is not sent (SO_LINGER 0, a QUIC close).
    fn abort(&mut self);
}

/// Hands all of `queue` to the transport, and sends it.
///
/// # Errors
/// The transport's.
pub async fn send(carrier: &mut (impl Carrier + ?Sized), queue: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !queue.is_empty() {
        if poll_fn(|cx| carrier.poll_write(cx, queue)).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    poll_fn(|cx| carrier.poll_flush(cx)).await
}
