//! A provider's end of the bus: events pass the filters here, and variables are read and set here.
//!
//! It lives in the provider's own thread and calls into no other thread. An event without subscribers costs
//! its provider the test of a bit of [`Source::wanted`]. Orders wait until the provider polls.

mod attach;
mod deliver;
mod orders;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use hawser_time::Instant;
use parking_lot::Mutex;

use crate::attach::{Attachable, Step, Stepping};
use crate::audit::{Audit, AuditAction, AuditEntry, RequestOrigin};
use crate::bus::{Bus, Registered, WallClock};
use crate::error::Refusal;
use crate::filter::{Filter, FilterState};
use crate::flow::{FlowId, FlowInfo, SourceFlow, SourceId};
use crate::lease::LeaseTable;
use crate::map::Map;
use crate::modifications::{Hands, Modification};
use crate::notice::Notice;
use crate::order::{Admitted, Compiled, SourceOrder, SubscriberId};
use crate::ring::Waker;
use crate::schema::{EventId, Schema, SchemaError, VariableId};
use crate::scope::Scope;
use crate::signal::SignalBuf;
use crate::subscription::Statistics;

/// A provider's state, as a source reads and sets it.
pub trait ProviderState {
    /// Reads a variable of a flow; `None` if the flow is gone or has no such variable.
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64>;
    /// Sets a variable; returns false when the flow is gone or has no such variable.
    fn write(&mut self, flow: FlowId, variable: VariableId, value: u64) -> bool;
    /// Sets a variable for the length of a lease, which ends with [`ProviderState::restore`]. A provider
    /// whose flows live elsewhere keeps the lease there, so that it ends even if this process dies.
    ///
    /// # Errors
    /// [`Refusal::Unable`], with the reason.
    fn hold(
        &mut self,
        flow: FlowId,
        variable: VariableId,
        value: u64,
        lease: Duration,
    ) -> Result<(), Refusal> {
        let _ = lease;
        self.write(flow, variable, value);
        Ok(())
    }
    /// Ends a lease: `own` is the value that the provider itself wrote last.
    fn restore(&mut self, flow: FlowId, variable: VariableId, own: u64) {
        self.write(flow, variable, own);
    }
    /// Describes a flow.
    fn info(&self, flow: FlowId) -> Option<FlowInfo>;
    /// Returns all present flows.
    fn flows(&self) -> Vec<FlowId>;
}

/// The part that is common to all subscriptions to an event of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedSubscription {
    /// The only flow that is wanted; `None`: several, or the subscriptions differ.
    pub flow: Option<FlowId>,
    /// The common filter, of the flow or of all flows. The provider may apply it, and publishes the events
    /// that pass by [`Source::publish_filtered`]. `None`: the subscriptions differ, and each event is to be
    /// published.
    pub filter: Option<Filter>,
}

/// The maximum number of pairs of flow and event for which one subscription keeps state at a source.
const MAX_GATES: usize = 65_536;
/// The interval between two searches for flows that are gone.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The delay with which the source's own log is merged into the bus's.
const AUDIT_EVERY: Duration = Duration::from_millis(100);
/// The number of entries of the source's own log.
const AUDIT_ENTRIES: usize = 256;

/// A subscription at a source.
#[derive(Debug)]
struct Listener {
    compiled: Compiled,
    /// True if every event passes at once, so that no state is kept.
    open: bool,
    gates: Map<(FlowId, EventId), FlowFilterState>,
    /// The earliest time of the next search for gates of flows that are gone.
    sweep_due: Instant,
    statistics: Statistics,
    /// The number of signals lost since the last that was delivered.
    lost: u32,
    /// True if signals were queued since its subscriber was last woken.
    untold: bool,
}

/// The state of the filters for one event of one flow.
#[derive(Debug)]
struct FlowFilterState {
    in_scope: bool,
    gate: FilterState,
    /// The last event of the running interval.
    held: Option<Box<SignalBuf>>,
}

