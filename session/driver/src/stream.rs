//! One stream of a session, as applications hold it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_session::{Priority, ReadError, StreamError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::handle::into_io;
use super::shared::Handle;

/// One of a session's streams: both halves. A handle of the session: it lasts as long as one of its
/// streams is held. What was written is still delivered after the stream is dropped.
pub struct SessionStream {
    shared: Handle,
    id: u32,
}

impl SessionStream {
    pub(super) fn new(shared: Handle, id: u32) -> Self {
        Self { shared, id }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How urgent it is.
    ///
    /// # Errors
    /// It is over.
    pub fn prioritize(&self, priority: Priority) -> io::Result<()> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner
            .session
            .prioritize(self.id, priority, now)
            .map_err(into_io)?;
        inner.kick();
        Ok(())
    }

    /// Gives the sending half up.
    ///
    /// # Errors
    /// It is over.
    pub fn reset(&self, code: u64) -> io::Result<()> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.reset(self.id, code, now).map_err(into_io)?;
        inner.kick();
        Ok(())
    }

    /// Bytes written that the peer's session has not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.shared.lock().session.unacknowledged(self.id)
    }

    /// The next bytes, without a copy; empty at the end.
    ///
    /// # Errors
    /// The peer reset the stream, or the session ended before it.
    pub async fn read_bytes(&mut self) -> io::Result<Bytes> {
        std::future::poll_fn(|cx| self.poll_bytes(cx, usize::MAX)).await
    }

    /// Writes `bytes`, without a copy if they are 16 KiB and more; waits while there is no room.
    ///
    /// # Errors
    /// The stream was finished, or the session has ended.
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            std::future::poll_fn(|cx| self.poll_write_bytes(cx, &mut bytes)).await?;
        }
        Ok(())
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<Bytes>> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        match inner.session.read(self.id, most, now) {
            Ok(bytes) => {
                inner.kick_if_wanted();
                Poll::Ready(Ok(bytes))
            }
            Err(ReadError::Blocked) => {
                inner.readers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Err(ReadError::Unknown(_)) => Poll::Ready(Ok(Bytes::new())),
            Err(ReadError::Reset(code)) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                format!("the peer gave the stream up with code {code}"),
            ))),
            Err(ReadError::Closed) => {
                let (code, _) = inner.closed.unwrap_or_default();
                Poll::Ready(Err(inner.ended(code)))
            }
        }
    }

    /// Takes bytes off the front of `bytes`, as many as there is room for.
    pub fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<usize>> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        match inner.session.write(self.id, bytes.clone(), now) {
            Ok(0) if !bytes.is_empty() => {
                inner.writers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Ok(taken) => {
                let _ = bytes.split_to(taken);
                inner.kick();
                Poll::Ready(Ok(taken))
            }
            Err(error) => Poll::Ready(Err(into_io(error))),
        }
    }
}

impl AsyncRead for SessionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buf.remaining();
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = std::task::ready!(self.poll_bytes(cx, most))?;
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SessionStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        const MOST: usize = 65_536;
        let room = self.shared.lock().session.capacity(self.id).clamp(1, MOST);
        let mut bytes = Bytes::copy_from_slice(&buf[..buf.len().min(room)]);
        self.poll_write_bytes(cx, &mut bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        let result = inner.session.finish(self.id, now);
        inner.kick();
        match result {
            // A stream that is over was finished before.
            Ok(()) | Err(StreamError::Unknown(_)) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(into_io(error))),
        }
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.held.remove(&self.id);
        inner.readers.remove(&self.id);
        inner.writers.remove(&self.id);
        inner.session.release(self.id, now);
        inner.kick();
    }
}
