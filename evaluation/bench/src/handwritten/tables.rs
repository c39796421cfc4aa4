//! The tables that the engine needs about the hand-written program. A compiler would generate them.

use hawser_ir::{
    AppOp, Blueprint, BlueprintId, Bounds, Chain, Coalesce, Context, ContextId, Cut, EndpointOffsets, Event,
    EventId, EventKind, FuncId, Granularity, Module, Offload, PacketQueue, Param, Parser, ParserInput,
    Precondition, QueuePolicy, Struct, StructId, Timer, Ty,
};

use super::ffi;

/// Indices into the C side's list of sizes. The first two are context types as well.
const SEGMENT: usize = 2;
const OPEN: usize = 3;
const AMOUNT: usize = 4;
const CHILD: usize = 5;
const BARE: usize = 6;
/// A segment's image.
pub(super) const IMAGE: usize = 7;
const TIMERS_AT: usize = 8;
/// The index of the first of four offsets: local address and port, remote address and port.
const ENDS_AT: usize = 9;

/// The bytes of the largest event, checked when the tables are made.
pub(super) const LARGEST_EVENT: usize = 512;
/// The bytes of the records of any chain. A segment can make a connection, send twice, and end it.
pub(super) const RECORD_BYTES: usize = 4096;

/// Returns the `sizeof` of each structure, and the offsets of a connection's timers and ends.
pub(super) fn sizes() -> &'static [u32; 13] {
    // SAFETY: a constant of the C side, of that length.
    unsafe { &ffi::handwritten_sizes }
}

/// The name, source and structure of each event, in the order of `enum event`.
const EVENTS: [(&str, EventKind, usize); 14] = [
    ("segment", EventKind::Net, SEGMENT),
    ("connect", EventKind::App, OPEN),
    ("listen", EventKind::App, OPEN),
    ("send", EventKind::App, AMOUNT),
    ("recv", EventKind::App, AMOUNT),
    ("close", EventKind::App, AMOUNT),
    ("abort", EventKind::App, AMOUNT),
    ("release", EventKind::App, AMOUNT),
    ("retransmit", EventKind::Timer, BARE),
    ("persist", EventKind::Timer, BARE),
    ("ack_delayed", EventKind::Timer, BARE),
    ("waited", EventKind::Timer, BARE),
    ("child_ready", EventKind::Internal, CHILD),
    ("child_failed", EventKind::Internal, CHILD),
];

/// The number of the first timer event.
const FIRST_TIMER: u32 = 8;
/// The number of timers of a connection.
const TIMERS: u32 = 4;

/// The parsers' sources, in the order of `enum parser`.
const PARSERS: [ParserInput; 8] = [
    ParserInput::Ip(6),
    ParserInput::App(AppOp::Listen),
    ParserInput::App(AppOp::Connect),
    ParserInput::App(AppOp::Send),
    ParserInput::App(AppOp::Recv),
    ParserInput::App(AppOp::Close),
    ParserInput::App(AppOp::Abort),
    ParserInput::App(AppOp::Release),
];

const SECOND: u64 = 1_000_000_000;
/// The params in the order of `enum param`, with the defaults of `transports/tcp/tcp.mtp`.
const PARAMS: [(&str, Ty, u64); 12] = [
    ("INITIAL_RTO", Ty::Duration, SECOND),
    ("MIN_RTO", Ty::Duration, SECOND / 5),
    ("MAX_RTO", Ty::Duration, 60 * SECOND),
    ("MSL", Ty::Duration, 30 * SECOND),
    ("FIN_TIMEOUT", Ty::Duration, 60 * SECOND),
    ("DELAYED_ACK", Ty::Duration, 40_000_000),
    ("OVERRIDE", Ty::Duration, 200_000_000),
    ("RCV_BUF", Ty::Int { bits: 32, signed: false }, 1 << 20),
    ("SYN_BACKLOG", Ty::Int { bits: 32, signed: false }, 256),
    ("SLOW_START_LIMIT", Ty::Int { bits: 32, signed: false }, 8),
    ("NAGLE", Ty::Bool, 1),
    ("USER_TIMEOUT", Ty::Duration, 300 * SECOND),
];

