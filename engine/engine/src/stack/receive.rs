//! The processing of a batch of received frames.
//!
//! Frames are parsed in groups, ahead of their chains. If the configuration asks for it, packets that
//! continue the one before are then merged into one, as a device might do. The contexts that their events
//! name are then looked up and touched, one step at a time for the whole group. The processor thus waits for
//! many cache misses at once. Finally the events run in order, as if each frame had come alone.
//!
//! Invariants: work done ahead depends on no state that a chain changes. Parsing is pure, and an ICMP error,
//! which may narrow a path, ends its group. The result of a look-up ahead is only a hint: an event's contexts
//! are those that exist when it runs.

use std::hint::black_box;
use std::io;
use std::ops::Range;

use bytemuck::from_bytes;
use hawser_ir::abi::{Csum, EventHeader, ICMP_TOO_BIG, Icmp, Net, Packet};
use hawser_ir::buf::Input;
use hawser_time::Instant;

use super::{Stack, StackScratch};
use crate::chain::{Buffer, Cause, Denied, InputOutcome, NoEffect, Observer};
use crate::ids::same;
use crate::net::merge::Segment;
use crate::net::{Ingress, Interface, crc, udp};
use crate::state::{Contexts, Errno, Guess};
use crate::wire::{RxFrame, Wire};

/// The maximum number of packets that are parsed ahead of their chains.
const MAX_GROUP: usize = 32;

/// The number of contexts that fit into the processor's caches anyway, so that touching them ahead gains no
/// time.
const NEAR: usize = 256;

/// A parsed packet.
#[derive(Debug)]
struct ParsedPacket<'a> {
    /// The index of its frame in the batch.
    frame: usize,
    parser: Option<usize>,
    /// The counter that names the reason why it has no events. The packet is kept so that an observer sees it
    /// in order.
    refused: Option<&'static str>,
    net: Net,
    /// The headers in front of it in its frame.
    front: &'a [u8],
    buffer: Buffer<'a>,
    csum: Csum,
    /// The CRC-32 of the headers in front of it, if the program's packets cover them.
    crc: Option<u32>,
    /// The number of packets that were merged into it.
    merged: usize,
    /// The range of its events.
    events: Range<usize>,
}

/// The content of a received frame.
enum ReceivedContent<'a> {
    /// A packet, stored in the place given for it.
    Packet,
    /// An ICMP error, with the packet that it reports.
    Report(Net, &'a [u8], Icmp),
    /// A frame without content for a program.
    Nothing,
}

/// The receiver of a packet.
enum Taker {
    Parser(usize),
    /// No program takes it; its sender gets an ICMP error.
    NoParser,
    /// It was dropped and counted.
    Nobody,
}

impl<'a> ParsedPacket<'a> {
    /// Merges the packet of the next frame into this one if it continues this one, and returns true if it
    /// did. This packet must be in one piece and taken by a program.
    #[inline(always)]
    fn takes<'f>(&mut self, next: &RxFrame<'f>, payloads: &mut Vec<&'f [u8]>) -> bool {
        if !self.buffer.tail.is_empty() || self.parser.is_none() {
            return false;
        }
        let mut first = Segment {
            net: &mut self.net,
            front: self.front,
            head: self.buffer.head,
            csum: &mut self.csum,
        };
        let Some(payload) = first.append(next) else {
            return false;
        };
        payloads.push(payload);
        self.buffer.merged_len += payload.len();
        self.merged += 1;
        true
    }

    /// Declares this packet the cause of the following events. A separate function, so that the common case
    /// without an observer prepares no arguments.
    #[cold]
    #[inline(never)]
    fn show(&self, observer: &mut Observer) {
        observer.packet(self.parser, &self.net, &self.buffer);
    }
}

