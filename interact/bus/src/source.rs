//! A provider's end of the bus: where events pass the filters and variables are read and set.
//!
//! It lives in the provider's own thread and calls nobody else's. An event that nobody asked for
//! costs its provider the test of a bit of [`Source::wanted`]. Orders wait until the provider polls.

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
use crate::audit::{Act, Audit, Entry, Origin};
use crate::bus::{Bus, Registered, WallClock};
use crate::error::Refusal;
use crate::filter::{Filter, Gate};
use crate::flow::{FlowId, FlowInfo, SourceId, Target};
use crate::hands::{Hands, Modification};
use crate::hold::Holds;
use crate::map::Map;
use crate::notice::Notice;
use crate::order::{Admitted, Compiled, Order, SubscriberId};
use crate::ring::Waker;
use crate::schema::{EventId, Schema, SchemaError, VariableId};
use crate::scope::Scope;
use crate::signal::SignalBuf;
use crate::subscription::Statistics;

/// A provider's state, as a source reads and sets it.
pub trait State {
    /// A variable of a flow, if the flow is there and has it.
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64>;
    /// Sets one; false when the flow is gone or has no such variable.
    fn write(&mut self, flow: FlowId, variable: VariableId, value: u64) -> bool;
    /// Sets one for the length of a lease, which ends with [`State::restore`]. A provider whose flows
    /// live elsewhere leaves the lease there, so that it ends even without this process.
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
    /// Ends a lease: `own` is what the provider itself wrote last.
    fn restore(&mut self, flow: FlowId, variable: VariableId, own: u64) {
        self.write(flow, variable, own);
    }
    /// What a flow is.
    fn info(&self, flow: FlowId) -> Option<FlowInfo>;
    /// All flows that there are.
    fn flows(&self) -> Vec<FlowId>;
}

/// What all who want an event of a source want of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// This flow alone; `None`: several, or not all the same.
    pub flow: Option<FlowId>,
    /// This filter, of the flow or of all: what is left by it is published by [`Source::publish_filtered`].
    /// `None`: they want different things, and each event is to be published.
    pub filter: Option<Filter>,
}

/// Events of flows that one subscription keeps state of at a source, at most.
const MAX_GATES: usize = 65_536;
/// How long after one search for flows that are gone the next one begins.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long the source's own log waits for the bus's.
const AUDIT_EVERY: Duration = Duration::from_millis(100);
/// Entries of the source's own log.
const AUDIT_ENTRIES: usize = 256;

/// A subscription at a source.
#[derive(Debug)]
struct Listener {
    compiled: Compiled,
    /// No state is kept: everything passes at once.
    open: bool,
    gates: Map<(FlowId, EventId), Kept>,
    /// When those of flows that are gone are searched for next.
    sweep_due: Instant,
    statistics: Statistics,
    /// Lost since the last that was delivered.
    lost: u32,
    /// Its subscriber was not woken since something was put into the queue.
    untold: bool,
}

/// State of the filters for one event of one flow.
#[derive(Debug)]
struct Kept {
    in_scope: bool,
    gate: Gate,
    /// The last event of the running interval.
    held: Option<Box<SignalBuf>>,
}

/// A provider's end of the bus.
pub struct Source {
    id: SourceId,
    bus: Bus,
    schema: Arc<Schema>,
    attachable: Option<Arc<dyn Attachable>>,
    orders: Receiver<Order>,
    /// How many orders wait.
    called: Arc<AtomicUsize>,
    /// A bit for each event that somebody wants.
    wanted: u64,
    listeners: Vec<Listener>,
    /// By event: indices of listeners, highest priority first.
    by_event: Vec<Vec<u32>>,
    admitted: Vec<Admitted>,
    /// Some admitted' modifications come through rings.
    steered: bool,
    holds: Holds,
    /// When intervals end: subscription, flow, event.
    ends: BinaryHeap<Reverse<(Instant, u32, FlowId, EventId)>>,
    audit: Audit,
    audit_due: Instant,
    shared_audit: Arc<Mutex<Audit>>,
    wall: Option<WallClock>,
    buf: SignalBuf,
    hands: Hands,
    /// Subscribers are woken at the end of the batch.
    batching: bool,
    /// Signals put into queues since subscribers were woken.
    untold: usize,
    /// What T-wares in the loop want changed, once all have received the event.
    acting: Vec<(SubscriberId, Modification)>,
    /// Subscribers whose T-wares in the loop have panicked since [`Source::act`], and the texts of the panics.
    fallen: Vec<(SubscriberId, String)>,
    /// Changes of what is attached, and their steps.
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
    /// A provider's end: one for each running instance. `waker` is called when there are orders for it
    /// and must make its thread poll it.
    #[must_use]
    pub fn source(&self, schema: Arc<Schema>, waker: Option<Waker>) -> Source {
        Source::new(self.clone(), schema, waker, None)
    }

    /// The same for a provider to which something can be attached: it takes [`Source::next_step`] after
    /// each poll.
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
            holds: Holds::default(),
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

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// What it offers.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Offers other events from now on, and the same variables. Those whose names stay keep their numbers:
    /// [`Source::schema`] has them. Who has subscribed by a pattern is signalled what is new.
    ///
    /// # Errors
    /// When there are more than a provider can have; then everything is as before.
    pub fn offer(&mut self, next: &Schema) -> Result<(), SchemaError> {
        let schema = Arc::new(self.schema.followed_by(next)?);
        if *schema != *self.schema {
            self.schema = schema.clone();
            self.bus.offer(self.id, &schema);
        }
        Ok(())
    }