pub(super) fn defaults() -> [u64; PARAMS.len()] {
    PARAMS.map(|(_, _, default)| default)
}

/// Returns the type of context that an event's chain may create.
pub(super) fn creates(event: u16) -> Option<ContextId> {
    match event {
        0 | 1 => Some(ContextId(0)),
        2 => Some(ContextId(1)),
        _ => None,
    }
}

/// Returns the conditions under which an event's chain creates a context: connections only on listeners, both
/// types where there is no context yet.
fn creators(event: u16) -> Vec<Precondition> {
    match event {
        0 => vec![Precondition::Found(ContextId(1))],
        1 | 2 => vec![Precondition::NotFound],
        _ => Vec::new(),
    }
}

pub(super) fn module() -> Module {
    let structs =
        sizes()[..=IMAGE]
            .iter()
            .map(|size| Struct { name: String::new(), fields: Vec::new(), size: *size });
    let id = |n: usize| StructId(n as u32);
    debug_assert!(
        EVENTS
            .iter()
            .all(|(_, _, body)| sizes()[*body] as usize <= LARGEST_EVENT)
    );
    let event =
        |(name, kind, body): (&str, EventKind, usize)| Event { name: name.to_owned(), kind, body: id(body) };
    let bounds = Bounds {
        records: 24,
        record_bytes: RECORD_BYTES as u32,
        packets: 4,
        raises: 1,
        units: 2,
        steps: 0,
    };
    let chain = |n: u16| Chain {
        processors: Vec::new(),
        bounds,
        creates: creates(n),
        globals: Vec::new(),
    };
    let parser = |source: ParserInput| Parser { source, func: FuncId(0), max_events: 1, steps: 0 };
    let param = |(name, ty, default): (&str, Ty, u64)| Param { name: name.to_owned(), ty, default };
    Module {
        name: "tcp by hand".to_owned(),
        params: PARAMS.into_iter().map(param).collect(),
        structs: structs.collect(),
        events: EVENTS.into_iter().map(event).collect(),
        contexts: vec![
            Context {
                ends: Some(ends()),
                ..context("connection", Granularity::Flow, id(0), TIMERS)
            },
            context("listener", Granularity::Shard, id(1), 0),
        ],
        chains: (0..EVENTS.len() as u16).map(chain).collect(),
        creators: (0..EVENTS.len() as u16).map(creators).collect(),
        parsers: PARSERS.into_iter().map(parser).collect(),
        blueprints: vec![Blueprint {
            name: "segment".to_owned(),
            body: id(IMAGE),
            header: Vec::new(),
            data_at: Some(0),
            trailer: Vec::new(),
            fixed_len: 20,
            max_len: 60,
        }],
        // Sequence numbers grow by the payload, PSH and FIN are set on the last segment only, and CWR is
        // never set.
        offloads: vec![Offload {
            blueprint: BlueprintId(0),
            rules: Vec::new(),
            sites: Vec::new(),
            proof: Ok(Cut {
                protocol: 6,
                clear: Vec::new(),
                grows: "seq".to_owned(),
                last_only: vec!["psh".to_owned(), "fin".to_owned()],
                first_only: Vec::new(),
            }),
        }],
        coalesce: vec![Coalesce { blueprint: BlueprintId(0), func: FuncId(0) }],
        queues: vec![PacketQueue { name: "default".to_owned(), policy: QueuePolicy::Fifo, prio: 0 }],
        ..Module::default()
    }
}

/// Returns the offsets of a connection's two ends.
fn ends() -> EndpointOffsets {
    let [local_ip, local_port, remote_ip, remote_port] = [0, 1, 2, 3].map(|n| sizes()[ENDS_AT + n]);
    EndpointOffsets { local_ip, local_port, remote_ip, remote_port }
}

fn context(name: &str, granularity: Granularity, body: StructId, timers: u32) -> Context {
    let timer = |n: u32| Timer {
        name: format!("timer{n}"),
        offset: sizes()[TIMERS_AT] + 8 * n,
        event: EventId(FIRST_TIMER + n),
    };
    Context {
        name: name.to_owned(),
        granularity,
        body,
        ends: None,
        timers: (0..timers).map(timer).collect(),
        invariants: Vec::new(),
    }
}
