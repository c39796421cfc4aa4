//! Compares the C with the interpreter on packets, byte for byte, for every program in `lang/tests` and the
//! built-in ones. The inputs are nearly valid packets for parsers, headers from images with arbitrary
//! contents, and segmentation and coalescing rules.

use crate::common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytemuck::{Zeroable, bytes_of_mut, cast_slice, cast_slice_mut};
use common::Compiled;
use fastrand::Rng;
use hawser_interp::Interpreter;
use hawser_ir::abi::{Csum, Icmp, Net, Op, Packet, PacketRec, ParseError, Segment, addr};
use hawser_ir::buf::{EventBuf, Input, NET_ZERO};
use hawser_ir::{Blueprint, Fill, Instr, Module, Parser, ParserInput, Stmt, StmtKind, WireField};
use hawser_testing::internet_checksum;

/// The number of inputs for each parser.
const INPUTS: usize = 1500;
/// The number of images for each blueprint that is sent.
const IMAGES: usize = 300;

/// Trapping checks for undefined behaviour, without optimisation.
const CHECKED: &[&str] = &[
    "-O0",
    "-fsanitize=undefined",
    "-fsanitize-undefined-trap-on-error",
];

/// Random memory and packets from a seed.
struct Random(Rng);

impl Random {
    fn roll(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n.max(1))
    }

    /// Returns memory of one kind: small numbers, so that lists are short and conditions hold, or any
    /// numbers.
    fn words(&mut self, bytes: usize) -> Vec<u64> {
        let manner = self.below(4);
        let mut words = vec![0; bytes.div_ceil(8)];
        let fill: &mut [u8] = cast_slice_mut(&mut words);
        fill.fill_with(|| match manner {
            0 => 0,
            1 => [0, 0, 0, 0, 1, 2, 3, 0x10][self.below(8)],
            2 => [0, 0, 0, 0, 0, 0, 0xff, self.roll() as u8][self.below(8)],
            _ => self.roll() as u8,
        });
        words
    }

    fn net(&mut self, protocol: u8) -> Net {
        let mut net = Net { protocol, segs: 1, version: 4, ..NET_ZERO };
        for address in [&mut net.src_ip, &mut net.dst_ip] {
            address.fill_with(|| self.roll() as u8);
            if self.below(2) == 0 {
                address[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
            }
        }
        net
    }
}

/// A program on both sides.
struct Pair {
    name: String,
    interpreter: Interpreter,
    compiled: Compiled,
    /// The indices of the blueprints that it sends.
    sent: Vec<u16>,
}

impl Pair {
    fn module(&self) -> &Module {
        self.interpreter.module()
    }

    fn image_size(&self, blueprint: u16) -> usize {
        let module = self.module();
        module
            .structure(module.blueprints[usize::from(blueprint)].body)
            .size as usize
    }

    /// Returns a record for an image, with up to three of the blueprint's rules.
    fn record(&self, blueprint: u16, random: &mut Random) -> PacketRec {
        let module = self.module();
        let data_at = module.blueprints[usize::from(blueprint)].data_at;
        let protocol = [0, 6, 17][random.below(3)];
        let mut record = PacketRec {
            net: random.net(protocol),
            blueprint,
            data_at: data_at.unwrap_or(u32::MAX),
            bytes: self.image_size(blueprint) as u32,
            ..PacketRec::zeroed()
        };
        record.args.fill_with(|| {
            if random.below(2) == 0 {
                random.roll()
            } else {
                random.roll() % 3
            }
        });
        let rules = module.seg_rules.iter().enumerate();
        for (i, _) in rules
            .filter(|(_, rule)| rule.blueprint.0 == u32::from(blueprint))
            .take(4)
        {
            record.rule[usize::from(record.rules)] = i as u16;
            record.rules += 1;
        }
        record
    }

