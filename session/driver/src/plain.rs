//! A connection with a peer that does not speak Hawser. It carries only the application's bytes on one
//! carrier.
//!
//! It has no session features: it has one stream and one path, and cannot be resumed. TLS protects it as it
//! would have protected the session, and ALPN states which protocol the peer speaks instead.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hawser_carriers::quic::QuicConnection;
use hawser_carriers::{Carrier, Description, Statistics};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::handle::Session;

/// The maximum number of bytes that are queued before the transport takes them.
const MAX_QUEUED: usize = 65_536;

/// A connection with a peer: a session, or less if the caller allows it.
pub enum Connection {
    /// The peer speaks Hawser.
    Session(Session),
    /// The peer does not speak Hawser.
    Plain(PlainStream),
    /// The peer does not speak Hawser, and may open several streams
    /// ([`Server::listen_quic_streams`](super::Server::listen_quic_streams)).
    Streams(QuicConnection),
}

impl Connection {
    /// Returns true if the peer does not speak Hawser.
    pub fn is_plain(&self) -> bool {
        !matches!(self, Self::Session(_))
    }
}

/// The only stream with a peer that does not speak Hawser, with both halves. Written data has been sent after
/// a flush. If it is dropped without a shutdown, it ends like an aborted connection.
pub struct PlainStream {
    carrier: Box<dyn Carrier>,
    description: Box<Description>,
    unread: Bytes,
    queue: VecDeque<Bytes>,
}

impl PlainStream {
    /// Creates the stream over this carrier.
    pub fn new(carrier: Box<dyn Carrier>) -> Self {
        let description = Box::new(carrier.describe());
        Self { carrier, description, unread: Bytes::new(), queue: VecDeque::new() }
    }

    /// Returns the protocol that both sides agreed on (ALPN, RFC 7301).
    pub fn protocol(&self) -> String {
        protocol(&self.description)
    }

    /// Returns the description of its carrier.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the transport's current statistics.
    pub fn statistics(&mut self) -> Statistics {
        self.carrier.statistics()
    }

    /// Aborts it, so that the peer sees no orderly end.
    pub fn abort(mut self) {
        self.carrier.abort();
    }

    /// Takes as many bytes off the front of `queue` as the carrier takes, without a copy.
    pub fn poll_write_queue(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.drain(cx))?;
        self.carrier.poll_write(cx, queue)
    }

    /// Hands the queued bytes to the carrier.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            if ready!(self.carrier.poll_write(cx, &mut self.queue))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the protocol that TLS agreed on, for people.
pub(super) fn protocol(description: &Description) -> String {
    description
        .alpn
        .as_deref()
        .map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned())
}

impl AsyncRead for PlainStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            self.unread = ready!(self.carrier.poll_read(cx))?;
        }
        let length = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread[..length]);
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PlainStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.drain(cx))?;
        let length = buf.len().min(MAX_QUEUED);
        if length > 0 {
            self.queue.push_back(Bytes::copy_from_slice(&buf[..length]));
            if let Poll::Ready(Err(error)) = self.drain(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(cx))?;
        self.carrier.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        self.carrier.poll_finish(cx)
    }
}