/// A provider's end of the bus.
pub struct Source {
    id: SourceId,
    bus: Bus,
    schema: Arc<Schema>,
    attachable: Option<Arc<dyn Attachable>>,
    orders: Receiver<SourceOrder>,
    /// The number of queued orders.
    called: Arc<AtomicUsize>,
    /// A bit for each event that has subscribers.
    wanted: u64,
    listeners: Vec<Listener>,
    /// The indices of listeners, highest priority first, by event.
    by_event: Vec<Vec<u32>>,
    admitted: Vec<Admitted>,
    /// True if modifications of any admitted subscriber come through a ring.
    steered: bool,
    holds: LeaseTable,
    /// The ends of intervals, with subscription, flow and event.
    ends: BinaryHeap<Reverse<(Instant, u32, FlowId, EventId)>>,
    audit: Audit,
    audit_due: Instant,
    shared_audit: Arc<Mutex<Audit>>,
    wall: Option<WallClock>,
    buf: SignalBuf,
    hands: Hands,
    /// True if subscribers are woken only at the end of the batch.
    batching: bool,
    /// The number of signals queued since subscribers were last woken.
    untold: usize,
    /// Modifications that T-wares in the loop request; they take effect when all T-wares have received the
    /// event.
    acting: Vec<(SubscriberId, Modification)>,
    /// Subscribers whose T-wares in the loop have panicked since the last [`Source::act`], with the messages
    /// of the panics.
    fallen: Vec<(SubscriberId, String)>,
    /// Changes to attachments, and their steps.
    steps: VecDeque<(Stepping, Step)>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("id", &self.id)
            .field("provider", &self.schema.provider())
            .field("listeners", &self.listeners.len())
            .field("holds", &self.holds.len())
            .finish_non_exhaustive()
    }
}

impl Bus {
    /// Makes a provider's end; each running instance has one. `waker` is called when orders are queued for it
    /// and must make its thread poll it.
    #[must_use]
    pub fn source(&self, schema: Arc<Schema>, waker: Option<Waker>) -> Source {
        Source::new(self.clone(), schema, waker, None)
    }

    /// Makes the end of a provider that takes attachments: it calls [`Source::next_step`] after each poll.
    #[must_use]
    pub fn attachable_source(
        &self,
        schema: Arc<Schema>,
        waker: Option<Waker>,
        attachable: Arc<dyn Attachable>,
    ) -> Source {
        Source::new(self.clone(), schema, waker, Some(attachable))
    }
}

impl Source {
    fn new(
        bus: Bus,
        schema: Arc<Schema>,
        waker: Option<Waker>,
        attachable: Option<Arc<dyn Attachable>>,
    ) -> Source {
        let Registered { id, orders, called, audit: shared_audit, wall } =
            bus.register(&schema, waker, attachable.clone());
        Source {
            by_event: vec![Vec::new(); schema.events().len()],
            id,
            bus,
            schema,
            attachable,
            orders,
            called,
            wanted: 0,
            listeners: Vec::new(),
            admitted: Vec::new(),
            steered: false,
            holds: LeaseTable::default(),
            ends: BinaryHeap::new(),
            audit: Audit::new(AUDIT_ENTRIES),
            audit_due: Instant::ORIGIN,
            shared_audit,
            wall,
            buf: SignalBuf::default(),
            hands: Hands::default(),
            batching: false,
            untold: 0,
            acting: Vec::new(),
            fallen: Vec::new(),
            steps: VecDeque::new(),
        }
    }

    #[must_use]
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// Returns the schema that the source offers.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Replaces the events that the source offers; the variables stay. Events whose names stay keep their
    /// numbers, as [`Source::schema`] then shows. Subscribers by pattern also receive the new events that
    /// match.
    ///
    /// # Errors
    /// When there are more events than a provider may have; the schema is then unchanged.
    pub fn offer(&mut self, next: &Schema) -> Result<(), SchemaError> {
        let schema = Arc::new(self.schema.followed_by(next)?);
        if *schema != *self.schema {
            self.schema = schema.clone();
            self.bus.offer(self.id, &schema);
        }
        Ok(())
    }

    /// Returns the events that have subscribers, event `n` in bit `n`. Only [`Source::poll`] changes it.
    #[must_use]
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Returns the part that is common to all subscriptions to an event. A provider that can filter at the
    /// origin of events filters by it.
    #[must_use]
    pub fn common(&self, event: EventId) -> SharedSubscription {
        let places = self
            .by_event
            .get(usize::from(event.0))
            .map_or(&[][..], Vec::as_slice);
        let all = || places.iter().map(|at| &self.listeners[*at as usize].compiled);
        let Some(first) = all().next() else {
            return SharedSubscription::default();
        };
        let flow = match first.scope {
            Scope::All => None,
            Scope::One(target) => Some(target.flow),
            Scope::Rule(_) => return SharedSubscription::default(),
        };
        if all().any(|other| other.scope != first.scope) {
            return SharedSubscription::default();
        }
        let filter = all()
            .all(|other| other.filter == first.filter)
            .then_some(first.filter);
        SharedSubscription { flow, filter }
    }

