//! Linux's own TCP as a provider: `kernel.tcp`, with the names that our own transport has.
//!
//! A thread serves it. The bus's filters are given to the eBPF programs where all who want an event
//! want the same of it; leases lie in the kernel, so that they end there even when this process is
//! dead. What is set acts at a flow's next acknowledgement, and what of it the kernel cannot do is in
//! [`Serving::capabilities`].

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_bus::ring::Waker;
use hawser_bus::{
    Access, Bus, EventId, EventType, Field, Filter, FlowId, FlowInfo, Kind, Nanos, Schema, Source, SourceId,
    State, Variable, VariableId,
};
pub use hawser_kernel::{Capability, KernelError, Missing, Options, Subject};
use hawser_kernel::{Diagnostics, Event, Flow, Kernel, Record, SubscriptionId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};

/// How long the state of a flow is taken for what it was: less than a round trip of any network.
const FRESH: Nanos = 200_000;
/// The longest that the thread sleeps.
const LOOK: Duration = Duration::from_millis(100);
/// Above what any window can be (RFC 7323, 2.3).
const MOST_WINDOW: u64 = 1 << 30;

/// States of a connection, numbered as our own TCP has them.
const STATES: [&str; 10] = [
    "CLOSED",
    "SYN_SENT",
    "SYN_RECEIVED",
    "ESTABLISHED",
    "FIN_WAIT_1",
    "FIN_WAIT_2",
    "CLOSE_WAIT",
    "CLOSING",
    "LAST_ACK",
    "TIME_WAIT",
];

/// What Linux's TCP offers.
///
/// # Panics
/// Never: what the kernel's crate lists is within a provider's bounds, which a test sees to.
#[must_use]
pub fn schema() -> Schema {
    let states = || Kind::Enum((0..).zip(STATES.map(str::to_owned)).collect());
    let field = |name: &&str| Field {
        name: (*name).to_owned(),
        kind: match *name {
            "rtt" | "sample" => Kind::Duration,
            "again" | "by_timeout" => Kind::Bool,
            "from" | "to" => states(),
            _ => Kind::Number,
        },
    };
    let event = |event: Event| EventType {
        name: format!("kernel.tcp.{}", event.name()),
        fields: event.fields().iter().map(field).collect(),
    };
    let modifiable = |name: &str| hawser_kernel::Variable::ALL.iter().any(|v| v.name() == name);
    let variable = |(name, _): (&str, u64)| Variable {
        name: format!("kernel.tcp.{name}"),
        kind: match name {
            "conn.srtt" | "conn.rttvar" | "conn.rto" | "conn.rack.min_rtt" => Kind::Duration,
            "conn.state" => states(),
            _ => Kind::Number,
        },
        access: match modifiable(name) {
            true if name.ends_with("rate") => Access::Modifiable { min: 1, max: u64::MAX },
            true => Access::Modifiable { min: 1, max: MOST_WINDOW },
            false => Access::Observable,
        },
    };
    let variables = hawser_kernel::State::default().variables().map(variable).into();
    Schema::new("kernel.tcp", Event::ALL.map(event).into(), variables).expect("the lists are within bounds")
}

/// Linux's TCP, being served. All is taken out of the kernel when it is dropped; flows that were
/// modified go on by their own law.
#[derive(Debug)]
pub struct Serving {
    source: SourceId,
    capabilities: Vec<Capability>,
    ends: Arc<AtomicBool>,
    waker: Bell,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread.
struct Bell(Waker);

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

impl Serving {
    /// Its number on the bus.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// What this machine's kernel gives, and why not the rest.
    #[must_use]
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }
}

