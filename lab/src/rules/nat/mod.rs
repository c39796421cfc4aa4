//! A network address translator for IPv4 (RFC 4787, 5382, 5508), at one end of a link.
//!
//! * `table`: the mappings of outside ports to inside endpoints, and their lifetimes
//! * `rewrite`: addresses and ports in packets, with their checksums
//!
//! It translates TCP, UDP and ICMP echo, and ICMP errors about them. IPv6 passes unchanged. All other IPv4
//! packets are lost, including fragments, because the tests do not need a translator that reassembles.

mod rewrite;
mod table;

use std::sync::Arc;

use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::plan::NatPlan;

use super::packet::Packet;
use rewrite::{PacketEnd, TranslatablePacket};
use table::Table;

/// A translator, which the rules of both directions share.
#[derive(Clone)]
pub(crate) struct Translator {
    table: Arc<Mutex<Table>>,
}

impl Translator {
    /// Makes a translator without mappings. Its random numbers choose the first port.
    pub(crate) fn new(plan: &NatPlan, seed: u64, label: &str) -> Translator {
        let table = Table::new(plan, &mut Rng::new(seed, &format!("{label}/nat")));
        Translator { table: Arc::new(Mutex::new(table)) }
    }

    /// Returns the rule for outgoing frames, which must be the first of all.
    pub(crate) fn outward(&self) -> Box<dyn Rule> {
        Box::new(Outward(self.clone()))
    }

    /// Returns the rule for incoming frames, which must be the last.
    pub(crate) fn inward(&self) -> Box<dyn Rule> {
        Box::new(Inward(self.clone()))
    }

    /// Drops all mappings and continues with other ports.
    pub(crate) fn rebind(&self) {
        self.table.lock().rebind();
    }

    fn translate(
        &self,
        frame: &mut [u8],
        translate: impl FnOnce(&mut Table, &mut [u8], TranslatablePacket) -> Option<()>,
    ) -> Verdict {
        // Packets that are not IPv4 pass unchanged.
        if frame.get(12..14) != Some(&[0x08, 0x00]) {
            return Verdict::Pass;
        }
        let flow = Packet::find(frame).and_then(|packet| TranslatablePacket::parse(frame, &packet));
        let mut table = self.table.lock();
        match flow.and_then(|flow| translate(&mut table, frame, flow)) {
            Some(()) => Verdict::Pass,
            None => Verdict::Drop,
        }
    }
}

struct Outward(Translator);

impl Rule for Outward {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        self.0.translate(&mut frame.head, |table, frame, flow| {
            // An ICMP error quotes a packet that came in. The destination of that packet is the
            // translated endpoint.
            let (from, to) = flow.ends();
            let outside = if flow.is_error() {
                table.of_inside(now, from)?
            } else {
                table.outward(now, from, to)?
            };
            flow.rewrite(frame, PacketEnd::Source, outside);
            Some(())
        })
    }
}

struct Inward(Translator);

impl Rule for Inward {
    fn name(&self) -> &'static str {
        "nat_inward"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        self.0.translate(&mut frame.head, |table, frame, flow| {
            let (from, to) = flow.ends();
            let inside = if flow.is_error() {
                table.of_outside(now, to)?
            } else {
                table.inward(now, from, to)?
            };
            flow.rewrite(frame, PacketEnd::Destination, inside);
            Some(())
        })
    }
}

#[cfg(test)]
mod tests;