    /// Returns whether an event has subscribers.
    #[must_use]
    #[inline]
    pub fn wants(&self, event: EventId) -> bool {
        self.wanted >> (event.0 & 63) & 1 != 0
    }

    /// Returns whether orders wait for [`Source::poll`].
    #[must_use]
    #[inline]
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) > 0
    }

    /// Returns the time at which [`Source::poll`] next has work, if no order comes before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let interval = self.ends.peek().map(|Reverse((until, ..))| *until);
        let audit = (!self.audit.is_empty()).then_some(self.audit_due);
        [interval, self.holds.next(), audit].into_iter().flatten().min()
    }

    /// Returns the holds, for the provider to read.
    #[must_use]
    pub fn holds(&self) -> &LeaseTable {
        &self.holds
    }

    /// Handles everything that is due: ends of leases, orders, modifications from elsewhere, ends of
    /// intervals. Returns true when it did something.
    pub fn poll<S: ProviderState>(&mut self, now: Instant, state: &mut S) -> bool {
        let mut any = false;
        // Leases end before orders are taken: a holder that leaves when its lease is over has not given it
        // back early.
        if self.holds.next().is_some_and(|until| until <= now) {
            self.expire(now, state);
            any = true;
        }
        if self.is_called() {
            while let Ok(order) = self.orders.try_recv() {
                self.called.fetch_sub(1, Ordering::Acquire);
                self.obey(now, order, state);
                any = true;
            }
            // The caller of an order from outside may read the log next, so the log is shared at once.
            self.audit_due = now;
        }
        if self.steered {
            any |= self.steer(now, state);
        }
        if self.ends.peek().is_some_and(|Reverse((until, ..))| *until <= now) {
            self.close_intervals(now, state);
            any = true;
        }
        if !self.audit.is_empty() && self.audit_due <= now {
            self.share_audit(now);
        }
        self.wake();
        any
    }

    /// Leaves sleeping subscribers asleep until [`Source::end_batch`], so that a turn of the provider wakes
    /// each of them once and is not delayed by them. A subscriber whose queue fills is woken earlier.
    pub fn begin_batch(&mut self) {
        self.batching = true;
    }

    /// Wakes the subscribers that have signals since [`Source::begin_batch`].
    pub fn end_batch(&mut self) {
        self.batching = false;
        self.wake();
    }

    /// Restores the holders' values of a flow's held variables after an event of the flow.
    #[inline]
    pub fn settle<S: ProviderState>(&mut self, flow: FlowId, state: &mut S) {
        if !self.holds.is_empty() {
            settle(self.holds.for_flow(flow), flow, state);
        }
    }

    /// Handles the end of a flow: its kept events are delivered now, and its variables are no longer held.
    pub fn ended<S: ProviderState>(&mut self, now: Instant, flow: FlowId, state: &mut S) {
        for at in 0..self.listeners.len() {
            for k in 0..self.listeners[at].compiled.events.len() {
                let event = self.listeners[at].compiled.events[k];
                let Some(kept) = self.listeners[at].gates.remove(&(flow, event)) else {
                    continue;
                };
                self.end_interval(now, at, kept, state);
            }
        }
        let mut ended = Vec::new();
        self.holds.end_of(flow, |_| true, |_, hold| ended.push(hold));
        for hold in ended {
            self.notify(
                hold.subscriber,
                flow,
                hold.variable,
                "the flow has ended".to_owned(),
            );
        }
        self.wake();
    }

    /// Ends the holds of a flow for which a modification did not take effect, as a provider whose flows live
    /// elsewhere found. The log has the reason.
    pub fn failed(&mut self, now: Instant, flow: FlowId, why: &str) {
        let mut ended = Vec::new();
        self.holds.end_of(flow, |_| true, |_, hold| ended.push(hold));
        for hold in ended {
            self.notify(hold.subscriber, flow, hold.variable, why.to_owned());
            self.note(
                now,
                hold.subscriber,
                flow,
                hold.variable,
                hold.own,
                AuditAction::Refused(why.to_owned()),
            );
        }
    }

    /// Records that an event is not available, as the provider found when it was subscribed to. The log has,
    /// for each subscriber of the event, the reason why it receives none.
    pub fn unable(&mut self, now: Instant, event: EventId, why: &str) {
        let name = self
            .schema
            .event_type(event)
            .map_or("?", |event| event.name.as_str())
            .to_owned();
        let places = self
            .by_event
            .get(usize::from(event.0))
            .map_or(&[][..], Vec::as_slice);
        let subscribers: Vec<_> = places
            .iter()
            .map(|at| self.listeners[*at as usize].compiled.subscriber)
            .collect();
        for subscriber in subscribers {
            let who = self.who(subscriber);
            self.enter(
                now,
                &who,
                FlowId::ALL,
                name.clone(),
                0,
                AuditAction::Refused(why.to_owned()),
            );
        }
    }

    /// Returns a subscriber's name and origin for the log.
    fn who(&self, subscriber: SubscriberId) -> (Arc<str>, RequestOrigin) {
        let admitted = self.admitted.iter().find(|admitted| admitted.id == subscriber);
        admitted.map_or_else(
            || ("?".into(), RequestOrigin::default()),
            |admitted| (admitted.name.clone(), admitted.origin),
        )
    }

    /// Notifies a subscriber that a lease of its own has ended before its time.
    fn notify(&self, subscriber: SubscriberId, flow: FlowId, variable: VariableId, why: String) {
        if let Some(admitted) = self.admitted.iter().find(|admitted| admitted.id == subscriber) {
            admitted
                .notices
                .send(Notice { target: self.target(flow), variable, why });
        }
    }

    fn target(&self, flow: FlowId) -> SourceFlow {
        SourceFlow { source: self.id, flow }
    }

    /// Gives variables whose leases are over back to the provider.
    fn expire<S: ProviderState>(&mut self, now: Instant, state: &mut S) {
        let mut ended = Vec::new();
        self.holds
            .end(|_, hold| hold.until <= now, |flow, hold| ended.push((flow, hold)));
        for (flow, hold) in ended {
            state.restore(flow, hold.variable, last_word(state, flow, &hold));
            self.note(
                now,
                hold.subscriber,
                flow,
                hold.variable,
                hold.value,
                AuditAction::Expired,
            );
        }
    }

    /// Adds an entry to the log.
    fn note(
        &mut self,
        now: Instant,
        subscriber: SubscriberId,
        flow: FlowId,
        variable: VariableId,
        before: u64,
        act: AuditAction,
    ) {
        let who = self.who(subscriber);
        let name = self
            .schema
            .variable_type(variable)
            .map_or("?", |v| v.name.as_str())
            .to_owned();
        self.enter(now, &who, flow, name, before, act);
    }

    /// Adds an entry to the log, by names.
    fn enter(
        &mut self,
        now: Instant,
        who: &(Arc<str>, RequestOrigin),
        flow: FlowId,
        variable: String,
        before: u64,
        act: AuditAction,
    ) {
        if self.audit.is_empty() {
            self.audit_due = now + AUDIT_EVERY;
        }
        let entry = self.entry(now, who, flow, variable, before, act);
        self.audit.add(entry);
    }

    /// Makes an entry for an operation at `now`.
    fn entry(
        &self,
        now: Instant,
        (who, origin): &(Arc<str>, RequestOrigin),
        flow: FlowId,
        variable: String,
        before: u64,
        act: AuditAction,
    ) -> AuditEntry {
        AuditEntry {
            first: now,
            last: now,
            count: 1,
            wall: self.wall.map(|clock| clock()).map(|wall| (wall, wall)),
            who: who.to_string(),
            origin: *origin,
            target: self.target(flow),
            variable,
            before,
            act,
        }
    }

    /// Moves the log to the bus's, unless another thread holds the lock at the moment.
    fn share_audit(&mut self, now: Instant) {
        let Some(mut shared) = self.shared_audit.try_lock() else {
            self.audit_due = now + AUDIT_EVERY;
            return;
        };
        self.audit.drain_into(&mut shared);
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // A batch may still be open if its provider has panicked.
        self.wake_now();
        self.audit.drain_into(&mut self.shared_audit.lock());
    }
}

/// Returns the value that the provider itself wrote last: it may have done so since the flow was settled.
fn last_word<S: ProviderState>(state: &S, flow: FlowId, hold: &crate::lease::Lease) -> u64 {
    state
        .read(flow, hold.variable)
        .filter(|value| *value != hold.value)
        .unwrap_or(hold.own)
}

/// Writes the held values of a flow again, where the provider has written something else.
fn settle<S: ProviderState>(holds: &mut [crate::lease::Lease], flow: FlowId, state: &mut S) {
    for hold in holds {
        let Some(value) = state.read(flow, hold.variable) else {
            continue;
        };
        if value != hold.value {
            hold.own = value;
            state.write(flow, hold.variable, hold.value);
        }
    }
}
