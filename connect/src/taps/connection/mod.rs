//! Connections (RFC 9622, 7 to 11).
//!
//! * [`Connection`], and its halves [`Sender`], [`Receiver`], [`ConnectionEvents`]
//! * [`ConnectionEvent`], [`ReceivedMessage`]: events, and received messages
//! * `state`: the state that the handles and the task share; `drive`: the task; `group`: the state that
//!   Connections share
//! * `effective`: the values of properties that are in force over a transport
//! * `queue`, `inbox`, `rate`: machines without I/O and clocks
//!
//! The memory of a Connection is bounded. It holds at most 1 MiB of messages to be sent (or one longer
//! message), 1 MiB of a received message, and 1,024 outcomes of Sends.

mod clone;
mod drive;
mod effective;
mod event;
mod group;
mod inbox;
mod properties;
mod queue;
mod rate;
mod receiver;
mod sender;
mod state;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;

use super::plan::ConnectionPlan;
use super::{ConnectionEnded, EstablishmentError, MessageContext, ReceiveError};
use crate::Duplex;
pub use event::ConnectionEvent;
pub(super) use group::Group;
pub use inbox::ReceivedMessage;
pub use properties::ConnectionProperties;
pub use queue::SendId;
pub use receiver::{Reader, Receiver};
pub use sender::{Sender, Writer};
pub use state::ConnectionState;
use state::{Core, Ending};

/// A Connection: it carries messages in both directions, and reports events.
///
/// [`Connection::close`] closes it, [`Connection::abort`] ends it at once, and it is also closed when all of
/// its handles are dropped. Data already sent is then still delivered, as long as the runtime lives.
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
    events: ConnectionEvents,
}

/// The half of a Connection from which events are taken. When it is dropped, no more events are queued.
pub struct ConnectionEvents {
    core: Arc<Core>,
    _hold: Arc<CloseOnDrop>,
}

/// Held by every handle: when the last one is dropped, the Connection is closed.
struct CloseOnDrop(Arc<Core>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.end(Ending::Close);
    }
}

impl Drop for ConnectionEvents {
    fn drop(&mut self) {
        self.core.lock().unhear();
    }
}

