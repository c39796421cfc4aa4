//! A small reliable-stream program, written by hand against the record interface, so that a benchmark
//! measures the cost of the engine rather than of a program.
//!
//! It has the shape of a bulk transfer over TCP: a header of 20 bytes and 12 of options, a window, and an
//! acknowledgement for every second packet. A retransmission timer is restarted with every acknowledgement,
//! and each packet has three candidate ids. The program does not recover losses, which do not occur on a wire
//! in memory. It has no handshake: both ends connect.

use bytemuck::{Pod, Zeroable, bytes_of, from_bytes_mut, pod_read_unaligned};
use hawser_engine::net::Sum;
use hawser_engine::program::Program;
use hawser_ir::abi::*;
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions};
use hawser_ir::{
    AppOp, Blueprint, BlueprintId, Bounds, Chain, Coalesce, Context, ContextId, Cut, Event as EventTable,
    EventId, EventKind, FuncId, Granularity, Module, Offload, Parser, ParserInput, Precondition, Processor,
    RuleId, Struct, StructId, Timer,
};

const CONNECT: u16 = 0;
const SEND: u16 = 1;
const RECV: u16 = 2;
const SEGMENT: u16 = 3;
const TIMEOUT: u16 = 4;

/// The size of a header in bytes, like TCP's with timestamps.
pub(crate) const HEADER: usize = 32;
/// The number of payload bytes in a packet of 1,500 bytes.
pub(crate) const MSS: u32 = 1500 - 20 - HEADER as u32;
/// The maximum number of bytes in flight.
pub(crate) const WINDOW: u64 = 256 << 10;
const RTO: u64 = 200_000_000;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Event {
    header: EventHeader,
    local_ip: [u8; 16],
    remote_ip: [u8; 16],
    addr: Addr,
    len: u64,
    seq: u32,
    ack: u32,
    local_port: u16,
    remote_port: u16,
    flags: u16,
    segs: u16,
    spare: [u64; 4],
}

/// The context of a flow, about as large as TCP's.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Flow {
    header: ContextHeader,
    local_ip: [u8; 16],
    remote_ip: [u8; 16],
    una: u64,
    next: u64,
    end: u64,
    received: u64,
    unacknowledged: u64,
    timer: u64,
    local_port: u16,
    remote_port: u16,
    pad: u32,
    spare: [u64; 64],
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Image {
    data: Data,
    seq: u32,
    ack: u32,
    source_port: u16,
    destination_port: u16,
    window: u16,
    flags: u16,
    options: [u64; 31],
}

/// The bulk-transfer program.
pub(crate) struct Bulk {
    module: Module,
}

fn id(local_ip: &[u8; 16], remote_ip: &[u8; 16], local_port: u16, remote_port: u16) -> Id {
    let mut id = Id::NONE;
    id.push_bytes(local_ip);
    id.push_bytes(remote_ip);
    id.push(local_port.into(), 2);
    id.push(remote_port.into(), 2);
    id
}

const UNIT: UnitRec = UnitRec { header: HEAD, uid: Id::NONE, addr: 0, len: 0, off: 0 };
const HEAD: RecordHeader = RecordHeader { kind: 0, on: 0, global: 0, len: 0 };

impl Bulk {
    pub(crate) fn new() -> Bulk {
        Bulk { module: module() }
    }

    /// Sends as much as the window allows; returns true if a packet left.
    fn output(flow: &mut Flow, now: u64, out: &mut RecordBuf) -> bool {
        let room = (flow.una + WINDOW).saturating_sub(flow.next);
        let len = room.min(flow.end - flow.next).min(1 << 20) as u32;
        if len == 0 {
            return false;
        }
        let off = flow.next;
        flow.next += u64::from(len);
        packet(flow, off, len, out);
        if flow.timer == 0 {
            start(flow, now, out);
        }
        true
    }
}

fn packet(flow: &mut Flow, off: u64, len: u32, out: &mut RecordBuf) {
    let mut net = NET_ZERO;
    (net.src_ip, net.dst_ip) = (flow.local_ip, flow.remote_ip);
    let data = Data { uid: flow.header.id, off, addr: 0, len, seg_size: MSS };
    let image = Image {
        data,
        seq: off as u32,
        ack: flow.received as u32,
        source_port: flow.local_port,
        destination_port: flow.remote_port,
        window: 65_535,
        flags: 0x10,
        options: [0; 31],
    };
    flow.unacknowledged = 0;
    let record = PacketRec {
        header: HEAD,
        net,
        rank: 0,
        args: [u64::from(off as u32), 0, 0, 0],
        queue: 0,
        blueprint: 0,
        rules: 1,
        rule: [0; MAX_RULES],
        data_at: 0,
        bytes: size_of::<Image>() as u32,
    };
    out.push(RecordKind::Packet, ON_KEYED, &record, bytes_of(&image));
}

