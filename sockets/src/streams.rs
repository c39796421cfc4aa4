//! Connections with streams, over programs that offer them (`open`).
//!
//! Either end opens streams, in both directions or only in its own. Each stream has its own bytes and its own
//! end, and does not wait for another's. [`Connection`], [`SendStream`] and [`RecvStream`] are for tokio. The
//! polled equivalents are [`Endpoint::open_stream`], [`Endpoint::accept`] with a connection's handle,
//! [`Endpoint::reset`] and [`Endpoint::stop`].

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_engine::{Direction, Handle};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::endpoint::Endpoint;
use crate::network::{Listener, Network, Shared, Side, attempt, connected, poll_read, write_shared};
use crate::options::{OPT_PRIORITY, Options};

impl Network {
    /// Opens a connection for streams and waits until it is usable.
    ///
    /// # Errors
    /// As [`Network::connect`].
    pub async fn connection(&self, remote: SocketAddr) -> io::Result<Connection> {
        self.connection_with(remote, &Options::new()).await
    }

    /// [`Network::connection`] with options, in force before the first packet leaves.
    ///
    /// # Errors
    /// As [`Network::connect_with`].
    pub async fn connection_with(&self, remote: SocketAddr, options: &Options) -> io::Result<Connection> {
        let connection =
            Connection { shared: Arc::clone(&self.shared), handle: self.begin(remote, options)? };
        connected(&self.shared, connection.handle).await?;
        Ok(connection)
    }
}

impl Listener {
    /// Waits for the next connection, for a program whose connections have streams.
    ///
    /// # Errors
    /// Returns the reason for which the listener failed.
    pub async fn accept_connection(&self) -> io::Result<Connection> {
        let handle = self.next(Endpoint::accept).await?;
        Ok(Connection { shared: Arc::clone(&self.shared), handle })
    }
}

/// A connection with streams. Dropping it ends the connection and its streams.
pub struct Connection {
    shared: Arc<Shared>,
    handle: Handle,
}

/// A stream that the peer opened.
pub enum Accepted {
    /// Both ends send.
    Both(SendStream, RecvStream),
    /// Only the peer sends.
    One(RecvStream),
}

impl Connection {
    /// Opens a stream on which both ends send; waits while the peer allows no more streams.
    ///
    /// # Errors
    /// Returns the reason for which the connection failed, or [`io::ErrorKind::Unsupported`] if the program's
    /// connections have no streams.
    pub async fn open_both(&self) -> io::Result<(SendStream, RecvStream)> {
        let stream = self.open(Direction::Both).await?;
        Ok((SendStream(Arc::clone(&stream)), RecvStream(stream)))
    }

    /// Opens a stream on which only this end sends.
    ///
    /// # Errors
    /// As [`Connection::open_both`].
    pub async fn open_one(&self) -> io::Result<SendStream> {
        self.open(Direction::One).await.map(SendStream)
    }

    async fn open(&self, direction: Direction) -> io::Result<Arc<SplitStream>> {
        let open = |cx: &mut Context<'_>| {
            attempt(&self.shared, self.handle, cx, Side::Write, |endpoint, handle| {
                endpoint.open_stream(handle, direction)
            })
        };
        let handle = std::future::poll_fn(open).await?;
        Ok(self.stream(handle))
    }

    /// Waits for the next stream that the peer opens.
    ///
    /// # Errors
    /// Returns the reason for which the connection failed, or [`io::ErrorKind::ConnectionAborted`] once the
    /// peer has closed it.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let accept = |cx: &mut Context<'_>| {
            attempt(&self.shared, self.handle, cx, Side::Read, |endpoint, handle| {
                let stream = endpoint.accept(handle)?;
                Ok((stream, endpoint.sends_on(stream)))
            })
        };
        let (handle, sends) = std::future::poll_fn(accept).await?;
        let stream = self.stream(handle);
        Ok(match sends {
            true => Accepted::Both(SendStream(Arc::clone(&stream)), RecvStream(stream)),
            false => Accepted::One(RecvStream(stream)),
        })
    }

    /// Sends a datagram beside the streams: it arrives whole or not at all (RFC 9221). Waits while there is
    /// no room.
    ///
    /// # Errors
    /// Returns errno `EMSGSIZE` if it can never fit, the program's refusal, or the reason for which the
    /// connection failed.
    pub async fn send_datagram(&self, datagram: &[u8]) -> io::Result<()> {
        let send = |cx: &mut Context<'_>| {
            attempt(&self.shared, self.handle, cx, Side::Write, |endpoint, handle| {
                endpoint.send_datagram(handle, datagram)
            })
        };
        std::future::poll_fn(send).await
    }

    /// Waits for the next datagram of the peer.
    ///
    /// # Errors
    /// Returns the reason for which the connection failed, or [`io::ErrorKind::ConnectionAborted`] once it is
    /// closed.
    pub async fn recv_datagram(&self) -> io::Result<Vec<u8>> {
        let receive = |cx: &mut Context<'_>| {
            attempt(&self.shared, self.handle, cx, Side::Read, Endpoint::recv_datagram)
        };
        std::future::poll_fn(receive).await
    }

    fn stream(&self, handle: Handle) -> Arc<SplitStream> {
        Arc::new(SplitStream { shared: Arc::clone(&self.shared), handle })
    }

    /// Returns the remote end.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.lock().endpoint.peer(self.handle)
    }

    /// Returns a state variable that the program declares `observable`.
    #[must_use]
    pub fn observe(&self, field: &str) -> Option<u64> {
        self.shared.lock().endpoint.observe(self.handle, field)
    }

    /// Ends the connection and its streams; the peer's application receives the reason.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`] if the program does not support reasons.
    pub fn close(self, reason: u64) -> io::Result<()> {
        let result = self.shared.lock().endpoint.reset(self.handle, reason);
        self.shared.kick();
        result
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.lock().endpoint.abort(self.handle);
        self.shared.give_back(self.handle);
    }
}