    /// Builds a train of packets on both sides and compares headers and images. Returns the first header.
    fn build(&self, record: &PacketRec, image: &[u64], random: &mut Random) -> Vec<u8> {
        let blueprint = &self.module().blueprints[usize::from(record.blueprint)];
        let room = blueprint.max_len as usize + 64;
        let count = 1 + random.below(4) as u32;
        let (mut theirs, mut ours) = (image.to_vec(), image.to_vec());
        let mut first = Vec::new();
        for index in 0..count {
            let len = if blueprint.data_at.is_none() {
                0
            } else {
                random.below(3) as u32 * 700
            };
            let segment = Segment { index, count, len };
            let (mut expected, mut found) = (vec![0xee; room], vec![0xee; room]);
            let by = self
                .interpreter
                .build(record, cast_slice_mut(&mut theirs), segment, &mut expected);
            let built =
                self.compiled
                    .build(self.interpreter.params(), record, &mut ours, segment, &mut found);
            let at = format!(
                "{}: {} packet {segment:?} of {image:x?}",
                self.name, blueprint.name
            );
            assert_eq!(built, by, "{at}");
            assert_eq!(found, expected, "{at}");
            assert_eq!(ours, theirs, "{at}: image");
            if index == 0 {
                first = expected[..by.len].to_vec();
            }
        }
        first
    }

    /// Passes an input to a parser on both sides and compares the results. Returns the number of events, or
    /// the parser's error.
    fn parse(&self, parser: usize, input: &Input<'_>) -> Result<usize, ParseError> {
        let module = self.module();
        let max_events = module.parsers[parser].max_events;
        let largest = (0..module.events.len()).map(|i| module.event_size(hawser_ir::EventId(i as u32)));
        let room = max_events as usize * largest.max().unwrap_or(0);
        let mut events = EventBuf::default();
        let expected = self.interpreter.parse(parser, *input, &mut events);
        let bytes: Vec<u8> = (0..events.len()).flat_map(|i| events.get(i)).copied().collect();
        let expected = expected.map(|()| (bytes, events.len() as u32));
        let found = self
            .compiled
            .parse(self.interpreter.params(), parser, input, max_events, room);
        assert_eq!(found, expected, "{}: parser {parser} of {input:x?}", self.name);
        found.map(|(_, count)| count as usize)
    }
}

/// Collects the blueprints that some function sends.
fn sent(body: &[Stmt], into: &mut BTreeSet<u16>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::If(_, a, b) => [a, b].into_iter().for_each(|block| sent(block, into)),
            StmtKind::For { body, .. } => sent(body, into),
            StmtKind::Emit(Instr::PktGen { blueprint, .. }) => {
                into.insert(blueprint.0 as u16);
            }
            _ => {}
        }
    }
}

/// Returns all programs that can run, on both sides; they are compiled once.
fn pairs() -> &'static [Pair] {
    static PAIRS: OnceLock<Vec<Pair>> = OnceLock::new();
    PAIRS.get_or_init(|| common::programs().into_iter().filter_map(pair).collect())
}

fn pair(path: PathBuf) -> Option<Pair> {
    {
        let module = Arc::new(common::module(&path));
        let params = module.params.iter().map(|p| p.default).collect();
        let interpreter = Interpreter::new(Arc::clone(&module), params).ok()?;
        let folder = path
            .parent()
            .and_then(|p| p.file_name())
            .unwrap_or_default()
            .to_string_lossy();
        let name = format!(
            "packets_{folder}_{}",
            path.file_stem().unwrap_or_default().to_string_lossy()
        );
        let mut blueprints = BTreeSet::new();
        module
            .funcs
            .iter()
            .for_each(|func| sent(&func.body, &mut blueprints));
        let reads = |p: &Parser| {
            matches!(
                p.source,
                ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) | ParserInput::IcmpError
            )
        };
        let has_packets = !blueprints.is_empty() || module.parsers.iter().any(reads);
        has_packets.then(|| Pair {
            compiled: common::compile(&module, &name, CHECKED),
            name,
            interpreter,
            sent: blueprints.into_iter().collect(),
        })
    }
}