/// Puts Linux's TCP on a bus. Loading takes privilege ([`Kernel::load`]); nothing after it does.
///
/// # Errors
/// What is missing, and what would help.
pub fn serve_kernel(bus: &Bus, options: &Options) -> Result<Serving, KernelError> {
    let kernel = Kernel::load(options)?;
    let diagnostics = Diagnostics::open()?;
    let system = |error: std::io::Error| KernelError::System { doing: "start a thread", error };
    let bell = Arc::new(
        eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| system(error.into()))?,
    );
    let rung = bell.clone();
    let waker: Waker = Arc::new(move || {
        // A full counter rings as well.
        let _ = rustix::io::write(&*rung, &1u64.to_ne_bytes());
    });
    let source = bus.source(Arc::new(schema()), Some(waker.clone()));
    let (id, capabilities) = (source.id(), kernel.capabilities());
    let ends = Arc::new(AtomicBool::new(false));
    let over = ends.clone();
    let view = View {
        kernel,
        diagnostics: RefCell::new(diagnostics),
        known: RefCell::default(),
        set: BTreeMap::new(),
        now: 0,
    };
    let body = move || run(source, view, &bell, &over);
    let thread = std::thread::Builder::new().name("kernel-tcp".into()).spawn(body).map_err(system)?;
    Ok(Serving { source: id, capabilities, ends, waker: Bell(waker), thread: Some(thread) })
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        (self.waker.0)();
        if let Some(thread) = self.thread.take() {
            // It owns what is in the kernel: gone when this returns.
            let _ = thread.join();
        }
    }
}

/// Nanoseconds of the clock that events are stamped with.
fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What is subscribed to in the kernel: for each event, its filter there, and whether that is the
/// one that was asked for.
type Subscribed = [Option<(SubscriptionId, Filter)>; Event::ALL.len()];

fn run(mut source: Source, mut view: View, bell: &OwnedFd, over: &AtomicBool) {
    let mut subscribed: Subscribed = [None; Event::ALL.len()];
    let mut records: Vec<Record> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        view.now = now();
        let polled = view.now;
        source.poll(polled, &mut view);
        follow(&source, &mut view.kernel, &mut subscribed);
        // What cannot be read now is read at the next turn.
        let _ = view.kernel.poll(Some(Duration::ZERO), |record| records.push(*record));
        if records.is_empty() {
            let deadline = source.next_deadline().map(|at| Duration::from_nanos(at.saturating_sub(now())));
            wait(&view.kernel, bell, deadline.unwrap_or(LOOK).min(LOOK));
        }
        for record in records.drain(..) {
            tell(&mut source, &mut view, &subscribed, &record);
        }
    }
}

