//! The receiving half of a Connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use super::CloseOnDrop;
use super::inbox::{MAX_BUFFERED, ReceivedMessage};
use super::state::{ConnectionState, Core, SharedState};
use crate::taps::framer::MessagePart;
use crate::taps::{ConnectionEnded, ConnectionError, ReceiveError};

/// The number of bytes read at once.
const READ: usize = 16_384;

/// The half of a Connection that receives messages. Data that is not requested stays with the transport,
/// whose flow control limits the peer.
pub struct Receiver {
    pub(super) core: Arc<Core>,
    pub(super) _hold: Arc<CloseOnDrop>,
}

impl Receiver {
    /// Receives the next message. A message of at most 1 MiB whose end is known is returned whole. Without a
    /// framer, over a transport without message boundaries, all data is one message, returned as it arrives.
    ///
    /// The future may be dropped before it is ready, without losing data.
    ///
    /// # Errors
    /// When there is no further message, when the received data is malformed, or when the Connection has
    /// ended.
    pub async fn receive(&mut self) -> Result<ReceivedMessage, ReceiveError> {
        self.receive_within(usize::MAX, usize::MAX).await
    }

    /// Receives the next message, or a part of it of at least `min_incomplete` and at most `max` bytes (RFC
    /// 9622, 9.3.1).
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub async fn receive_within(
        &mut self,
        min_incomplete: usize,
        max: usize,
    ) -> Result<ReceivedMessage, ReceiveError> {
        poll_fn(|cx| self.poll_receive(cx, min_incomplete, max)).await
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        min_incomplete: usize,
        max: usize,
    ) -> Poll<Result<ReceivedMessage, ReceiveError>> {
        if !self.core.directions().1 {
            return Poll::Ready(Err(ReceiveError::SendsOnly));
        }
        let mut state = self.core.lock();
        loop {
            // If the end of a message is not marked, the present data is handed over (9.3.2.2).
            let is_endless = state.stack.is_empty() && !state.features.boundaries;
            let min = if is_endless && min_incomplete == usize::MAX {
                1
            } else {
                min_incomplete
            };
            if let Some(received) = state.inbox.take(min, max) {
                return Poll::Ready(Ok(received));
            }
            let SharedState { stack, inbox, .. } = &mut *state;
            match stack.decode(&mut inbox.context) {
                Ok(Some(part)) => {
                    inbox.push(&part);
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    fail(&mut state, error.clone().into());
                    return Poll::Ready(Err(error.into()));
                }
            }
            if state.is_received {
                return Poll::Ready(Err(self.end(&mut state)));
            }
            ready!(poll_read(&mut state, cx))?;
        }
    }

    /// Returns the error to report when no more data arrives.
    fn end(&self, state: &mut SharedState) -> ReceiveError {
        if state.inbox.is_within() || state.stack.kept() > 0 {
            return ReceiveError::Truncated;
        }
        ReceiveError::Finished
    }

    /// Converts the half to a reader of bytes, without message boundaries.
    #[must_use]
    pub fn into_reader(self) -> Reader {
        Reader { receiver: self, rest: Bytes::new() }
    }
}

/// Reads from the transport; an error ends the Connection.
fn poll_read(state: &mut SharedState, cx: &mut Context<'_>) -> Poll<Result<(), ReceiveError>> {
    state.reader = Some(cx.waker().clone());
    if state.phase == ConnectionState::Closed {
        return Poll::Ready(Err(state.ended().into()));
    }
    let Some(stream) = &mut state.stream else {
        return Poll::Pending;
    };
    let mut buffer = [0; READ];
    let mut buffer = ReadBuf::new(&mut buffer);
    if let Err(error) = ready!(Pin::new(stream).poll_read(cx, &mut buffer)) {
        let failure = ConnectionError::from(error);
        fail(state, failure.clone());
        return Poll::Ready(Err(ConnectionEnded::from(failure).into()));
    }
    let bytes = buffer.filled();
    if bytes.is_empty() {
        received_all(state);
    } else if state.stack.is_empty() {
        state
            .inbox
            .push(&MessagePart { data: Bytes::copy_from_slice(bytes), is_end: false });
    } else {
        state.stack.push(bytes);
    }
    debug_assert!(
        state.inbox.len() <= MAX_BUFFERED + READ,
        "what is received is bounded"
    );
    Poll::Ready(Ok(()))
}

/// Handles the end of the peer's data.
fn received_all(state: &mut SharedState) {
    state.is_received = true;
    if state.stack.is_empty() && state.inbox.is_within() && !state.inbox.is_end() {
        state.inbox.context.is_final = true;
        state
            .inbox
            .push(&MessagePart { data: Bytes::new(), is_end: true });
    }
    // The other direction may have ended before.
    state.wake_driver();
}

fn fail(state: &mut SharedState, failure: ConnectionError) {
    if state.phase != ConnectionState::Closed {
        state.failure.get_or_insert(failure);
        state.wake_driver();
    }
}

/// Reads bytes from a Connection.
pub struct Reader {
    receiver: Receiver,
    rest: Bytes,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() && buf.remaining() > 0 {
            match ready!(self.receiver.poll_receive(cx, 1, buf.remaining())) {
                Ok(received) => self.rest = received.data().clone(),
                Err(ReceiveError::Finished) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let length = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest[..length]);
        self.rest.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
