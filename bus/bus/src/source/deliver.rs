//! Delivery of events to subscribers.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hawser_time::Instant;

use super::{FlowFilterState, Listener, MAX_GATES, ProviderState, SWEEP_EVERY, Source};
use crate::filter::{FilterState, Passage};
use crate::flow::{FlowId, SourceFlow, SourceId};
use crate::order::{Outlet, SubscriberId};
use crate::schema::EventId;
use crate::scope::Scope;
use crate::signal::SignalBuf;
use crate::subscription::Statistics;

impl Source {
    /// Publishes an event of a flow, after it took effect. Providers call it when [`Source::wants`] returns
    /// true; otherwise it has no effect.
    pub fn publish<S: ProviderState>(
        &mut self,
        now: Instant,
        flow: FlowId,
        event: EventId,
        fields: &[u64],
        state: &mut S,
    ) {
        self.signal(now, flow, event, fields, state, Self::judge);
    }

    /// Publishes an event that has already passed the listeners' filters at its origin. The total number of
    /// events is then unknown: the statistics count those that passed.
    pub fn publish_filtered<S: ProviderState>(
        &mut self,
        now: Instant,
        flow: FlowId,
        event: EventId,
        fields: &[u64],
        state: &mut S,
    ) {
        self.signal(now, flow, event, fields, state, |source, _, at, flow, _, _| {
            // The event may have been queued before the subscriptions narrowed to one flow.
            let target = source.target(flow);
            let listener = &mut source.listeners[at];
            if matches!(listener.compiled.scope, Scope::One(one) if one != target) {
                return false;
            }
            listener.statistics.events += 1;
            listener.statistics.passed += 1;
            true
        });
    }

    /// Records that events of any flow were lost before they reached the source. All subscribers of the event
    /// learn it from their next signal and their statistics.
    pub fn lost_before(&mut self, event: EventId, count: u32) {
        let Some(listeners) = self.by_event.get(usize::from(event.0)) else {
            return;
        };
        for at in listeners {
            let listener = &mut self.listeners[*at as usize];
            listener.statistics += Statistics {
                events: count.into(),
                passed: count.into(),
                lost: count.into(),
                crowded: 0,
            };
            listener.lost = listener.lost.saturating_add(count);
        }
    }

    /// Writes an event for each listener, and delivers it to those for which `passes` returns true.
    #[inline]
    fn signal<S: ProviderState>(
        &mut self,
        now: Instant,
        flow: FlowId,
        event: EventId,
        fields: &[u64],
        state: &mut S,
        passes: impl Fn(&mut Self, Instant, usize, FlowId, EventId, &mut S) -> bool,
    ) {
        let Some(count) = self.by_event.get(usize::from(event.0)).map(Vec::len) else {
            return;
        };
        for k in 0..count {
            let at = self.by_event[usize::from(event.0)][k] as usize;
            self.listeners[at].write(&mut self.buf, self.id, now, flow, event, fields, state);
            if passes(self, now, at, flow, event, state) {
                self.deliver(at);
            }
        }
        self.act(now, state);
        if self.untold > 0 && !self.batching {
            // All signals went to T-wares in the loop.
            self.untold = 0;
            for at in &self.by_event[usize::from(event.0)] {
                self.listeners[*at as usize].wake();
            }
        }
    }

