//! What a Connection's handles and its task share.
//!
//! One mutex, held for the length of one call: the task writes, the receiver reads, both by polling.
//!
//! Invariants: [`Event::Ready`] is reported before anything is received; after the last event nothing is
//! reported; for each Send there is one outcome, in the order in which the transport took them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::event::Event;
use super::group::Group;
use super::inbox::Inbox;
use super::queue::{Entry, Fate, Queue, SendId};
use crate::framer::Stack;
use crate::property::{Action, Class, Preference, Property, TransportProperties};
use crate::{ConnectionError, Ended, Framer, MessageContext, SendError, log};
use hawser_connect::{About, Duplex, Features};

/// Bytes of messages that wait to be taken by the transport, before Send waits.
pub(super) const SEND_BUFFER: usize = 1 << 20;
/// Sends of which nobody has taken the outcome, before Send waits.
pub(super) const MAX_OUTCOMES: usize = 1_024;
/// Changes of paths that are kept for who asks.
const MAX_CHANGES: usize = 64;

/// Where a Connection stands (RFC 9622, 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Not there yet.
    Establishing,
    /// There.
    Established,
    /// Nothing more is sent; what was sent is being delivered.
    Closing,
    /// Gone.
    Closed,
}

impl ConnectionState {
    /// The RFC's word.
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

/// How a Connection is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// When everything is delivered.
    Close,
    /// At once.
    Abort,
}

/// A Send that is on the wire up to some byte.
pub(super) struct SendRecord {
    /// The Connection's byte after its last.
    pub(super) end: u64,
    pub(super) id: SendId,
    pub(super) context: MessageContext,
    pub(super) fate: Fate,
    pub(super) is_quiet: bool,
}

impl From<Entry> for SendRecord {
    fn from(entry: Entry) -> SendRecord {
        let Entry { id, context, fate, is_quiet, .. } = entry;
        SendRecord { end: 0, id, context, fate, is_quiet }
    }
}

