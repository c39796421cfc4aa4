//! Connections (RFC 9622, 7 to 11).
//!
//! * [`Connection`], and its halves [`Sender`], [`Receiver`], [`Events`]
//! * [`Event`], [`Received`]: what happens, and what comes
//! * `state`: what the handles and the task share; `drive`: the task; `group`: what Connections share
//! * `effective`: the values of properties that are in force over a transport
//! * `queue`, `inbox`, `rate`: machines without I/O and clocks
//!
//! Memory of a Connection is bounded: 1 MiB of messages to be sent (or one that is longer), 1 MiB of a
//! message that is received, 1,024 outcomes of Sends.

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

use super::plan::Plan;
use super::{Ended, EstablishmentError, MessageContext, ReceiveError};
pub use event::Event;
pub(super) use group::Group;
use hawser_connect::Duplex;
pub use inbox::Received;
pub use properties::ConnectionProperties;
pub use queue::SendId;
pub use receiver::{Reader, Receiver};
pub use sender::{Sender, Writer};
pub use state::ConnectionState;
use state::{Core, Ending};

/// A Connection: messages in both directions, and what happens to it.
///
/// It is closed by [`Connection::close`] or cut by [`Connection::abort`]; when all of its handles are
/// dropped, it is closed. What was sent is then still delivered, for as long as the runtime lives.
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
    events: Events,
}

/// The half of a Connection that events are taken by. When it is dropped, nobody is notified any more.
pub struct Events {
    core: Arc<Core>,
    _hold: Arc<Hold>,
}

/// Held by every handle: when the last one goes, the Connection is closed.
struct Hold(Arc<Core>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.end(Ending::Close);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.core.lock().unhear();
    }
}

impl Events {
    /// What happens next; none after the last event was taken. A future that is dropped before it is
    /// ready has taken nothing.
    pub async fn next_event(&mut self) -> Option<Event> {
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
    fn of(core: Arc<Core>) -> Connection {
        let hold = Arc::new(Hold(Arc::clone(&core)));
        Connection {
            sender: Sender { core: Arc::clone(&core), _hold: Arc::clone(&hold) },
            receiver: Receiver { core: Arc::clone(&core), _hold: Arc::clone(&hold) },
            events: Events { core, _hold: hold },
        }
    }

    /// Begins one; `first` is sent as soon as it is there.
    pub(super) fn initiate(
        plan: &Arc<Plan>,
        timeout: Option<Duration>,
        first: Option<(Bytes, MessageContext)>,
    ) -> Connection {
        let group = Group::new(Arc::clone(plan));
        let connection = Connection::member(&group);
        let core = Arc::clone(&connection.sender.core);
        // Of a first message that never left, the failure of establishment reports enough (9.2.5).
        let skips_outcomes = first.is_some();
        if let Some((mut data, context)) = first {
            // It has just begun: it has not ended, and has room.
            let _ = core.try_send(&mut data, &context, true, false);
        }
        let plan = Arc::clone(plan);
        tokio::spawn(establish(
            core,
            async move { super::establish::connect(&plan).await },
            timeout,
            skips_outcomes,
        ));
        connection
    }

    /// A new member of a group.
    fn member(group: &Arc<Group>) -> Connection {
        let plan = &group.plan;
        let core = Core::new(Arc::clone(group), plan.action, &plan.framers, &group.properties());
        group.join(&core);
        Connection::of(core)
    }

    /// One that a peer has opened.
    pub(super) fn accepted(group: &Arc<Group>, stream: Box<dyn Duplex>) -> Connection {
        let connection = Connection::member(group);
        let core = Arc::clone(&connection.sender.core);
        drive::begin(&core, stream, false);
        tokio::spawn(drive::drive(core));
        connection
    }

    /// Waits until it is established, or is not. Takes no event.
    ///
    /// # Errors
    /// It was not established, or has ended since.
    pub async fn established(&self) -> Result<(), Ended> {
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

    /// Its halves: they may be used by different tasks.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver, Events) {
        (self.sender, self.receiver, self.events)
    }

    /// The half that messages are sent by.
    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// As [`Sender::send`].
    ///
    /// # Errors
    /// The Connection has ended.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<SendId, Ended> {
        self.sender.send(message).await
    }

    /// As [`Sender::send_with`].
    ///
    /// # Errors
    /// The Connection has ended.
    pub async fn send_with(
        &self,
        message: impl Into<Bytes>,
        context: &MessageContext,
    ) -> Result<SendId, Ended> {
        self.sender.send_with(message, context).await
    }

    /// As [`Sender::send_part`].
    ///
    /// # Errors
    /// The Connection has ended.
    pub async fn send_part(
        &self,
        data: impl Into<Bytes>,
        context: &MessageContext,
        end_of_message: bool,
    ) -> Result<SendId, Ended> {
        self.sender.send_part(data, context, end_of_message).await
    }

    /// As [`Receiver::receive`].
    ///
    /// # Errors
    /// There is nothing more to receive.
    pub async fn receive(&mut self) -> Result<Received, ReceiveError> {
        self.receiver.receive().await
    }

    /// As [`Receiver::receive_within`].
    ///
    /// # Errors
    /// There is nothing more to receive.
    pub async fn receive_within(
        &mut self,
        min_incomplete: usize,
        max: usize,
    ) -> Result<Received, ReceiveError> {
        self.receiver.receive_within(min_incomplete, max).await
    }

    /// As [`Events::next_event`].
    pub async fn next_event(&mut self) -> Option<Event> {
        self.events.next_event().await
    }

    /// Closes it when everything sent has been delivered; [`Event::Closed`] reports when.
    pub fn close(&self) {
        self.sender.close();
    }

    /// Ends it at once; what was not sent is not.
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

    /// How many Connections its group has, itself among them (GroupedConnections).
    #[must_use]
    pub fn grouped_connections(&self) -> usize {
        self.sender.core.group.members().len()
    }

    /// Whether both are of one group.
    #[must_use]
    pub fn is_grouped_with(&self, other: &Connection) -> bool {
        Arc::ptr_eq(&self.sender.core.group, &other.sender.core.group)
    }

    /// This end, and the other, where they are known.
    #[must_use]
    pub fn endpoints(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let state = self.sender.core.lock();
        (state.about.local, state.about.peer)
    }

    /// The name of the transport that was selected, for people; empty before.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        self.sender.core.lock().about.transport
    }

    /// The application protocol that was agreed on (RFC 7301).
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

/// A Connection's task: until it is established, and on to its end.
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
                .finish(Event::EstablishmentError(error), skips_outcomes);
            core.group.left(&core);
        }
    }
}

/// Resolves when the application gives up what has not come yet. Closing waits for it.
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
