//! From packet instructions to frames on the wire.
//!
//! Building stops while the wire is full, so that what has not left can still be coalesced and
//! memory stays bounded. Frames and their vectors are used again.

use std::io;

use hawser_ir::abi::{Built, Segment};

use crate::net::{self, Interface};
use crate::packets::Pending;
use crate::program::Program;
use crate::stack::Stack;
use crate::superframe::Superframe;
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
            if first && !route(pending, &mut self.interface, self.tables.protocol) {
                self.counters.unreachable += 1;
                self.packets.pop();
                continue;
            }
            let mut builder = Builder {
                program: &*self.program,
                max_header: self.tables.blueprints[pending.record.blueprint as usize].0,
                room: self.interface.header_room(&pending.record.net),
                gso_max: self.gso_max,
                pending,
            };
            let mut frame = self.spare_frames.pop().unwrap_or_default();
            if builder.frame(&mut frame) {
                self.interface.send(now, &pending.record.net, frame);
            } else {
                self.counters.oversize += 1;
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
        // A packet too big for the path leaves nevertheless: what a router says of it reaches the
        // flow that sent it, which may know of the path only from there.
        Ok(_) => {
            pending.sent.mtu = interface.mtu();
            true
        }
        Err(_) => false,
    }
}

/// Builds frames of one instruction.
struct Builder<'a> {
    program: &'a dyn Program,
    pending: &'a mut Pending,
    /// The most bytes of a header.
    max_header: usize,
    /// Bytes to leave free in front of it.
    room: usize,
    /// The largest super-segment that the wire cuts; 0: none.
    gso_max: u32,
}

impl Builder<'_> {
    /// Builds the next packet, or as many as can leave as a super-segment; false when the packet
    /// cannot be sent.
    fn frame(&mut self, frame: &mut TxFrame) -> bool {
        let room = self.room;
        let mut len = self.packet_len();
        frame.head.resize(room + self.max_header, 0);
        let built = self.header(&mut frame.head[room..]);
        self.pending.sent.packets += 1;
        let network = if net::is_ipv4(&self.pending.record.net.dst_ip) { 20 } else { 40 };
        let fits = built.len <= self.max_header
            && network + built.len + len as usize <= self.pending.sent.mtu as usize;
        if fits {
            frame.head.truncate(room + built.len);
            frame.csum = built.csum.map(|(start, field)| (room as u16 + start, room as u16 + field));
            let most = self.gso_max.saturating_sub(network as u32);
            (len, frame.gso_size) = self.join(&mut frame.head[room..], &built, len, most);
        }
        self.pending.take_payload(len as usize, &mut frame.payload);
        fits
    }

    /// Joins the packets that follow to the one with this header, as far as the device can cut
    /// them again; returns all payload bytes, and those of each packet where there are several.
    fn join(&mut self, header: &mut [u8], built: &Built, len: u32, most: u32) -> (u32, u16) {
        let protocol = self.pending.record.net.protocol;
        let whole = self.pending.sent.packets == self.pending.packets();
        let Some(mut joined) =
            Superframe::begin(protocol, header, built, len, most).filter(|_| self.gso_max > 0 && !whole)
        else {
            return (len, 0);
        };
        while self.pending.sent.packets < self.pending.packets() {
            let mut ahead = std::mem::take(&mut self.pending.buffers.ahead);
            ahead.resize(self.max_header, 0);
            let next = self.header(&mut ahead);
            let bytes = ahead.get(..next.len).unwrap_or_default();
            let taken = joined.absorb(header, bytes, &next, self.packet_len());
            self.pending.buffers.ahead = ahead;
            if !taken {
                self.pending.sent.ahead = Some(next);
                break;
            }
            self.pending.sent.packets += 1;
        }
        (joined.len(), joined.gso_size())
    }

    /// Payload bytes of the next packet.
    fn packet_len(&self) -> u32 {
        self.pending.packet_len(self.pending.sent.packets)
    }

    /// Builds the next packet's header, unless that was done already.
    fn header(&mut self, header: &mut [u8]) -> Built {
        let pending = &mut *self.pending;
        if let Some(built) = pending.sent.ahead.take() {
            header.copy_from_slice(&pending.buffers.ahead);
            return built;
        }
        let index = pending.sent.packets;
        let segment = Segment { index, count: pending.packets(), len: pending.packet_len(index) };
        self.program.build(&pending.record, &mut pending.buffers.image, segment, header)
    }
}
