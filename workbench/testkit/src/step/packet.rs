//! Packets of a program: built from the written form, parsed, shown and compared.

use std::net::IpAddr;
use std::sync::Arc;

use bytemuck::Zeroable;
use hawser_engine::net::crc::{self, Crc};
use hawser_engine::net::{DropReason, Sum, from_bytes, is_ipv4, to_bytes, udp};
use hawser_engine::program::Program;
use hawser_engine::wire::{Medium, RxFrame, TxFrame};
use hawser_interp::{Interpreter, Unsupported};
use hawser_ir::abi::{self, Csum, Net, PacketRec, ParseError, Segment};
use hawser_ir::{Blueprint, BlueprintId, Fill, Layout, Module, ParserInput, WireField};
use hawser_sim::frame::Frame;
use hawser_time::Instant;

use crate::step::cursor::{Error, LineParse};
use crate::step::image::{BoundNames, ImageMismatch, Types};
use crate::step::literal::{Field, Literal, PacketLiteral, ValueLiteral};
use crate::step::payload::Payload;

/// The hop limit of incoming packets, unless a file states another.
const TTL: u8 = 64;
/// The value of a computed field that is to be wrong.
const WRONG: &str = "wrong";

/// A builder and parser of a program's packets.
pub(crate) struct Format {
    interpreter: Interpreter,
    member_size: Vec<u32>,
    /// The IP protocol of the program's packets.
    protocol: u8,
    /// The UDP port of the packets; 0 if they are not in UDP.
    port: u16,
}

/// A parsed packet.
pub(crate) struct ParsedPacket {
    net: Net,
    blueprint: usize,
    image: Vec<u8>,
    payload: Vec<u8>,
}

impl ParsedPacket {
    pub(crate) fn payload_len(&self) -> usize {
        self.payload.len()
    }
}

impl Format {
    pub(crate) fn new(program: &dyn Program) -> Result<Format, Unsupported> {
        let module = Arc::new(program.module().clone());
        let sources = module.parsers.iter().filter_map(|parser| match parser.source {
            ParserInput::Ip(protocol) => Some((protocol, 0)),
            ParserInput::Udp(port) => Some((udp::PROTOCOL, port)),
            ParserInput::Trimmed(_) | ParserInput::IcmpError | ParserInput::App(_) | ParserInput::Start => {
                None
            }
        });
        let (protocol, port) = sources.into_iter().next().unwrap_or_default();
        Ok(Format {
            member_size: module.member_sizes(),
            protocol,
            port,
            interpreter: Interpreter::new(module, program.params().to_vec())?,
        })
    }

    pub(crate) fn module(&self) -> &Module {
        self.interpreter.module()
    }

