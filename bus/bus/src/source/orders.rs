//! Orders of the bus, and modifications of T-wares elsewhere, at a source.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hawser_time::Instant;

use super::{Listener, ProviderState, Source, last_word, settle};
use crate::audit::{AuditAction, AuditEntry};
use crate::error::Refusal;
use crate::flow::FlowId;
use crate::lease::{Lease, LeaseOutcome, MAX_HOLDS, MAX_LEASE};
use crate::map::Map;
use crate::modifications::Modification;
use crate::order::{Compiled, SourceOrder, SubscriberId};
use crate::schema::{Schema, VariableId};
use crate::scope::Scope;
use crate::signal::{MAX_WORDS, SubscriptionId};
use crate::subscriber::FlowSnapshot;
use crate::subscription::Statistics;

/// The maximum number of modifications of one subscriber that one poll takes.
const STEERING_BUDGET: usize = 256;

impl Source {
    /// Carries out an order. Replies are sent if the caller still waits.
    pub(super) fn obey<S: ProviderState>(&mut self, now: Instant, order: SourceOrder, state: &mut S) {
        match order {
            SourceOrder::Admit(mut admitted) => {
                let (id, schema) = (self.id, &self.schema);
                let begun = admitted
                    .tware
                    .as_mut()
                    .map(|tware| catch_unwind(AssertUnwindSafe(|| tware.begin(id, schema))));
                let subscriber = admitted.id;
                self.admitted.push(*admitted);
                if let Some(Err(panic)) = begun {
                    self.fall(subscriber, panic);
                    self.bury(now, state);
                }
            }
            SourceOrder::Steer(subscriber, steering) => {
                if let Some(admitted) = self
                    .admitted
                    .iter_mut()
                    .find(|admitted| admitted.id == subscriber)
                {
                    admitted.steering = Some(steering);
                }
                self.recount();
            }
            SourceOrder::Expel(subscriber) => self.expel(now, subscriber, state),
            SourceOrder::Subscribe(compiled) => self.subscribe(*compiled),
            SourceOrder::Offer(schema, compiled) => self.take_offer(schema, compiled),
            SourceOrder::Change(id, filter, scope, priority) => self.change(id, filter, scope, priority),
            SourceOrder::Unsubscribe(id) => {
                self.wake_now();
                self.listeners.retain(|listener| listener.compiled.id != id);
                self.sort_listeners();
            }
            SourceOrder::Modify(subscriber, flow, variable, set, priority, reply) => {
                let modification = Modification { target: self.target(flow), variable, set };
                let _ = reply.try_send(self.modify(now, subscriber, &modification, Some(priority), state));
            }
            SourceOrder::Probe(flow, variables, reply) => {
                let values = variables.iter().map(|v| state.read(flow, *v)).collect();
                let _ = reply.try_send(state.info(flow).map(|_| FlowSnapshot { time: now, values }));
            }
            SourceOrder::Flows(reply) => {
                let of = |flow| Some((flow, state.info(flow)?));
                let _ = reply.try_send(state.flows().into_iter().filter_map(of).collect());
            }
            SourceOrder::Statistics(id, reply) => {
                let listener = self.listeners.iter().find(|listener| listener.compiled.id == id);
                let _ = reply.try_send(listener.map(|listener| listener.statistics).unwrap_or_default());
            }
            SourceOrder::Attach(attaching) => self.change_attachments(now, *attaching),
        }
    }

    fn subscribe(&mut self, compiled: Compiled) {
        self.listeners.push(Listener {
            open: compiled.is_open(),
            compiled,
            gates: Map::default(),
            sweep_due: Instant::ORIGIN,
            statistics: Statistics::default(),
            lost: 0,
            untold: false,
        });
        self.sort_listeners();
    }

    /// Moves subscriptions to a schema's numbers. State of events that no longer exist is dropped.
    fn take_offer(&mut self, schema: Arc<Schema>, compiled: Vec<Compiled>) {
        self.wake_now();
        self.by_event.resize(schema.events().len(), Vec::new());
        for listener in &mut self.listeners {
            listener.compiled.events.clear();
            listener.gates.retain(|(_, event), _| schema.is_offered(*event));
        }
        for one in compiled {
            match self
                .listeners
                .iter_mut()
                .find(|listener| listener.compiled.id == one.id)
            {
                Some(listener) => listener.compiled.events = one.events,
                None => self.subscribe(one),
            }
        }
        self.sort_listeners();
    }