/// Returns a packet that is usually nearly valid: built by the program, completed, then changed in some
/// places.
fn packet(pair: &Pair, net: &Net, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    if random.below(3) == 0
        && let Some(summed) = with_crc(pair.module(), random)
    {
        bytes = summed;
    } else if !pair.sent.is_empty() && random.below(8) != 0 {
        let blueprint = pair.sent[random.below(pair.sent.len())];
        let image = random.words(pair.image_size(blueprint));
        let record = PacketRec { net: *net, rules: 0, ..pair.record(blueprint, random) };
        let mut header = vec![0; pair.module().blueprints[usize::from(blueprint)].max_len as usize + 64];
        let payload = vec![
            7;
            if record.data_at == u32::MAX {
                0
            } else {
                random.below(20)
            }
        ];
        let segment = Segment { index: 0, count: 1, len: payload.len() as u32 };
        let mut image = image;
        let built = pair
            .interpreter
            .build(&record, cast_slice_mut(&mut image), segment, &mut header);
        bytes = header[..built.len].to_vec();
        bytes.extend(payload);
        if let Some((_, at)) = built.csum {
            complete(&mut bytes, at.into());
        }
    } else {
        bytes.resize(random.below(90), 0);
        bytes.fill_with(|| [0, 1, 2, 4, random.roll() as u8][random.below(5)]);
    }
    for _ in 0..random.below(8).saturating_sub(3) {
        let at = random.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = [0, 1, 2, 3, 4, 8, 255, random.roll() as u8][random.below(8)];
        }
    }
    let len = if random.below(6) == 0 {
        random.below(bytes.len() + 1)
    } else {
        bytes.len()
    };
    bytes.truncate(len);
    bytes
}

/// Returns a packet of one of the program's blueprints of fixed length with a correct CRC-32, if it has one.
fn with_crc(module: &Module, random: &mut Random) -> Option<Vec<u8>> {
    let bits = |field: &WireField| match field {
        WireField::Bits { bits, .. } => Some(usize::from(*bits)),
        WireField::Bytes { len, .. } => Some(*len as usize * 8),
        _ => None,
    };
    // The position of the CRC in its part, and the spans that count as ones.
    let crc = |fields: &[WireField]| {
        let mut at = 0;
        fields.iter().find_map(|field| {
            at += bits(field)?;
            match field {
                WireField::Bits { fill: Some(Fill::Crc32 { masked, .. }), .. } => {
                    Some((at / 8 - 4, masked.clone()))
                }
                _ => None,
            }
        })
    };
    let summed = |b: &&Blueprint| crc(&b.header).is_some() || crc(&b.trailer).is_some();
    let candidates: Vec<&Blueprint> = module.blueprints.iter().filter(summed).collect();
    let blueprint = candidates.get(random.below(candidates.len()))?;
    let header = blueprint.header.iter().map(bits).sum::<Option<usize>>()? / 8;
    let trailer = blueprint.trailer.iter().map(bits).sum::<Option<usize>>()? / 8;
    let payload = if blueprint.data_at.is_some() {
        random.below(40)
    } else {
        0
    };
    let mut bytes = vec![0; header + payload + trailer];
    bytes.fill_with(|| random.roll() as u8);
    let (at, masked) = match (crc(&blueprint.header), crc(&blueprint.trailer)) {
        (Some(found), _) => found,
        (None, found) => found.map(|(at, masked)| (header + payload + at, masked))?,
    };
    let mut covered = bytes.clone();
    for bit in masked.iter().flat_map(|(from, len)| *from..from + len) {
        covered[bit as usize / 8] |= 0x80 >> (bit % 8);
    }
    // In the header, the field counts as zeros; in the trailer, it ends the covered range.
    if at < header {
        covered[at..at + 4].fill(0)
    } else {
        covered.truncate(at)
    }
    bytes[at..at + 4].copy_from_slice(&crc32(&covered).to_be_bytes());
    Some(bytes)
}

/// Computes a CRC-32 (IEEE 802.3), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    })
}

/// Completes an Internet checksum whose field holds the pseudo-header's sum (RFC 1071).
fn complete(bytes: &mut [u8], at: usize) {
    let sum = internet_checksum(&[bytes]);
    bytes[at..at + 2].copy_from_slice(&sum);
}