/// The part of a stream that both halves share. The last half to be dropped releases the handle.
struct SplitStream {
    shared: Arc<Shared>,
    handle: Handle,
}

impl SplitStream {
    fn act<T>(&self, act: impl FnOnce(&mut Endpoint, Handle) -> T) -> T {
        let result = act(&mut self.shared.lock().endpoint, self.handle);
        self.shared.kick();
        result
    }
}

impl Drop for SplitStream {
    fn drop(&mut self) {
        self.shared.give_back(self.handle);
    }
}

/// The sending half of a stream. Dropping it finishes the stream: bytes already written still arrive.
pub struct SendStream(Arc<SplitStream>);

impl SendStream {
    /// Sends all of `bytes` without copying them ([`Endpoint::write_shared`]), and waits while there is no
    /// room. It is cancel safe: accepted bytes are removed from `bytes`, and a further call continues with
    /// the rest.
    ///
    /// # Errors
    /// As [`Endpoint::write`], except for [`io::ErrorKind::WouldBlock`].
    pub async fn write_shared(&self, bytes: &mut Bytes) -> io::Result<()> {
        write_shared(&self.0.shared, self.0.handle, bytes).await
    }

    /// Announces that no more will be written.
    pub fn finish(&self) {
        self.0.act(Endpoint::shutdown);
    }

    /// Gives up the written bytes that have not arrived; the peer's application receives the reason.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`], or [`io::ErrorKind::NotConnected`] once the stream is over.
    pub fn reset(&self, reason: u64) -> io::Result<()> {
        self.0.act(|endpoint, handle| endpoint.reset(handle, reason))
    }

    /// Sets the priority: streams of a higher priority send before others of the connection; the default is
    /// 0.
    ///
    /// # Errors
    /// Returns errno `ENOPROTOOPT` if the program does not support priorities.
    pub fn set_priority(&self, priority: u8) -> io::Result<()> {
        self.0
            .act(|endpoint, handle| endpoint.set_option(handle, OPT_PRIORITY, priority.into()))
    }

    /// Waits until the peer stops reading, and returns its application's reason; `None` once it has all
    /// bytes.
    ///
    /// # Errors
    /// Returns the reason for which the connection failed.
    pub async fn stopped(&self) -> io::Result<Option<u64>> {
        let SplitStream { shared, handle } = &*self.0;
        let stopped = |cx: &mut Context<'_>| attempt(shared, *handle, cx, Side::Write, Endpoint::stopped);
        std::future::poll_fn(stopped).await
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let SplitStream { shared, handle } = &*self.0;
        attempt(shared, *handle, cx, Side::Write, |endpoint, handle| {
            endpoint.write(handle, bytes)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shared.kick();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The receiving half of a stream. Dropping it stops the stream with the reason 0, unless its end has been
/// received.
pub struct RecvStream(Arc<SplitStream>);

impl RecvStream {
    /// Stops reading, and asks the peer not to send more; the peer's application receives the reason.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`], or [`io::ErrorKind::NotConnected`] once the stream is over.
    pub fn stop(&self, reason: u64) -> io::Result<()> {
        self.0.act(|endpoint, handle| endpoint.stop(handle, reason))
    }

    /// Returns the reason for which the peer gave the stream up, if it did. Reading then fails with
    /// [`io::ErrorKind::ConnectionReset`].
    #[must_use]
    pub fn reset_reason(&self) -> Option<u64> {
        self.0.act(|endpoint, handle| endpoint.reset_reason(handle))
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        poll_read(&self.0.shared, self.0.handle, cx, out)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.0.act(|endpoint, handle| {
            if endpoint.is_read_open(handle) {
                let _ = endpoint.stop(handle, 0); // no effect on a stream that is over
            }
        });
    }
}