    /// The events that somebody wants, event `n` in bit `n`. It changes in [`Source::poll`] alone.
    #[must_use]
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// What all who want an event have in common: a provider that can filter where events come from
    /// does it by this.
    #[must_use]
    pub fn common(&self, event: EventId) -> Common {
        let places = self
            .by_event
            .get(usize::from(event.0))
            .map_or(&[][..], Vec::as_slice);
        let all = || places.iter().map(|at| &self.listeners[*at as usize].compiled);
        let Some(first) = all().next() else {
            return Common::default();
        };
        let flow = match first.scope {
            Scope::All => None,
            Scope::One(target) => Some(target.flow),
            Scope::Rule(_) => return Common::default(),
        };
        if all().any(|other| other.scope != first.scope) {
            return Common::default();
        }
        let filter = all()
            .all(|other| other.filter == first.filter)
            .then_some(first.filter);
        Common { flow, filter }
    }

    /// Whether somebody wants an event.
    #[must_use]
    #[inline]
    pub fn wants(&self, event: EventId) -> bool {
        self.wanted >> (event.0 & 63) & 1 != 0
    }

    /// Whether [`Source::poll`] has orders to take.
    #[must_use]
    #[inline]
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) > 0
    }

    /// When [`Source::poll`] has something to do, if no order comes before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let interval = self.ends.peek().map(|Reverse((until, ..))| *until);
        let audit = (!self.audit.is_empty()).then_some(self.audit_due);
        [interval, self.holds.next(), audit].into_iter().flatten().min()
    }

    /// What is held, for the provider to read.
    #[must_use]
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Does what is due: ends of leases, orders, modifications from elsewhere, ends of intervals.
    /// True when it did something.
    pub fn poll<S: State>(&mut self, now: Instant, state: &mut S) -> bool {
        let mut any = false;
        // Before the orders: a holder that leaves when its lease is over has not given it back early.
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
            // What was asked for from outside may be asked after, too.
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

    /// From here on to [`Source::end_batch`] subscribers that sleep are left asleep, so that a turn of
    /// the provider wakes each of them once and is not held up by them. One whose queue fills is woken
    /// before.
    pub fn begin_batch(&mut self) {
        self.batching = true;
    }

    /// Wakes those who have signals since [`Source::begin_batch`].
    pub fn end_batch(&mut self) {
        self.batching = false;
        self.wake();
    }

    /// After an event of a flow: what is held of it has its holder's value again.
    #[inline]
    pub fn settle<S: State>(&mut self, flow: FlowId, state: &mut S) {
        if !self.holds.is_empty() {
            settle(self.holds.of(flow), flow, state);
        }
    }

    /// A flow is gone: what was kept of it goes now, its variables are held no more.
    pub fn ended<S: State>(&mut self, now: Instant, flow: FlowId, state: &mut S) {
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

    /// What was set of a flow did not take effect, as a provider found whose flows live elsewhere: it is
    /// held no more, and the log has the reason.
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
                Act::Refused(why.to_owned()),
            );
        }
    }

    /// An event cannot be had after all, as a provider found when it was asked for: the log has for those
    /// who want it why they receive nothing.
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
                Act::Refused(why.to_owned()),
            );
        }
    }

    /// What a subscriber is called in the log, and where it is.
    fn who(&self, subscriber: SubscriberId) -> (Arc<str>, Origin) {
        let admitted = self.admitted.iter().find(|admitted| admitted.id == subscriber);
        admitted.map_or_else(
            || ("?".into(), Origin::default()),
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

    fn target(&self, flow: FlowId) -> Target {
        Target { source: self.id, flow }
    }

    /// Variables whose leases are over go back to the provider.
    fn expire<S: State>(&mut self, now: Instant, state: &mut S) {
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
                Act::Expired,
            );
        }
    }

    /// Writes into the log.
    fn note(
        &mut self,
        now: Instant,
        subscriber: SubscriberId,
        flow: FlowId,
        variable: VariableId,
        before: u64,
        act: Act,
    ) {
        let who = self.who(subscriber);
        let name = self
            .schema
            .variable_type(variable)
            .map_or("?", |v| v.name.as_str())
            .to_owned();
        self.enter(now, &who, flow, name, before, act);
    }

    /// The same, by names.
    fn enter(
        &mut self,
        now: Instant,
        who: &(Arc<str>, Origin),
        flow: FlowId,
        variable: String,
        before: u64,
        act: Act,
    ) {
        if self.audit.is_empty() {
            self.audit_due = now + AUDIT_EVERY;
        }
        let entry = self.entry(now, who, flow, variable, before, act);
        self.audit.add(entry);
    }

    /// An entry of what happens now.
    fn entry(
        &self,
        now: Instant,
        (who, origin): &(Arc<str>, Origin),
        flow: FlowId,
        variable: String,
        before: u64,
        act: Act,
    ) -> Entry {
        Entry {
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

    /// Gives the log to the bus, unless somebody reads it just now.
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
        // In a batch, if its provider has panicked.
        self.wake_now();
        self.audit.drain_into(&mut self.shared_audit.lock());
    }
}

/// What the provider itself wrote last: it may have done so since the flow was settled.
fn last_word<S: State>(state: &S, flow: FlowId, hold: &crate::hold::Hold) -> u64 {
    state
        .read(flow, hold.variable)
        .filter(|value| *value != hold.value)
        .unwrap_or(hold.own)
}

/// Writes what is held of a flow, where the provider has written something else.
fn settle<S: State>(holds: &mut [crate::hold::Hold], flow: FlowId, state: &mut S) {
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