#[test]
fn parsers_in_c_match_the_interpreter() {
    let (mut good, mut reasons) = (0, BTreeSet::new());
    for pair in pairs() {
        let mut random = Random(Rng::with_seed(0x0bad_cafe));
        for parser in 0..pair.module().parsers.len() {
            let source = pair.module().parsers[parser].source;
            for _ in 0..INPUTS {
                let net = random.net(if let ParserInput::Ip(number) = source {
                    number
                } else {
                    17
                });
                let bytes = packet(pair, &net, &mut random);
                let cut = if random.below(2) == 0 {
                    bytes.len()
                } else {
                    random.below(bytes.len() + 1)
                };
                let (head, tail) = (bytes[..cut].to_vec(), bytes[cut..].to_vec());
                let csum = if random.below(2) == 0 {
                    Csum::Unverified
                } else {
                    Csum::Complete
                };
                let merged = if random.below(4) == 0 {
                    random.below(60_000)
                } else {
                    0
                };
                let at = if random.below(4) == 0 {
                    0
                } else {
                    addr(random.below(3) as u32, random.roll() as u32)
                };
                let packet = Packet {
                    net: &net,
                    head: &head,
                    tail: &tail,
                    merged,
                    addr: at,
                    csum,
                    crc: Some(0),
                };
                let (mut op, mut icmp) = (Op::zeroed(), Icmp::zeroed());
                bytes_of_mut(&mut op)
                    .copy_from_slice(&cast_slice(&random.words(size_of::<Op>()))[..size_of::<Op>()]);
                bytes_of_mut(&mut icmp).copy_from_slice(cast_slice(&random.words(size_of::<Icmp>())));
                let input = match source {
                    ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) => {
                        Input::Packet(packet)
                    }
                    ParserInput::IcmpError => Input::Icmp(packet, &icmp),
                    ParserInput::App(kind) => Input::App(kind, &op),
                    ParserInput::Start => Input::Start,
                };
                match pair.parse(parser, &input) {
                    Ok(events) => good += events,
                    Err(reason) => {
                        reasons.insert(reason);
                    }
                }
            }
        }
    }
    assert!(good > 10_000, "{good} events");
    let expected = [
        ParseError::Truncated,
        ParseError::Checksum,
        ParseError::Length,
        ParseError::Frame,
    ];
    assert!(
        expected.iter().all(|reason| reasons.contains(reason)),
        "{reasons:?}"
    );
}

#[test]
fn headers_in_c_match_the_interpreter() {
    let mut headers = 0;
    for pair in pairs() {
        let mut random = Random(Rng::with_seed(0x5eed));
        for blueprint in &pair.sent {
            for _ in 0..IMAGES {
                let image = random.words(pair.image_size(*blueprint));
                let record = pair.record(*blueprint, &mut random);
                headers += usize::from(!pair.build(&record, &image, &mut random).is_empty());
            }
        }
    }
    assert!(headers > 3000, "{headers} headers");
}

#[test]
fn coalescing_in_c_matches_the_interpreter() {
    let mut answers = [0; 2];
    for pair in pairs() {
        let mut random = Random(Rng::with_seed(0xacc));
        for rule in &pair.module().coalesce {
            let blueprint = rule.blueprint.0 as u16;
            for _ in 0..IMAGES {
                let [earlier, later] = [0, 1].map(|_| random.words(pair.image_size(blueprint)));
                let expected = pair
                    .interpreter
                    .coalesce(blueprint, cast_slice(&earlier), cast_slice(&later));
                let params = pair.interpreter.params();
                assert_eq!(
                    pair.compiled.coalesce(params, blueprint, &earlier, &later),
                    expected,
                    "{}",
                    pair.name
                );
                answers[usize::from(expected)] += 1;
            }
            assert!(
                !pair
                    .compiled
                    .coalesce(pair.interpreter.params(), u16::MAX, &[], &[])
            );
        }
    }
    assert!(answers.iter().all(|count| *count > 20), "{answers:?}");
}