impl Stack {
    /// Receives a batch of frames and returns their number.
    pub(crate) fn receive(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<usize> {
        let count = wire.receive(self.chains.state.limits.batch)?;
        let mut payloads = std::mem::take(&mut self.work.payloads);
        let mut next = 0;
        while next < count {
            let frames = next..count;
            // A single packet does not pay for the places of others, which are cache lines apart.
            next = match frames.len() {
                1 => self.group::<1>(now, &*wire, frames, &mut payloads),
                _ => self.group::<MAX_GROUP>(now, &*wire, frames, &mut payloads),
            };
        }
        payloads.clear();
        // The slices refer to no frame any more, so the memory can be kept.
        self.work.payloads = payloads.into_iter().map(|_| &[][..]).collect();
        wire.release();
        self.chains.state.counters.frames_received += count as u64;
        Ok(count)
    }

    /// Processes frames from the start of a range, at most `PACKETS` packets, and returns the index of the
    /// next frame.
    fn group<'a, const PACKETS: usize>(
        &mut self,
        now: Instant,
        wire: &'a dyn Wire,
        frames: Range<usize>,
        payloads: &mut Vec<&'a [u8]>,
    ) -> usize {
        self.work.ahead.clear();
        payloads.clear();
        // Frames from a front are not merged, because each has its own chain results.
        let merges = PACKETS > 1 && self.merge && self.chains.tables.merges && !self.takes_back;
        // Initialized one by one: a constant would be copied whole.
        let mut arrivals: [Option<ParsedPacket<'_>>; PACKETS] = std::array::from_fn(|_| None);
        let mut count = 0;
        let mut report = None;
        let mut next = frames.start;
        while next < frames.end && count < PACKETS && report.is_none() {
            let (before, places) = arrivals.split_at_mut(count);
            let frame = wire.frame(next);
            next += 1;
            if merges
                && let Some(Some(before)) = before.last_mut()
                && before.takes(&frame, payloads)
            {
                self.chains.state.counters.packets_merged += 1;
                continue;
            }
            match self.take_in(now, next - 1, frame, &mut places[0]) {
                ReceivedContent::Packet => count += 1,
                ReceivedContent::Report(net, quoted, icmp) => report = Some((net, quoted, icmp)),
                ReceivedContent::Nothing => {}
            }
        }
        let mut payloads = &payloads[..];
        for arrival in arrivals[..count].iter_mut().flatten() {
            (arrival.buffer.merged, payloads) = payloads.split_at(arrival.merged);
            self.parse(arrival);
        }
        self.work.look_ahead(&self.chains.state.contexts);
        self.run_group(now, wire, &arrivals[..count]);
        if let Some((net, quoted, icmp)) = report {
            self.icmp_input(now, &net, quoted, &icmp);
        }
        next
    }

    /// Parses the headers of a frame and stores its packet in `place`.
    #[inline(always)]
    fn take_in<'a>(
        &mut self,
        now: Instant,
        number: usize,
        frame: RxFrame<'a>,
        place: &mut Option<ParsedPacket<'a>>,
    ) -> ReceivedContent<'a> {
        // Built in place because it is large.
        let mut put = |parser, net, front: usize, buffer, csum, crc| {
            *place = Some(ParsedPacket {
                frame: number,
                parser,
                refused: None,
                net,
                front: &frame.head[..front],
                buffer,
                csum,
                crc,
                merged: 0,
                events: 0..0,
            });
            ReceivedContent::Packet
        };
        match self.interface.ingress(now, &frame) {
            Ingress::Trimmed { net, head, tail } => {
                let parser = self.chains.tables.trimmed[net.protocol as usize];
                if parser.is_none() {
                    self.interface.refuse_trimmed();
                    return ReceivedContent::Nothing;
                }
                // A checksum over missing bytes cannot be verified.
                put(parser, net, 0, self.buffer(head, tail), Csum::Complete, None)
            }
            Ingress::Packet { mut net, mut head, mut tail, mut csum, head_offset } => {
                match self.taker(&mut net, (&mut head, &mut tail), &mut csum) {
                    Taker::Nobody => ReceivedContent::Nothing,
                    Taker::Parser(parser) => {
                        let crc = self.front(&frame, &net, head_offset);
                        put(
                            Some(parser),
                            net,
                            head_offset as usize,
                            self.buffer(head, tail),
                            csum,
                            crc,
                        )
                    }
                    Taker::NoParser => {
                        self.chains.state.counters.no_parser += 1;
                        match net.dst_port {
                            0 => self.interface.unreachable_reply(now, &frame),
                            _ => self.interface.refused_reply(now, &frame),
                        }
                        // The packet is kept so that an observer sees it in order.
                        match self.chains.observer.is_set() {
                            true => put(None, net, 0, self.buffer(head, tail), csum, None),
                            false => ReceivedContent::Nothing,
                        }
                    }
                }
            }
            Ingress::IcmpError { net, quoted, icmp, .. } => ReceivedContent::Report(net, quoted, icmp),
            Ingress::Done | Ingress::Drop(_) => ReceivedContent::Nothing,
        }
    }

    /// Returns the buffer that the addresses of a packet's events refer to.
    fn buffer<'a>(&mut self, head: &'a [u8], tail: &'a [u8]) -> Buffer<'a> {
        if self.takes_back {
            Buffer::of_front(head, tail)
        } else {
            Buffer::after(&mut self.last_buffer, head, tail)
        }
    }

    /// Runs the events of parsed packets, in order.
    #[inline(always)]
    fn run_group(&mut self, now: Instant, wire: &dyn Wire, arrivals: &[Option<ParsedPacket<'_>>]) {
        for arrival in arrivals.iter().flatten() {
            let cause = Cause { buffer: arrival.buffer, ..Cause::default() };
            if let Some(observer) = self.chains.observer.get() {
                arrival.show(observer);
            }
            if let Some(counter) = arrival.refused {
                let what = arrival.parser.map_or(NoEffect::NoParser, NoEffect::Refused);
                self.chains.not_run(now, what, counter);
                continue;
            }
            let StackScratch { ahead, guesses, .. } = &mut self.work;
            let range = arrival.events.clone();
            let outcome = if self.takes_back {
                let ran = wire.ran(arrival.frame);
                self.chains
                    .run_behind_front(now, ahead, range, guesses, &cause, ran)
            } else {
                self.chains.run_events(now, ahead, range, guesses, &cause)
            };
            // Other failures are counted; the packet is gone.
            if outcome == Err(Denied::Refused(Errno::CONNECTION_REFUSED)) {
                let frame = wire.frame(arrival.frame);
                self.interface.refused_reply(now, &frame);
            }
        }
        if let Some(observer) = self.chains.observer.get() {
            observer.no_packet();
        }
    }

    /// Returns the receiver of a packet. For UDP, `head` and `tail` are reduced to the datagram's content.
    #[inline(always)]
    fn taker<'a>(
        &mut self,
        net: &mut Net,
        (head, tail): (&mut &'a [u8], &mut &'a [u8]),
        csum: &mut Csum,
    ) -> Taker {
        let tables = &self.chains.tables;
        match tables.ip[net.protocol as usize] {
            Some(parser) => Taker::Parser(parser),
            None if net.protocol == udp::PROTOCOL && !tables.udp.is_empty() => {
                let Some(opened) = self.interface.open_udp(net, (*head, *tail), *csum) else {
                    return Taker::Nobody;
                };
                // A device's verdict on the checksum concerns only the outer one.
                ((*head, *tail), *csum) = (opened, Csum::Unverified);
                let mut ports = tables.udp.iter();
                let found = ports.find(|(port, _)| *port == net.dst_port);
                // The first parser also takes other ports: behind a socket, whose port is the operator's
                // choice, and those from which connections leave.
                let found = found.or_else(|| {
                    let is_ours =
                        self.interface.has_one_port() || self.chains.state.ports.holds(net.dst_port);
                    tables.udp.first().filter(|_| is_ours)
                });
                found.map_or(Taker::NoParser, |(_, parser)| Taker::Parser(*parser))
            }
            None => Taker::NoParser,
        }
    }

    /// Returns the CRC-32 of the headers in front of a packet in its frame, if the program's packets cover
    /// them. The packet's transport header begins at `offset`.
    fn front(&self, frame: &RxFrame<'_>, net: &Net, offset: u32) -> Option<u32> {
        if !self.chains.tables.invariant {
            return None;
        }
        let behind = if net.dst_port != 0 { udp::HEADER } else { 0 };
        let end = offset as usize + behind;
        let headers = frame.head.get(end.saturating_sub(usize::from(net.hdr_len))..end);
        Some(crc::front(headers.unwrap_or_default()))
    }

    /// Parses a packet. A refusal by the parser is counted.
    fn parse(&mut self, arrival: &mut ParsedPacket<'_>) {
        let Some(parser) = arrival.parser else {
            arrival.refused = Some("no_parser");
            return;
        };
        let (chains, events) = (&mut self.chains, &mut self.work.ahead);
        chains.state.counters.inputs += 1;
        arrival.net.path_mtu = self.interface.path_back(arrival.net.src_ip);
        let packet = Packet {
            net: &arrival.net,
            head: arrival.buffer.head,
            tail: arrival.buffer.tail,
            merged: arrival.buffer.merged_len,
            addr: arrival.buffer.addr(),
            csum: arrival.csum,
            crc: arrival.crc,
        };
        let first = events.len();
        let parsed = chains.program.parse(parser, Input::Packet(packet), events);
        arrival.events = first..events.len();
        arrival.refused = parsed.err().map(|error| chains.state.counters.parse_error(error));
    }

    /// Handles an ICMP error. A smaller path MTU is accepted only if the program knows the quoted packet and
    /// does not end its chain with `done`. An attacker can forge the rest (RFC 5927, 7.2). An MTU is thus
    /// never accepted by a program without a parser for errors.
    fn icmp_input(&mut self, now: Instant, net: &Net, quoted: &[u8], icmp: &Icmp) {
        let mut net = *net;
        let quoted = if net.protocol == udp::PROTOCOL && !self.chains.tables.udp.is_empty() {
            udp::quoted(&mut net, quoted).unwrap_or_default()
        } else {
            quoted
        };
        let net = &net;
        // An implausibly small MTU does not reach programs: routers fragment their packets.
        let mut heeded = *icmp;
        if icmp.kind == ICMP_TOO_BIG {
            heeded.mtu = Interface::heeded_mtu(&net.dst_ip, icmp.mtu);
        }
        let believed = self.chains.tables.icmp.is_some_and(|parser| {
            let buffer = Buffer::after(&mut self.last_buffer, quoted, &[]);
            let packet = Packet {
                net,
                head: quoted,
                tail: &[],
                merged: 0,
                addr: buffer.addr(),
                csum: Csum::Complete,
                crc: None,
            };
            let cause = Cause { buffer, ..Cause::default() };
            let input = (parser, Input::Icmp(packet, &heeded));
            self.chains.input(now, input, &cause, &mut self.work.events) == Ok(InputOutcome::Taken)
        });
        if believed && icmp.kind == ICMP_TOO_BIG {
            self.interface.lower_path(now, net.dst_ip, icmp.mtu);
        }
    }
}