fn start(flow: &mut Flow, now: u64, out: &mut RecordBuf) {
    flow.timer = now + RTO;
    let record = TimerRec { header: HEAD, deadline: flow.timer, timer: 0, pad: 0 };
    out.push(RecordKind::TimerStart, ON_KEYED, &record, &[]);
}

fn segment(ev: &Event, flow: &mut Flow, out: &mut RecordBuf) {
    let now = ev.header.now;
    let ack = flow.una + u64::from(ev.ack.wrapping_sub(flow.una as u32));
    if ack > flow.una && ack <= flow.next {
        let unit = UnitRec { uid: flow.header.id, len: ack - flow.una, ..UNIT };
        out.push(RecordKind::FlushTx, ON_KEYED, &unit, &[]);
        flow.una = ack;
        start(flow, now, out);
    }
    if ev.len > 0 && ev.seq == flow.received as u32 {
        let uid = flow.header.id;
        let unit = UnitRec { uid, addr: ev.addr, len: ev.len, off: flow.received, ..UNIT };
        out.push(RecordKind::AddRx, ON_KEYED, &unit, &[]);
        out.push(
            RecordKind::FlushRx,
            ON_KEYED,
            &UnitRec { uid, len: ev.len, ..UNIT },
            &[],
        );
        flow.received += ev.len;
        flow.unacknowledged += u64::from(ev.segs);
    }
    let sent = Bulk::output(flow, now, out);
    if !sent && flow.unacknowledged >= 2 {
        packet(flow, flow.next, 0, out);
    }
}

impl Program for Bulk {
    fn module(&self) -> &Module {
        &self.module
    }

    fn parse(&self, _parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        let mut ev = Event::zeroed();
        let event = match input {
            Input::Packet(packet) => {
                let head: &[u8; 20] = packet.head.first_chunk().ok_or(ParseError::Truncated)?;
                let header = usize::from(head[12] >> 4) * 4;
                let pair = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
                let four = |at: usize| u32::from(pair(at)) << 16 | u32::from(pair(at + 2));
                (ev.remote_port, ev.local_port) = (pair(0), pair(2));
                (ev.seq, ev.ack, ev.flags) = (four(4), four(8), u16::from(head[13]));
                (ev.local_ip, ev.remote_ip) = (packet.net.dst_ip, packet.net.src_ip);
                ev.addr = packet.addr + header as u64;
                ev.len =
                    (packet.head.len() + packet.tail.len() + packet.merged).saturating_sub(header) as u64;
                ev.segs = packet.net.segs;
                ev.header.id[0] = id(&ev.local_ip, &ev.remote_ip, ev.local_port, ev.remote_port);
                ev.header.id[1].push_bytes(&ev.local_ip);
                ev.header.id[1].push(ev.local_port.into(), 2);
                ev.header.id[2].push(ev.local_port.into(), 2);
                ev.header.ids = 3;
                SEGMENT
            }
            Input::App(op, view) => {
                (ev.addr, ev.len) = (view.addr, view.len);
                (ev.local_port, ev.remote_port) = (view.local_port, view.remote_port);
                (ev.local_ip, ev.remote_ip) = (view.local_ip, view.remote_ip);
                match op {
                    AppOp::Connect => {
                        ev.header.id[0] = id(&ev.local_ip, &ev.remote_ip, ev.local_port, ev.remote_port);
                        ev.header.ids = 1;
                        CONNECT
                    }
                    AppOp::Send => SEND,
                    _ => RECV,
                }
            }
            Input::Icmp(..) | Input::Start => return Err(ParseError::Frame),
        };
        out.push(EventId(event.into()), bytes_of(&ev));
        Ok(())
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        let ev: Event = pod_read_unaligned(event);
        if ev.header.event == CONNECT {
            return connect(&ev, memory, out);
        }
        let Some((_, bytes)) = &mut memory.keyed else {
            return ChainOutcome::Done;
        };
        let flow: &mut Flow = from_bytes_mut(&mut bytes[..size_of::<Flow>()]);
        match ev.header.event {
            SEGMENT => segment(&ev, flow, out),
            SEND => {
                let unit = UnitRec { uid: flow.header.id, addr: ev.addr, len: ev.len, ..UNIT };
                out.push(RecordKind::AddTx, ON_KEYED, &unit, &[]);
                flow.end += ev.len;
                Bulk::output(flow, ev.header.now, out);
            }
            TIMEOUT if flow.una < flow.next => start(flow, ev.header.now, out),
            _ => {}
        }
        ChainOutcome::Done
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let image: &mut Image = from_bytes_mut(image);
        image.seq = if segment.index == 0 {
            packet.args[0] as u32
        } else {
            image.seq.wrapping_add(image.data.len)
        };
        image.data.len = segment.len;
        let total = HEADER as u32 + segment.len;
        header[0..2].copy_from_slice(&image.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&image.destination_port.to_be_bytes());
        header[4..8].copy_from_slice(&image.seq.to_be_bytes());
        header[8..12].copy_from_slice(&image.ack.to_be_bytes());
        header[12..16].copy_from_slice(&[0x80, 0x10, (image.window >> 8) as u8, image.window as u8]);
        header[16..HEADER].fill(1);
        header[16..20].fill(0);
        // The sum of the pseudo-header (RFC 9293, 3.1), as the device needs it.
        let sum = Sum::default()
            .with(&packet.net.src_ip[12..])
            .with(&packet.net.dst_ip[12..])
            .with(&total.to_be_bytes())
            .with(&[0, 6]);
        header[16..18].copy_from_slice(&sum.folded());
        Built { len: HEADER, trailer: 0, csum: Some((0, 16)) }
    }

