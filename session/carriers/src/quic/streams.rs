//! QUIC connections with several streams, for peers that do not speak the session protocol.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::Description;
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::quic::carrier::{QuicCarrier, describe};
use crate::quic::error::ConnectionBroken;

/// A connection. Clones share it. It ends when all of them and all of its streams are dropped.
#[derive(Clone, Debug)]
pub struct QuicConnection {
    connection: Connection,
    local: SocketAddr,
    interface: Option<String>,
    /// The receive window once the peer is admitted, if that is larger than the present one.
    widens_to: Option<VarInt>,
}

impl QuicConnection {
    pub(crate) fn new(
        connection: Connection,
        local: SocketAddr,
        interface: Option<String>,
        widens_to: Option<VarInt>,
    ) -> Self {
        Self { connection, local, interface, widens_to }
    }

    /// Returns the connection's properties.
    #[must_use]
    pub fn describe(&self) -> Description {
        describe(&self.connection, self.local, self.interface.as_deref())
    }

    /// Admits the peer: it may now have `streams` streams open, and send ahead as much as configured.
    pub fn admit(&self, streams: u32) {
        self.connection
            .set_max_concurrent_bi_streams(VarInt::from_u32(streams));
        if let Some(window) = self.widens_to {
            self.connection.set_receive_window(window);
        }
    }

    /// Opens a stream. The peer learns of it with its first byte.
    pub async fn open(&self) -> Result<QuicStream, ConnectionBroken> {
        let (send, receive) = self.connection.open_bi().await.map_err(self.broken())?;
        Ok(QuicStream { connection: self.clone(), send, receive, stopped: None })
    }

    /// Waits for the next stream that the peer opens.
    pub async fn accept(&self) -> Result<QuicStream, ConnectionBroken> {
        let (send, receive) = self.connection.accept_bi().await.map_err(self.broken())?;
        Ok(QuicStream { connection: self.clone(), send, receive, stopped: None })
    }

    /// Waits for the single stream of a session's carrier, for as long as the connection lives. The caller
    /// limits the time.
    pub async fn into_carrier(self) -> Result<QuicCarrier, ConnectionBroken> {
        let (send, receive) = self.connection.accept_bi().await.map_err(self.broken())?;
        let Self { connection, local, interface, widens_to } = self;
        Ok(QuicCarrier::new(
            connection, send, receive, local, interface, widens_to,
        ))
    }

    fn broken(&self) -> impl FnOnce(ConnectionError) -> ConnectionBroken + use<> {
        ConnectionBroken::with(self.connection.remote_address())
    }
}

type Stopped = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// One stream of a connection, in both directions.
pub struct QuicStream {
    connection: QuicConnection,
    send: SendStream,
    receive: RecvStream,
    /// Set after the end was sent; resolves when the peer has everything.
    stopped: Option<Stopped>,
}

impl QuicStream {
    /// Returns its connection.
    #[must_use]
    pub fn connection(&self) -> &QuicConnection {
        &self.connection
    }

    /// Sets the stream's priority; lower values come first.
    pub fn prioritize(&self, priority: u64) {
        // quinn sends higher values first. A stream that is over has no priority.
        let _ = self
            .send
            .set_priority(-i32::try_from(priority).unwrap_or(i32::MAX));
    }

    /// Abandons both directions.
    pub fn reset(mut self) {
        // A direction that has ended cannot be abandoned, which does no harm.
        let _ = self.send.reset(VarInt::from_u32(0));
        let _ = self.receive.stop(VarInt::from_u32(0));
    }
}

impl AsyncRead for QuicStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.receive), cx, buf)
    }
}

impl AsyncWrite for QuicStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.send), cx)
    }

    /// Sends the end. Ready when the peer has acknowledged everything, or wants no more.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stopped.is_none() {
            // A stream that was reset cannot be finished, which does no harm.
            let _ = self.send.finish();
            let stopped = self.send.stopped();
            self.stopped = Some(Box::pin(async move {
                stopped.await.map(|_| ()).map_err(io::Error::from)
            }));
        }
        if let Some(stopped) = &mut self.stopped {
            let result = ready!(stopped.as_mut().poll(cx));
            self.stopped = Some(Box::pin(std::future::ready(Ok(()))));
            return Poll::Ready(result);
        }
        Poll::Ready(Ok(()))
    }
}