impl StackScratch {
    /// Looks up and touches the contexts that the events name, each step for all events.
    fn look_ahead(&mut self, contexts: &Contexts) {
        let StackScratch { ahead: events, guesses, hashed, .. } = self;
        guesses.clear();
        for i in 0..events.len() {
            let header: &EventHeader = from_bytes(&events.get(i)[..size_of::<EventHeader>()]);
            let id = &header.id[0];
            if header.ids == 0 || id.is_none() {
                guesses.push(None);
                continue;
            }
            if !same(id, &hashed.0) {
                *hashed = (*id, contexts.hash(id));
            }
            guesses.push(Some(Guess { hash: hashed.1, slot: None }));
        }
        let mut before = Guess { hash: 0, slot: None };
        for guess in guesses.iter_mut().flatten() {
            guess.slot = if guess.hash == before.hash {
                before.slot
            } else {
                contexts.candidate(guess.hash)
            };
            before = *guess;
        }
        if contexts.len() > NEAR {
            let slots = || guesses.iter().flatten().filter_map(|guess| guess.slot);
            black_box(slots().fold(0, |sum, slot| sum ^ contexts.touch_entry(slot)));
            black_box(slots().fold(0, |sum, slot| sum ^ contexts.touch_bytes(slot)));
        }
    }
}