    /// Returns the UDP port of the program's packets; 0 if they are not in UDP.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn types(&self) -> Types<'_> {
        Types {
            module: self.module(),
            layout: Layout { structs: &self.module().structs, member_size: &self.member_size },
        }
    }

    fn blueprint(&self, name: &str, column: u32) -> LineParse<(usize, &Blueprint)> {
        let found = self
            .module()
            .blueprints
            .iter()
            .enumerate()
            .find(|(_, known)| known.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self
                .module()
                .blueprints
                .iter()
                .map(|known| known.name.as_str())
                .collect();
            Error::new(column, format!("the program has no blueprint `{name}`"))
                .hint(format!("it has: {}", known.join(", ")))
        })
    }

    /// Checks the names and the values of a packet that is not built yet.
    pub(crate) fn check(&self, packet: &PacketLiteral) -> LineParse<()> {
        let (_, blueprint) = self.blueprint(&packet.blueprint, packet.column)?;
        let types = self.types();
        for field in &packet.fields {
            types.field(blueprint.body, &field.name, field.column)?;
        }
        Ok(())
    }

    /// Builds a packet from `from` to `to`. Unwritten fields are zero, except those that the program
    /// computes.
    pub(crate) fn build(
        &self,
        packet: &PacketLiteral,
        (from, to): (IpAddr, IpAddr),
        names: &BoundNames,
    ) -> LineParse<Frame> {
        let (index, blueprint) = self.blueprint(&packet.blueprint, packet.column)?;
        let net = self.net(packet, (from, to), names)?;
        let (wrong, plain): (Vec<&Field>, Vec<&Field>) =
            packet.fields.iter().partition(|field| is_wrong(field));
        let plain: Vec<Field> = plain.into_iter().cloned().collect();
        let mut image = vec![0; self.module().structure(blueprint.body).size as usize];
        let payload = self
            .types()
            .write_fields(blueprint.body, &plain, &mut image, names)?;
        if payload.is_some() && blueprint.data_at.is_none() {
            return Err(Error::new(
                packet.column,
                format!("`{}` carries no data", packet.blueprint),
            ));
        }
        let payload = payload.map_or_else(Vec::new, |payload: Payload| payload.bytes(0));

        let is_computed = |field: &&Field| fill(blueprint, &field.name).is_some();
        let written: Vec<&str> = plain
            .iter()
            .filter(is_computed)
            .map(|field| field.name.as_str())
            .collect();
        let mut frame = self.assemble(index, &written, &net, &mut image, &payload, packet.column)?;
        if !wrong.is_empty() {
            let mut set = written;
            for field in wrong {
                self.spoil(field, (index, blueprint), &frame, &mut image)?;
                set.push(&field.name);
            }
            frame = self.assemble(index, &set, &net, &mut image, &payload, packet.column)?;
        }
        Ok(frame)
    }

    /// Gives a computed field a wrong value.
    fn spoil(
        &self,
        field: &Field,
        (index, blueprint): (usize, &Blueprint),
        right: &Frame,
        image: &mut [u8],
    ) -> LineParse<()> {
        if fill(blueprint, &field.name).is_none() {
            return Err(
                Error::new(field.value.column, format!("`{}` is not computed", field.name)).hint(
                    "`wrong` is for values that the program computes, such as checksums and lengths: write \
                     a value",
                ),
            );
        }
        let (ty, at) = self.types().field(blueprint.body, &field.name, field.column)?;
        let opened = self.open(index, right).map_err(|_| {
            Error::new(
                field.value.column,
                "the packet is already wrong, so the right value is unknown",
            )
        })?;
        let size = self.types().layout.size(ty) as usize;
        for (to, from) in image[at..at + size].iter_mut().zip(&opened.image[at..]) {
            *to = !from;
        }
        Ok(())
    }

    /// Assembles a packet. The fields in `written` are taken from the image, although the program computes
    /// them.
    fn assemble(
        &self,
        index: usize,
        written: &[&str],
        net: &Net,
        image: &mut [u8],
        payload: &[u8],
        column: u32,
    ) -> LineParse<Frame> {
        let too_long = || {
            Error::new(
                column,
                "the packet is longer than an IP packet can be: 65535 bytes",
            )
        };
        let mut rec = PacketRec::zeroed();
        (rec.net, rec.blueprint) = (*net, index as u16);
        let mut header = vec![0; self.module().blueprints[index].max_around() as usize];
        let segment = Segment { index: 0, count: 1, len: payload.len() as u32 };
        let built = if written.is_empty() {
            self.interpreter.build(&rec, image, segment, &mut header)
        } else {
            let mut module = self.module().clone();
            let blueprint = &mut module.blueprints[index];
            for field in blueprint.header.iter_mut().chain(&mut blueprint.trailer) {
                if let WireField::Bits { name, fill, .. } = field
                    && written.contains(&name.as_str())
                {
                    *fill = None;
                }
            }
            let interpreter = Interpreter::new(Arc::new(module), self.interpreter.params().to_vec());
            let interpreter = interpreter.map_err(|error| Error::new(column, error.to_string()))?;
            interpreter.build(&rec, image, segment, &mut header)
        };
        header.truncate(built.len);
        let trailer = header.split_off(built.len - built.trailer.min(built.len));
        header.extend_from_slice(payload);
        header.extend(trailer);
        let in_udp = if self.port > 0 { udp::HEADER } else { 0 };
        let len = header.len() + in_udp;
        let mut head = ip_header(net, len).ok_or_else(too_long)?;
        let start = (head.len() + in_udp) as u16;
        head.resize(usize::from(start), 0);
        if in_udp > 0 {
            let from = head.len() - in_udp;
            udp::write(&mut head[from..], net, len as u16);
        }
        let network = head.len();
        head.extend(header);
        let mut sent = TxFrame { head, ..TxFrame::default() };
        let blueprint = &self.module().blueprints[index];
        let is_crc = |name: &&str| matches!(fill(blueprint, name), Some(Fill::Crc32 { .. }));
        if let Some(crc) = Crc::from_blueprint(blueprint).filter(|_| !written.iter().any(is_crc)) {
            crc.fill(&mut sent, 0, network);
        }
        let received = RxFrame {
            head: &sent.head,
            tail: &[],
            csum: Csum::Unverified,
            seg_size: 0,
            at: Instant::ORIGIN,
        };
        let mut frame = Frame::received(&received, Medium::Ip);
        frame.partial = built.csum.map(|(from, field)| (start + from, start + field));
        frame.complete();
        if in_udp > 0 {
            let from = start - in_udp as u16;
            frame.partial = Some((from, from + 6));
            frame.complete();
        }
        Ok(frame)
    }

    /// Returns the IP header of a packet, with its written fields.
    fn net(
        &self,
        packet: &PacketLiteral,
        (from, to): (IpAddr, IpAddr),
        names: &BoundNames,
    ) -> LineParse<Net> {
        let mut net = Net::zeroed();
        (net.src_ip, net.dst_ip) = (to_bytes(from), to_bytes(to));
        (net.protocol, net.ttl) = (self.protocol, TTL);
        (net.src_port, net.dst_port) = (self.port, self.port);
        for field in &packet.ip {
            let number = |bits| {
                self.types()
                    .number(&hawser_ir::Ty::uint(bits), &field.value, names)
            };
            let address = || match &field.value.literal {
                Literal::Word(word) => word
                    .parse()
                    .map(to_bytes)
                    .map_err(|_| not_an_address(&field.value)),
                _ => Err(not_an_address(&field.value)),
            };
            match field.name.as_str() {
                "src_ip" => net.src_ip = address()?,
                "dst_ip" => net.dst_ip = address()?,
                "protocol" => net.protocol = number(8)? as u8,
                "ttl" => net.ttl = number(8)? as u8,
                "ecn" => net.ecn = number(2)? as u8,
                "dscp" => net.dscp = number(6)? as u8,
                "src_port" if self.port > 0 => net.src_port = number(16)? as u16,
                "dst_port" if self.port > 0 => net.dst_port = number(16)? as u16,
                _ => return Err(unknown_ip_field(field)),
            }
        }
        if is_ipv4(&net.src_ip) != is_ipv4(&net.dst_ip) {
            return Err(Error::new(
                packet.column,
                "one end has an IPv4 address, the other an IPv6 address",
            ));
        }
        net.version = if is_ipv4(&net.dst_ip) { 4 } else { 6 };
        Ok(net)
    }

    /// Parses a packet, and verifies the fields that the program computes.
    pub(crate) fn open(&self, blueprint: usize, frame: &Frame) -> Result<ParsedPacket, ParseError> {
        let headers = frame.headers().ok_or(ParseError::Truncated)?;
        let bytes = whole(frame);
        let mut net = net_of(&bytes, &headers);
        let mut held = bytes.get(headers.transport..).unwrap_or_default();
        let in_udp = if self.port > 0 { udp::HEADER } else { 0 };
        let in_front = bytes.get(headers.network..headers.transport + in_udp);
        if self.port > 0 {
            let opened = udp::open(&mut net, (held, &[]), Csum::Unverified);
            (held, _) = opened.map_err(|reason| match reason {
                DropReason::Checksum => ParseError::Checksum,
                _ => ParseError::Truncated,
            })?;
        }
        let body = self
            .module()
            .blueprints
            .get(blueprint)
            .ok_or(ParseError::Frame)?
            .body;
        let mut image = vec![0; self.module().structure(body).size as usize];
        let packet = abi::Packet {
            net: &net,
            head: held,
            tail: &[],
            merged: 0,
            addr: 0,
            csum: Csum::Unverified,
            crc: in_front.map(crc::front),
        };
        let payload = self
            .interpreter
            .extract(BlueprintId(blueprint as u32), packet, &mut image)?;
        let payload = packet.head.get(payload).unwrap_or_default().to_vec();
        Ok(ParsedPacket { net, blueprint, image, payload })
    }

    /// Returns an incoming packet in its full written form, or `None` if a computed field is wrong.
    pub(crate) fn opened(&self, packet: &PacketLiteral, frame: &Frame) -> Option<PacketLiteral> {
        let (index, _) = self.blueprint(&packet.blueprint, packet.column).ok()?;
        Some(self.show(&self.open(index, frame).ok()?))
    }

    /// Returns the written form of a packet.
    pub(crate) fn show(&self, opened: &ParsedPacket) -> PacketLiteral {
        let blueprint = &self.module().blueprints[opened.blueprint];
        let value = |name: &str, number: u16, usual: u16| {
            (number != usual).then(|| Field {
                name: name.to_owned(),
                column: 0,
                value: ValueLiteral { column: 0, literal: Literal::Word(number.to_string()) },
            })
        };
        let net = &opened.net;
        let ip = [
            value("protocol", net.protocol.into(), self.protocol.into()),
            value("ttl", net.ttl.into(), TTL.into()),
            value("ecn", net.ecn.into(), 0),
            value("dscp", net.dscp.into(), 0),
            value("src_port", net.src_port, self.port),
            value("dst_port", net.dst_port, self.port),
        ];
        PacketLiteral {
            column: 0,
            ip: ip.into_iter().flatten().collect(),
            blueprint: blueprint.name.clone(),
            fields: self
                .types()
                .show_fields(blueprint.body, &opened.image, &opened.payload),
        }
    }

    /// Returns the numbers of a packet's own fields, by name.
    pub(crate) fn numbers(&self, opened: &ParsedPacket) -> Vec<(String, u64)> {
        let body = self.module().blueprints[opened.blueprint].body;
        self.types().numbers(body, &opened.image)
    }

    /// Compares the written form with a packet.
    pub(crate) fn compare(
        &self,
        packet: &PacketLiteral,
        frame: &Frame,
        names: &mut BoundNames,
    ) -> Result<(), ImageMismatch> {
        let (index, blueprint) = self.blueprint(&packet.blueprint, packet.column)?;
        let opened = self.open(index, frame).map_err(|error| {
            ImageMismatch::Differs(format!("it is not a {}: {}", packet.blueprint, describe(error)))
        })?;
        for field in &packet.ip {
            let net = &opened.net;
            let found = match field.name.as_str() {
                "src_ip" => from_bytes(net.src_ip).to_string(),
                "dst_ip" => from_bytes(net.dst_ip).to_string(),
                "protocol" => net.protocol.to_string(),
                "src_port" => net.src_port.to_string(),
                "dst_port" => net.dst_port.to_string(),
                "ttl" => net.ttl.to_string(),
                "ecn" => net.ecn.to_string(),
                "dscp" => net.dscp.to_string(),
                _ => return Err(unknown_ip_field(field).into()),
            };
            if field.value.literal != Literal::Word(found.clone()) {
                let (name, wanted) = (&field.name, &field.value.literal);
                return Err(ImageMismatch::Differs(format!(
                    "ip.{name} is {found}, not {wanted}"
                )));
            }
        }
        let content = (&opened.image[..], &opened.payload[..]);
        self.types()
            .compare_fields(blueprint.body, &packet.fields, content, names)
    }
}

