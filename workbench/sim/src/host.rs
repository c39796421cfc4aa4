//! A simulated host: a stack, its wire, and the applications on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use hawser_engine::{Handle, Notice, Stack, StackConfigError};
use hawser_time::Instant;

use crate::app::works::{Worker, Workers};
use crate::app::{Agent, Endpoint};
use crate::frame::Frame;
use crate::trace::Trace;
use crate::wire::SimWire;
use crate::world::{FrameExit, Node};

/// The maximum number of polling rounds at one instant. A stack that needs more does not come to rest.
const ROUNDS_MAX: usize = 10_000;
/// The number of bytes that an application reads at a time.
const READ: usize = 64 * 1024;

/// Makes the stack and the wire of a host's n-th life; its first life has the number 1.
pub type Boot = Box<dyn Fn(u32) -> Result<(Stack, SimWire), StackConfigError>>;

/// A simulated host with its stack, its wire and its applications.
pub struct Host {
    name: String,
    boot: Boot,
    lives: u32,
    up: bool,
    stack: Stack,
    wire: SimWire,
    /// The port that leads to each address.
    routes: BTreeMap<IpAddr, usize>,
    ports: usize,
    endpoints: Vec<Endpoint>,
    /// The applications that make and serve calls.
    agents: Vec<Agent>,
    /// The ends of flows of works.
    workers: Workers,
    /// The end that succeeds each end, for a flow that is reopened.
    heirs: BTreeMap<usize, usize>,
    /// By shared listener and client address: the first end that takes connections from there.
    expected: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// By listener that several ends share: the end that opened it.
    listeners: BTreeMap<SocketAddr, usize>,
    /// The end that receives the notices of each handle.
    owners: BTreeMap<Handle, usize>,
    /// The times at which ends want to be driven, in order, and the same by end.
    wakes: BTreeSet<(Instant, usize)>,
    wake_of: Vec<Option<Instant>>,
    buffer: Vec<u8>,
    /// The most recently observed end.
    observed: usize,
    no_route: u64,
    failure: Option<HostFailure>,
    progress: u64,
}

/// A host stopped working because of a bug in its program or in the stack.
#[derive(Debug, thiserror::Error)]
pub enum HostFailure {
    /// The stack failed.
    #[error(transparent)]
    Stack(io::Error),
    /// The stack repeatedly has work to do at the same instant.
    #[error("the stack does not come to rest")]
    Restless,
    /// The stack could not be set up again.
    #[error(transparent)]
    Boot(StackConfigError),
}

impl Host {
    /// Creates a host in its first life, without links and applications.
    ///
    /// # Errors
    /// Returns an error if its stack rejects its configuration or its program.
    pub fn new(name: &str, boot: Boot) -> Result<Host, StackConfigError> {
        let (stack, wire) = boot(1)?;
        Ok(Host {
            name: name.to_owned(),
            boot,
            lives: 1,
            up: true,
            stack,
            wire,
            routes: BTreeMap::new(),
            ports: 0,
            endpoints: Vec::new(),
            agents: Vec::new(),
            workers: Workers::default(),
            heirs: BTreeMap::new(),
            expected: BTreeMap::new(),
            listeners: BTreeMap::new(),
            owners: BTreeMap::new(),
            wakes: BTreeSet::new(),
            wake_of: Vec::new(),
            buffer: vec![0; READ],
            observed: 0,
            no_route: 0,
            failure: None,
            progress: 0,
        })
    }

    /// Adds the port of the next link.
    pub fn add_port(&mut self) {
        self.ports += 1;
    }

    /// Sends packets to this address through this port.
    pub fn add_route(&mut self, address: IpAddr, port: usize) {
        self.routes.insert(address, port);
    }

    /// Adds an end of a flow and returns its number.
    pub fn add_endpoint(&mut self, endpoint: Endpoint) -> usize {
        let number = self.endpoints.len();
        if let Some(before) = endpoint.follows() {
            self.heirs.insert(before, number);
        } else if let Some(shared) = endpoint.shares() {
            self.expected.insert(shared, number);
        }
        self.endpoints.push(endpoint);
        self.wake_of.push(None);
        self.plan_wake(number);
        number
    }

    /// Adds the application of a flow of calls and returns its number.
    pub fn add_agent(&mut self, agent: Agent) -> usize {
        self.agents.push(agent);
        self.agents.len() - 1
    }

    /// Adds an end of a flow of works and returns its number.
    pub(crate) fn add_worker(&mut self, worker: Worker) -> usize {
        self.workers.add(worker)
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Returns the application of a flow of calls.
    #[must_use]
    pub fn agent(&self, number: usize) -> &Agent {
        &self.agents[number]
    }

    /// Returns the applications of flows of calls.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter()
    }

    /// Returns the host's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an end of a flow.
    #[must_use]
    pub fn endpoint(&self, number: usize) -> &Endpoint {
        &self.endpoints[number]
    }

