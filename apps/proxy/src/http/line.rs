//! A client's connection beneath hyper. It adds output that a hyper service cannot write: interim answers of
//! an origin (RFC 9110, 15.2; RFC 8297), and `Proxy-Status` on hyper's own answers to requests that it cannot
//! parse (RFC 9209).
//!
//! Invariants: no bytes are inserted within an answer. hyper flushes when it has written everything pending,
//! and only then do interim answers leave. The first bytes that hyper writes after a flush, while no request
//! is being answered, begin an answer of its own. Pending output is bounded by [`MAX_BYTES`] plus the length
//! of one of hyper's own heads.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The maximum number of bytes of pending interim answers.
const MAX_BYTES: usize = 64 * 1024;

/// A client's connection with its pending output.
pub(super) struct ClientConnection {
    stream: TcpStream,
    /// Bytes that must be written before any others.
    outbox: Vec<u8>,
    shared: SharedConnection,
}

/// The state that a connection shares with its service.
#[derive(Clone, Default)]
pub(super) struct SharedConnection(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Set when hyper has written or is about to write since its last flush, so that more output may follow.
    is_writing: bool,
    /// Set while a request is being answered.
    is_answering: bool,
    /// Interim answers that wait for a flush, and the service that waits until they have left.
    interims: Vec<u8>,
    service: Option<Waker>,
}

/// Marks a request as being answered until it is dropped.
pub(super) struct Answering(SharedConnection);

impl SharedConnection {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Marks a request as being answered from now on.
    pub(super) fn answering(&self) -> Answering {
        self.lock().is_answering = true;
        Answering(self.clone())
    }

    /// Sends an interim answer ahead of the final one. The final answer must not be returned before this
    /// future completes.
    pub(super) async fn interim(&self, head: &[u8]) {
        {
            let mut state = self.lock();
            if state.interims.len() + head.len() > MAX_BYTES {
                return;
            }
            state.interims.extend_from_slice(head);
        }
        poll_fn(|context| {
            let mut state = self.lock();
            if state.interims.is_empty() {
                return Poll::Ready(());
            }
            state.service = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_answering = false;
        // hyper has the end of the answer, but may not have written it yet.
        state.is_writing = true;
    }
}

impl ClientConnection {
    pub(super) fn new(stream: TcpStream, shared: SharedConnection) -> ClientConnection {
        ClientConnection { stream, outbox: Vec::new(), shared }
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn poll_outbox(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.outbox))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => drop(self.outbox.drain(..written)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the amended bytes if they begin an answer of hyper's own.
    fn amended(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.shared.lock();
        let is_own = !state.is_writing && !state.is_answering;
        state.is_writing = true;
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
        let status = b"proxy-status: hawser; error=http_request_error\r\n";
        (is_own && bytes.starts_with(b"HTTP/1.1 4")).then(|| [&bytes[..end], status, &bytes[end..]].concat())
    }
}

impl AsyncRead for ClientConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientConnection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_outbox(context))?;
        let first = slices
            .iter()
            .find(|slice| !slice.is_empty())
            .map_or(&[][..], |slice| slice);
        if let Some(amended) = self.amended(first) {
            self.outbox = amended;
            return Poll::Ready(Ok(first.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_outbox(context))?;
        let interims = std::mem::take(&mut self.shared.lock().interims);
        if !interims.is_empty() {
            self.outbox = interims;
            // The interim answers now precede the final answer, whenever they leave.
            if let Some(service) = self.shared.lock().service.take() {
                service.wake();
            }
            ready!(self.poll_outbox(context))?;
        }
        self.shared.lock().is_writing = false;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_outbox(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// An answer's body, and a value that is dropped with it.
pub(super) struct Until<B, T> {
    pub(super) body: B,
    pub(super) _ends: T,
}

impl<B: Body<Data = Bytes> + Unpin, T: Unpin> Body for Until<B, T> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
