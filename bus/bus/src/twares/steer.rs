//! A congestion controller as T-wares on the bus. The same source code steers our own TCP and Linux's, in the
//! loop, in a thread and in another process.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Access, Hands, Schema, Scope, Signal, SourceFlow, SourceId, Subscription, Tware, VariableId};
use hawser_time::Instant;

use crate::twares::controller::{Acked, Controller, Decision};
use crate::twares::fast::{Fast, FastParams};
use crate::twares::reno::Reno;

/// The part of the work that is done: the three modes of the paper's Table 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It receives signals and takes no action.
    Signal,
    /// State variables come with the signals, and it computes; no variable is changed.
    Probe,
    /// It sets the window.
    #[default]
    Full,
}

/// Options for running a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerOptions {
    /// The provider of the flows: `tcp`, `kernel.tcp`.
    pub provider: String,
    /// The part of the work that is done.
    pub mode: Mode,
    /// The minimum time between two signals of acknowledgements, and between two of sent data; if zero, each
    /// is signalled.
    pub interval: Duration,
    /// The time for which a window holds if the controller sends no further decision.
    pub lease: Duration,
    /// The priority of its subscriptions.
    pub priority: u8,
    /// The connections of the provider that are steered.
    pub scope: Scope,
}

impl SteerOptions {
    /// Makes options for full steering, on each acknowledgement, with leases of a second.
    #[must_use]
    pub fn new(provider: &str) -> SteerOptions {
        SteerOptions {
            provider: provider.to_owned(),
            mode: Mode::Full,
            interval: Duration::ZERO,
            lease: Duration::from_secs(1),
            priority: 1,
            scope: Scope::All,
        }
    }
}

/// A controller by its name, to be run as a T-ware in any place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedController {
    /// [`Fast`].
    Fast(FastParams),
    /// [`Reno`].
    Reno,
}

impl NamedController {
    /// Returns its name: `fast`, `reno`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NamedController::Fast(_) => "fast",
            NamedController::Reno => "reno",
        }
    }

    /// Makes the T-ware that steers by it.
    #[must_use]
    pub fn steers(self, options: SteerOptions) -> Box<dyn Tware> {
        match self {
            NamedController::Fast(params) => Box::new(Steer::new(options, move || Fast::new(params))),
            NamedController::Reno => Box::new(Steer::new(options, Reno::new)),
        }
    }
}

/// The events, in the order of the paper's Table 2. The end of a recovery, which belongs to the fifth, is
/// added.
const EVENTS: [&str; 7] = [
    "established",
    "sent",
    "acked",
    "timeout",
    "recovery_began",
    "closed",
    "recovery_ended",
];

/// The variables that come with each signal: window, segment size, delivered bytes, round-trip time.
const WITH: [&str; 4] = [".conn.cc.cwnd", ".conn.smss", ".conn.delivered", ".conn.srtt"];

/// The maximum number of connections that are steered at a time.
const MAX_FLOWS: usize = 65_536;
/// A connection without a signal for this long is forgotten if room is needed, because the signal of its end
/// may have been lost. Its leases are over by then.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of a connection.
struct SteeredFlow<L> {
    controller: L,
    /// The time of its last signal.
    signalled: Instant,
    /// The bytes delivered at its last signal.
    delivered: u64,
    /// The window that the controller decided last.
    decided: u64,
    /// The number of delivered bytes at which a recovery is considered over, because the signal of its end
    /// may be lost.
    recovers_until: Option<u64>,
}

impl<L> SteeredFlow<L> {
    /// Returns the window from which the controller continues: its own last decision, if the one in the
    /// signal is near it. A signal may be older than the last decision, and may show the window of the
    /// transport's own controller before it was overruled. A window that is far away was set by another
    /// program.
    fn window(&self, signalled: u64) -> u64 {
        if signalled.abs_diff(self.decided) <= self.decided / NEAR_DIVISOR {
            self.decided
        } else {
            signalled
        }
    }
}

/// A window is near another if it differs by at most this share of it.
const NEAR_DIVISOR: u64 = 8;

/// Runs a controller on each connection of a provider.
pub struct Steer<L, F> {
    options: SteerOptions,
    make: F,
    flows: BTreeMap<SourceFlow, SteeredFlow<L>>,
    /// The time of the next search for idle connections.
    sweep_due: Instant,
    /// The variables that it sets, by source.
    handles: BTreeMap<SourceId, Handles>,
}

/// The numbers of the variables that it sets at a source.
#[derive(Clone, Copy)]
struct Handles {
    window: VariableId,
    threshold: VariableId,
    /// The pacing rate and its minimum, if the provider lets it be set, as Linux's TCP does.
    pace: Option<(VariableId, u64)>,
}