    /// Returns the host's stack.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Returns the number of frames sent to addresses without a route, and of frames that overflowed its
    /// wire's receive queue.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        (self.no_route, self.wire.overflow())
    }

    /// Returns the number of connections that reached its listeners unexpectedly: no flow expects them there.
    #[must_use]
    pub fn unexpected_connections(&self) -> u64 {
        self.endpoints.iter().map(Endpoint::extra_connections).sum()
    }

    /// Returns the failure that stopped the host, if any.
    #[must_use]
    pub fn failure(&self) -> Option<&HostFailure> {
        self.failure.as_ref()
    }

    /// Returns true if all its applications are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.failure.is_some()
            || (self.endpoints.iter().all(Endpoint::is_finished)
                && self.agents.iter().all(Agent::is_finished)
                && self.workers.is_finished())
    }

    /// Returns true if all its connections are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.failure.is_some()
            || (self.endpoints.iter().all(Endpoint::is_closed)
                && self.agents.iter().all(Agent::is_closed)
                && self.workers.is_finished())
    }

    /// Returns true if its stack holds no state of any connection: no context except those of listeners, and
    /// no bytes. A host that went down holds no state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let gone = self.failure.is_some() || !self.up;
        gone || (self.leaked_contexts() == 0 && self.stack.held_bytes() == (0, 0))
    }

    /// Returns the number of contexts beyond those of its applications' listeners.
    #[must_use]
    pub fn leaked_contexts(&self) -> usize {
        let listeners = self
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.is_listening())
            .count();
        let agents = self.agents.iter().filter(|agent| agent.is_listening()).count();
        self.stack.contexts().saturating_sub(listeners + agents)
    }

    /// Does one round of work; returns false if there was none.
    fn round(&mut self, now: Instant, trace: &mut Trace) -> io::Result<bool> {
        let mut busy = self.stack.poll(now, &mut self.wire)?;
        let mut is_noticed = false;
        while let Some((handle, notice)) = self.stack.next_notice() {
            busy = true;
            let Some(&owner) = self.owners.get(&handle) else {
                match self.workers.notice(handle, &notice) {
                    true => is_noticed = true,
                    false => self.notify_agent(now, handle, notice, trace),
                }
                continue;
            };
            if let Some(number) = self.taker_of(owner, handle, notice) {
                self.endpoints[number].on_notice(now, handle, notice, &mut self.stack, trace);
                self.drive(number, now);
            } else if let Notice::Accepted(child) = notice {
                self.stack.accept(handle);
                self.endpoints[owner].reject(now, child, &mut self.stack);
            }
        }
        while let Some(&(at, number)) = self.wakes.first()
            && at <= now
        {
            busy = true;
            self.drive(number, now);
        }
        if is_noticed || self.workers.wake_at().is_some_and(|at| at <= now) {
            busy = true;
            self.drive_workers(now, trace);
        }
        for agent in &mut self.agents {
            if agent.wake_at().is_some_and(|at| at <= now) {
                busy = true;
                agent.drive(now, &mut self.stack, trace);
            }
        }
        Ok(busy)
    }

    fn drive_workers(&mut self, now: Instant, trace: &mut Trace) {
        let before = self.workers.moved();
        self.workers.drive(now, &mut self.stack, trace);
        self.progress += self.workers.moved() - before;
    }

    /// Passes a notice to the application of calls that owns the handle, if there is one.
    fn notify_agent(&mut self, now: Instant, handle: Handle, notice: Notice, trace: &mut Trace) {
        let Some(agent) = self.agents.iter_mut().find(|agent| agent.has(handle)) else {
            return;
        };
        let before = agent.received();
        agent.on_notice(now, handle, notice, &mut self.stack, trace);
        agent.drive(now, &mut self.stack, trace);
        self.progress += agent.received() - before;
    }

    /// Returns the end that receives a notice about a handle of `owner`. A connection that a shared listener
    /// accepted belongs to the end that expects it from that address, if there is one. A connection that
    /// arrives after an end's own belongs to its successor.
    fn taker_of(&self, owner: usize, handle: Handle, notice: Notice) -> Option<usize> {
        let Notice::Accepted(child) = notice else {
            return Some(owner);
        };
        if self.endpoints[owner].is_connection(handle) {
            return Some(owner);
        }
        let mut taker = match self.endpoints[owner].shares() {
            Some((local, _)) => *self.expected.get(&(local, self.stack.peer(child)?))?,
            None => owner,
        };
        while self.endpoints[taker].has_connection()
            && let Some(heir) = self.heirs.get(&taker)
        {
            taker = *heir;
        }
        Some(taker)
    }

    /// Drives an end, and its successor once the end is over.
    fn drive(&mut self, number: usize, now: Instant) {
        self.drive_alone(number, now);
        if self.endpoints[number].is_over()
            && let Some(&heir) = self.heirs.get(&number)
            && self.endpoints[heir].begin(now)
        {
            self.plan_wake(heir);
        }
    }

    fn drive_alone(&mut self, number: usize, now: Instant) {
        self.join_listener(number, now);
        let endpoint = &mut self.endpoints[number];
        let before = endpoint.received();
        endpoint.drive(now, &mut self.stack, &mut self.buffer);
        if let (Some((local, _)), true) = (endpoint.shares(), endpoint.is_listening()) {
            self.listeners.insert(local, number);
        }
        self.progress += endpoint.received() - before;
        endpoint.handles().for_each(|handle| {
            self.owners.insert(handle, number);
        });
        for (handle, is_new) in endpoint.take_stream_handles() {
            match is_new {
                true => self.owners.insert(handle, number),
                false => self.owners.remove(&handle),
            };
        }
        self.plan_wake(number);
    }

    /// Lets an end that is about to listen share the listener that another end has already opened there.
    fn join_listener(&mut self, number: usize, now: Instant) {
        let endpoint = &self.endpoints[number];
        let shared = endpoint.shares().filter(|_| endpoint.is_opening(now));
        if let Some(&owner) = shared.and_then(|(local, _)| self.listeners.get(&local)) {
            let granted = self.endpoints[owner].granted_buffer();
            self.endpoints[number].join(granted);
        }
    }

    fn plan_wake(&mut self, number: usize) {
        let wake = self.endpoints[number].wake_at();
        if let Some(before) = std::mem::replace(&mut self.wake_of[number], wake) {
            self.wakes.remove(&(before, number));
        }
        self.wakes.extend(wake.map(|at| (at, number)));
    }

    /// Observes the ends in turn, one per call, because observing costs about the work of a packet.
    fn observe(&mut self) {
        self.observed = (self.observed + 1) % self.endpoints.len().max(1);
        if let Some(endpoint) = self.endpoints.get_mut(self.observed) {
            endpoint.observe(&self.stack);
        }
    }

    /// Returns the port that leads to a frame's destination. A host with one link sends everything there.
    fn port_for(&self, frame: &Frame) -> Option<usize> {
        if self.ports == 1 {
            return Some(0);
        }
        self.routes.get(&frame.destination()?).copied()
    }
}

