//! A plain switch: it stores frames and forwards them by where they want to go.
//!
//! A frame has arrived when its last bit has, and leaves at once by the port that leads to its destination: the queue
//! there is that of the link. What a switch knows of destinations is found out from the scenario beforehand
//! ([`paths`](crate::paths)); it learns nothing, and changes nothing in a frame.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hawser_time::Instant;

use crate::frame::Frame;
use crate::trace::Trace;
use crate::world::{Exit, Node};

/// Why it drops frames.
const NO_ROUTE: &str = "no_route";
const DOWN: &str = "down";

/// A switch.
#[derive(Debug)]
pub struct Switch {
    name: String,
    up: bool,
    routes: BTreeMap<IpAddr, usize>,
    /// What has arrived at this moment.
    arrived: Vec<Frame>,
    forwarded: u64,
    dropped: BTreeMap<&'static str, u64>,
}

impl Switch {
    /// A switch without routes.
    #[must_use]
    pub fn new(name: &str) -> Switch {
        Switch {
            name: name.to_owned(),
            up: true,
            routes: BTreeMap::new(),
            arrived: Vec::new(),
            forwarded: 0,
            dropped: BTreeMap::new(),
        }
    }

    /// What goes to this address leaves by this port.
    pub fn add_route(&mut self, address: IpAddr, port: usize) {
        self.routes.insert(address, port);
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames that it has passed on.
    #[must_use]
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// Frames that it has dropped, by reason: `no_route` and `down`.
    #[must_use]
    pub fn dropped(&self) -> &BTreeMap<&'static str, u64> {
        &self.dropped
    }

    fn exit(&self, frame: &Frame) -> Exit {
        if !self.up {
            return Exit::Drop(DOWN);
        }
        let port = frame.destination().and_then(|address| self.routes.get(&address));
        port.map_or(Exit::Drop(NO_ROUTE), |port| Exit::Port(*port))
    }
}

impl Node for Switch {
    fn arrive(&mut self, _now: Instant, frame: Frame) {
        self.arrived.push(frame);
    }

    fn run(&mut self, _now: Instant, out: &mut Vec<(Exit, Frame)>, _trace: &mut Trace) {
        for frame in std::mem::take(&mut self.arrived) {
            let exit = self.exit(&frame);
            match exit {
                Exit::Port(_) => self.forwarded += 1,
                Exit::Drop(reason) => *self.dropped.entry(reason).or_default() += 1,
            }
            out.push((exit, frame));
        }
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