impl<L, F> std::fmt::Debug for Steer<L, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steer")
            .field("options", &self.options)
            .field("flows", &self.flows.len())
            .finish()
    }
}

impl<L: Controller, F: Fn() -> L> Steer<L, F> {
    /// Makes the T-ware. `make` makes the controller of one more connection.
    #[must_use]
    pub fn new(options: SteerOptions, make: F) -> Steer<L, F> {
        Steer {
            options,
            make,
            flows: BTreeMap::new(),
            sweep_due: Instant::ORIGIN,
            handles: BTreeMap::new(),
        }
    }

    /// Returns the number of connections that it steers.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Forgets connections that were idle for long; returns whether there is room. It searches at most once
    /// in `IDLE_TIMEOUT`.
    #[cold]
    fn make_room(&mut self, now: Instant) -> bool {
        if now >= self.sweep_due {
            self.sweep_due = now + IDLE_TIMEOUT;
            self.flows.retain(|_, flow| now - flow.signalled < IDLE_TIMEOUT);
        }
        self.flows.len() < MAX_FLOWS
    }

    /// Returns the controller's decision at an event.
    fn decide(&mut self, event: usize, signal: &Signal<'_>) -> Option<Decision> {
        let [window, mss, delivered, srtt] = *signal.variables() else {
            return None;
        };
        let field = |n: usize| signal.fields().get(n).copied().unwrap_or(0);
        let target = signal.target();
        if event == 5 {
            if let Some(mut flow) = self.flows.remove(&target) {
                flow.controller.closed();
            }
            return None;
        }
        if !self.flows.contains_key(&target) {
            if self.flows.len() >= MAX_FLOWS && !self.make_room(signal.time()) {
                return None;
            }
            // The controller of a flow that is already under way starts from the flow's present state.
            let mut controller = (self.make)();
            let decision = controller.established(if event == 0 { field(0) } else { srtt }, false, mss);
            let decided = if event == 0 { decision.window } else { 0 };
            let flow = SteeredFlow {
                controller,
                signalled: signal.time(),
                delivered,
                decided,
                recovers_until: None,
            };
            self.flows.insert(target, flow);
            if event == 0 {
                return Some(decision);
            }
        }
        let flow = self.flows.get_mut(&target)?;
        flow.signalled = signal.time();
        let window = flow.window(window);
        let decision = match event {
            1 => {
                flow.controller.sent(signal.time(), field(1));
                return None;
            }
            2 => {
                // Bytes of acknowledgements that the filter has dropped are included.
                let bytes = delivered.saturating_sub(flow.delivered).max(field(0));
                flow.delivered = delivered;
                if flow.recovers_until.is_some_and(|until| delivered >= until) {
                    flow.recovers_until = None;
                    flow.controller.recovery_ended();
                }
                let (rtt, flight, now) = (field(1), field(2), signal.time());
                flow.controller
                    .acked(Acked { now, rtt, bytes, flight, window, mss })
            }
            3 => {
                flow.recovers_until = None;
                flow.controller.timeout(window, field(0) != 0, mss)
            }
            4 => {
                // The outstanding data is delivered when the recovery ends, and by then at most as much
                // again.
                let limit = field(0).max(mss).saturating_mul(2);
                flow.recovers_until = Some(delivered.saturating_add(limit));
                flow.controller.recovery_began(field(0), mss)
            }
            6 => {
                flow.recovers_until = None;
                flow.controller.recovery_ended();
                return None;
            }
            _ => return None,
        };
        flow.decided = decision.window;
        Some(decision)
    }
}

impl<L: Controller + Send, F: Fn() -> L + Send> Tware for Steer<L, F> {
    fn subscriptions(&self) -> Vec<Subscription> {
        let subscription = |event: &str| {
            let subscription = Subscription::new([format!("{}.{event}", self.options.provider)])
                .priority(self.options.priority);
            let subscription = subscription.with_scope(self.options.scope.clone());
            let subscription = if matches!(event, "acked" | "sent") {
                subscription.every(self.options.interval)
            } else {
                subscription
            };
            if self.options.mode == Mode::Signal {
                subscription
            } else {
                subscription.with(WITH)
            }
        };
        EVENTS.iter().map(|event| subscription(event)).collect()
    }