    /// Changes a subscription. New filters start afresh; events kept under the old ones are dropped.
    fn change(&mut self, id: SubscriptionId, filter: crate::Filter, scope: Scope, priority: u8) {
        let Some(listener) = self
            .listeners
            .iter_mut()
            .find(|listener| listener.compiled.id == id)
        else {
            return;
        };
        listener.compiled = Compiled { filter, scope, priority, ..listener.compiled.clone() };
        listener.open = listener.compiled.is_open();
        listener.gates.clear();
        self.sort_listeners();
    }

    /// Recomputes the receivers of each event: highest priority first, and the earlier subscription first
    /// among equals.
    fn sort_listeners(&mut self) {
        self.wanted = 0;
        for (event, list) in self.by_event.iter_mut().enumerate() {
            let receives = |l: &Listener| l.compiled.events.iter().any(|e| usize::from(e.0) == event);
            list.clear();
            list.extend(
                (0u32..)
                    .zip(&self.listeners)
                    .filter(|(_, l)| receives(l))
                    .map(|(at, _)| at),
            );
            list.sort_by_key(|at| std::cmp::Reverse(self.listeners[*at as usize].compiled.priority));
            self.wanted |= u64::from(!list.is_empty()) << event;
        }
    }

    /// Removes a subscriber with its subscriptions and holds.
    fn expel<S: ProviderState>(&mut self, now: Instant, subscriber: SubscriberId, state: &mut S) {
        self.wake_now();
        self.listeners
            .retain(|listener| listener.compiled.subscriber != subscriber);
        self.sort_listeners();
        self.let_go(now, subscriber, state);
        self.admitted.retain(|admitted| admitted.id != subscriber);
        self.recount();
    }

    /// Ends the holds of a subscriber.
    fn let_go<S: ProviderState>(&mut self, now: Instant, subscriber: SubscriberId, state: &mut S) {
        let mut ended = Vec::new();
        self.holds.end(
            |_, hold| hold.subscriber == subscriber,
            |flow, hold| ended.push((flow, hold)),
        );
        for (flow, hold) in ended {
            state.restore(flow, hold.variable, last_word(state, flow, &hold));
            self.note(
                now,
                subscriber,
                flow,
                hold.variable,
                hold.value,
                AuditAction::HolderGone,
            );
        }
    }

    /// Cleans up after T-wares that have panicked: the log gets the panic's message, and their holds end.
    /// Their subscriptions stay, without a receiver.
    #[inline]
    pub(super) fn bury<S: ProviderState>(&mut self, now: Instant, state: &mut S) {
        while let Some((subscriber, message)) = self.fallen.pop() {
            let who = self.who(subscriber);
            self.enter(
                now,
                &who,
                FlowId::ALL,
                "*".to_owned(),
                0,
                AuditAction::Panicked(message),
            );
            self.let_go(now, subscriber, state);
        }
    }

    fn recount(&mut self) {
        self.steered = self.admitted.iter().any(|admitted| admitted.steering.is_some());
    }

    /// Takes modifications of subscribers that live elsewhere.
    pub(super) fn steer<S: ProviderState>(&mut self, now: Instant, state: &mut S) -> bool {
        let mut any = false;
        for at in 0..self.admitted.len() {
            let subscriber = self.admitted[at].id;
            let mut words = [0; MAX_WORDS];
            for _ in 0..STEERING_BUDGET {
                let Some(steering) = &mut self.admitted[at].steering else {
                    break;
                };
                if !steering.queue.pop(&mut words) {
                    break;
                }
                any = true;
                if let Some(modification) = Modification::from_words(&words)
                    && modification.target.source == self.id
                {
                    let _ = self.modify(now, subscriber, &modification, None, state);
                }
            }
            // A plain load comes first: a swap would take the cache line from the other thread on each turn.
            if let Some(steering) = &self.admitted[at].steering
                && steering.dropped.load(Relaxed) > 0
            {
                let dropped = steering.dropped.swap(0, Relaxed);
                self.note_dropped(now, at, dropped);
            }
        }
        any
    }

    /// Logs that `count` modifications of a subscriber found its queue full.
    fn note_dropped(&mut self, now: Instant, admitted: usize, count: u64) {
        let who = self.who(self.admitted[admitted].id);
        let act = AuditAction::Refused("the source has too many waiting requests: send fewer".to_owned());
        self.audit_due = now;
        let entry = self.entry(now, &who, FlowId::ALL, "*".to_owned(), 0, act);
        self.audit.add(AuditEntry { count, ..entry });
    }

