//! The state that a Connection's handles and its task share.
//!
//! One mutex protects it and is held for the length of one call: the task writes, the receiver reads, both by
//! polling.
//!
//! Invariants: [`ConnectionEvent::Ready`] is reported before a message is received. No event follows the last
//! one. Each Send has one outcome, in the order in which the transport took them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::event::ConnectionEvent;
use super::group::Group;
use super::inbox::Inbox;
use super::queue::{QueuedSend, SendId, SendOutcome, SendQueue};
use crate::taps::framer::Stack;
use crate::taps::property::{Action, Class, Preference, Property, TransportProperties};
use crate::taps::{ConnectionEnded, ConnectionError, Framer, MessageContext, SendError, log};
use crate::{About, Duplex, Features};

/// The number of message bytes that may wait for the transport before Send waits.
pub(super) const SEND_BUFFER: usize = 1 << 20;
/// The number of outcomes of Sends that may wait to be taken before Send waits.
pub(super) const MAX_OUTCOMES: usize = 1_024;
/// The maximum number of queued path changes.
const MAX_CHANGES: usize = 64;

/// The state of a Connection (RFC 9622, 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The Connection is being established.
    Establishing,
    /// The Connection is established.
    Established,
    /// No more data is accepted; sent data is being delivered.
    Closing,
    /// The Connection has ended.
    Closed,
}

impl ConnectionState {
    /// Returns the RFC's word for the state.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ConnectionState::Establishing => "Establishing",
            ConnectionState::Established => "Established",
            ConnectionState::Closing => "Closing",
            ConnectionState::Closed => "Closed",
        }
    }
}

/// The way in which a Connection is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// After all data is delivered.
    Close,
    /// At once.
    Abort,
}

/// A Send whose bytes up to some position are on the wire.
pub(super) struct SendRecord {
    /// The position after its last byte, counted over the Connection.
    pub(super) end: u64,
    pub(super) id: SendId,
    pub(super) context: MessageContext,
    pub(super) fate: SendOutcome,
    pub(super) is_quiet: bool,
}

impl From<QueuedSend> for SendRecord {
    fn from(entry: QueuedSend) -> SendRecord {
        let QueuedSend { id, context, fate, is_quiet, .. } = entry;
        SendRecord { end: 0, id, context, fate, is_quiet }
    }
}

/// The shared part of a Connection.
pub(super) struct Core {
    pub(super) group: Arc<Group>,
    pub(super) action: Action,
    state: Mutex<SharedState>,
}

pub(super) struct SharedState {
    pub(super) phase: ConnectionState,
    pub(super) stream: Option<Box<dyn Duplex>>,
    pub(super) features: Features,
    pub(super) about: About,
    pub(super) ending: Option<Ending>,
    /// Queued messages, and the data that the transport takes next.
    pub(super) queue: SendQueue,
    pub(super) wire: VecDeque<Bytes>,
    pub(super) sent: VecDeque<SendRecord>,
    /// The number of bytes framed, and the number that the transport took.
    pub(super) encoded: u64,
    pub(super) written: u64,
    pub(super) is_flushed: bool,
    pub(super) stack: Stack,
    pub(super) is_batching: bool,
    /// True if a Send waits for room that a batch occupies: the batch is then sent early.
    pub(super) is_crowded: bool,
    next_send: u64,
    /// True if a final message was given.
    pub(super) is_final_given: bool,
    /// True if the sending direction has ended.
    pub(super) is_shut: bool,
    pub(super) inbox: Inbox,
    /// True if the receiving direction has ended.
    pub(super) is_received: bool,
    /// The error with which reading failed.
    pub(super) failure: Option<ConnectionError>,
    /// The reason for the end, once it has ended.
    ended: Option<ConnectionEnded>,
    events: VecDeque<ConnectionEvent>,
    /// The number of outcomes of Sends among the events.
    outcomes: usize,
    /// True if successful Sends are reported, too.
    reports_sent: bool,
    /// True if the half that takes events still exists.
    pub(super) has_listener: bool,
    pub(super) priority: u64,
    /// The message properties of this Connection.
    pub(super) messages: TransportProperties,
    pub(super) driver: Option<Waker>,
    pub(super) reader: Option<Waker>,
    pub(super) listener: Option<Waker>,
    pub(super) waiting: Vec<Waker>,
}

