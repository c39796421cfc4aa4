//! Bytes that no real peer would send, and events and contexts that no engine would make. Nothing panics, and
//! everything stays within its bounds. It is the stable-toolchain counterpart of the fuzz target `packets`.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use hawser_engine::program::Program;
use hawser_ir::abi::{Csum, Icmp, Net, Op, Packet, PacketRec, RecordKind, Segment, addr};
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::{ContextId, EventId, Granularity, Module, ParserInput};
use hawser_load::{Engine, LoadedProgram, names};

/// Noise from a seed, so that a failure can be repeated.
struct Noise(Rng);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound.max(1))
    }

    /// Fills the bytes with noise, often zeros and ones, where boundary cases are.
    fn fill(&mut self, bytes: &mut [u8]) {
        let style = self.below(4);
        bytes.fill_with(|| match style {
            0 => 0,
            1 => [0, 0, 0, 1, 0xff][self.below(5)],
            _ => self.next() as u8,
        });
    }
}

/// Returns the programs that come with Hawser and the example, on both engines.
fn programs() -> Vec<Arc<dyn Program>> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    let all: Vec<String> = names()
        .map(str::to_owned)
        .chain([example.display().to_string()])
        .collect();
    let on = |engine| {
        all.iter()
            .map(move |name| LoadedProgram::open(name, Some(engine)))
    };
    let loaded = Engine::ALL
        .into_iter()
        .flat_map(on)
        .map(|loaded| loaded.unwrap_or_else(|e| panic!("{e}")));
    loaded.map(|loaded| loaded.with(&[]).expect("it runs")).collect()
}

fn net(noise: &mut Noise, protocol: u8) -> Net {
    let mapped = |last| std::net::Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped().octets();
    Net {
        src_ip: mapped(noise.next() as u8),
        dst_ip: mapped(1),
        protocol,
        segs: 1,
        version: 4,
        ..NET_ZERO
    }
}

/// Returns headers that the program built, as a base for mutation.
fn seeds(program: &dyn Program, noise: &mut Noise) -> Vec<Vec<u8>> {
    let module = program.module();
    let build = |(i, blueprint): (usize, &hawser_ir::Blueprint)| {
        let mut image = vec![0; module.structure(blueprint.body).size as usize];
        noise.fill(&mut image);
        let mut packet: PacketRec = bytemuck::Zeroable::zeroed();
        (packet.blueprint, packet.data_at) = (i as u16, blueprint.data_at.unwrap_or(u32::MAX));
        packet.net = net(noise, 0);
        let mut header = vec![0; blueprint.max_len as usize];
        let segment = Segment { index: 0, count: 1, len: 3 };
        let built = program.build(&packet, &mut image, segment, &mut header);
        assert!(built.len <= header.len());
        header.truncate(built.len);
        header.extend_from_slice(b"abc");
        header
    };
    module.blueprints.iter().enumerate().map(build).collect()
}

/// Builds the input of a parser, mostly almost valid.
fn parse_noise(program: &dyn Program, parser: usize, noise: &mut Noise, events: &mut EventBuf) -> bool {
    let module = program.module();
    let mut bytes = match noise.below(3) {
        0 => vec![0; noise.below(120)],
        _ => {
            let mut seeds = seeds(program, noise);
            let chosen = noise.below(seeds.len());
            if seeds.is_empty() {
                Vec::new()
            } else {
                seeds.swap_remove(chosen)
            }
        }
    };
    if noise.below(3) == 0 {
        noise.fill(&mut bytes);
    }
    for _ in 0..noise.below(4) {
        let len = bytes.len();
        if let Some(byte) = bytes.get_mut(noise.below(len)) {
            *byte = noise.next() as u8;
        }
    }
    bytes.truncate(if noise.below(4) == 0 {
        noise.below(bytes.len() + 1)
    } else {
        bytes.len()
    });
    let cut = if noise.below(2) == 0 {
        bytes.len()
    } else {
        noise.below(bytes.len() + 1)
    };
    let (head, tail) = bytes.split_at(cut);
    let protocol = if let ParserInput::Ip(number) = module.parsers[parser].source {
        number
    } else {
        17
    };
    let net = net(noise, protocol);
    let csum = if noise.below(4) == 0 {
        Csum::Unverified
    } else {
        Csum::Complete
    };
    let packet = Packet {
        net: &net,
        head,
        tail,
        merged: noise.below(2) * noise.below(70_000),
        addr: addr(0, 0),
        csum,
        crc: Some(0),
    };
    let mut op: Op = bytemuck::Zeroable::zeroed();
    noise.fill(bytemuck::bytes_of_mut(&mut op));
    let mut icmp: Icmp = bytemuck::Zeroable::zeroed();
    noise.fill(bytemuck::bytes_of_mut(&mut icmp));
    let input = match module.parsers[parser].source {
        ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) => Input::Packet(packet),
        ParserInput::IcmpError => Input::Icmp(packet, &icmp),
        ParserInput::App(op_kind) => Input::App(op_kind, &op),
        ParserInput::Start => Input::Start,
    };
    let before = events.len();
    let parsed = program.parse(parser, input, events);
    assert!(events.len() - before <= module.parsers[parser].max_events as usize);
    assert!(
        parsed.is_ok() || events.len() == before,
        "a dropped input leaves no event"
    );
    parsed.is_ok()
}

