//! Packets, requests and headers: parsing, segmentation and coalescing on both sides.

use etherparse::checksum::Sum16BitWords;
use hawser_ir::abi::{Csum, Data, Packet, PacketRec, ParseError, RecordKind, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf};
use hawser_ir::{FuncId, Module, ParserInput, Stmt, StmtKind};

use crate::rng::Rng;
use crate::side::Side;
use crate::values;

/// The maximum number of packets of one instruction that are built.
const SEGMENTS: u32 = 5;
/// The maximum size of a packet's payload, in bytes.
const PAYLOAD: usize = 40;

/// Both sides of a comparison over one program.
pub struct Packets<'a> {
    pub module: &'a Module,
    pub left: &'a dyn Side,
    /// The side that is compared with the interpreter.
    pub right: &'a dyn Side,
}

impl Packets<'_> {
    /// Builds every packet of a chain's records, and compares which of them replace others.
    ///
    /// # Errors
    /// Returns the difference between the sides.
    pub fn of_records(&self, rng: &mut Rng, records: &RecordBuf) -> Result<(), String> {
        let packets: Vec<(PacketRec, Vec<u8>)> = records
            .iter()
            .filter(|record| record.kind == RecordKind::Packet)
            .map(|record| {
                let packet: PacketRec = record.fixed();
                let image = record.tail::<PacketRec>()[..packet.bytes as usize].to_vec();
                (packet, image)
            })
            .collect();
        for pair in packets.windows(2) {
            if pair[0].0.blueprint == pair[1].0.blueprint {
                self.coalesce(pair[0].0.blueprint, &pair[0].1, &pair[1].1)?;
            }
        }
        for (packet, image) in &packets {
            let mut packet = *packet;
            packet.net = hawser_ir::abi::Net { protocol: packet.net.protocol, ..values::net(rng) };
            self.build_all(&packet, image)?;
            let mut other = image.clone();
            let (from, to) = (rng.below(other.len()), rng.below(other.len()));
            if from < to {
                rng.fill(&mut other[from..to]);
            }
            self.coalesce(packet.blueprint, image, &other)?;
            self.build_all(&packet, &other)?;
        }
        Ok(())
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> Result<(), String> {
        let answers = [self.left, self.right].map(|side| side.coalesce(blueprint, earlier, later));
        if answers[0] == answers[1] {
            return Ok(());
        }
        let name = &self.module.blueprints[usize::from(blueprint)].name;
        Err(format!("coalesce {name}: {} | {}", answers[0], answers[1]))
    }

    /// Builds all packets of an instruction, in order.
    fn build_all(&self, packet: &PacketRec, image: &[u8]) -> Result<(), String> {
        let blueprint = &self.module.blueprints[usize::from(packet.blueprint)];
        let data: Option<Data> = blueprint
            .data_at
            .map(|at| bytemuck::pod_read_unaligned(&image[at as usize..at as usize + size_of::<Data>()]));
        let (len, size) = data.map_or((0, 0), |data| (data.len, data.seg_size));
        let count = if size == 0 {
            1
        } else {
            len.div_ceil(size).clamp(1, SEGMENTS)
        };
        let (mut left, mut right) = (image.to_vec(), image.to_vec());
        for index in 0..count {
            let last = index + 1 == count;
            let here = if last {
                len.saturating_sub(size * index).min(65000)
            } else {
                size
            };
            let segment = Segment { index, count, len: here };
            let room = blueprint.max_around() as usize;
            let (mut a, mut b) = (vec![0; room], vec![0; room]);
            let built = self.left.build(packet, &mut left, segment, &mut a);
            let other = self.right.build(packet, &mut right, segment, &mut b);
            if built != other || a[..built.len] != b[..built.len.min(room)] {
                return Err(format!(
                    "header of {}, packet {index} of {count}: {built:?} {:02x?} | {other:?} {:02x?}",
                    blueprint.name,
                    &a[..built.len],
                    &b[..other.len.min(room)]
                ));
            }
            let text = crate::diff::memory(self.module, &blueprint.name, Some(blueprint.body), &left, &right);
            if !text.is_empty() {
                return Err(format!("image after packet {index} of {count}\n{text}"));
            }
        }
        Ok(())
    }

    /// Passes one random input to a random parser, and returns the kind of result.
    ///
    /// # Errors
    /// Returns the difference between the sides.
    pub fn input(&self, rng: &mut Rng) -> Result<&'static str, String> {
        let parsers = &self.module.parsers;
        if parsers.is_empty() {
            return Ok("parse nothing");
        }
        let index = rng.below(parsers.len());
        let (op, net, icmp) = (values::op(rng), values::net(rng), values::icmp(rng));
        let packet_bytes = self.packet(rng, parsers[index].func, &net);
        let cut = rng.below(3) * rng.below(packet_bytes.len() + 1) / 2;
        let (head, tail) = packet_bytes.split_at(packet_bytes.len() - cut);
        let csum = if rng.one_in(2) {
            Csum::Complete
        } else {
            Csum::Unverified
        };
        let merged = if rng.one_in(4) { rng.below(60_000) } else { 0 };
        let addr = if rng.one_in(4) {
            0
        } else {
            hawser_ir::abi::addr(rng.below(9) as u32, 0)
        };
        let packet = Packet {
            net: &net,
            head,
            tail,
            merged,
            addr,
            csum,
            crc: (!rng.one_in(4)).then(|| rng.word() as u32),
        };
        let input = match parsers[index].source {
            ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) => Input::Packet(packet),
            ParserInput::IcmpError => Input::Icmp(packet, &icmp),
            ParserInput::App(kind) => Input::App(kind, &op),
            ParserInput::Start => Input::Start,
        };
        self.parse(index, input)
    }

    fn parse(&self, parser: usize, input: Input<'_>) -> Result<&'static str, String> {
        let (mut a, mut b) = (EventBuf::default(), EventBuf::default());
        let left = self.left.parse(parser, input, &mut a);
        let right = self.right.parse(parser, input, &mut b);
        let name = &self.module.funcs[self.module.parsers[parser].func.0 as usize].name;
        let mut text = String::new();
        if left != right || a.len() != b.len() {
            text = format!("{left:?}, {} events | {right:?}, {} events\n", a.len(), b.len());
        }
        for i in 0..a.len().min(b.len()) {
            let event = usize::from(hawser_ir::buf::event_header(a.get(i)).event);
            let body = self.module.events.get(event).map(|event| event.body);
            text += &crate::diff::memory(self.module, "event", body, a.get(i), b.get(i));
        }
        if !text.is_empty() {
            return Err(format!("{name} of {input:02x?}\n{text}"));
        }
        Ok(match left {
            Ok(()) if a.is_empty() => "parse without event",
            Ok(()) => "parse events",
            Err(ParseError::Truncated) => "parse truncated",
            Err(ParseError::Checksum) => "parse checksum",
            Err(ParseError::Length) => "parse length",
            Err(ParseError::Frame) => "parse frame",
            Err(ParseError::Events) => "parse too many events",
        })
    }

    /// Returns a packet for a parser: built headers, payload, and some damage.
    fn packet(&self, rng: &mut Rng, parser: FuncId, net: &hawser_ir::abi::Net) -> Vec<u8> {
        let headers = extracted(&self.module.funcs[parser.0 as usize].body);
        let mut payload = vec![0; rng.below(PAYLOAD)];
        payload.iter_mut().for_each(|byte| *byte = rng.word() as u8);
        let mut bytes = payload;
        if !rng.one_in(8) {
            for blueprint in headers.iter().rev() {
                let mut front = self.header(rng, *blueprint, net, &bytes);
                front.extend_from_slice(&bytes);
                bytes = front;
            }
        }
        match rng.below(5) {
            0 if !bytes.is_empty() => {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
            1 => bytes.truncate(rng.below(bytes.len() + 1)),
            2 if !bytes.is_empty() => {
                let at = rng.below(bytes.len());
                bytes[at] = rng.edge(8) as u8;
            }
            _ => {}
        }
        bytes
    }

    /// Builds a header with the interpreter, and completes its checksum over the bytes that follow.
    fn header(&self, rng: &mut Rng, blueprint: usize, net: &hawser_ir::abi::Net, after: &[u8]) -> Vec<u8> {
        let form = &self.module.blueprints[blueprint];
        let mut image = vec![0; self.module.structure(form.body).size as usize];
        values::fill_image(self.module, rng, form.body, &mut image);
        let packet = PacketRec {
            net: *net,
            blueprint: blueprint as u16,
            data_at: form.data_at.unwrap_or(u32::MAX),
            bytes: image.len() as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        let len = if form.data_at.is_some() {
            after.len() as u32
        } else {
            0
        };
        let mut header = vec![0; form.max_around() as usize];
        let segment = Segment { index: 0, count: 1, len };
        let built = self.left.build(&packet, &mut image, segment, &mut header);
        header.truncate(built.len);
        if let Some((start, at)) = built.csum {
            let at = usize::from(at);
            let covered = [&header[usize::from(start)..], after].concat();
            let sum = Sum16BitWords::new().add_slice(&covered).ones_complement();
            if let Some(field) = header.get_mut(at..at + 2) {
                field.copy_from_slice(&sum.to_ne_bytes());
            }
        }
        header
    }
}

/// Returns the blueprints that a parser extracts, in order.
fn extracted(body: &[Stmt]) -> Vec<usize> {
    let mut found = Vec::new();
    hawser_ir::statements(body, &mut |stmt| {
        if let StmtKind::Extract { blueprint, .. } = &stmt.kind {
            found.push(blueprint.0 as usize);
        }
    });
    found
}