impl Core {
    pub(super) fn new(
        group: Arc<Group>,
        action: Action,
        framers: &[Arc<dyn Framer>],
        properties: &TransportProperties,
    ) -> Arc<Core> {
        let mut messages = TransportProperties::new();
        for (property, value) in properties.of_class(Class::Message) {
            // The value was checked when it was chosen.
            let _ = messages.set(property, value.clone());
        }
        let state = SharedState {
            phase: ConnectionState::Establishing,
            stream: None,
            features: Features::STREAM,
            about: About::default(),
            ending: None,
            queue: SendQueue::default(),
            wire: VecDeque::new(),
            sent: VecDeque::new(),
            encoded: 0,
            written: 0,
            is_flushed: true,
            stack: Stack::new(framers),
            is_batching: false,
            is_crowded: false,
            next_send: 0,
            is_final_given: false,
            is_shut: false,
            inbox: Inbox::default(),
            is_received: false,
            failure: None,
            ended: None,
            events: VecDeque::new(),
            outcomes: 0,
            reports_sent: group.plan.reports_sent,
            has_listener: true,
            priority: properties.number(Property::ConnPriority).unwrap_or(100),
            messages,
            driver: None,
            reader: None,
            listener: None,
            waiting: Vec::new(),
        };
        Arc::new(Core { group, action, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock()
    }

    /// Returns whether the application may send, and whether it may receive (RFC 9622, 6.2.16).
    pub(super) fn directions(&self) -> (bool, bool) {
        match self.group.properties().word(Property::Direction, self.action) {
            "Unidirectional send" => (true, false),
            "Unidirectional receive" => (false, true),
            _ => (true, true),
        }
    }

    /// Takes a Send if there is room.
    ///
    /// # Errors
    /// When the Connection has ended.
    pub(super) fn try_send(
        &self,
        data: &mut Bytes,
        context: &MessageContext,
        is_end: bool,
        is_quiet: bool,
    ) -> Result<Option<SendId>, ConnectionEnded> {
        let mut state = self.lock();
        if state.phase == ConnectionState::Closed {
            return Err(state.ended());
        }
        if !state.has_room(data.len(), context, is_quiet) {
            if state.is_batching && !state.is_crowded && !state.queue.is_empty() {
                state.is_crowded = true;
                state.wake_driver();
            }
            return Ok(None);
        }
        let mut context = context.clone();
        context.inherit(state.messages.of_class(Class::Message));
        let fate = self.fate(&state, &context);
        if fate == SendOutcome::Send && is_end && context.is_true(Property::Final) {
            state.is_final_given = true;
        }
        let id = SendId(state.next_send);
        state.next_send += 1;
        let deadline = context
            .lifetime()
            .and_then(|lifetime| Instant::now().checked_add(lifetime));
        let data = match fate {
            SendOutcome::Send => std::mem::take(data),
            SendOutcome::Expired | SendOutcome::Refused(_) => Bytes::new(),
        };
        state
            .queue
            .push(QueuedSend { id, context, data, is_end, deadline, fate, is_quiet });
        state.wake_driver();
        Ok(Some(id))
    }

    /// Returns the intended outcome of a message that is given now.
    fn fate(&self, state: &SharedState, context: &MessageContext) -> SendOutcome {
        let properties = self.group.properties();
        let refused = |why: &str| SendOutcome::Refused(SendError::Properties(why.to_owned()));
        if !self.directions().0 {
            return SendOutcome::Refused(SendError::ReceivesOnly);
        }
        // A message begun before the final message is finished before it.
        if state.is_final_given && !state.queue.is_open(context.id()) {
            return SendOutcome::Refused(SendError::AfterFinal);
        }
        if state.phase == ConnectionState::Closing || state.ending.is_some() {
            return SendOutcome::Refused(SendError::Closing);
        }
        let reliability = properties.preference(Property::Reliability, self.action);
        let per_message = properties.preference(Property::PerMsgReliability, self.action);
        let is_reliable = reliability >= Preference::Prefer;
        let differs = match is_reliable {
            true => context.is_false(Property::MsgReliable),
            false => context.is_true(Property::MsgReliable) && !state.features.reliability,
        };
        if differs && per_message < Preference::Prefer {
            return refused("msgReliable differs from reliability, but perMsgReliability was not requested");
        }
        SendOutcome::Send
    }

    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        if state.phase == ConnectionState::Closed || state.ending == Some(Ending::Abort) {
            return;
        }
        state.ending = Some(ending);
        if state.phase == ConnectionState::Established {
            state.phase = ConnectionState::Closing;
        }
        state.is_batching = false;
        state.wake_driver();
    }
}

impl SharedState {
    pub(super) fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Wakes the Sends that wait for room.
    pub(super) fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|other| other.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    fn has_room(&self, length: usize, context: &MessageContext, is_quiet: bool) -> bool {
        // A message that must end before any other can be sent is not delayed by messages behind it.
        if self.queue.wants(context.id()) {
            return true;
        }
        let outcomes = self.outcomes + self.queue.len() + self.sent.len();
        let is_reported = self.has_listener && self.reports_sent && !is_quiet;
        let has_bytes = self.queue.bytes() == 0 || self.queue.bytes() + length <= SEND_BUFFER;
        has_bytes && (outcomes < MAX_OUTCOMES || !is_reported && self.queue.len() < MAX_OUTCOMES)
    }

