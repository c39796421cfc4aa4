//! The nodes of a scenario's world: hosts and switches.

use std::net::IpAddr;
use std::sync::Arc;

use hawser_time::Instant;

use crate::frame::Frame;
use crate::host::Host;
use crate::switch::{Directory, Switch};
use crate::trace::Trace;
use crate::world::{FrameExit, Node};

pub(crate) enum Device {
    Host(Box<Host>),
    Switch(Switch),
}

impl Device {
    /// Returns the host, if the node is one.
    pub(crate) fn host(&self) -> Option<&Host> {
        match self {
            Device::Host(host) => Some(host),
            Device::Switch(_) => None,
        }
    }

    /// Returns the host mutably, if the node is one.
    pub(crate) fn host_mut(&mut self) -> Option<&mut Host> {
        match self {
            Device::Host(host) => Some(host),
            Device::Switch(_) => None,
        }
    }

    /// Returns the switch, if the node is one.
    pub(crate) fn switch(&self) -> Option<&Switch> {
        match self {
            Device::Host(_) => None,
            Device::Switch(switch) => Some(switch),
        }
    }

    /// Adds the port of another link.
    pub(crate) fn add_port(&mut self) {
        match self {
            Device::Host(host) => host.add_port(),
            Device::Switch(_) => {}
        }
    }

    /// Adds the ports that lead to the host `to`, which has these addresses. A host uses only the first port.
    pub(crate) fn add_route(&mut self, to: usize, addresses: &[IpAddr], ports: &[usize]) {
        match (self, ports.first()) {
            (Device::Host(host), Some(port)) => {
                addresses
                    .iter()
                    .for_each(|address| host.add_route(*address, *port));
            }
            (Device::Host(_), None) => {}
            (Device::Switch(switch), _) => switch.add_route(to, ports),
        }
    }

    /// Sets the directory that maps each address to its host.
    pub(crate) fn set_directory(&mut self, directory: &Arc<Directory>) {
        if let Device::Switch(switch) = self {
            switch.set_directory(Arc::clone(directory));
        }
    }

    fn node(&self) -> &dyn Node {
        match self {
            Device::Host(host) => &**host,
            Device::Switch(switch) => switch,
        }
    }

    fn node_mut(&mut self) -> &mut dyn Node {
        match self {
            Device::Host(host) => &mut **host,
            Device::Switch(switch) => switch,
        }
    }
}

impl Node for Device {
    fn arrive(&mut self, now: Instant, frame: Frame) {
        self.node_mut().arrive(now, frame);
    }

    fn run(&mut self, now: Instant, out: &mut Vec<(FrameExit, Frame)>, trace: &mut Trace) {
        self.node_mut().run(now, out, trace);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.node().next_deadline()
    }

    fn waits_for_line(&self) -> bool {
        self.node().waits_for_line()
    }

    fn set_up(&mut self, now: Instant, up: bool) {
        self.node_mut().set_up(now, up);
    }

    fn forwards(&self) -> bool {
        self.node().forwards()
    }

    fn progress(&self) -> u64 {
        self.node().progress()
    }
}