    /// Wakes the subscribers that have signals, unless a batch is open.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.untold > 0 && !self.batching {
            self.wake_now();
        }
    }

    /// Wakes the subscribers that have signals.
    pub(super) fn wake_now(&mut self) {
        self.untold = 0;
        self.listeners.iter_mut().for_each(Listener::wake);
    }

    /// Returns whether the signal in the buffer goes to a listener now.
    fn judge<S: ProviderState>(
        &mut self,
        now: Instant,
        at: usize,
        flow: FlowId,
        event: EventId,
        state: &mut S,
    ) -> bool {
        let listener = &mut self.listeners[at];
        if listener.open {
            listener.statistics.events += 1;
            listener.statistics.passed += 1;
            return true;
        }
        if listener.gates.len() >= MAX_GATES && !listener.gates.contains_key(&(flow, event)) {
            self.sweep(now, at, state);
            let listener = &mut self.listeners[at];
            if listener.gates.len() >= MAX_GATES {
                listener.statistics.crowded += 1;
                return false;
            }
        }
        let listener = &mut self.listeners[at];
        let in_scope = |scope: &Scope| match scope {
            Scope::All => true,
            Scope::One(target) => target.flow == flow && target.source == self.id,
            Scope::Rule(rule) => state.info(flow).is_some_and(|info| rule.holds(&info)),
        };
        let scope = &listener.compiled.scope;
        let make = || FlowFilterState { in_scope: in_scope(scope), gate: FilterState::default(), held: None };
        let kept = listener.gates.entry((flow, event)).or_insert_with(make);
        if !kept.in_scope {
            return false;
        }
        listener.statistics.events += 1;
        let filter = listener.compiled.filter;
        // The interval is over, and the provider has not polled since: its last event goes first.
        if kept.gate.until().is_some_and(|until| until <= now) {
            let fresh = std::mem::take(&mut self.buf);
            self.finish_interval(now, at, flow, event);
            self.buf = fresh;
        }
        let listener = &mut self.listeners[at];
        let Some(kept) = listener.gates.get_mut(&(flow, event)) else {
            return false;
        };
        match kept.gate.judge(&filter, now) {
            Passage::Pass => {
                listener.statistics.passed += 1;
                true
            }
            Passage::Drop => false,
            Passage::Hold(until) => {
                kept.held.get_or_insert_default().copy(&self.buf);
                self.ends
                    .push(Reverse((until, listener.compiled.id.0, flow, event)));
                false
            }
            Passage::Replace => {
                kept.held.get_or_insert_default().copy(&self.buf);
                false
            }
        }
    }

    /// Drops a listener's state for flows whose ends were never reported, unless a search was made recently:
    /// listing the flows takes long.
    #[cold]
    fn sweep<S: ProviderState>(&mut self, now: Instant, at: usize, state: &mut S) {
        let listener = &mut self.listeners[at];
        if now < listener.sweep_due {
            return;
        }
        listener.sweep_due = now + SWEEP_EVERY;
        let there: BTreeSet<FlowId> = state.flows().into_iter().collect();
        // An event that an interval still holds is delivered at the interval's end.
        listener
            .gates
            .retain(|(flow, _), kept| kept.gate.until().is_some() || there.contains(flow));
    }

    /// Sends the signal in the buffer to a listener.
    fn deliver(&mut self, at: usize) {
        let listener = &mut self.listeners[at];
        match &listener.compiled.outlet {
            Outlet::Ring(ring) => {
                self.buf.set_lost(listener.lost);
                if ring.put(self.buf.signal().words()) {
                    listener.lost = 0;
                    listener.untold = true;
                    self.untold += 1;
                } else {
                    listener.statistics.lost += 1;
                    listener.lost = listener.lost.saturating_add(1);
                }
                // All of these signals may be in this one queue, which subscriptions share.
                if self.untold > ring.slots() / 8 {
                    self.wake_now();
                }
            }
            Outlet::Loop(subscription) => {
                let (subscriber, subscription) = (listener.compiled.subscriber, *subscription);
                let admitted = self
                    .admitted
                    .iter_mut()
                    .find(|admitted| admitted.id == subscriber);
                let Some(admitted) = admitted else { return };
                let Some(tware) = &mut admitted.tware else { return };
                let (signal, hands) = (self.buf.signal(), &mut self.hands);
                // The provider goes on if a T-ware panics; the T-ware is not called again.
                let result = catch_unwind(AssertUnwindSafe(|| tware.signal(subscription, &signal, hands)));
                match result {
                    Ok(()) => self.acting.extend(self.hands.take().map(|m| (subscriber, m))),
                    Err(panic) => self.fall(subscriber, panic),
                }
            }
        }
    }

    /// Handles a panic of a T-ware in the loop: it is not called again, and its requests are dropped.
    #[cold]
    pub(super) fn fall(&mut self, subscriber: SubscriberId, panic: Box<dyn Any + Send>) {
        drop(self.hands.take());
        let tware = self
            .admitted
            .iter_mut()
            .find(|admitted| admitted.id == subscriber)
            .and_then(|g| g.tware.take());
        // The panic may have left it in a state in which dropping it panics, too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(tware)));
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        self.fallen.push((subscriber, text.unwrap_or_default()));
    }

    /// Carries out the modifications that T-wares in the loop request, and ends the holds of T-wares that
    /// have panicked.
    fn act<S: ProviderState>(&mut self, now: Instant, state: &mut S) {
        self.bury(now, state);
        if self.acting.is_empty() {
            return;
        }
        let mut acting = std::mem::take(&mut self.acting);
        for (subscriber, modification) in acting.drain(..) {
            // Refusals are in the log.
            let _ = self.modify(now, subscriber, &modification, None, state);
        }
        self.acting = acting;
    }

    /// Ends the intervals that are over.
    pub(super) fn close_intervals<S: ProviderState>(&mut self, now: Instant, state: &mut S) {
        while let Some(Reverse((until, id, flow, event))) = self.ends.peek().copied()
            && until <= now
        {
            self.ends.pop();
            if let Some(at) = self.listeners.iter().position(|l| l.compiled.id.0 == id) {
                self.finish_interval(now, at, flow, event);
            }
        }
        self.act(now, state);
    }

    /// Ends an interval if it is over, and delivers its last event if that passes.
    fn finish_interval(&mut self, now: Instant, at: usize, flow: FlowId, event: EventId) {
        let listener = &mut self.listeners[at];
        let filter = listener.compiled.filter;
        let Some(kept) = listener.gates.get_mut(&(flow, event)) else {
            return;
        };
        if kept.gate.close(&filter, now) == Some(true)
            && let Some(held) = &kept.held
        {
            self.buf.copy(held);
            listener.statistics.passed += 1;
            self.deliver(at);
        }
    }

    /// Cuts an interval short because its flow ends.
    pub(super) fn end_interval<S: ProviderState>(
        &mut self,
        now: Instant,
        at: usize,
        mut kept: FlowFilterState,
        state: &mut S,
    ) {
        let listener = &mut self.listeners[at];
        let Some(until) = kept.gate.until() else { return };
        if kept.gate.close(&listener.compiled.filter, until) == Some(true)
            && let Some(held) = &kept.held
        {
            self.buf.copy(held);
            listener.statistics.passed += 1;
            self.deliver(at);
            self.act(now, state);
        }
    }
}

impl Listener {
    /// Wakes the listener's subscriber, if it has signals.
    #[inline]
    fn wake(&mut self) {
        if std::mem::take(&mut self.untold)
            && let Outlet::Ring(ring) = &self.compiled.outlet
        {
            ring.wake();
        }
    }

    /// Writes an event, and the variables that come with it.
    #[allow(clippy::too_many_arguments)] // Each is a part of the signal.
    fn write<S: ProviderState>(
        &self,
        buf: &mut SignalBuf,
        source: SourceId,
        now: Instant,
        flow: FlowId,
        event: EventId,
        fields: &[u64],
        state: &S,
    ) {
        buf.begin(self.compiled.id, SourceFlow { source, flow }, event, now, fields);
        for variable in &self.compiled.with {
            buf.push(
                variable
                    .and_then(|variable| state.read(flow, variable))
                    .unwrap_or(0),
            );
        }
    }
}