/// Memory for a chain: contexts of noise, or fresh ones.
struct Memory {
    keyed: Option<(ContextId, Vec<u8>)>,
    fresh: Option<Vec<u8>>,
    globals: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

impl Memory {
    fn new(module: &Module, event: EventId, noise: &mut Noise) -> Memory {
        let mut bytes = |size: usize| {
            let mut bytes = vec![0; size];
            noise.fill(&mut bytes);
            bytes
        };
        let size = |i: usize| module.context_size(ContextId(i as u32));
        let globals = module
            .contexts
            .iter()
            .enumerate()
            .map(|(i, context)| match context.granularity {
                Granularity::Global => bytes(size(i)),
                Granularity::Flow | Granularity::Shard => Vec::new(),
            });
        let globals = globals.collect();
        let scratch = bytes(module.scratch.map_or(0, |id| module.structure(id).size as usize));
        let found = noise.below(module.contexts.len() + 1);
        let mut noise = |size: usize| {
            let mut bytes = vec![0; size];
            noise.fill(&mut bytes);
            bytes
        };
        let keyed = (found < module.contexts.len()).then(|| (ContextId(found as u32), noise(size(found))));
        let creates = module.chains[event.0 as usize].creates;
        let fresh = creates
            .filter(|_| keyed.is_none())
            .map(|id| noise(size(id.0 as usize)));
        Memory { keyed, fresh, globals, scratch }
    }

    fn regions(&mut self) -> Regions<'_> {
        Regions {
            keyed: self.keyed.as_mut().map(|(id, bytes)| (*id, bytes.as_mut_slice())),
            fresh: self.fresh.as_deref_mut(),
            globals: &mut self.globals,
            scratch: &mut self.scratch,
        }
    }
}

/// Runs an event's chain, checks the chain's stated bounds, and builds every packet.
fn react(program: &dyn Program, event: &mut [u8], noise: &mut Noise, records: &mut RecordBuf) {
    let module = program.module();
    let id = EventId(u32::from(event_header(event).event));
    let mut memory = Memory::new(module, id, noise);
    records.clear();
    program.react(event, &mut memory.regions(), records);
    let bounds = module.chains[id.0 as usize].bounds;
    let count = |kind| records.iter().filter(|r| r.kind == kind).count() as u32;
    let name = &module.events[id.0 as usize].name;
    assert!(
        records.iter().count() as u32 <= bounds.records,
        "{name}: more records than stated"
    );
    assert!(
        records.bytes().len() as u32 <= bounds.record_bytes,
        "{name}: more bytes than stated"
    );
    assert!(
        count(RecordKind::Packet) <= bounds.packets,
        "{name}: more packets than stated"
    );
    assert!(
        count(RecordKind::Raise) <= bounds.raises,
        "{name}: more events than stated"
    );
    for record in records.iter().filter(|r| r.kind == RecordKind::Packet) {
        let packet: PacketRec = record.fixed();
        let mut image = record.tail::<PacketRec>()[..packet.bytes as usize].to_vec();
        let mut header = vec![0; module.blueprints[usize::from(packet.blueprint)].max_len as usize];
        for index in 0..3 {
            let segment = Segment { index, count: 3, len: 100 };
            let built = program.build(&packet, &mut image, segment, &mut header);
            assert!(built.len <= header.len());
        }
        program.coalesce(packet.blueprint, &image, record.tail::<PacketRec>());
    }
}

#[test]
fn random_packets_and_requests_never_panic() {
    let mut noise = Noise(Rng::with_seed(1));
    for program in programs() {
        let mut events = EventBuf::default();
        let mut records = RecordBuf::default();
        let mut parsed = 0;
        for round in 0..20_000 {
            let parser = round % program.module().parsers.len();
            events.clear();
            parsed += u32::from(parse_noise(&*program, parser, &mut noise, &mut events));
            for i in 0..events.len() {
                react(&*program, events.get_mut(i), &mut noise, &mut records);
            }
        }
        assert!(
            parsed > 100,
            "{}: {parsed} inputs were good ones",
            program.module().name
        );
    }
}

#[test]
fn random_events_never_panic() {
    let mut noise = Noise(Rng::with_seed(2));
    for program in programs() {
        let module = program.module();
        let mut records = RecordBuf::default();
        for round in 0..20_000 {
            let id = EventId((round % module.events.len()) as u32);
            let mut event = vec![0; module.event_size(id)];
            noise.fill(&mut event);
            let mut header = event_header(&event);
            (header.event, header.ids) = (id.0 as u16, header.ids % 4);
            set_event_header(&mut event, &header);
            react(&*program, &mut event, &mut noise, &mut records);
        }
    }
}
