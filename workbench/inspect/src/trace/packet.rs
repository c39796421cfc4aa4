//! Packets by the program's own headers.

use hawser_engine::net::udp;
use hawser_interp::{Interpreter, Steps};
use hawser_ir::abi::{Csum, Net, Packet, ParseError};
use hawser_ir::buf::{EventBuf, Input};
use hawser_ir::{Parser, ParserInput, Ty};
use serde::Serialize;

use crate::trace::shared_names::SharedName;
use crate::trace::source::ProgramLine;
use crate::trace::value::{Reader, TraceValue};

/// A packet, as the program's parser reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decoded {
    /// The number of bytes from its transport header on.
    pub bytes: usize,
    /// The headers in order, each with its name and its fields.
    pub headers: Vec<(SharedName, TraceValue)>,
    /// The reason why the parser stopped: `truncated`, `length`, `frame`, `events`, `checksum`, or `no
    /// parser`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
}

/// A packet that an event sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentPacket {
    /// The time when it left, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// The host that sent it.
    pub host: SharedName,
    /// The packet's number in a capture of the run, from 1.
    #[serde(rename = "sent")]
    pub packet: u64,
    /// The number on the host of the event that sent it.
    pub number: u64,
    /// The event's flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<usize>,
    /// The event's name.
    #[serde(skip)]
    pub event: SharedName,
    /// The cause of the event.
    #[serde(skip)]
    pub source: &'static str,
    /// The statement that emitted the instruction.
    #[serde(flatten)]
    pub line: ProgramLine,
    /// The packet's content.
    #[serde(flatten)]
    pub decoded: Decoded,
}

/// Parses a packet with the program's parser. Checksums are not verified.
pub(crate) fn decode(
    interpreter: &Interpreter,
    reader: &Reader<'_>,
    parser: Option<usize>,
    net: &Net,
    bytes: &[u8],
) -> Decoded {
    let none = Decoded { bytes: bytes.len(), ..Decoded::default() };
    let Some(parser) = parser else {
        return Decoded { error: Some("no parser"), ..none };
    };
    let packet = Packet {
        net,
        head: bytes,
        tail: &[],
        merged: 0,
        addr: 0,
        csum: Csum::Complete,
        crc: None,
    };
    let (mut events, mut steps) = (EventBuf::default(), Steps::default());
    let parsed = interpreter.parse_watched(parser, Input::Packet(packet), &mut events, &mut steps);
    let headers = steps.headers.iter().map(|(blueprint, image)| {
        let index = blueprint.0 as usize;
        let body = reader.module.blueprints[index].body;
        (
            reader.names.blueprints[index].clone(),
            reader.value(&Ty::Struct(body), image),
        )
    });
    Decoded {
        headers: headers.collect(),
        error: parsed.err().map(|error| match error {
            ParseError::Truncated => "truncated",
            ParseError::Checksum => "checksum",
            ParseError::Length => "length",
            ParseError::Frame => "frame",
            ParseError::Events => "events",
        }),
        ..none
    }
}

/// Splits an IP packet into its header as parsers see it, and the bytes from its transport header on. Returns
/// `None` if it is not an IP packet.
pub(crate) fn network(packet: &[u8]) -> Option<(Net, &[u8])> {
    let mut net: Net = bytemuck::Zeroable::zeroed();
    let mapped = |bytes: &[u8]| -> Option<[u8; 16]> {
        let v4: [u8; 4] = bytes.try_into().ok()?;
        Some(std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets())
    };
    net.version = packet.first()? >> 4;
    net.segs = 1;
    let (header, total) = match net.version {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            net.src_ip = mapped(packet.get(12..16)?)?;
            net.dst_ip = mapped(packet.get(16..20)?)?;
            (net.dscp, net.ecn, net.ttl) = (packet[1] >> 2, packet[1] & 3, packet[8]);
            net.protocol = packet[9];
            (header, usize::from(u16::from_be_bytes([packet[2], packet[3]])))
        }
        6 => {
            net.src_ip = packet.get(8..24)?.try_into().ok()?;
            net.dst_ip = packet.get(24..40)?.try_into().ok()?;
            let class = packet[0] << 4 | packet[1] >> 4;
            (net.dscp, net.ecn, net.ttl) = (class >> 2, class & 3, packet[7]);
            net.protocol = packet[6];
            (40, 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
        }
        _ => return None,
    };
    (net.hdr_len, net.tot_len) = (header as u16, total as u32);
    Some((net, packet.get(header..total.min(packet.len()))?))
}

/// Returns the content of the datagram, if the program's packets are in UDP.
pub(crate) fn behind_udp<'a>(interpreter: &Interpreter, net: &mut Net, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let in_udp = |parser: &Parser| matches!(parser.source, ParserInput::Udp(_));
    if net.protocol != udp::PROTOCOL || !interpreter.module().parsers.iter().any(in_udp) {
        return Some(bytes);
    }
    let (held, _) = udp::open(net, (bytes, &[]), Csum::Complete).ok()?;
    Some(held)
}

/// Returns the parser for packets with this header at the far end. The far end may have another port than the
/// one that the program registers. It may have answered from there, or be a socket of a host; then the first
/// parser is used.
pub(crate) fn parser_of(interpreter: &Interpreter, net: &Net) -> Option<usize> {
    let parsers = &interpreter.module().parsers;
    let of = |takes: &dyn Fn(ParserInput) -> bool| parsers.iter().position(|parser| takes(parser.source));
    of(&|source| match source {
        ParserInput::Ip(number) => number == net.protocol,
        ParserInput::Udp(port) => port == net.dst_port,
        ParserInput::Trimmed(_) | ParserInput::IcmpError | ParserInput::App(_) | ParserInput::Start => false,
    })
    .or_else(|| of(&|source| net.dst_port != 0 && source == ParserInput::Udp(net.src_port)))
    .or_else(|| of(&|source| net.dst_port != 0 && matches!(source, ParserInput::Udp(_))))
}