    fn coalesce(&self, _: u16, earlier: &[u8], later: &[u8]) -> bool {
        let image = |bytes: &[u8]| pod_read_unaligned::<Image>(bytes);
        let (earlier, later) = (image(earlier), image(later));
        earlier.data.len == 0 && later.ack.wrapping_sub(earlier.ack) as i32 > 0
    }
}

fn connect(ev: &Event, memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
    let Some(bytes) = &mut memory.fresh else {
        return ChainOutcome::Refused(98);
    };
    let flow: &mut Flow = from_bytes_mut(&mut bytes[..size_of::<Flow>()]);
    (flow.local_ip, flow.remote_ip) = (ev.local_ip, ev.remote_ip);
    (flow.local_port, flow.remote_port) = (ev.local_port, ev.remote_port);
    let id = flow.header.id;
    let context = ContextRec { header: HEAD, id, context: 0, pad: 0 };
    out.push(RecordKind::NewContext, ON_FRESH, &context, &[]);
    let unit = UnitRec { uid: id, len: INF, ..UNIT };
    out.push(RecordKind::NewTx, ON_FRESH, &unit, &[]);
    out.push(
        RecordKind::NewRx,
        ON_FRESH,
        &UnitRec { off: 4 << 20, ..unit },
        &[],
    );
    let notice = NotifyRec { header: HEAD, code: NOTIFY_CONNECTED, ..NotifyRec::zeroed() };
    out.push(RecordKind::Notify, ON_FRESH, &notice, &[]);
    ChainOutcome::Done
}

fn module() -> Module {
    let structure = |name: &str, size: usize| Struct { name: name.into(), fields: vec![], size: size as u32 };
    let bounds = Bounds {
        records: 16,
        record_bytes: 4096,
        packets: 2,
        raises: 0,
        units: 2,
        steps: 0,
    };
    let chain = |event: u16| Chain {
        processors: if event == CONNECT {
            vec![]
        } else {
            vec![Processor { func: FuncId(0), when: Precondition::Found(ContextId(0)), args: vec![] }]
        },
        bounds,
        creates: (event == CONNECT).then_some(ContextId(0)),
        globals: vec![],
    };
    let event = |n: u16| EventTable {
        name: format!("event{n}"),
        kind: EventKind::Internal,
        body: StructId(0),
    };
    let parser = |source| Parser { source, func: FuncId(0), max_events: 1, steps: 0 };
    let timer = Timer {
        name: "timer".into(),
        offset: std::mem::offset_of!(Flow, timer) as u32,
        event: EventId(TIMEOUT.into()),
    };
    let cut = Cut {
        protocol: 6,
        clear: vec![104, 108, 111],
        grows: "seq".into(),
        last_only: vec![],
        first_only: vec![],
    };
    Module {
        name: "bulk".into(),
        structs: vec![
            structure("event", size_of::<Event>()),
            structure("flow", size_of::<Flow>()),
            structure("image", size_of::<Image>()),
        ],
        events: (0..=TIMEOUT).map(event).collect(),
        chains: (0..=TIMEOUT).map(chain).collect(),
        contexts: vec![Context {
            name: "flow".into(),
            granularity: Granularity::Flow,
            ends: None,
            body: StructId(1),
            timers: vec![timer],
            invariants: vec![],
        }],
        parsers: vec![
            parser(ParserInput::Ip(6)),
            parser(ParserInput::App(AppOp::Connect)),
            parser(ParserInput::App(AppOp::Send)),
            parser(ParserInput::App(AppOp::Recv)),
        ],
        blueprints: vec![Blueprint {
            name: "packet".into(),
            body: StructId(2),
            header: vec![],
            data_at: Some(0),
            trailer: vec![],
            fixed_len: 20,
            max_len: 60,
        }],
        coalesce: vec![Coalesce { blueprint: BlueprintId(0), func: FuncId(0) }],
        offloads: vec![Offload {
            blueprint: BlueprintId(0),
            rules: vec![RuleId(0)],
            sites: vec![],
            proof: Ok(cut),
        }],
        ..Module::default()
    }
}
