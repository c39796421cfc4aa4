//! One stream of a session, as applications hold it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hawser_session_machine::{Priority, ReadError, Session as Machine, SessionEnd, StreamError};
use hawser_time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::SessionError;
use super::shared::Handle;

/// One of a session's streams, with both halves. It is a handle of the session, which exists as long as one
/// of its streams is held. After the stream is dropped, written data is still delivered, followed by the
/// stream's end. If it is dropped after an error, or while its thread panics, it is reset, so that its peer
/// does not take it for complete.
pub struct SessionStream {
    shared: Handle,
    id: u32,
    /// True if an operation has failed.
    has_failed: bool,
    /// True if the end of the sending half was set. The end is delivered even if an operation fails later.
    is_finished: bool,
}

/// The code of a stream that is dropped after an error.
const FAILED: u64 = 0;

impl SessionStream {
    pub(super) fn new(shared: Handle, id: u32) -> Self {
        Self { shared, id, has_failed: false, is_finished: false }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sets its priority.
    ///
    /// # Errors
    /// The stream is over.
    pub fn prioritize(&self, priority: Priority) -> Result<(), SessionError> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.prioritize(self.id, priority, now)?;
        inner.kick();
        Ok(())
    }

    /// Abandons the sending half.
    ///
    /// # Errors
    /// The stream is over.
    pub fn reset(&self, code: u64) -> Result<(), SessionError> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        inner.session.reset(self.id, code, now)?;
        inner.kick();
        Ok(())
    }

    /// Returns the number of written bytes that the peer's session has not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.shared.lock().session.unacknowledged(self.id)
    }

    /// Returns the next bytes, without a copy; empty at the end.
    ///
    /// # Errors
    /// The peer reset the stream, or the session ended before it.
    pub async fn read_bytes(&mut self) -> io::Result<Bytes> {
        std::future::poll_fn(|cx| self.poll_bytes(cx, usize::MAX)).await
    }

    /// Writes `bytes`, without a copy if they are 16 KiB or more. Waits while there is no room.
    ///
    /// # Errors
    /// The stream was finished, or the session has ended.
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            std::future::poll_fn(|cx| self.poll_write_bytes(cx, &mut bytes)).await?;
        }
        Ok(())
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        match inner.session.read(self.id, max, now) {
            Ok(bytes) => {
                inner.kick_if_wanted();
                Poll::Ready(Ok(bytes))
            }
            Err(ReadError::Blocked) => {
                inner.readers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Err(ReadError::Unknown(_)) => Poll::Ready(Ok(Bytes::new())),
            Err(ReadError::Reset(code)) => {
                self.has_failed = true;
                Poll::Ready(Err(SessionError::Reset(code).into()))
            }
            Err(ReadError::Closed) => {
                self.has_failed = true;
                let end = inner.closed.unwrap_or(SessionEnd::Closed(0));
                Poll::Ready(Err(inner.ended(end).into()))
            }
        }
    }

    /// Takes as many bytes off the front of `bytes` as there is room for.
    pub fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<usize>> {
        let write = |session: &mut Machine, id, now| session.write(id, bytes.clone(), now);
        let taken = std::task::ready!(self.poll_write_with(cx, bytes.len(), write))?;
        bytes.advance(taken);
        Poll::Ready(Ok(taken))
    }

    /// Has `write` write some of `length` bytes, and wakes the task that sends them.
    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
        write: impl FnOnce(&mut Machine, u32, Instant) -> Result<usize, StreamError>,
    ) -> Poll<io::Result<usize>> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        match write(&mut inner.session, self.id, now) {
            Ok(0) if length > 0 => {
                inner.writers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Ok(taken) => {
                inner.kick();
                Poll::Ready(Ok(taken))
            }
            Err(error) => {
                self.has_failed = true;
                Poll::Ready(Err(inner.fault(error).into()))
            }
        }
    }
}

impl AsyncRead for SessionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let max = buf.remaining();
        if max == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = std::task::ready!(self.poll_bytes(cx, max))?;
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SessionStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |session, id, now| {
            session.write_slice(id, buf, now)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        let result = inner.session.finish(self.id, now);
        inner.kick();
        match result {
            // A stream that is over was finished before.
            Ok(()) | Err(StreamError::Unknown(_)) => {
                drop(inner);
                self.is_finished = true;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(inner.fault(error).into())),
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
        if !self.is_finished && (self.has_failed || std::thread::panicking()) {
            // A stream that is over cannot be reset, which does no harm.
            let _ = inner.session.reset(self.id, FAILED, now);
        }
        inner.session.release(self.id, now);
        inner.kick();
    }
}