impl Node for Host {
    fn arrive(&mut self, now: Instant, frame: Frame) {
        if self.up {
            self.wire.arrive(now, frame);
        }
    }

    fn set_up(&mut self, now: Instant, up: bool) {
        if up == self.up || self.failure.is_some() {
            return;
        }
        self.up = up;
        self.agents.iter_mut().for_each(|agent| agent.fall(now, up));
        if !up {
            self.owners.clear();
            self.listeners.clear();
            // An end has a higher number than the end that it follows, so successors are visited later.
            for number in 0..self.endpoints.len() {
                if self.endpoints[number].fall()
                    && let Some(&heir) = self.heirs.get(&number)
                {
                    self.endpoints[heir].inherit(now);
                }
            }
            return;
        }
        self.lives += 1;
        match (self.boot)(self.lives) {
            Ok((stack, wire)) => (self.stack, self.wire) = (stack, wire),
            Err(error) => self.failure = Some(HostFailure::Boot(error)),
        }
        (0..self.endpoints.len()).for_each(|number| self.plan_wake(number));
    }

    fn run(&mut self, now: Instant, out: &mut Vec<(FrameExit, Frame)>, trace: &mut Trace) {
        if self.failure.is_some() || !self.up {
            return;
        }
        for rounds in 0.. {
            match self.round(now, trace) {
                Ok(true) if rounds < ROUNDS_MAX => {}
                Ok(true) => {
                    self.failure = Some(HostFailure::Restless);
                    break;
                }
                Ok(false) => break,
                Err(error) => {
                    self.failure = Some(HostFailure::Stack(error));
                    break;
                }
            }
        }
        self.observe();
        if self.ports == 1 {
            out.extend(self.wire.sent().map(|frame| (FrameExit::Port(0), frame)));
            return;
        }
        let sent: Vec<Frame> = self.wire.sent().collect();
        for frame in sent {
            match self.port_for(&frame) {
                Some(port) => out.push((FrameExit::Port(port), frame)),
                None => self.no_route += 1,
            }
        }
    }

    fn waits_for_line(&self) -> bool {
        self.failure.is_none() && self.up && self.stack.wants_wire()
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.failure.is_some() || !self.up {
            return None;
        }
        let wake = self.wakes.first().map(|(at, _)| *at);
        let agents = self.agents.iter().filter_map(Agent::wake_at).min();
        let can_send = self.stack.wants_wire() && self.wire.free() > 0;
        let waiting = (can_send || self.wire.has_frames()).then_some(Instant::ORIGIN);
        [
            wake,
            agents,
            self.workers.wake_at(),
            waiting,
            self.stack.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}