/// Describes the fault in a packet.
pub(crate) fn describe(error: ParseError) -> &'static str {
    match error {
        ParseError::Truncated => "it is shorter than its header",
        ParseError::Checksum => "its checksum is wrong",
        ParseError::Length => "one of its lengths is wrong",
        _ => "a constant field has another value",
    }
}

fn is_wrong(field: &Field) -> bool {
    field.value.literal == Literal::Word(WRONG.to_owned())
}

/// Returns the method by which a header computes a field, if it does.
fn fill<'a>(blueprint: &'a Blueprint, name: &str) -> Option<&'a Fill> {
    let mut fields = blueprint.header.iter().chain(&blueprint.trailer);
    fields.find_map(|field| match field {
        WireField::Bits { name: known, fill: Some(fill), .. } if known == name => Some(fill),
        _ => None,
    })
}

fn not_an_address(value: &ValueLiteral) -> Error {
    Error::new(value.column, format!("`{}` is not an address", value.literal))
}

fn unknown_ip_field(field: &Field) -> Error {
    Error::new(
        field.column,
        format!("an IP header has no field `{}`", field.name),
    )
    .hint("there are: src_ip, dst_ip, protocol, ttl, ecn, dscp, and of packets in UDP src_port, dst_port")
}

/// Returns all bytes of a frame.
pub(crate) fn whole(frame: &Frame) -> Vec<u8> {
    let mut frame = frame.clone();
    frame.flatten();
    frame.head
}

