//! From packet instructions to frames on the wire.
//!
//! Building stops while the wire is full, so that waiting packets can still be coalesced and memory stays
//! bounded. Properties common to all packets of an instruction are determined once. The compiler may have
//! proven that the headers of an instruction are those of a super-segment's packets. Then one header is built
//! and cut, by the device or by the engine.

use std::io;

use hawser_ir::Cut;
use hawser_ir::abi::Built;
use hawser_time::Instant;

use super::Stack;
use super::superframe::{self, DeparturePiece, SuperSegment};
use crate::net::{self, Interface, udp};
use crate::program::Program;
use crate::state::PendingInstruction;
use crate::tables::Tables;
use crate::wire::{TxFrame, Wire};

impl Stack {
    /// Builds waiting packets and hands them to the wire; returns true if the wire took any.
    pub(crate) fn flush(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<bool> {
        let mut any = false;
        while self.chains.state.packets.len() > 0 || !self.interface.outgoing().is_empty() {
            // No packets are built while the wire refuses frames: in the program's queues, later packets may
            // still overtake them.
            if self.interface.outgoing().is_empty() {
                self.output.wire_full = !self.build(now, wire);
            }
            let frames = self.interface.outgoing();
            if frames.is_empty() {
                return Ok(any);
            }
            let count = frames.len();
            let taken = wire.transmit(frames)?.min(count);
            self.interface.sent(taken);
            self.chains.state.counters.frames_sent += taken as u64;
            any |= taken > 0;
            if taken < count {
                self.output.wire_full = true;
                self.chains.state.counters.wire_full += 1;
                return Ok(any);
            }
        }
        self.output.wire_full = false;
        Ok(any)
    }

    /// Builds packets until enough frames wait for the wire or it has no room for more. Returns false if only
    /// lack of room keeps a packet back.
    fn build(&mut self, now: Instant, wire: &mut dyn Wire) -> bool {
        let mut built = 0;
        let mut asked = None;
        while self.interface.outgoing().len() < self.chains.state.limits.pending_frames {
            let packets = &mut self.chains.state.packets;
            let Some(turn) = packets.turn(now) else {
                return true;
            };
            let room = *asked.get_or_insert_with(|| wire.room());
            if built >= room {
                return false;
            }
            let burst = packets.burst(turn);
            let Some(pending) = packets.front(turn) else {
                return true;
            };
            let begins = pending.sent.packets == 0;
            if begins && !route(pending, &mut self.interface, &self.chains.tables) {
                self.chains.state.counters.unreachable += 1;
                self.chains.state.packets.pop(turn);
                continue;
            }
            let record = &pending.record;
            // Segments can be cut; a datagram is a single packet.
            let is_segment = record.net.dst_port == 0;
            let gso_max = if is_segment { self.output.gso_max } else { 0 };
            // Packets that leave one by one at a rate are built one by one.
            let cuts = is_segment && gso_max == 0 && burst.is_none();
            let mut builder = Builder {
                program: &*self.chains.program,
                max_header: self.chains.tables.blueprints[record.blueprint as usize].0,
                network: net::network_len(&record.net),
                room: self.interface.header_room(&record.net),
                cut: if gso_max > 0 || cuts {
                    self.chains.tables.cuts.find(record)
                } else {
                    None
                },
                cuts,
                gso_max,
                // At most the room of the wire: one super-segment would be half of a slow wire's queue.
                burst: burst.unwrap_or(u64::MAX).min(room as u64),
                cost: burst.map_or(0, |_| record.rank),
                checks: self.output.check_super_segments,
                wrong: 0,
                bytes: 0,
                charge: 0,
                saved: &mut self.output.saved_image,
                pending,
            };
            let count = builder.pending.packets;
            while builder.pending.sent.packets < count
                && self.interface.outgoing().len() < self.chains.state.limits.pending_frames
                && built + builder.bytes < room
                && (burst.is_none() || builder.bytes == 0)
            {
                let number = builder.pending.sent.packets;
                if builder.frame(self.interface.blank()) {
                    let record = &builder.pending.record;
                    let crc = self.chains.tables.crcs[record.blueprint as usize].as_ref();
                    self.interface.finish(now, &record.net, number as u16, crc);
                } else {
                    self.interface.withdraw();
                    self.chains.state.counters.oversize += u64::from(builder.pending.sent.packets - number);
                }
            }
            built += builder.bytes;
            let (charge, wrong) = (builder.charge, builder.wrong);
            let is_done = builder.pending.sent.packets >= count;
            self.chains.state.counters.wrong_super_segments += wrong;
            self.chains.state.packets.charge(turn, now, charge);
            if is_done {
                self.chains.state.packets.pop(turn);
            }
        }
        true
    }

    /// Returns true while frames wait because the wire is full. Poll again when the wire is writable.
    #[must_use]
    pub fn wants_wire(&self) -> bool {
        self.output.wire_full
    }
}

/// Completes an instruction's network header; returns false if there is no route to its destination.
fn route(pending: &mut PendingInstruction, interface: &mut Interface, tables: &Tables) -> bool {
    let net = &mut pending.record.net;
    if net.protocol == 0 {
        net.protocol = tables.protocol;
    }
    match tables.udp.first() {
        Some((port, _)) if net.protocol == udp::PROTOCOL => {
            let usual = |given: u16| if given == 0 { *port } else { given };
            (net.src_port, net.dst_port) = (usual(net.src_port), usual(net.dst_port));
        }
        _ => (net.src_port, net.dst_port) = (0, 0),
    }
    match interface.route(net) {
        // A packet too big for the path leaves nevertheless. The router's report reaches the sending flow,
        // which may learn of the path only from it.
        Ok(_) => {
            pending.sent.mtu = interface.mtu();
            true
        }
        Err(_) => false,
    }
}

/// Builds the frames of one instruction.
struct Builder<'a> {
    program: &'a dyn Program,
    pending: &'a mut PendingInstruction,
    /// The maximum size of a header, in bytes.
    max_header: usize,
    /// The size of the network header in front of it, in bytes.
    network: usize,
    /// The number of bytes to leave free in front of it, for the network and link headers.
    room: usize,
    /// The proven segmentation of the instruction, if super-segments are used.
    cut: Option<&'a Cut>,
    /// True if the engine cuts super-segments because the wire cannot.
    cuts: bool,
    /// The largest super-segment that the wire cuts, in bytes.
    gso_max: u32,
    /// The maximum number of payload bytes in one super-segment, if the program paces them or the wire has
    /// little room.
    burst: u64,
    /// The number of bytes charged for each packet in a queue with a rate; 0 stands for the packet's own
    /// size.
    cost: u64,
    /// True if each super-segment is compared with the packets that it stands for.
    checks: bool,
    /// The number of wrong super-segments.
    wrong: u64,
    /// The number of bytes of the built packets, from their network headers on.
    bytes: usize,
    /// The number of bytes charged so far in a queue with a rate.
    charge: u64,
    /// Memory for a copy of an image.
    saved: &'a mut Vec<u8>,
}

