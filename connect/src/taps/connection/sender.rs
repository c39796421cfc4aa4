//! The sending half of a Connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;

use super::CloseOnDrop;
use super::queue::SendId;
use super::state::{ConnectionState, Core};
use crate::taps::property::{Property, PropertyError, PropertyValue};
use crate::taps::{ConnectionEnded, MessageContext};

/// The interval at which a transport is asked for acknowledged data.
const ASKING: Duration = Duration::from_millis(5);

/// The half of a Connection that sends messages. Clones use the same Connection.
#[derive(Clone)]
pub struct Sender {
    pub(super) core: Arc<Core>,
    pub(super) _hold: Arc<CloseOnDrop>,
}

impl Sender {
    /// Sends a whole message. Waits while too much is queued: bytes that the transport has not taken, and,
    /// with [`with_sent_events`], events not yet taken by [`super::ConnectionEvents::next_event`]. If the
    /// future is dropped before it is ready, the message is not sent.
    ///
    /// [`with_sent_events`]: crate::taps::Preconnection::with_sent_events
    ///
    /// The bytes are not copied on their way to the transport.
    ///
    /// # Errors
    /// When the Connection has ended. Other failures to send a message are events.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<SendId, ConnectionEnded> {
        self.send_with(message, &MessageContext::new()).await
    }

    /// Sends a whole message with message properties.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub async fn send_with(
        &self,
        message: impl Into<Bytes>,
        context: &MessageContext,
    ) -> Result<SendId, ConnectionEnded> {
        self.send_part(message, context, true).await
    }

    /// Sends a part of a message. All parts sent with one context, until `end_of_message`, are one message,
    /// and no other data is sent in between.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub async fn send_part(
        &self,
        data: impl Into<Bytes>,
        context: &MessageContext,
        end_of_message: bool,
    ) -> Result<SendId, ConnectionEnded> {
        let mut data = data.into();
        poll_fn(|cx| self.poll_send(cx, &mut data, context, end_of_message, false)).await
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        data: &mut Bytes,
        context: &MessageContext,
        is_end: bool,
        is_quiet: bool,
    ) -> Poll<Result<SendId, ConnectionEnded>> {
        // The waker is registered before the second attempt, so that no wake-up is missed in between.
        for is_second in [false, true] {
            if let Some(id) = self.core.try_send(data, context, is_end, is_quiet)? {
                return Poll::Ready(Ok(id));
            }
            if !is_second {
                self.core.lock().wait(cx.waker());
            }
        }
        Poll::Pending
    }

    /// Begins a batch: messages sent from now on may wait until [`Sender::end_batch`], to be sent together.
    /// Messages that exceed the buffer are sent before.
    pub fn start_batch(&self) {
        self.core.lock().is_batching = true;
    }

    /// Ends a batch, and sends its messages.
    pub fn end_batch(&self) {
        let mut state = self.core.lock();
        state.is_batching = false;
        state.wake_driver();
    }

    /// Waits until the peer's transport has acknowledged all data sent before the call. Returns true when it
    /// has, and false when the transport does not report acknowledgements.
    ///
    /// # Errors
    /// When the Connection ended first.
    pub async fn acked(&self) -> Result<bool, ConnectionEnded> {
        let before = self.core.lock().given();
        // The number of bytes that the transport had taken after the last of these Sends.
        let mut taken = None;
        loop {
            {
                let mut state = self.core.lock();
                if state.phase == ConnectionState::Closed {
                    return Err(state.ended());
                }
                if let Some(stream) = &mut state.stream {
                    let Some(left) = stream.unacknowledged() else {
                        return Ok(false);
                    };
                    if state.is_sent(before) {
                        let target = *taken.get_or_insert(state.written);
                        if state.written.saturating_sub(left) >= target {
                            return Ok(true);
                        }
                    }
                }
            }
            tokio::time::sleep(ASKING).await;
        }
    }

    /// Sets a message property for all messages of this Connection that do not set it themselves.
    ///
    /// # Errors
    /// When it is not a message property, or has no such value.
    pub fn set_message_property(
        &self,
        property: Property,
        value: impl Into<PropertyValue>,
    ) -> Result<(), PropertyError> {
        let mut context = MessageContext::new();
        let value = value.into();
        context.add(property, value.clone())?;
        self.core.lock().messages.set(property, value)?;
        Ok(())
    }

    /// Converts the half to a writer of bytes, which are one message without end. No events report its
    /// outcome.
    #[must_use]
    pub fn into_writer(self) -> Writer {
        Writer { sender: self, context: MessageContext::new(), is_shut: false }
    }
}

/// Writes bytes to a Connection.
pub struct Writer {
    sender: Sender,
    context: MessageContext,
    is_shut: bool,
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        const MAX_BYTES: usize = 65_536;
        let length = buf.len().min(MAX_BYTES);
        let mut data = Bytes::copy_from_slice(&buf[..length]);
        match self.sender.poll_send(cx, &mut data, &self.context, false, true) {
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(length)),
            Poll::Ready(Err(ended)) => Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, ended))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.sender.core.lock();
        if state.queue.is_empty() && state.wire.is_empty() && state.is_flushed {
            return Poll::Ready(Ok(()));
        }
        if state.phase == ConnectionState::Closed {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, state.ended())));
        }
        state.wait(cx.waker());
        Poll::Pending
    }

    /// Sends the end, as a final message does.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            let mut last = self.context.clone();
            last.add(Property::Final, true).map_err(io::Error::other)?;
            match self.sender.poll_send(cx, &mut Bytes::new(), &last, true, true) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => self.is_shut = true,
            }
        }
        let mut state = self.sender.core.lock();
        if state.is_shut || state.phase == ConnectionState::Closed {
            return Poll::Ready(Ok(()));
        }
        state.wait(cx.waker());
        Poll::Pending
    }
}
