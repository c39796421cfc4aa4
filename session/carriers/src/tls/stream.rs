//! A byte stream with or without TLS 1.3.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::OpenError;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::tls::config::{EXPORTER, TlsClient, TlsServer};

/// The maximum number of bytes in one read.
const READ: usize = 65_536;
/// The maximum number of slices in one write.
const SLICES: usize = 64;
/// The maximum duration of a server's TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A byte stream with or without TLS 1.3.
pub struct MaybeTls<S> {
    stream: Stream<S>,
    buffer: BytesMut,
}

enum Stream<S> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> MaybeTls<S> {
    /// Creates the client's side of a connection with `peer`, with a handshake if `tls` is given.
    ///
    /// # Errors
    /// [`OpenError::Handshake`], also for errors of the transport.
    pub async fn connect(transport: S, tls: Option<&TlsClient>, peer: SocketAddr) -> Result<Self, OpenError> {
        let Some(tls) = tls else {
            return Ok(Stream::Plain(transport).into());
        };
        let stream = TlsConnector::from(tls.config.clone())
            .connect(tls.name.clone(), transport)
            .await;
        let stream = stream.map_err(|error| failed(peer, error))?;
        Ok(Stream::Tls(Box::new(TlsStream::Client(stream))).into())
    }

    /// Creates the server's side, with a handshake if `tls` is given, within 10 s.
    ///
    /// # Errors
    /// As [`MaybeTls::connect`], and [`OpenError::HandshakeTimeout`].
    pub async fn accept(transport: S, tls: Option<&TlsServer>, peer: SocketAddr) -> Result<Self, OpenError> {
        let Some(tls) = tls else {
            return Ok(Stream::Plain(transport).into());
        };
        let handshake = TlsAcceptor::from(tls.config.clone()).accept(transport);
        let stream = tokio::time::timeout(HANDSHAKE, handshake).await;
        let stream = stream.map_err(|_| OpenError::HandshakeTimeout)?;
        let stream = stream.map_err(|error| failed(peer, error))?;
        Ok(Stream::Tls(Box::new(TlsStream::Server(stream))).into())
    }

    /// Returns the transport below.
    pub fn transport(&self) -> &S {
        match &self.stream {
            Stream::Plain(transport) => transport,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    /// Returns true if it uses TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Returns the application protocol that TLS agreed on.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        let Stream::Tls(tls) = &self.stream else {
            return None;
        };
        tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
    }

    /// Returns 32 bytes that both sides derive alike under [`EXPORTER`]; `None` without TLS 1.3.
    pub fn exporter(&self) -> Option<[u8; 32]> {
        let Stream::Tls(tls) = &self.stream else {
            return None;
        };
        if tls.get_ref().1.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
            return None;
        }
        match tls.as_ref() {
            TlsStream::Client(tls) => tls
                .get_ref()
                .1
                .export_keying_material([0; 32], EXPORTER, None)
                .ok(),
            TlsStream::Server(tls) => tls
                .get_ref()
                .1
                .export_keying_material([0; 32], EXPORTER, None)
                .ok(),
        }
    }

    /// Returns the next bytes, as many as are available. Empty bytes mean the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let buffer = &mut self.buffer;
        buffer.reserve(READ);
        ready!(match &mut self.stream {
            Stream::Plain(transport) => pin!(transport.read_buf(buffer)).poll(cx),
            Stream::Tls(tls) => pin!(tls.read_buf(buffer)).poll(cx).map_err(explained),
        })?;
        Poll::Ready(Ok(buffer.split().freeze()))
    }

    /// Takes as many bytes off the front of `queue` as the transport accepts.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = queue.len().min(SLICES);
        for (slice, bytes) in slices.iter_mut().zip(queue.iter()) {
            *slice = IoSlice::new(bytes);
        }
        let written = ready!(self.write_slices(cx, &slices[..count]))?;
        let mut left = written;
        while left > 0 {
            let Some(front) = queue.front_mut() else { break };
            if front.len() > left {
                front.advance(left);
                break;
            }
            left -= front.len();
            queue.pop_front();
        }
        Poll::Ready(Ok(written))
    }

    fn write_slices(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(transport) => Pin::new(transport).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    /// Hands written bytes that wait in TLS's buffers to the transport.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(transport) => Pin::new(transport).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    /// Ends this direction, after all earlier bytes.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(transport) => Pin::new(transport).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

impl<S> From<Stream<S>> for MaybeTls<S> {
    fn from(stream: Stream<S>) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }
}

/// Replaces the library's error text, which is meant for developers and refers to its manual. A connection
/// that ends without TLS's close_notify (RFC 8446, 6.1) is not an attack here, because only CLOSE ends a
/// session.
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), CUT_OFF),
        _ => error,
    }
}

/// The error text for a peer that closes the connection without ending TLS.
const CUT_OFF: &str = "the peer closed the connection without ending TLS";

/// Returns the error of a handshake. An unreadable message means that the peer does not speak TLS.
fn failed(peer: SocketAddr, error: io::Error) -> OpenError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match matches!(cause, Some(rustls::Error::InvalidMessage(_))) {
        true => OpenError::NoTls { peer, error },
        false => OpenError::Handshake { peer, error },
    }
}
