//! The sending half of a Connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;

use super::Hold;
use super::queue::SendId;
use super::state::{ConnectionState, Core};
use crate::property::{Property, PropertyError, Value};
use crate::{Ended, MessageContext};

/// How often a transport is asked what has been acknowledged.
const ASKING: Duration = Duration::from_millis(5);

/// The half of a Connection that messages are sent by. Clones send by the same Connection.
#[derive(Clone)]
pub struct Sender {
    pub(super) core: Arc<Core>,
    pub(super) _hold: Arc<Hold>,
}

impl Sender {
    /// Sends a whole message. Waits while too much waits already: bytes that the transport has not
    /// taken, and, with [`with_sent_events`], events that nobody has taken by
    /// [`super::Events::next_event`]. A future that is dropped before it is ready has sent nothing.
    ///
    /// [`with_sent_events`]: crate::Preconnection::with_sent_events
    ///
    /// The bytes are not copied on their way to the transport.
    ///
    /// # Errors
    /// The Connection has ended. What keeps a message from being sent otherwise is an event.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<SendId, Ended> {
        self.send_with(message, &MessageContext::new()).await
    }

    /// The same with message properties.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub async fn send_with(
        &self,
        message: impl Into<Bytes>,
        context: &MessageContext,
    ) -> Result<SendId, Ended> {
        self.send_part(message, context, true).await
    }

    /// Sends a part of a message: all that is sent with one context, until `end_of_message`, is one
    /// message, and nothing else is sent in between.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub async fn send_part(
        &self,
        data: impl Into<Bytes>,
        context: &MessageContext,
        end_of_message: bool,
    ) -> Result<SendId, Ended> {
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
    ) -> Poll<Result<SendId, Ended>> {
        // Who comes too late is put in line before it is asked again: nothing is missed in between.
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

    /// What is sent from now on may wait until [`Sender::end_batch`], to leave together; what is more
    /// than may wait leaves before.
    pub fn start_batch(&self) {
        self.core.lock().is_batching = true;
    }

    /// Sends what has gathered.
    pub fn end_batch(&self) {
        let mut state = self.core.lock();
        state.is_batching = false;
        state.wake_driver();
    }

    /// Waits until the peer's transport has acknowledged all that was sent before. True: it has;
    /// false: the transport does not report it.
    ///
    /// # Errors
    /// The Connection ended first.
    pub async fn acked(&self) -> Result<bool, Ended> {
        let before = self.core.lock().given();
        // Bytes that the transport had taken when it had taken the last of these.
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

    /// Sets a message property for all messages of this Connection that do not have it themselves.
    ///
    /// # Errors
    /// It is no message property, or has no such value.
    pub fn set_message_property(
        &self,
        property: Property,
        value: impl Into<Value>,
    ) -> Result<(), PropertyError> {
        let mut context = MessageContext::new();
        let value = value.into();
        context.add(property, value.clone())?;
        self.core.lock().messages.set(property, value)?;
        Ok(())
    }

    /// The Connection as a writer of bytes, which are one message without end. What becomes of them is
    /// reported by no event.
    #[must_use]
    pub fn into_writer(self) -> Writer {
        Writer { sender: self, context: MessageContext::new(), is_shut: false }
    }
}

/// Bytes to a Connection.
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