/// A Connection.
pub(super) struct Core {
    pub(super) group: Arc<Group>,
    pub(super) action: Action,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) phase: ConnectionState,
    pub(super) stream: Option<Box<dyn Duplex>>,
    pub(super) features: Features,
    pub(super) about: About,
    pub(super) ending: Option<Ending>,
    /// Messages that wait, and what the transport is to take next.
    pub(super) queue: Queue,
    pub(super) wire: VecDeque<Bytes>,
    pub(super) sent: VecDeque<SendRecord>,
    /// Bytes that were put on the wire, and that the transport took.
    pub(super) encoded: u64,
    pub(super) written: u64,
    pub(super) is_flushed: bool,
    pub(super) stack: Stack,
    pub(super) is_batching: bool,
    /// A Send waits for room that a batch takes: what has gathered is not kept back.
    pub(super) is_crowded: bool,
    next_send: u64,
    /// A final message was given.
    pub(super) is_final_given: bool,
    /// The sending direction has ended.
    pub(super) is_shut: bool,
    pub(super) inbox: Inbox,
    /// The receiving direction has ended.
    pub(super) is_received: bool,
    /// What reading failed of.
    pub(super) failure: Option<ConnectionError>,
    /// Why it has ended, once it has.
    ended: Option<Ended>,
    events: VecDeque<Event>,
    /// Outcomes of Sends among them.
    outcomes: usize,
    /// Sends that succeed are events, too.
    reports_sent: bool,
    /// Somebody holds the half that events are taken by.
    pub(super) has_listener: bool,
    pub(super) priority: u64,
    /// Message properties of this Connection.
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
            // It was checked when it was chosen.
            let _ = messages.set(property, value.clone());
        }
        let state = State {
            phase: ConnectionState::Establishing,
            stream: None,
            features: Features::STREAM,
            about: About::default(),
            ending: None,
            queue: Queue::default(),
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether the application may send, and receive (RFC 9622, 6.2.16).
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
    /// The Connection has ended.
    pub(super) fn try_send(
        &self,
        data: &mut Bytes,
        context: &MessageContext,
        is_end: bool,
        is_quiet: bool,
    ) -> Result<Option<SendId>, Ended> {
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
        if fate == Fate::Send && is_end && context.is_true(Property::Final) {
            state.is_final_given = true;
        }
        let id = SendId(state.next_send);
        state.next_send += 1;
        let deadline = context
            .lifetime()
            .and_then(|lifetime| Instant::now().checked_add(lifetime));
        let data = match fate {
            Fate::Send => std::mem::take(data),
            Fate::Expired | Fate::Refused(_) => Bytes::new(),
        };
        state
            .queue
            .push(Entry { id, context, data, is_end, deadline, fate, is_quiet });
        state.wake_driver();
        Ok(Some(id))
    }

    /// What is to become of a message that is given now.
    fn fate(&self, state: &State, context: &MessageContext) -> Fate {
        let properties = self.group.properties();
        let refused = |why: &str| Fate::Refused(SendError::Properties(why.to_owned()));
        if !self.directions().0 {
            return Fate::Refused(SendError::ReceivesOnly);
        }
        // What was begun before the final message is finished before it.
        if state.is_final_given && !state.queue.is_open(context.id()) {
            return Fate::Refused(SendError::AfterFinal);
        }
        if state.phase == ConnectionState::Closing || state.ending.is_some() {
            return Fate::Refused(SendError::Closing);
        }
        let reliability = properties.preference(Property::Reliability, self.action);
        let per_message = properties.preference(Property::PerMsgReliability, self.action);
        let is_reliable = reliability >= Preference::Prefer;
        let differs = match is_reliable {
            true => context.is_false(Property::MsgReliable),
            false => context.is_true(Property::MsgReliable) && !state.features.reliability,
        };
        if differs && per_message < Preference::Prefer {
            return refused("msgReliable differs from reliability, and perMsgReliability was not asked for");
        }
        Fate::Send
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

impl State {
    pub(super) fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Wakes who waits for room.
    pub(super) fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|other| other.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    fn has_room(&self, length: usize, context: &MessageContext, is_quiet: bool) -> bool {
        // A message that nothing can follow until it ends is not held up by those behind it.
        if self.queue.wants(context.id()) {
            return true;
        }
        let outcomes = self.outcomes + self.queue.len() + self.sent.len();
        let is_reported = self.has_listener && self.reports_sent && !is_quiet;
        let has_bytes = self.queue.bytes() == 0 || self.queue.bytes() + length <= SEND_BUFFER;
        has_bytes && (outcomes < MAX_OUTCOMES || !is_reported && self.queue.len() < MAX_OUTCOMES)
    }

    /// Logs an event, and queues it for the application if it takes events; nothing after the last one.
    pub(super) fn notify(&mut self, event: Event) {
        if self.phase == ConnectionState::Closed {
            return;
        }
        log::event(&self.about, &event);
        if !self.has_listener {
            return;
        }
        if matches!(event, Event::PathChange(_)) && self.events.len() >= MAX_CHANGES + MAX_OUTCOMES {
            return;
        }
        // Whoever did not ask for outcomes may never take any.
        let is_left_out = matches!(event, Event::Sent { .. }) || self.outcomes >= MAX_OUTCOMES;
        if event.is_outcome() && is_left_out && !self.reports_sent {
            return;
        }
        self.outcomes += usize::from(event.is_outcome());
        self.events.push_back(event);
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }

    /// The next event, for whoever takes it.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if event.is_outcome() {
            self.outcomes -= 1;
            self.wake_waiting();
        }
        Some(event)
    }

    /// Nobody listens any more.
    pub(super) fn unhear(&mut self) {
        self.has_listener = false;
        self.events.clear();
        self.outcomes = 0;
        self.wake_waiting();
    }

    /// Reports what became of a Send.
    pub(super) fn reported(&mut self, record: SendRecord) {
        let SendRecord { id: send, mut context, fate, is_quiet, .. } = record;
        (context.local, context.remote) = (self.about.local, self.about.peer);
        match fate {
            _ if is_quiet => {}
            Fate::Send => self.notify(Event::Sent { send, context }),
            Fate::Expired => self.notify(Event::Expired { send, context }),
            Fate::Refused(why) => self.notify(Event::SendError { send, context, why }),
        }
    }

    /// The end: every Send that has no outcome gets one unless `skips_outcomes`, then the last event.
    pub(super) fn finish(&mut self, last: Event, skips_outcomes: bool) {
        let ended = match &last {
            Event::ConnectionError(error) => Ended::Connection(error.clone()),
            Event::EstablishmentError(error) => Ended::Establishment(error.clone()),
            _ => Ended::Closed,
        };
        let queued = std::mem::take(&mut self.queue)
            .into_entries()
            .into_iter()
            .map(SendRecord::from);
        let all: Vec<SendRecord> = std::mem::take(&mut self.sent).into_iter().chain(queued).collect();
        for mut record in all.into_iter().filter(|_| !skips_outcomes) {
            if record.fate == Fate::Send {
                record.fate = Fate::Refused(SendError::Ended(ended.clone()));
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

    /// Why it has ended; only the last event ends it.
    pub(super) fn ended(&self) -> Ended {
        self.ended.clone().unwrap_or(Ended::Closed)
    }

    /// Sends that were given so far.
    pub(super) fn given(&self) -> SendId {
        SendId(self.next_send)
    }

    /// Whether the transport has taken all that was given before.
    pub(super) fn is_sent(&self, before: SendId) -> bool {
        self.sent.iter().all(|record| record.id >= before)
            && self.queue.first_id().is_none_or(|id| id >= before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preconnection, SecurityParameters};

    #[tokio::test]
    async fn after_the_end_no_event_comes_and_no_message_is_taken() {
        let wanted = Preconnection::new(SecurityParameters::disabled());
        let there: std::net::SocketAddr = "127.0.0.1:9".parse().expect("an address");
        let mut connection = wanted.with_remote(there).initiate().expect("a connection");
        let core = Arc::clone(&connection.sender().core);
        core.lock().finish(Event::Closed, false);
        core.lock().notify(Event::Ready);
        assert_eq!(connection.next_event().await, Some(Event::Closed));
        assert_eq!(connection.next_event().await, None);
        let sent = core.try_send(
            &mut Bytes::from_static(b"late"),
            &MessageContext::new(),
            true,
            false,
        );
        assert_eq!(sent, Err(Ended::Closed));
    }
}