impl ConnectionEvents {
    /// Waits for the next event; `None` after the last event was taken. The future may be dropped before it
    /// is ready, without losing an event.
    pub async fn next_event(&mut self) -> Option<ConnectionEvent> {
        poll_fn(|cx| {
            let mut state = self.core.lock();
            if let Some(event) = state.next_event() {
                return Poll::Ready(Some(event));
            }
            if state.phase == ConnectionState::Closed {
                return Poll::Ready(None);
            }
            state.listener = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Connection {
    fn from_core(core: Arc<Core>) -> Connection {
        let hold = Arc::new(CloseOnDrop(Arc::clone(&core)));
        Connection {
            sender: Sender { core: Arc::clone(&core), _hold: Arc::clone(&hold) },
            receiver: Receiver { core: Arc::clone(&core), _hold: Arc::clone(&hold) },
            events: ConnectionEvents { core, _hold: hold },
        }
    }

    /// Begins to establish a Connection over the stream that `connect` yields; `first` is sent as soon as it is
    /// established.
    pub(super) fn initiate(
        plan: &Arc<ConnectionPlan>,
        connect: impl Future<Output = Result<Box<dyn Duplex>, EstablishmentError>> + Send + 'static,
        timeout: Option<Duration>,
        first: Option<(Bytes, MessageContext)>,
    ) -> Connection {
        let group = Group::new(Arc::clone(plan));
        let connection = Connection::member(&group);
        let core = Arc::clone(&connection.sender.core);
        // If the first message was never sent, the failure of establishment is report enough (9.2.5).
        let skips_outcomes = first.is_some();
        if let Some((mut data, context)) = first {
            // The Connection has just begun, so it has not ended, and has room.
            let _ = core.try_send(&mut data, &context, true, false);
        }
        tokio::spawn(establish(core, connect, timeout, skips_outcomes));
        connection
    }

    /// Makes a new member of a group.
    fn member(group: &Arc<Group>) -> Connection {
        let plan = &group.plan;
        let core = Core::new(Arc::clone(group), plan.action, &plan.framers, &group.properties());
        group.join(&core);
        Connection::from_core(core)
    }

    /// Makes a Connection from a stream that a peer has opened.
    pub(super) fn accepted(group: &Arc<Group>, stream: Box<dyn Duplex>) -> Connection {
        let connection = Connection::member(group);
        let core = Arc::clone(&connection.sender.core);
        drive::begin(&core, stream, false);
        tokio::spawn(drive::drive(core));
        connection
    }

    /// Waits until it is established, or has failed. Takes no event.
    ///
    /// # Errors
    /// When it was not established, or has ended since.
    pub async fn established(&self) -> Result<(), ConnectionEnded> {
        poll_fn(|cx| {
            let mut state = self.sender.core.lock();
            match state.phase {
                ConnectionState::Establishing => {
                    state.wait(cx.waker());
                    Poll::Pending
                }
                ConnectionState::Closed => Poll::Ready(Err(state.ended())),
                ConnectionState::Established | ConnectionState::Closing => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// Splits it into its halves, which different tasks may use.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver, ConnectionEvents) {
        (self.sender, self.receiver, self.events)
    }

    /// Returns the half that sends messages.
    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// As [`Sender::send`].
    ///
    /// # Errors
    /// When the Connection has ended.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<SendId, ConnectionEnded> {
        self.sender.send(message).await
    }

    /// As [`Sender::send_with`].
    ///
    /// # Errors
    /// When the Connection has ended.
    pub async fn send_with(
        &self,
        message: impl Into<Bytes>,
        context: &MessageContext,
    ) -> Result<SendId, ConnectionEnded> {
        self.sender.send_with(message, context).await
    }

    /// As [`Sender::send_part`].
    ///
    /// # Errors
    /// When the Connection has ended.
    pub async fn send_part(
        &self,
        data: impl Into<Bytes>,
        context: &MessageContext,
        end_of_message: bool,
    ) -> Result<SendId, ConnectionEnded> {
        self.sender.send_part(data, context, end_of_message).await
    }

    /// As [`Receiver::receive`].
    ///
    /// # Errors
    /// When there are no more messages to receive.
    pub async fn receive(&mut self) -> Result<ReceivedMessage, ReceiveError> {
        self.receiver.receive().await
    }

    /// As [`Receiver::receive_within`].
    ///
    /// # Errors
    /// When there are no more messages to receive.
    pub async fn receive_within(
        &mut self,
        min_incomplete: usize,
        max: usize,
    ) -> Result<ReceivedMessage, ReceiveError> {
        self.receiver.receive_within(min_incomplete, max).await
    }

    /// As [`ConnectionEvents::next_event`].
    pub async fn next_event(&mut self) -> Option<ConnectionEvent> {
        self.events.next_event().await
    }

    /// Closes it when all sent data has been delivered, which [`ConnectionEvent::Closed`] reports.
    pub fn close(&self) {
        self.sender.close();
    }

    /// Ends it at once and discards data that has not been sent.
    pub fn abort(&self) {
        self.sender.abort();
    }

    /// Closes all Connections of its group.
    pub fn close_group(&self) {
        self.sender
            .core
            .group
            .members()
            .iter()
            .for_each(|core| core.end(Ending::Close));
    }

    /// Ends all Connections of its group at once.
    pub fn abort_group(&self) {
        self.sender
            .core
            .group
            .members()
            .iter()
            .for_each(|core| core.end(Ending::Abort));
    }

    /// Returns the number of Connections in its group, including itself (GroupedConnections).
    #[must_use]
    pub fn grouped_connections(&self) -> usize {
        self.sender.core.group.members().len()
    }

    /// Returns whether both belong to one group.
    #[must_use]
    pub fn is_grouped_with(&self, other: &Connection) -> bool {
        Arc::ptr_eq(&self.sender.core.group, &other.sender.core.group)
    }

    /// Returns the local and the remote address, as far as they are known.
    #[must_use]
    pub fn endpoints(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let state = self.sender.core.lock();
        (state.about.local, state.about.peer)
    }

    /// Returns the name of the selected transport, for people; empty before establishment.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        self.sender.core.lock().about.transport
    }

    /// Returns the negotiated application protocol (RFC 7301).
    #[must_use]
    pub fn application_protocol(&self) -> Option<Vec<u8>> {
        self.sender.core.lock().about.protocol.clone()
    }
}

impl Sender {
    /// As [`Connection::close`].
    pub fn close(&self) {
        self.core.end(Ending::Close);
    }

    /// As [`Connection::abort`].
    pub fn abort(&self) {
        self.core.end(Ending::Abort);
    }
}

/// Runs a Connection's task: its establishment, and then the Connection to its end.
async fn establish(
    core: Arc<Core>,
    connect: impl Future<Output = Result<Box<dyn Duplex>, EstablishmentError>>,
    timeout: Option<Duration>,
    skips_outcomes: bool,
) {
    let late = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = connect => result,
        () = late => Err(EstablishmentError::Timeout),
        () = aborted(&core) => Err(EstablishmentError::Aborted),
    };
    match result {
        Ok(stream) => {
            if core.group.streams().is_none() {
                let streams = stream.streams();
                core.group.set_streams(streams.clone());
                streams.into_iter().for_each(|streams| core.group.watch(streams));
            }
            drive::begin(&core, stream, true);
            drive::drive(core).await;
        }
        Err(error) => {
            core.lock()
                .finish(ConnectionEvent::EstablishmentError(error), skips_outcomes);
            core.group.left(&core);
        }
    }
}

/// Resolves when the application aborts a Connection that is not yet established. A close waits for
/// establishment.
async fn aborted(core: &Core) {
    poll_fn(|cx| {
        let mut state = core.lock();
        let is_forgotten = state.ending.is_some() && !state.has_listener && state.queue.is_empty();
        if state.ending == Some(Ending::Abort) || is_forgotten {
            return Poll::Ready(());
        }
        state.driver = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
}