    /// Logs an event, and queues it if the application takes events. No event is queued after the last one.
    pub(super) fn notify(&mut self, event: ConnectionEvent) {
        if self.phase == ConnectionState::Closed {
            return;
        }
        log::event(&self.about, &event);
        if !self.has_listener {
            return;
        }
        if matches!(event, ConnectionEvent::PathChange(_)) && self.events.len() >= MAX_CHANGES + MAX_OUTCOMES
        {
            return;
        }
        // An application that did not ask for outcomes may never take any.
        let is_left_out = matches!(event, ConnectionEvent::Sent { .. }) || self.outcomes >= MAX_OUTCOMES;
        if event.is_outcome() && is_left_out && !self.reports_sent {
            return;
        }
        self.outcomes += usize::from(event.is_outcome());
        self.events.push_back(event);
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }

    /// Takes the next event.
    pub(super) fn next_event(&mut self) -> Option<ConnectionEvent> {
        let event = self.events.pop_front()?;
        if event.is_outcome() {
            self.outcomes -= 1;
            self.wake_waiting();
        }
        Some(event)
    }

    /// Handles the drop of the half that takes events.
    pub(super) fn unhear(&mut self) {
        self.has_listener = false;
        self.events.clear();
        self.outcomes = 0;
        self.wake_waiting();
    }

    /// Reports the outcome of a Send.
    pub(super) fn reported(&mut self, record: SendRecord) {
        let SendRecord { id: send, mut context, fate, is_quiet, .. } = record;
        (context.local, context.remote) = (self.about.local, self.about.peer);
        match fate {
            _ if is_quiet => {}
            SendOutcome::Send => self.notify(ConnectionEvent::Sent { send, context }),
            SendOutcome::Expired => self.notify(ConnectionEvent::Expired { send, context }),
            SendOutcome::Refused(why) => self.notify(ConnectionEvent::SendError { send, context, why }),
        }
    }

    /// Ends the Connection: every Send without an outcome gets one unless `skips_outcomes`, then the last
    /// event follows.
    pub(super) fn finish(&mut self, last: ConnectionEvent, skips_outcomes: bool) {
        let ended = match &last {
            ConnectionEvent::ConnectionError(error) => ConnectionEnded::Connection(error.clone()),
            ConnectionEvent::EstablishmentError(error) => ConnectionEnded::Establishment(error.clone()),
            _ => ConnectionEnded::Closed,
        };
        let queued = std::mem::take(&mut self.queue)
            .into_entries()
            .into_iter()
            .map(SendRecord::from);
        let all: Vec<SendRecord> = std::mem::take(&mut self.sent).into_iter().chain(queued).collect();
        for mut record in all.into_iter().filter(|_| !skips_outcomes) {
            if record.fate == SendOutcome::Send {
                record.fate = SendOutcome::Refused(SendError::Ended(ended.clone()));
            }
            self.reported(record);
        }
        self.ended = Some(ended);
        self.wire.clear();
        self.notify(last);
        self.phase = ConnectionState::Closed;
        self.wake_waiting();
        for waker in [self.reader.take(), self.listener.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    /// Returns the reason for the end; only the last event ends it.
    pub(super) fn ended(&self) -> ConnectionEnded {
        self.ended.clone().unwrap_or(ConnectionEnded::Closed)
    }

    /// Returns the number of Sends given so far.
    pub(super) fn given(&self) -> SendId {
        SendId(self.next_send)
    }

    /// Returns whether the transport has taken all Sends before this one.
    pub(super) fn is_sent(&self, before: SendId) -> bool {
        self.sent.iter().all(|record| record.id >= before)
            && self.queue.first_id().is_none_or(|id| id >= before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taps::{Preconnection, SecurityParameters};

    #[tokio::test]
    async fn after_the_end_no_event_comes_and_no_message_is_taken() {
        let wanted = Preconnection::new(SecurityParameters::disabled());
        let there: std::net::SocketAddr = "127.0.0.1:9".parse().expect("an address");
        let mut connection = wanted.with_remote(there).initiate().expect("a connection");
        let core = Arc::clone(&connection.sender().core);
        core.lock().finish(ConnectionEvent::Closed, false);
        core.lock().notify(ConnectionEvent::Ready);
        assert_eq!(connection.next_event().await, Some(ConnectionEvent::Closed));
        assert_eq!(connection.next_event().await, None);
        let sent = core.try_send(
            &mut Bytes::from_static(b"late"),
            &MessageContext::new(),
            true,
            false,
        );
        assert_eq!(sent, Err(ConnectionEnded::Closed));
    }
}