/// Builds the IP header of a packet with `len` further bytes. Returns `None` if that is too long.
fn ip_header(net: &Net, len: usize) -> Option<Vec<u8>> {
    let mut header = Vec::with_capacity(40 + len);
    let class = net.dscp << 2 | net.ecn;
    if net.version == 4 {
        header.extend([0x45, class]);
        header.extend(u16::try_from(20 + len).ok()?.to_be_bytes());
        header.extend([0, 0, 0x40, 0, net.ttl, net.protocol, 0, 0]);
        header.extend(&net.src_ip[12..]);
        header.extend(&net.dst_ip[12..]);
        let sum = Sum::default().with(&header).complement();
        header[10..12].copy_from_slice(&sum);
    } else {
        header.extend((6 << 28 | u32::from(class) << 20).to_be_bytes());
        header.extend(u16::try_from(len).ok()?.to_be_bytes());
        header.extend([net.protocol, net.ttl]);
        header.extend(net.src_ip);
        header.extend(net.dst_ip);
    }
    Some(header)
}

/// Returns the content of a packet's IP header.
fn net_of(bytes: &[u8], headers: &hawser_sim::frame::Headers) -> Net {
    let mut net = Net::zeroed();
    let at = |at: usize| bytes.get(headers.network + at).copied().unwrap_or(0);
    let part = |from: usize, len: usize| bytes.get(headers.network + from..headers.network + from + len);
    let address = |from: usize| {
        let v4 = part(from, 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        v4.map_or([0; 16], |bytes| to_bytes(IpAddr::from(bytes)))
    };
    let class;
    if headers.is_v4 {
        (net.src_ip, net.dst_ip) = (address(12), address(16));
        (net.version, net.ttl, class) = (4, at(8), at(1));
    } else {
        let six = |from: usize| part(from, 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        (net.src_ip, net.dst_ip) = (six(8).unwrap_or_default(), six(24).unwrap_or_default());
        (net.version, net.ttl, class) = (6, at(7), at(0) << 4 | at(1) >> 4);
    }
    net.protocol = headers.protocol;
    (net.dscp, net.ecn) = (class >> 2, class & 3);
    net.hdr_len = (headers.transport - headers.network) as u16;
    net.tot_len = (bytes.len() - headers.network) as u32;
    net.segs = 1;
    net
}

/// Implements [`crate::step::show_and_read`].
pub(crate) fn show_and_read(program: &dyn Program, bytes: &[u8]) -> Option<bool> {
    let format = Format::new(program).ok()?;
    let mut ends = Net::zeroed();
    let (from, to) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
    (ends.src_ip, ends.dst_ip) = (to_bytes(from), to_bytes(to));
    (ends.version, ends.protocol, ends.ttl) = (4, format.protocol, TTL);
    let packet = abi::Packet {
        net: &ends,
        head: bytes,
        tail: &[],
        merged: 0,
        addr: 0,
        csum: Csum::Complete,
        crc: None,
    };
    let blueprints = &format.module().blueprints;
    let index = blueprints.iter().position(|known| known.data_at.is_some())?;
    let mut image = vec![0; format.module().structure(blueprints[index].body).size as usize];
    let id = BlueprintId(index as u32);
    let payload = format.interpreter.extract(id, packet, &mut image).ok()?;
    let payload = bytes.get(payload)?;
    let frame = format.assemble(index, &[], &ends, &mut image, payload, 0).ok()?;
    let opened = format.open(index, &frame).ok()?;
    let shown = format.show(&opened).to_string();
    let read = PacketLiteral::read(&mut crate::step::cursor::LineCursor::new(&shown))
        .expect("what is shown can be read");
    let again = format
        .build(&read, (from, to), &BoundNames::new())
        .expect("what is shown can be built");
    assert_eq!(whole(&again), whole(&frame), "{shown}");
    Some(true)
}
