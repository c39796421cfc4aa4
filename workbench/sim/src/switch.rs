//! A switch that stores frames and forwards them by destination.
//!
//! A frame has arrived when its last bit has, and leaves at once by a port that leads to its destination. The
//! queue of that port belongs to the link. A switch gets its routes from the scenario beforehand
//! ([`paths`](crate::paths)). It does not learn addresses, and it does not change frames.
//!
//! If several ports lead to a destination on shortest paths, packets of one flow leave by one of them
//! (equal-cost multipath, RFC 2992). A hash of the fields in [`Frame::flow`] selects the port. Alternatively,
//! each packet leaves by another port ([`Spread`]).

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use hawser_time::Instant;
use siphasher::sip::SipHasher13;

use crate::frame::Frame;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::world::{FrameExit, Node};

/// Reasons for which a switch drops frames.
const NO_ROUTE: &str = "no_route";
const DOWN: &str = "down";

/// The choice among several ports on shortest paths.
#[derive(Debug)]
pub enum Spread {
    /// One port for each flow. Each switch has its own key, so that flows which one switch puts on the same
    /// path are spread again by the next.
    Flow([u64; 2]),
    /// A random port for each packet.
    Random(Rng),
    /// The next port in turn, over all packets that have a choice.
    RoundRobin(usize),
}

impl Spread {
    /// Creates the choice by flow for the switch of this name.
    #[must_use]
    pub fn by_flow(seed: u64, name: &str) -> Spread {
        let mut rng = Rng::new(seed, &format!("switch/{name}"));
        Spread::Flow([rng.bits(), rng.bits()])
    }

    /// Creates the random choice for the switch of this name.
    #[must_use]
    pub fn at_random(seed: u64, name: &str) -> Spread {
        Spread::Random(Rng::new(seed, &format!("switch/{name}")))
    }

    /// Returns the index of a frame's port among `count` ports.
    fn choose(&mut self, frame: &Frame, count: usize) -> usize {
        if count == 1 {
            return 0;
        }
        match self {
            Spread::Flow(key) => {
                let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
                frame.flow(&mut hasher);
                (hasher.finish() % count as u64) as usize
            }
            Spread::Random(rng) => rng.below(count as u64) as usize,
            Spread::RoundRobin(turn) => {
                *turn = turn.wrapping_add(1);
                turn.wrapping_sub(1) % count
            }
        }
    }
}

/// The number of the host that has each address.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Sorted by address.
    v4: Vec<(u32, usize)>,
    v6: Vec<(u128, usize)>,
}

impl Directory {
    /// Returns the host that has an address.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<usize> {
        fn find<A: Ord + Copy>(all: &[(A, usize)], address: A) -> Option<usize> {
            let place = all.binary_search_by_key(&address, |(address, _)| *address);
            place.ok().map(|place| all[place].1)
        }
        match address {
            IpAddr::V4(address) => find(&self.v4, address.to_bits()),
            IpAddr::V6(address) => find(&self.v6, address.to_bits()),
        }
    }
}

impl FromIterator<(IpAddr, usize)> for Directory {
    fn from_iter<I: IntoIterator<Item = (IpAddr, usize)>>(all: I) -> Directory {
        let mut directory = Directory::default();
        for (address, host) in all {
            match address {
                IpAddr::V4(address) => directory.v4.push((address.to_bits(), host)),
                IpAddr::V6(address) => directory.v6.push((address.to_bits(), host)),
            }
        }
        directory.v4.sort_unstable();
        directory.v6.sort_unstable();
        directory
    }
}

/// A switch with its routes and counters.
#[derive(Debug)]
pub struct Switch {
    name: String,
    up: bool,
    directory: Arc<Directory>,
    spread: Spread,
    /// By host: the index of the set of ports that leads there.
    routes: Vec<Option<u32>>,
    /// Each distinct set of ports, stored once, since many hosts share the same set.
    sets: Vec<Vec<usize>>,
    /// The frames that have arrived at this instant.
    arrived: Vec<Frame>,
    forwarded: u64,
    dropped: BTreeMap<&'static str, u64>,
}

impl Switch {
    /// Creates a switch without routes.
    #[must_use]
    pub fn new(name: &str, spread: Spread) -> Switch {
        Switch {
            name: name.to_owned(),
            up: true,
            directory: Arc::default(),
            spread,
            routes: Vec::new(),
            sets: Vec::new(),
            arrived: Vec::new(),
            forwarded: 0,
            dropped: BTreeMap::new(),
        }
    }

    /// Sets the directory that maps destination addresses to hosts.
    pub fn set_directory(&mut self, directory: Arc<Directory>) {
        self.directory = directory;
    }

    /// Adds the ports that lead to this host; there may be none.
    pub fn add_route(&mut self, host: usize, ports: &[usize]) {
        if ports.is_empty() {
            return;
        }
        let known = self.sets.iter().position(|set| set == ports);
        let number = known.unwrap_or_else(|| {
            self.sets.push(ports.to_vec());
            self.sets.len() - 1
        });
        if self.routes.len() <= host {
            self.routes.resize(host + 1, None);
        }
        self.routes[host] = u32::try_from(number).ok();
    }

    /// Returns the switch's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of frames that it has forwarded.
    #[must_use]
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// Returns the number of frames that it has dropped, by reason: `no_route` and `down`.
    #[must_use]
    pub fn dropped(&self) -> &BTreeMap<&'static str, u64> {
        &self.dropped
    }

    /// Returns the index of the set of ports that leads to a frame's destination.
    fn ports_for(&self, frame: &Frame) -> Option<usize> {
        let host = self.directory.find(frame.destination()?)?;
        self.routes.get(host)?.map(|set| set as usize)
    }

    fn exit(&mut self, frame: &Frame) -> FrameExit {
        if !self.up {
            return FrameExit::Drop(DOWN);
        }
        let Some(set) = self.ports_for(frame) else {
            return FrameExit::Drop(NO_ROUTE);
        };
        let ports = &self.sets[set];
        FrameExit::Port(ports[self.spread.choose(frame, ports.len())])
    }
}

impl Node for Switch {
    fn arrive(&mut self, _now: Instant, frame: Frame) {
        self.arrived.push(frame);
    }

    fn run(&mut self, _now: Instant, out: &mut Vec<(FrameExit, Frame)>, _trace: &mut Trace) {
        let mut arrived = std::mem::take(&mut self.arrived);
        for frame in arrived.drain(..) {
            let exit = self.exit(&frame);
            match exit {
                FrameExit::Port(_) => self.forwarded += 1,
                FrameExit::Drop(reason) => *self.dropped.entry(reason).or_default() += 1,
            }
            out.push((exit, frame));
        }
        // The buffer is kept for later frames.
        self.arrived = arrived;
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn set_up(&mut self, _now: Instant, up: bool) {
        self.up = up;
    }

    fn forwards(&self) -> bool {
        true
    }

    fn progress(&self) -> u64 {
        0
    }
}
