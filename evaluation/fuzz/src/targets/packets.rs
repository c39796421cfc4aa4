//! Arbitrary bytes as packets, requests and events of the built-in programs and of the stop-and-wait example.
//! No input causes a panic, and every chain stays within its stated bounds.
//!
//! The first byte chooses the program, the second the parser; the rest is the input. `HAWSER_FUZZ` restricts
//! the target to one program. Invariant CRCs are not verified, so that packets get past them.
//! `engine/load/tests/hostile.rs` is the equivalent test for the stable toolchain.

use std::path::Path;
use std::sync::LazyLock;

use hawser_engine::program::Program;
use hawser_ir::abi::{Csum, Icmp, Net, Op, Packet, PacketRec, RecordKind, Segment, addr};
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions, event_header};
use hawser_ir::{ContextId, Granularity, Module, ParserInput};
use hawser_load::{Interpreted, builtin, load, names};

static PROGRAMS: LazyLock<Vec<Interpreted>> = LazyLock::new(|| {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    let only = std::env::var("HAWSER_FUZZ").ok();
    let wanted = |name: &&str| only.as_ref().is_none_or(|only| only == name);
    let own = names().filter(wanted).filter_map(builtin);
    let modules = own
        .chain(only.is_none().then(|| load(&example)))
        .map(|module| module.expect("the program passes the checker"));
    modules
        .map(|module| Interpreted::new(module, &[]).expect("the program runs"))
        .collect()
});

pub(crate) fn fuzz(data: &[u8]) {
    let [program, parser, data @ ..] = data else {
        return;
    };
    let program = &PROGRAMS[usize::from(*program) % PROGRAMS.len()];
    let parser = usize::from(*parser) % program.module().parsers.len();
    let mut events = EventBuf::default();
    parse(program, parser, data, &mut events);
    for i in 0..events.len() {
        react(program, events.get_mut(i), data);
    }
}

/// Passes the bytes to a parser in the form that it takes.
fn parse(program: &Interpreted, parser: usize, data: &[u8], events: &mut EventBuf) {
    let source = program.module().parsers[parser].source;
    let protocol = if let ParserInput::Ip(number) = source {
        number
    } else {
        17
    };
    let net = Net { protocol, segs: 1, version: 6, ..NET_ZERO };
    let packet = Packet {
        net: &net,
        head: data,
        tail: &[],
        merged: 0,
        addr: addr(0, 0),
        csum: Csum::Complete,
        crc: None,
    };
    let mut op: Op = bytemuck::Zeroable::zeroed();
    copy(bytemuck::bytes_of_mut(&mut op), data);
    let mut icmp: Icmp = bytemuck::Zeroable::zeroed();
    copy(bytemuck::bytes_of_mut(&mut icmp), data);
    let input = match source {
        ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) => Input::Packet(packet),
        ParserInput::IcmpError => Input::Icmp(packet, &icmp),
        ParserInput::App(kind) => Input::App(kind, &op),
        ParserInput::Start => Input::Start,
    };
    let parsed = program.parse(parser, input, events);
    assert!(
        parsed.is_ok() || events.is_empty(),
        "a dropped input leaves no event"
    );
}

/// Runs an event's chain on every type of context, each filled with the input, and without a context.
fn react(program: &Interpreted, event: &mut [u8], data: &[u8]) {
    let module = program.module();
    let id = usize::from(event_header(event).event);
    let kinds = (0..module.contexts.len()).map(Some).chain([None]);
    for found in kinds {
        let filled = |size: usize| {
            let mut bytes = vec![0; size];
            copy(&mut bytes, data);
            bytes
        };
        let size = |i: usize| module.context_size(ContextId(i as u32));
        let mut keyed = found.map(|i| filled(size(i)));
        let mut fresh = module.chains[id]
            .creates
            .map(|kind| filled(size(kind.0 as usize)));
        let mut regions = Regions {
            keyed: found
                .zip(keyed.as_deref_mut())
                .map(|(i, bytes)| (ContextId(i as u32), bytes)),
            fresh: fresh.as_deref_mut(),
            globals: &mut globals(module),
            scratch: &mut filled(module.scratch.map_or(0, |id| module.structure(id).size as usize)),
        };
        let mut records = RecordBuf::default();
        program.react(event, &mut regions, &mut records);
        let bounds = module.chains[id].bounds;
        assert!(records.iter().count() as u32 <= bounds.records);
        assert!(records.bytes().len() as u32 <= bounds.record_bytes);
        build(program, &records);
    }
}

/// Builds every packet that a chain requested.
fn build(program: &Interpreted, records: &RecordBuf) {
    for record in records.iter().filter(|record| record.kind == RecordKind::Packet) {
        let packet: PacketRec = record.fixed();
        let mut image = record.tail::<PacketRec>()[..packet.bytes as usize].to_vec();
        let room = program.module().blueprints[usize::from(packet.blueprint)].max_len as usize;
        let mut header = vec![0; room];
        for index in 0..3 {
            let segment = Segment { index, count: 3, len: 100 };
            assert!(program.build(&packet, &mut image, segment, &mut header).len <= room);
        }
    }
}

fn globals(module: &Module) -> Vec<Vec<u8>> {
    let global = |(i, context): (usize, &hawser_ir::Context)| match context.granularity {
        Granularity::Global => vec![0; module.context_size(ContextId(i as u32))],
        Granularity::Flow | Granularity::Shard => Vec::new(),
    };
    module.contexts.iter().enumerate().map(global).collect()
}

fn copy(to: &mut [u8], from: &[u8]) {
    let len = to.len().min(from.len());
    to[..len].copy_from_slice(&from[..len]);
}