    /// Sets a variable under a lease, or ends a lease; returns the value before. The operation is logged.
    pub(super) fn modify<S: ProviderState>(
        &mut self,
        now: Instant,
        subscriber: SubscriberId,
        modification: &Modification,
        priority: Option<u8>,
        state: &mut S,
    ) -> Result<u64, Refusal> {
        let (flow, variable) = (modification.target.flow, modification.variable);
        let result = match modification.set {
            Some((value, lease)) => self.hold(now, subscriber, flow, variable, value, lease, priority, state),
            None => self.release(now, subscriber, flow, variable, state),
        };
        if let Err(refusal) = &result {
            self.note(
                now,
                subscriber,
                flow,
                variable,
                0,
                AuditAction::Refused(refusal.to_string()),
            );
        }
        result
    }

    #[allow(clippy::too_many_arguments)] // The holder, the value and the length of the lease.
    fn hold<S: ProviderState>(
        &mut self,
        now: Instant,
        subscriber: SubscriberId,
        flow: FlowId,
        variable: VariableId,
        value: u64,
        lease: Duration,
        priority: Option<u8>,
        state: &mut S,
    ) -> Result<u64, Refusal> {
        let admitted = self
            .admitted
            .iter()
            .find(|admitted| admitted.id == subscriber)
            .ok_or(Refusal::NoRight)?;
        let grant = admitted.grants.get(usize::from(variable.0)).copied().flatten();
        let (min, max) = grant.ok_or(Refusal::NoRight)?;
        if value < min || value > max {
            return Err(Refusal::OutOfRange { value, min, max });
        }
        if lease.is_zero() || lease > MAX_LEASE {
            return Err(Refusal::Lease);
        }
        let priority = priority.unwrap_or(admitted.priority);
        let Some(own) = state.read(flow, variable) else {
            let target = self.target(flow);
            let known = state.info(flow).is_some();
            return Err(if known {
                Refusal::NotOfFlow(target)
            } else {
                Refusal::NoFlow(target)
            });
        };
        let until = now + lease;
        let held = self
            .holds
            .take(flow, Lease { variable, subscriber, priority, value, own, until });
        let is_new = matches!(held, LeaseOutcome::New(_));
        let before = match held {
            LeaseOutcome::New(before) | LeaseOutcome::Again(before) => before,
            LeaseOutcome::Taken(loser, before) => {
                let (taker, _) = self.who(subscriber);
                let why = format!("`{taker}` has taken the variable with priority {priority}");
                self.notify(loser, flow, variable, why);
                self.note(now, loser, flow, variable, before, AuditAction::Lost);
                before
            }
            LeaseOutcome::Denied(holder, priority) => {
                let holder = self.admitted.iter().find(|admitted| admitted.id == holder);
                return Err(Refusal::Held(
                    holder.map_or("?", |admitted| &admitted.name).to_owned(),
                    priority,
                ));
            }
            LeaseOutcome::Full => return Err(Refusal::Full(MAX_HOLDS)),
        };
        if let Err(refusal) = state.hold(flow, variable, value, lease) {
            let mut ended = None;
            self.holds.end_of(
                flow,
                |hold| hold.variable == variable,
                |_, hold| ended = Some(hold),
            );
            if let (Some(hold), false) = (ended, is_new) {
                // An earlier hold of this variable ends, too.
                state.restore(flow, variable, hold.own);
                self.note(now, subscriber, flow, variable, before, AuditAction::Released);
            }
            return Err(refusal);
        }
        self.note(now, subscriber, flow, variable, before, AuditAction::Set(value));
        Ok(before)
    }

    fn release<S: ProviderState>(
        &mut self,
        now: Instant,
        subscriber: SubscriberId,
        flow: FlowId,
        variable: VariableId,
        state: &mut S,
    ) -> Result<u64, Refusal> {
        settle(self.holds.for_flow(flow), flow, state);
        let mut ended = None;
        let ends = |hold: &Lease| hold.subscriber == subscriber && hold.variable == variable;
        self.holds.end_of(flow, ends, |_, hold| ended = Some(hold));
        let hold = ended.ok_or(Refusal::NotHeld)?;
        state.restore(flow, variable, hold.own);
        self.note(now, subscriber, flow, variable, hold.value, AuditAction::Released);
        Ok(hold.value)
    }
}

impl Compiled {
    /// Returns whether every event of every flow passes at once.
    fn is_open(&self) -> bool {
        self.filter.is_open() && self.scope == Scope::All
    }
}
