//! A connected, ordered byte stream over one transport and one interface.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::Statistics;

/// The properties of a carrier, for people and for policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name of the transport, such as `tcp`, `quic` or `mptcp`.
    pub transport: &'static str,
    /// True if TLS 1.3 or QUIC protects it.
    pub secure: bool,
    /// This end's address.
    pub local: SocketAddr,
    /// The other end's address.
    pub peer: SocketAddr,
    /// The interface that it is bound to.
    pub interface: Option<String>,
    /// A request that could not be met, such as MPTCP that fell back to TCP.
    pub fallback: Option<String>,
    /// The application protocol that TLS agreed on.
    pub alpn: Option<Vec<u8>>,
}

/// A connected, ordered byte stream. The end of the stream is only the end of the carrier, not of the
/// session.
pub trait Carrier: Send + Unpin {
    /// Returns the carrier's properties.
    fn describe(&self) -> Description;

    /// Returns the current statistics of its transport.
    fn statistics(&mut self) -> Statistics;

    /// Returns 32 bytes that TLS exports under `EXPORTER-hawser-session`, the same on both sides and on no
    /// other connection. `None` without TLS 1.3.
    fn exporter(&self) -> Option<[u8; 32]>;

    /// Returns true if long packets were lost while it was opened, so that it uses only small ones.
    fn is_kept_small(&self) -> bool {
        false
    }

    /// Records that the peer has proved that the carrier belongs to a session. The transport may now buffer
    /// as much for it as configured. Before that, an accepted carrier buffers little.
    fn admit(&mut self) {}

    /// Returns the next bytes, as many as are available. Empty bytes mean the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>>;

    /// Takes as many bytes off the front of `queue` as the transport accepts, without copying where possible.
    /// Pending: the transport accepts none now.
    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>>;

    /// Sends accepted bytes that still wait in this process.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends this direction, after all earlier bytes.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the carrier at once. The contents of the transport's buffers are not sent (SO_LINGER 0, a QUIC
    /// close).
    fn abort(&mut self);
}

/// Hands all of `queue` to the transport, and sends it.
///
/// # Errors
/// The errors of the transport.
pub async fn send(carrier: &mut (impl Carrier + ?Sized), queue: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !queue.is_empty() {
        if poll_fn(|cx| carrier.poll_write(cx, queue)).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    poll_fn(|cx| carrier.poll_flush(cx)).await
}