impl Builder<'_> {
    /// Builds the next packet, or as many as can leave as a super-segment; returns false if they cannot be
    /// sent.
    fn frame(&mut self, frame: &mut TxFrame) -> bool {
        let room = self.room;
        if self.pending.sent.packets < self.pending.sent.shared.end {
            return self.cut(frame);
        }
        frame.head.resize(room + self.max_header, 0);
        let (piece, built) = self.headers(&mut frame.head[room..]);
        if self.cuts && piece.packets > 1 {
            let header = &mut self.pending.buffers.header;
            header.clear();
            header.extend_from_slice(&frame.head[room..room + built.len]);
            self.pending.sent.shared = piece.into();
            frame.head.clear();
            return self.cut(frame);
        }
        self.pending.sent.packets += piece.packets;
        let size = if piece.packets > 1 {
            self.pending.seg_size
        } else {
            piece.len
        };
        let fits = built.len <= self.max_header
            && self.network + built.len + size as usize <= self.pending.sent.mtu as usize;
        let header = room + built.len.saturating_sub(built.trailer);
        if fits {
            frame.head.truncate(room + built.len);
            frame.csum = built
                .csum
                .map(|(start, field)| (room as u16 + start, room as u16 + field));
            frame.gso_size = if piece.packets > 1 { size as u16 } else { 0 };
            frame.cause = self.pending.cause;
            let headers = piece.packets as usize * (self.network + built.len);
            self.count(piece.packets, headers + piece.len as usize);
        }
        self.pending.take_payload(piece.len as usize, &mut frame.payload);
        if fits && built.trailer > 0 {
            put_between(frame, header, built.trailer);
        }
        fits
    }

    /// Counts built packets and their bytes.
    fn count(&mut self, packets: u32, bytes: usize) {
        self.bytes += bytes;
        let charge = match self.cost {
            0 => bytes as u64,
            cost => cost.saturating_mul(u64::from(packets)),
        };
        self.charge = self.charge.saturating_add(charge);
    }

    /// Makes the next packet of a super-segment that the engine cuts; returns false if it cannot be sent.
    fn cut(&mut self, frame: &mut TxFrame) -> bool {
        let (room, sent) = (self.room, &mut self.pending.sent);
        let header = &self.pending.buffers.header[..];
        let joined = SuperSegment { header, len: sent.shared.len, size: self.pending.seg_size };
        frame.head.resize(room, 0);
        frame.head.extend_from_slice(header);
        let len = joined.cut(sent.packets - sent.shared.first, &mut frame.head[room..]);
        sent.packets += 1;
        let packet = self.network + header.len() + len as usize;
        let fits = packet <= sent.mtu as usize;
        if fits {
            let (start, field) = superframe::CSUM;
            frame.csum = Some((room as u16 + start, room as u16 + field));
            frame.cause = self.pending.cause;
            self.count(1, packet);
        }
        self.pending.take_payload(len as usize, &mut frame.payload);
        fits
    }

    /// Builds the header of the next super-segment if one is possible, otherwise that of a packet.
    fn headers(&mut self, header: &mut [u8]) -> (DeparturePiece, Built) {
        let piece = DeparturePiece::next(self.pending, self.max_packets());
        let Some(cut) = self.cut.filter(|_| piece.packets > 1) else {
            let built = self.build(&piece, header);
            return (piece, built);
        };
        // Flags without a rule are alike in all packets, so the flags of the first packet suffice.
        let begins = self.pending.sent.packets == 0;
        let is_checked = begins && !cut.clear.is_empty();
        if is_checked || self.checks || self.cuts {
            self.saved.clear();
            self.saved.extend_from_slice(&self.pending.buffers.image);
        }
        let built = self.build(&piece, header);
        let holds = !is_checked || superframe::is_clear(header, &cut.clear);
        let right = !holds || !self.checks || self.check(&piece, &header[..built.len.min(self.max_header)]);
        let holds = holds && (!self.cuts || built.len <= self.max_header && superframe::can_be_cut(&built));
        if holds && right {
            return (piece, built);
        }
        self.wrong += u64::from(!right);
        self.pending.sent.is_plain = true;
        self.pending.buffers.image.copy_from_slice(self.saved);
        let piece = DeparturePiece::next(self.pending, 1);
        let built = self.build(&piece, header);
        (piece, built)
    }

    /// Returns the maximum number of packets that may leave as one.
    fn max_packets(&self) -> u32 {
        let size = self.pending.seg_size;
        // Linux counts a packet's bytes in 16 bits, and so does a virtio header.
        if self.cut.is_none() || self.pending.sent.is_plain || size == 0 || size > u32::from(u16::MAX) {
            return 1;
        }
        let headers = (self.network + self.max_header) as u32;
        let burst = self.burst.min(u64::from(u32::MAX)) as u32;
        let (max, burst) = match self.cuts {
            // The queue still asks for each packet separately.
            true => (u32::from(u16::MAX), u32::MAX),
            false => (self.gso_max, burst),
        };
        let costs = u32::try_from(self.cost).unwrap_or(u32::MAX).max(size);
        (max.saturating_sub(headers) / size).min(burst / costs)
    }

    /// Returns true if a device would make the program's packets of a super-segment with this header. The
    /// previous image is saved.
    fn check(&mut self, piece: &DeparturePiece, header: &[u8]) -> bool {
        let joined = SuperSegment { header, len: piece.len, size: self.pending.seg_size };
        let after = std::mem::replace(&mut self.pending.buffers.image, self.saved.clone());
        let sent = self.pending.sent.packets;
        let mut own = vec![0; self.max_header];
        let right = (0..piece.packets).all(|index| {
            let built = self.build(&DeparturePiece::next(self.pending, 1), &mut own);
            self.pending.sent.packets += 1;
            !joined.differs(index, &own[..built.len.min(self.max_header)], &built)
        });
        self.pending.sent.packets = sent;
        self.pending.buffers.image = after;
        right
    }

    fn build(&mut self, piece: &DeparturePiece, header: &mut [u8]) -> Built {
        let segment = piece.segment(self.pending);
        self.program.build(
            &self.pending.record,
            &mut self.pending.buffers.image,
            segment,
            header,
        )
    }
}

/// Puts the payload between the header, which ends at `at`, and the trailer. The payload is copied: a trailer
/// holds a checksum, which reads each byte anyway, and wires need no support for trailers.
fn put_between(frame: &mut TxFrame, at: usize, trailer: usize) {
    for piece in frame.payload.drain(..) {
        frame.head.extend_from_slice(piece.bytes());
    }
    frame.head[at..].rotate_left(trailer);
}