/// Waits for records or orders.
fn wait(kernel: &Kernel, bell: &OwnedFd, at_most: Duration) {
    use std::os::fd::AsFd;

    let limit = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    let ring = kernel.as_fd();
    let mut both = [PollFd::from_borrowed_fd(ring, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
    if poll(&mut both, Some(&limit)).is_ok() {
        let mut count = [0; 8];
        // Nobody rang, or it is silent now.
        let _ = rustix::io::read(bell, &mut count);
    }
}

/// Subscribes in the kernel to what the bus's members want.
fn follow(source: &Source, kernel: &mut Kernel, subscribed: &mut Subscribed) {
    for event in Event::ALL {
        let id = EventId(event as u16);
        let wanted = source.wants(id).then(|| source.common_filter(id).unwrap_or_default());
        let place = &mut subscribed[event as usize];
        match (*place, wanted) {
            (Some((_, there)), Some(filter)) if there == filter => {}
            (Some((id, _)), Some(filter)) => {
                if kernel.change(id, in_kernel(filter)).is_ok() {
                    *place = Some((id, filter));
                }
            }
            (None, Some(filter)) => {
                // What this kernel does not have is a stated capability.
                *place = kernel.subscribe(event, in_kernel(filter)).ok().map(|id| (id, filter));
            }
            (Some((id, _)), None) => {
                let _ = kernel.unsubscribe(id);
                *place = None;
            }
            (None, None) => {}
        }
    }
}

fn in_kernel(filter: Filter) -> hawser_kernel::Filter {
    hawser_kernel::Filter {
        interval: Duration::from_nanos(filter.interval),
        frequency: filter.frequency,
        ..hawser_kernel::Filter::default()
    }
}

/// Signals what the kernel recorded.
fn tell(source: &mut Source, view: &mut View, subscribed: &Subscribed, record: &Record) {
    let event = record.event;
    let (id, flow) = (EventId(event as u16), FlowId(record.flow));
    let fields = &record.values[..event.fields().len()];
    view.now = now();
    let filtered = subscribed[event as usize].is_some() && source.common_filter(id).is_some();
    if filtered {
        source.publish_filtered(record.time, flow, id, fields, view);
    } else {
        source.publish(record.time, flow, id, fields, view);
    }
    if event == Event::Closed {
        source.ended(record.time, flow, view);
        view.known.borrow_mut().remove(&record.flow);
        view.set.retain(|(of, _), _| *of != record.flow);
    }
}

/// The kernel as a source sees it.
struct View {
    kernel: Kernel,
    diagnostics: RefCell<Diagnostics>,
    /// Flows as they were lately.
    known: RefCell<HashMap<u64, (Nanos, Flow)>>,
    /// What is held: in the kernel it acts at the next acknowledgement.
    set: BTreeMap<(u64, VariableId), u64>,
    now: Nanos,
}

impl View {
    /// A flow as it is, or was a moment ago.
    fn flow<T>(&self, flow: FlowId, look: impl FnOnce(&Flow) -> T) -> Option<T> {
        let mut known = self.known.borrow_mut();
        if let Some((at, flow)) = known.get(&flow.0)
            && self.now.saturating_sub(*at) < FRESH
        {
            return Some(look(flow));
        }
        let fresh = self.diagnostics.borrow_mut().probe(flow.0).ok()?;
        let told = look(&fresh);
        known.insert(flow.0, (self.now, fresh));
        Some(told)
    }

    fn modifiable(variable: VariableId) -> Option<hawser_kernel::Variable> {
        let (name, _) = hawser_kernel::State::default().variables()[usize::from(variable.0)];
        hawser_kernel::Variable::ALL.into_iter().find(|v| v.name() == name)
    }
}

impl State for View {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        if let Some(value) = self.set.get(&(flow.0, variable)) {
            return Some(*value);
        }
        self.flow(flow, |flow| flow.state.variables().get(usize::from(variable.0)).map(|(_, value)| *value))?
    }

    fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
        // Only under a lease.
        false
    }

    fn hold(&mut self, flow: FlowId, variable: VariableId, value: u64, lease: Nanos) -> Result<(), String> {
        let which = View::modifiable(variable).ok_or("the kernel does not let it be set")?;
        let lease = Duration::from_nanos(lease);
        match self.kernel.modify(flow.0, which, value, lease) {
            // Another law runs it: from now on ours does.
            Err(KernelError::NotOurs { .. }) => {
                self.kernel.adopt(flow.0).map_err(|error| error.to_string())?;
                self.kernel.modify(flow.0, which, value, lease).map_err(|error| error.to_string())?;
            }
            other => other.map_err(|error| error.to_string())?,
        }
        self.set.insert((flow.0, variable), value);
        Ok(())
    }

    fn restore(&mut self, flow: FlowId, variable: VariableId, _: u64) {
        self.set.remove(&(flow.0, variable));
        if !self.set.keys().any(|(of, _)| *of == flow.0) {
            // A lease that is over already needs no ending.
            let _ = self.kernel.release(flow.0);
        }
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        self.flow(flow, |flow| FlowInfo {
            kind: "conn".to_owned(),
            local: Some(flow.local),
            remote: Some(flow.remote),
            label: flow.congestion_control.clone(),
        })
    }

    fn flows(&self) -> Vec<FlowId> {
        let flows = self.diagnostics.borrow_mut().flows().unwrap_or_default();
        flows.into_iter().map(|flow| FlowId(flow.cookie)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_the_names_of_our_own_tcp() {
        let (theirs, program) =
            (schema(), crate::programs::resolve_with("tcp", &[]).expect("it is built in"));
        let ours = hawser_engine::schema(program.module()).expect("a schema");
        for event in theirs.events() {
            let name = event.name.strip_prefix("kernel.").expect("the provider's name");
            let same = ours.event(name).and_then(|id| ours.event_type(id)).expect(name);
            let fields = |e: &EventType| e.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
            assert_eq!(fields(event), fields(same), "{name}");
        }
        let alike = theirs.variables().iter().filter(|variable| {
            ours.variable(variable.name.strip_prefix("kernel.").expect("the provider's name")).is_some()
        });
        assert!(alike.count() >= 15);
    }
}