    fn begin(&mut self, source: SourceId, schema: &Schema) {
        let variable = |name: &str| schema.variable(&format!("{}.conn.cc.{name}", schema.provider()));
        let settable = |id: VariableId| match schema.variable_type(id)?.access {
            Access::Modifiable { min, .. } => Some((id, min)),
            _ => None,
        };
        let pace = variable("pacing_rate").and_then(settable);
        if let (Some(window), Some(threshold)) = (variable("cwnd"), variable("ssthresh")) {
            self.handles.insert(source, Handles { window, threshold, pace });
        }
    }

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
        if self.options.mode == Mode::Signal {
            return;
        }
        let Some(decision) = self.decide(subscription, signal) else {
            return;
        };
        let target = signal.target();
        if self.options.mode == Mode::Full
            && let Some(handles) = self.handles.get(&target.source)
        {
            // With the threshold at the window, the transport's own controller is never in slow start. Until
            // it is overruled again, it moves the window by at most a segment in a round trip. A recovery
            // reduces the window to the threshold (RFC 6937).
            hands.modify(target, handles.threshold, decision.window, self.options.lease);
            hands.modify(target, handles.window, decision.window, self.options.lease);
            if let (Some((pace, min)), Some(rate)) = (handles.pace, decision.pacing) {
                hands.modify(target, pace, rate.max(min), self.options.lease);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ring::Ring;
    use crate::{
        Access, Bus, EventId, EventType, Field, FlowId, FlowInfo, ProviderState, Rights, Source, ValueKind,
        Variable, run_waiting,
    };

    use super::*;
    use crate::twares::fast::{Fast, FastParams};

    /// Makes a point in time, in nanoseconds.
    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// A connection whose window the test can read.
    struct Connection([u64; 6]);

    impl ProviderState for Connection {
        fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
            (flow.0 == 0).then(|| self.0[usize::from(variable.0)])
        }

        fn write(&mut self, _: FlowId, variable: VariableId, value: u64) -> bool {
            self.0[usize::from(variable.0)] = value;
            true
        }

        fn info(&self, flow: FlowId) -> Option<FlowInfo> {
            (flow.0 == 0).then(FlowInfo::default)
        }

        fn flows(&self) -> Vec<FlowId> {
            vec![FlowId(0)]
        }
    }

    fn schema() -> Schema {
        let fields = |names: &[&str]| {
            names
                .iter()
                .map(|name| Field { name: (*name).to_owned(), kind: ValueKind::Number })
                .collect()
        };
        let event =
            |(name, names): (&str, &[&str])| EventType { name: format!("tcp.{name}"), fields: fields(names) };
        let of: [(&str, &[&str]); 7] = [
            ("established", &["rtt"]),
            ("sent", &["at", "bytes"]),
            ("acked", &["bytes", "rtt", "flight"]),
            ("timeout", &["again"]),
            ("recovery_began", &["flight"]),
            ("closed", &[]),
            ("recovery_ended", &[]),
        ];
        let access = |name: &str| match name {
            ".conn.cc.cwnd" | ".conn.cc.ssthresh" => Access::Modifiable { min: 1, max: 1 << 30 },
            ".conn.cc.pacing_rate" => Access::Modifiable { min: 1, max: u64::MAX },
            _ => Access::Observable,
        };
        let variable = |name: &&str| Variable {
            name: format!("tcp{name}"),
            kind: ValueKind::Number,
            access: access(name),
        };
        let variables = WITH
            .iter()
            .chain(&[".conn.cc.ssthresh", ".conn.cc.pacing_rate"])
            .map(variable)
            .collect();
        Schema::new("tcp", of.map(event).into(), variables).expect("a schema")
    }

    fn publish(source: &mut Source, to: &mut Connection, now: Instant, event: u16, fields: &[u64]) {
        source.poll(now, to);
        source.publish(now, FlowId(0), EventId(event), fields, to);
        source.settle(FlowId(0), to);
    }

    /// The T-wares set the window that the controller decides, event by event.
    #[test]
    fn the_twares_set_the_controllers_decisions() {
        let (bus, mss, rtt) = (Bus::new(), 1448, 40_000_000);
        let mut source = bus.source(schema().into(), None);
        let make = || Fast::new(FastParams::default());
        let tware = move || Box::new(Steer::new(SteerOptions::new("tcp"), make)) as Box<dyn Tware>;
        let subscriber = bus.attach("fast", Rights::all(), 1, tware).expect("it may");
        let mut connection = Connection([14_480, mss, 0, rtt, 1 << 30, 0]);
        let mut controller = make();
        publish(&mut source, &mut connection, at(1), 0, &[rtt]);
        assert_eq!(connection.0[0], controller.established(rtt, false, mss).window);
        for n in 1..400u64 {
            let (now, window) = (at(n * 2_000_000), connection.0[0]);
            connection.0[2] += 2 * mss;
            let acked = Acked {
                now,
                rtt: rtt + n * 10_000,
                bytes: 2 * mss,
                flight: window,
                window,
                mss,
            };
            publish(
                &mut source,
                &mut connection,
                now,
                2,
                &[acked.bytes, acked.rtt, acked.flight],
            );
            let decision = controller.acked(acked);
            assert_eq!(
                (connection.0[0], Some(connection.0[5])),
                (decision.window, decision.pacing),
                "{n}"
            );
        }
        let flight = connection.0[0];
        publish(&mut source, &mut connection, at(900_000_000), 4, &[flight]);
        assert_eq!(connection.0[0], controller.recovery_began(flight, mss).window);
        publish(&mut source, &mut connection, at(950_000_000), 3, &[0]);
        assert_eq!(connection.0[0], controller.timeout(0, false, mss).window);
        // The controller is dropped with its connection, and the provider sets the window again.
        drop(subscriber);
        source.poll(at(951_000_000), &mut connection);
        let held = source.holds().len();
        assert_eq!(
            (connection.0[0], connection.0[4], connection.0[5], held),
            (14_480, 1 << 30, 0, 0)
        );
    }

    #[test]
    fn each_mode_subscribes_only_to_its_variables() {
        for (mode, with) in [(Mode::Signal, 0), (Mode::Probe, 4), (Mode::Full, 4)] {
            let options = SteerOptions {
                mode,
                interval: Duration::from_nanos(7),
                ..SteerOptions::new("kernel.tcp")
            };
            let subscriptions = Steer::new(options, || Fast::new(FastParams::default())).subscriptions();
            assert_eq!(subscriptions.len(), 7);
            assert!(
                subscriptions
                    .iter()
                    .all(|subscription| subscription.with.len() == with)
            );
            assert_eq!(subscriptions[2].events[0].as_str(), "kernel.tcp.acked");
            let often: Vec<usize> = (0..7)
                .filter(|n| subscriptions[*n].filter.interval == Duration::from_nanos(7))
                .collect();
            assert_eq!(often, [1, 2], "what happens with each segment");
        }
    }

    /// The kernel's `closed` may be lost because the ring is full.
    #[test]
    fn connections_without_received_ends_make_room() {
        let bus = Bus::new();
        let mut source = bus.source(schema().into(), None);
        let subscriber = bus.join("reno", Rights::all(), 1).expect("it may");
        let mut steer = Steer::new(SteerOptions::new("tcp"), Reno::new);
        let (queue, mut signals) = Ring::new(16, None);
        subscriber
            .subscribe(steer.subscriptions().swap_remove(0), &queue)
            .expect("it may");
        let (mut connection, mut hands) = (Connection([14_480, 1448, 0, 1, 1, 0]), Hands::default());
        let mut establish = |now: Instant, flow: u64| {
            source.poll(now, &mut connection);
            source.publish(now, FlowId(flow), EventId(0), &[1], &mut connection);
            run_waiting(
                &mut signals,
                &mut hands,
                |signal, hands| steer.signal(0, signal, hands),
                |_| {},
            );
            steer.flows()
        };
        let last = MAX_FLOWS as u64;
        assert_eq!(
            (0..=last).map(|flow| establish(at(flow), flow)).last(),
            Some(MAX_FLOWS),
            "no more than that"
        );
        assert_eq!(
            establish(Instant::after(IDLE_TIMEOUT), last),
            MAX_FLOWS,
            "the last check was not long ago"
        );
        assert_eq!(
            establish(at(last) + IDLE_TIMEOUT, last),
            1,
            "those that were idle are forgotten"
        );
    }

    /// The signal of a recovery's end may find a full queue, or the kernel may not raise it. The controller
    /// continues nevertheless.
    #[test]
    fn a_recovery_without_a_received_end_still_ends() {
        let (bus, mss, rtt) = (Bus::new(), 1448, 40_000_000);
        let mut source = bus.source(schema().into(), None);
        let tware =
            || Box::new(Steer::new(SteerOptions::new("tcp"), crate::twares::Reno::new)) as Box<dyn Tware>;
        let _subscriber = bus.attach("reno", Rights::all(), 1, tware).expect("it may");
        let mut connection = Connection([14_480, mss, 0, rtt, 1 << 30, 0]);
        publish(&mut source, &mut connection, at(1), 0, &[rtt]);
        let flight = 14_480;
        publish(&mut source, &mut connection, at(2), 4, &[flight]);
        let halved = connection.0[0];
        assert_eq!(halved, flight / 2);
        let mut grew_at = None;
        for n in 1..=40u64 {
            connection.0[2] = n * mss;
            publish(&mut source, &mut connection, at(2 + n), 2, &[mss, rtt, halved]);
            if grew_at.is_none() && connection.0[0] > halved {
                grew_at = Some(n);
            }
        }
        // Twenty segments are twice the flight; then Reno needs a window of acknowledgements for its first
        // segment.
        assert!(grew_at.is_some_and(|n| (20..30).contains(&n)), "{grew_at:?}");
    }
}
