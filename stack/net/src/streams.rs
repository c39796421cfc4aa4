//! Connections with streams within them, over programs that offer those (`open`).
//!
//! Either end opens streams, in both directions or in its own alone; each has its own bytes and its own end, and none
//! waits for another's. [`Connection`], [`SendStream`] and [`RecvStream`] are for tokio; the same by polling:
//! [`Endpoint::open_stream`], [`Endpoint::accept`] with a connection's handle, [`Endpoint::reset`], [`Endpoint::stop`].

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
    /// Waits for the next connection, of a program whose connections have streams within them.
    ///
    /// # Errors
    /// Why the listener failed.
    pub async fn accept_connection(&self) -> io::Result<Connection> {
        let handle = self.next(Endpoint::accept).await?;
        Ok(Connection { shared: Arc::clone(&self.shared), handle })
    }
}

/// A connection with streams within it. Dropping it ends it, and its streams.
pub struct Connection {
    shared: Arc<Shared>,
    handle: Handle,
}

/// A stream that the peer opened.
pub enum Accepted {
    /// Both ends send.
    Both(SendStream, RecvStream),
    /// The peer alone sends.
    One(RecvStream),
}

impl Connection {
    /// Opens a stream on which both ends send; waits while the peer allows no more of them.
    ///
    /// # Errors
    /// Why the connection failed; [`io::ErrorKind::Unsupported`] when the program's connections have no streams.
    pub async fn open_both(&self) -> io::Result<(SendStream, RecvStream)> {
        let stream = self.open(Direction::Both).await?;
        Ok((SendStream(Arc::clone(&stream)), RecvStream(stream)))
    }

    /// Opens a stream on which this end alone sends.
    ///
    /// # Errors
    /// As [`Connection::open_both`].
    pub async fn open_one(&self) -> io::Result<SendStream> {
        self.open(Direction::One).await.map(SendStream)
    }

    async fn open(&self, direction: Direction) -> io::Result<Arc<Stream>> {
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
    /// Why the connection failed; [`io::ErrorKind::ConnectionAborted`] once the peer has closed it.
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

    /// Sends a datagram beside the streams: it arrives whole, or not at all (RFC 9221). Waits while there is no room.
    ///
    /// # Errors
    /// Errno `EMSGSIZE` when it will never fit; what the program refused; why the connection failed.
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
    /// Why the connection failed; [`io::ErrorKind::ConnectionAborted`] once it is closed.
    pub async fn recv_datagram(&self) -> io::Result<Vec<u8>> {
        let receive = |cx: &mut Context<'_>| {
            attempt(&self.shared, self.handle, cx, Side::Read, Endpoint::recv_datagram)
        };
        std::future::poll_fn(receive).await
    }

    fn stream(&self, handle: Handle) -> Arc<Stream> {
        Arc::new(Stream { shared: Arc::clone(&self.shared), handle })
    }

    /// The far end.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.lock().endpoint.peer(self.handle)
    }

    /// A state variable that the program declares `observable`.
    #[must_use]
    pub fn observe(&self, field: &str) -> Option<u64> {
        self.shared.lock().endpoint.observe(self.handle, field)
    }

    /// Ends the connection, and its streams, for a reason that the peer's application gets.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] when the program knows no reasons.
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

/// What both halves of a stream hold. The last of them gives the handle back.
struct Stream {
    shared: Arc<Shared>,
    handle: Handle,
}

impl Stream {
    fn act<T>(&self, act: impl FnOnce(&mut Endpoint, Handle) -> T) -> T {
        let result = act(&mut self.shared.lock().endpoint, self.handle);
        self.shared.kick();
        result
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.give_back(self.handle);
    }
}

/// The half of a stream that sends. Dropping it finishes the stream: what was written still arrives.
pub struct SendStream(Arc<Stream>);

impl SendStream {
    /// Sends all of `bytes` without copying them ([`Endpoint::write_shared`]), and waits while there is no room. It is
    /// cancel safe: what was taken is no longer in `bytes`, and a further call goes on with the rest.
    ///
    /// # Errors
    /// As for [`Endpoint::write`], but [`io::ErrorKind::WouldBlock`].
    pub async fn write_shared(&self, bytes: &mut Bytes) -> io::Result<()> {
        write_shared(&self.0.shared, self.0.handle, bytes).await
    }

    /// Announces that no more will be written.
    pub fn finish(&self) {
        self.0.act(Endpoint::shutdown);
    }

    /// Gives up what was written and has not arrived, for a reason that the peer's application gets.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`]; [`io::ErrorKind::NotConnected`] once the stream is over.
    pub fn reset(&self, reason: u64) -> io::Result<()> {
        self.0.act(|endpoint, handle| endpoint.reset(handle, reason))
    }

    /// Streams of a higher priority send before others of the connection; 0 unless set.
    ///
    /// # Errors
    /// Errno `ENOPROTOOPT` when the program knows no priorities.
    pub fn set_priority(&self, priority: u8) -> io::Result<()> {
        self.0
            .act(|endpoint, handle| endpoint.set_option(handle, OPT_PRIORITY, priority.into()))
    }

    /// Waits until the peer will not read any more, for this reason of its application; `None`: it has all of it.
    ///
    /// # Errors
    /// Why the connection failed.
    pub async fn stopped(&self) -> io::Result<Option<u64>> {
        let Stream { shared, handle } = &*self.0;
        let stopped = |cx: &mut Context<'_>| attempt(shared, *handle, cx, Side::Write, Endpoint::stopped);
        std::future::poll_fn(stopped).await
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Stream { shared, handle } = &*self.0;
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

/// The half of a stream that receives. Dropping it stops the stream, for the reason 0, unless its end has come.
pub struct RecvStream(Arc<Stream>);

impl RecvStream {
    /// Reads no more, and asks the peer not to send any, for a reason that its application gets.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`]; [`io::ErrorKind::NotConnected`] once the stream is over.
    pub fn stop(&self, reason: u64) -> io::Result<()> {
        self.0.act(|endpoint, handle| endpoint.stop(handle, reason))
    }

    /// Why the peer gave the stream up, if it did. Reading fails then with [`io::ErrorKind::ConnectionReset`].
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
                let _ = endpoint.stop(handle, 0); // a stream that is over needs no stopping
            }
        });
    }
}
