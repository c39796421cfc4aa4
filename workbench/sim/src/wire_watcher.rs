//! Watchers of the wire. A watcher is a program beside a host that receives all packets that the host sends
//! and receives, in that order. Its assertions state the properties that packets must have.
//!
//! A watcher is an ordinary program on a stack of its own, which has the host's addresses and
//! [overhears](hawser_engine::net::Interface::overhear). Invariant: the packets that it sends are discarded,
//! so a run is the same without it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::{Stack, StackConfig, StackConfigError};
use hawser_time::Instant;

use crate::build::{Resolve, RunError, START};
use crate::frame::Frame;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::segment;
use crate::wire::SimWire;
use crate::world::{FrameFate, FrameSighting, Watcher};

/// The watchers of all hosts.
#[derive(Clone)]
pub(crate) struct Watchers(Rc<RefCell<BTreeMap<usize, HostWatcher>>>);

impl Watchers {
    /// Creates the watchers that a scenario asks for, or returns `None` if it names no program for them.
    ///
    /// # Errors
    /// Returns an error if the program cannot be found, or if a stack rejects it.
    pub(crate) fn new(
        scenario: &Scenario,
        seed: u64,
        resolve: Resolve<'_>,
    ) -> Result<Option<Watchers>, RunError> {
        let Some(name) = &scenario.watch else {
            return Ok(None);
        };
        let program = resolve(name, &[]).map_err(|error| RunError::Program { name: name.clone(), error })?;
        let mut of_hosts = BTreeMap::new();
        for (number, host) in scenario.host.iter().enumerate() {
            let interface = InterfaceConfig {
                addresses: host.parsed_addresses(number)?,
                gateways: Vec::new(),
                mtu: host.mtu,
            };
            let label = format!("watcher/{}", host.name);
            let config = StackConfig::new(interface, Rng::new(seed, &label).bits());
            let beside = HostWatcher::new(&host.name, host.mtu, &program, config);
            let beside = beside.map_err(|error| RunError::Stack { host: host.name.clone(), error })?;
            of_hosts.insert(number, beside);
        }
        Ok(Some(Watchers(Rc::new(RefCell::new(of_hosts)))))
    }

    /// Shows the watchers the fate of each packet before `others` see it. `ends` are the nodes to which the
    /// pipes lead.
    pub(crate) fn seeing(&self, ends: Vec<usize>, mut others: Option<Watcher>) -> Watcher {
        let watchers = self.clone();
        Box::new(move |sight| {
            let host = match (sight.fate, sight.pipe) {
                (FrameFate::Sent, _) => Some(sight.from),
                (FrameFate::Delivered, Some(pipe)) => ends.get(pipe).copied(),
                _ => None,
            };
            let mut of_hosts = watchers.0.borrow_mut();
            if let Some(beside) = host.and_then(|host| of_hosts.get_mut(&host)) {
                beside.see(sight);
            }
            if let Some(others) = &mut others {
                others(sight);
            }
        })
    }

    /// Returns the assertions that packets broke, one line for each host.
    pub(crate) fn failures(&self) -> Vec<String> {
        let of_hosts = self.0.borrow();
        of_hosts.values().filter_map(HostWatcher::failure).collect()
    }
}

/// The watcher of a host.
struct HostWatcher {
    host: String,
    stack: Stack,
    wire: SimWire,
    first: Option<First>,
}

/// The first false assertion of a watcher.
struct First {
    at: Instant,
    /// The packet's number in a capture.
    packet: u64,
    is_sent: bool,
    text: String,
}

impl HostWatcher {
    fn new(
        host: &str,
        mtu: u32,
        program: &Arc<dyn Program>,
        config: StackConfig,
    ) -> Result<HostWatcher, StackConfigError> {
        let wire = SimWire::new(mtu);
        let mut stack = Stack::new(
            Arc::clone(program),
            config,
            hawser_engine::wire::Wire::caps(&wire),
        )?;
        stack.overhear();
        Ok(HostWatcher { host: host.to_owned(), stack, wire, first: None })
    }

    fn see(&mut self, sight: &FrameSighting<'_>) {
        for frame in segment::cut(sight.frame.clone()) {
            self.take(sight, frame);
        }
    }

    fn take(&mut self, sight: &FrameSighting<'_>, frame: Frame) {
        self.wire.arrive(sight.at, frame);
        // The watcher's packets and refusals are ignored: only assertions count.
        let _ = self.stack.poll(sight.at, &mut self.wire);
        self.wire.sent().for_each(drop);
        if self.first.is_none() && self.stack.counters().asserts > 0 {
            self.first = Some(First {
                at: sight.at,
                packet: sight.frame.number,
                is_sent: sight.fate == FrameFate::Sent,
                text: self.stack.last_assert().unwrap_or("unknown").to_owned(),
            });
        }
    }

    fn failure(&self) -> Option<String> {
        let First { at, packet, is_sent, text } = self.first.as_ref()?;
        let direction = if *is_sent { "sent" } else { "received" };
        let seconds = (*at - START).as_secs_f64();
        let count = self.stack.counters().asserts;
        Some(format!(
            "watcher of host {}: failed at {seconds:.9} s, for packet {packet} that it {direction}: \
             `{text}` ({count} failures in all)",
            self.host.escape_debug()
        ))
    }
}
