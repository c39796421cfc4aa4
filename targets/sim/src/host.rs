//! A simulated host: a stack, its wire, and the applications on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser_engine::{Handle, Stack};
use hawser_time::Instant;

use crate::app::Endpoint;
use crate::frame::Frame;
use crate::trace::Trace;
use crate::wire::SimWire;
use crate::world::Node;

/// The maximum number of rounds of polling at one instant: beyond that the stack does not come to rest.
const ROUNDS_MAX: usize = 10_000;
/// How many bytes an application reads at a time.
const READ: usize = 64 * 1024;

/// A host.
pub struct Host {
    name: String,
    stack: Stack,
    wire: SimWire,
    /// Which port leads to an address.
    routes: BTreeMap<IpAddr, usize>,
    ports: usize,
    endpoints: Vec<Endpoint>,
    /// Whose notices a handle's are.
    owners: BTreeMap<Handle, usize>,
    /// When each end wants to be driven, in order; and the same by end.
    wakes: BTreeSet<(Instant, usize)>,
    wake_of: Vec<Option<Instant>>,
    buffer: Vec<u8>,
    /// The end that was observed last.
    observed: usize,
    no_route: u64,
    failure: Option<HostFailure>,
    progress: u64,
}

/// Why a host stopped working: a bug of its program or of the stack.
#[derive(Debug, thiserror::Error)]
pub enum HostFailure {
    /// The stack failed.
    #[error(transparent)]
    Stack(io::Error),
    /// The stack has something to do again and again at one moment.
    #[error("the stack does not come to rest")]
    Restless,
}

impl Host {
    /// A host with this stack and wire, without links and applications.
    #[must_use]
    pub fn new(name: &str, stack: Stack, wire: SimWire) -> Host {
        Host {
            name: name.to_owned(),
            stack,
            wire,
            routes: BTreeMap::new(),
            ports: 0,
            endpoints: Vec::new(),
            owners: BTreeMap::new(),
            wakes: BTreeSet::new(),
            wake_of: Vec::new(),
            buffer: vec![0; READ],
            observed: 0,
            no_route: 0,
            failure: None,
            progress: 0,
        }
    }

    /// Adds the port of the next link, which leads to these addresses.
    pub fn add_port(&mut self, leads_to: impl IntoIterator<Item = IpAddr>) {
        let port = self.ports;
        leads_to.into_iter().for_each(|address| {
            self.routes.entry(address).or_insert(port);
        });
        self.ports += 1;
    }

    /// Adds an end of a flow and returns its number.
    pub fn add_endpoint(&mut self, endpoint: Endpoint) -> usize {
        let number = self.endpoints.len();
        self.endpoints.push(endpoint);
        self.wake_of.push(None);
        self.plan_wake(number);
        number
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An end of a flow.
    #[must_use]
    pub fn endpoint(&self, number: usize) -> &Endpoint {
        &self.endpoints[number]
    }

    /// Its stack.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Its stack, to be put on a bus.
    pub fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Frames that it sent to addresses to which no link leads, and frames that came faster
    /// than it took them.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        (self.no_route, self.wire.overflow())
    }

    /// Why it stopped working, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&HostFailure> {
        self.failure.as_ref()
    }

    /// True when all its applications are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.failure.is_some() || self.endpoints.iter().all(Endpoint::is_finished)
    }

    /// True when all its connections are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.failure.is_some() || self.endpoints.iter().all(Endpoint::is_closed)
    }

    /// Does one round of work; false when there was none.
    fn round(&mut self, now: Instant, trace: &mut Trace) -> io::Result<bool> {
        let mut busy = self.stack.poll(now, &mut self.wire)?;
        while let Some((handle, notice)) = self.stack.next_notice() {
            busy = true;
            if let Some(&number) = self.owners.get(&handle) {
                self.endpoints[number].on_notice(now, handle, notice, &mut self.stack, trace);
                self.drive(number, now);
            }
        }
        while let Some(&(at, number)) = self.wakes.first()
            && at <= now
        {
            busy = true;
            self.drive(number, now);
        }
        Ok(busy)
    }

    fn drive(&mut self, number: usize, now: Instant) {
        let endpoint = &mut self.endpoints[number];
        let before = endpoint.received();
        endpoint.drive(now, &mut self.stack, &mut self.buffer);
        self.progress += endpoint.received() - before;
        endpoint.handles().for_each(|handle| {
            self.owners.insert(handle, number);
        });
        self.plan_wake(number);
    }

    fn plan_wake(&mut self, number: usize) {
        let wake = self.endpoints[number].wake_at();
        if let Some(before) = std::mem::replace(&mut self.wake_of[number], wake) {
            self.wakes.remove(&(before, number));
        }
        self.wakes.extend(wake.map(|at| (at, number)));
    }

    /// Observes one end after the other, one at a time, because observing costs as much as a packet.
    fn observe(&mut self) {
        self.observed = (self.observed + 1) % self.endpoints.len().max(1);
        if let Some(endpoint) = self.endpoints.get_mut(self.observed) {
            endpoint.observe(&self.stack);
        }
    }

    /// The port that leads to a frame's destination. A host with one link sends everything there.
    fn port_for(&self, frame: &Frame) -> Option<usize> {
        if self.ports == 1 {
            return Some(0);
        }
        self.routes.get(&destination(frame)?).copied()
    }
}

/// Where an IP packet wants to go.
fn destination(frame: &Frame) -> Option<IpAddr> {
    let headers = frame.headers()?;
    let packet = &frame.head[headers.network..];
    if headers.is_v4 {
        let bytes: [u8; 4] = packet[16..20].try_into().ok()?;
        Some(Ipv4Addr::from(bytes).into())
    } else {
        let bytes: [u8; 16] = packet[24..40].try_into().ok()?;
        Some(Ipv6Addr::from(bytes).into())
    }
}

impl Node for Host {
    fn arrive(&mut self, now: Instant, frame: Frame) {
        self.wire.arrive(now, frame);
    }

    fn run(&mut self, now: Instant, out: &mut Vec<(usize, Frame)>, trace: &mut Trace) {
        if self.failure.is_some() {
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
        let sent: Vec<Frame> = self.wire.sent().collect();
        for frame in sent {
            match self.port_for(&frame) {
                Some(port) => out.push((port, frame)),
                None => self.no_route += 1,
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.failure.is_some() {
            return None;
        }
        let wake = self.wakes.first().map(|(at, _)| *at);
        let waiting = self.wire.has_frames().then_some(0);
        [wake, waiting.map(Instant::from_nanos), self.stack.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}
