//! From packet instructions to frames on the wire.
//!
//! Building stops while the wire is full, so that what has not left can still be coalesced and
//! memory stays bounded. Frames and their vectors are used again.

use std::io;

use hawser_ir::abi::Segment;

use crate::counters::Counters;
use crate::net::{self, Interface};
use crate::packets::Pending;
use crate::program::Program;
use crate::stack::Stack;
use crate::wire::{Nanos, TxFrame, Wire};

/// The most emptied frames kept.
const SPARE_FRAMES: usize = 1024;

impl Stack {
    /// Builds what waits and hands it to the wire; true when the wire took any.
    pub(crate) fn flush(&mut self, now: Nanos, wire: &mut dyn Wire) -> io::Result<bool> {
        let mut any = false;
        loop {
            self.build(now);
            let frames = self.interface.outgoing();
            if frames.is_empty() {
                return Ok(any);
            }
            let count = frames.len();
            let taken = wire.transmit(frames)?.min(count);
            for mut frame in frames.drain(..taken) {
                if self.spare_frames.len() < SPARE_FRAMES {
                    frame.clear();
                    self.spare_frames.push(frame);
                }
            }
            self.counters.frames_sent += taken as u64;
            any |= taken > 0;
            self.wire_full = taken < count;
            if self.wire_full {
                self.counters.wire_full += 1;
                return Ok(any);
            }
        }
    }

    /// Builds packets until enough frames wait for the wire.
    fn build(&mut self, now: Nanos) {
        while self.interface.outgoing().len() < self.limits.pending_frames {
            let Some(pending) = self.packets.front() else { return };
            let first = pending.sent.packets == 0;
            let routed = !first || route(pending, &mut self.interface, self.tables.protocol);
            if !routed {
                self.counters.unreachable += 1;
                self.packets.pop();
                continue;
            }
            let max_header = self.tables.blueprints[pending.record.blueprint as usize].0;
            let mut frame = self.spare_frames.pop().unwrap_or_default();
            let room = self.interface.header_room(&pending.record.net);
            frame.head.resize(room + max_header, 0);
            if build_packet(&*self.program, pending, room, &mut frame, &mut self.counters) {
                self.interface.send(now, &pending.record.net, frame);
            }
            if pending.sent.packets >= pending.packets() {
                self.packets.pop();
            }
        }
    }

    /// True while frames wait because the wire is full: poll again when it is writable.
    #[must_use]
    pub fn wants_wire(&self) -> bool {
        self.wire_full
    }
}

/// Completes an instruction's network header; false when there is no way to its destination.
fn route(pending: &mut Pending, interface: &mut Interface, protocol: u8) -> bool {
    let net = &mut pending.record.net;
    if net.protocol == 0 {
        net.protocol = protocol;
    }
    match interface.route(net) {
        Ok(path_mtu) => {
            pending.sent.path_mtu = path_mtu;
            true
        }
        Err(_) => false,
    }
}

/// Builds the next packet of an instruction behind `room` free bytes of `frame.head`, which has
/// space for the largest header; false when the packet cannot be sent.
fn build_packet(
    program: &dyn Program,
    pending: &mut Pending,
    room: usize,
    frame: &mut TxFrame,
    counters: &mut Counters,
) -> bool {
    let index = pending.sent.packets;
    let len = pending.packet_len(index);
    let segment = Segment { index, count: pending.packets(), len };
    let built = program.build(&pending.record, &mut pending.image, segment, &mut frame.head[room..]);
    pending.sent.packets += 1;
    pending.take_payload(len as usize, &mut frame.payload);
    let network = if net::is_ipv4(&pending.record.net.dst_ip) { 20 } else { 40 };
    if room + built.len > frame.head.len()
        || network + built.len + len as usize > pending.sent.path_mtu as usize
    {
        counters.oversize += 1;
        return false;
    }
    frame.head.truncate(room + built.len);
    frame.csum = built.csum.map(|(start, field)| (room as u16 + start, room as u16 + field));
    frame.prio = pending.record.net.prio;
    true
}
