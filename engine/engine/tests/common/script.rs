//! A program written as closures, one for each event, over contexts of sixteen words.
//!
//! Its packets have a header of twelve bytes: source port, destination port, event, flag, zero, zero,
//! sequence number. The id of a flow is (local port, remote port), that of a listener (local port).

use std::collections::HashMap;

use bytemuck::{Pod, Zeroable, bytes_of, cast, pod_read_unaligned};
use hawser_engine::program::Program;
use hawser_ir::abi::*;
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions};
use hawser_ir::*;

pub const LISTEN: u16 = 0;
pub const CONNECT: u16 = 1;
pub const SEND: u16 = 2;
pub const RECV: u16 = 3;
pub const CLOSE: u16 = 4;
pub const ABORT: u16 = 5;
pub const PACKET: u16 = 6;
pub const OTHER_PACKET: u16 = 7;
pub const TIMER: u16 = 8;
pub const RAISED: u16 = 9;
pub const RELEASE: u16 = 10;
pub const OPTION: u16 = 11;
/// The event of an endpoint's message or call.
pub const CALL: u16 = 12;
const EVENTS: u16 = 13;

/// The context types.
pub const FLOW: ContextId = ContextId(0);
pub const LISTENER: ContextId = ContextId(1);

/// An event, as parsers and shims fill it in.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Ev {
    pub header: EventHeader,
    pub local_port: u64,
    pub remote_port: u64,
    pub flag: u64,
    pub seq: u64,
    pub addr: Addr,
    pub len: u64,
}

/// The index of a context's two ends: two addresses, and both ports in a word.
const ENDS: usize = 9;

/// A context: its id and sixteen words, the last two of them timers.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Ctx {
    pub header: ContextHeader,
    pub words: [u64; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Image {
    data: Data,
    local_port: u64,
    remote_port: u64,
    event: u64,
    flag: u64,
    seq: u64,
}

/// One reaction: the memory that it may read and change, and the destination of its instructions.
pub struct Step<'a> {
    pub ev: Ev,
    pub keyed: Option<(ContextId, Ctx)>,
    pub fresh: Option<Ctx>,
    /// True if a context was created.
    pub made: bool,
    pub scratch: &'a mut [u8],
    pub out: &'a mut RecordBuf,
}

type Reaction = Box<dyn Fn(&mut Step<'_>) -> ChainOutcome + Send + Sync>;

/// A program made of closures.
pub struct Script {
    module: Module,
    reactions: HashMap<u16, Reaction>,
    coalesces: bool,
    /// True if packets have TCP's header.
    tcp: bool,
}

fn id(parts: &[u64]) -> Id {
    let mut id = Id::NONE;
    parts.iter().for_each(|part| id.push(*part, 2));
    id
}

pub fn flow_id(local_port: u64, remote_port: u64) -> Id {
    id(&[local_port, remote_port])
}

const UNIT: UnitRec = UnitRec {
    header: RecordHeader { kind: 0, on: 0, global: 0, len: 0 },
    uid: Id::NONE,
    addr: 0,
    len: 0,
    off: 0,
};

impl Step<'_> {
    /// Returns the words of the keyed context.
    pub fn words(&mut self) -> &mut [u64; 16] {
        &mut self.keyed.as_mut().expect("a keyed context").1.words
    }

    /// Returns the type of the keyed context.
    pub fn kind(&self) -> Option<ContextId> {
        self.keyed.as_ref().map(|k| k.0)
    }

    fn on(&self) -> u8 {
        if self.keyed.is_some() { ON_KEYED } else { ON_FRESH }
    }

    /// Returns the owner of new units and packets: the new context once there is one.
    fn owner(&self) -> u8 {
        if self.made { ON_FRESH } else { self.on() }
    }

    fn own_id(&self) -> Id {
        let context = self.keyed.as_ref().map(|k| &k.1).or(self.fresh.as_ref());
        context.expect("a context").header.id
    }

    pub fn new_context(&mut self, kind: ContextId) -> Id {
        let id = self.fresh.as_ref().expect("a fresh slot").header.id;
        let rec = ContextRec { header: UNIT.header, id, context: kind.0, pad: 0 };
        self.out.push(RecordKind::NewContext, ON_FRESH, &rec, &[]);
        self.made = true;
        id
    }

    pub fn del_context(&mut self) {
        let rec = ContextRec { header: UNIT.header, id: Id::NONE, context: 0, pad: 0 };
        self.out.push(RecordKind::DelContext, self.on(), &rec, &[]);
    }

    pub fn unit(&mut self, kind: RecordKind, uid: Id, addr: Addr, len: u64, off: u64) {
        self.out
            .push(kind, self.owner(), &UnitRec { uid, addr, len, off, ..UNIT }, &[]);
    }

    /// Creates both units of a context, under its own id.
    pub fn new_units(&mut self, uid: Id, cap: u64) {
        self.unit(RecordKind::NewTx, uid, 0, INF, 0);
        self.unit(RecordKind::NewRx, uid, 0, INF, cap);
    }

    pub fn add_tx(&mut self) {
        let (uid, ev) = (self.own_id(), self.ev);
        self.unit(RecordKind::AddTx, uid, ev.addr, ev.len, 0);
    }

    pub fn flush_tx(&mut self, len: u64) {
        let uid = self.own_id();
        self.unit(RecordKind::FlushTx, uid, 0, len, 0);
    }

    pub fn add_rx(&mut self, off: u64) {
        let (uid, ev) = (self.own_id(), self.ev);
        self.unit(RecordKind::AddRx, uid, ev.addr, ev.len, off);
    }

    pub fn flush_rx(&mut self, len: u64) {
        let uid = self.own_id();
        self.unit(RecordKind::FlushRx, uid, 0, len, 0);
    }

    /// Issues a packet of the keyed (or fresh) context to the stack `to`, with data [off, off + len). An odd
    /// flag puts it into the second queue, in which `seq` is also its rank or its cost.
    pub fn packet(&mut self, to: u8, event: u16, flag: u64, seq: u64, data: (u64, u32, u32)) {
        self.packet_of(self.own_id(), to, event, flag, seq, data);
    }

    /// Issues a packet with the data of another unit.
    pub fn packet_of(
        &mut self,
        uid: Id,
        to: u8,
        event: u16,
        flag: u64,
        seq: u64,
        (off, len, seg_size): (u64, u32, u32),
    ) {
        let own = self.own_id();
        let port = |at: usize| u64::from(u16::from_be_bytes([own.0[at], own.0[at + 1]]));
        let data = Data { uid, off, addr: 0, len, seg_size };
        self.image(
            to,
            Image {
                data,
                local_port: port(0),
                remote_port: port(2),
                event: event.into(),
                flag,
                seq,
            },
        );
    }

    /// Issues a packet without data that answers the packet of this event, whatever context there is.
    pub fn answer(&mut self, to: u8, event: u16, flag: u64, seq: u64) {
        let (local_port, remote_port) = (self.ev.local_port, self.ev.remote_port);
        let data = Data::zeroed();
        self.image(
            to,
            Image { data, local_port, remote_port, event: event.into(), flag, seq },
        );
    }

    fn image(&mut self, to: u8, image: Image) {
        let mut net = NET_ZERO;
        net.dst_ip = hawser_engine::net::to_bytes([10, 0, 0, to + 1].into());
        let rec = PacketRec {
            header: UNIT.header,
            net,
            rank: image.seq,
            args: [0; MAX_RULE_ARGS],
            queue: image.flag as u32 & 1,
            blueprint: 0,
            rules: 0,
            rule: [0; MAX_RULES],
            data_at: 0,
            bytes: size_of::<Image>() as u32,
        };
        self.out
            .push(RecordKind::Packet, self.owner(), &rec, bytes_of(&image));
    }

    /// (Re)starts timer 0 or 1 of the keyed context.
    pub fn timer_start(&mut self, timer: u32, after: u64) {
        let deadline = self.ev.header.now + after;
        self.words()[14 + timer as usize] = deadline;
        let rec = TimerRec { header: UNIT.header, deadline, timer, pad: 0 };
        self.out.push(RecordKind::TimerStart, ON_KEYED, &rec, &[]);
    }

    /// Starts a timer of the context that this chain creates.
    pub fn timer_start_fresh(&mut self, timer: u32, after: u64) {
        let deadline = self.ev.header.now + after;
        self.fresh.as_mut().expect("a fresh slot").words[14 + timer as usize] = deadline;
        let rec = TimerRec { header: UNIT.header, deadline, timer, pad: 0 };
        self.out.push(RecordKind::TimerStart, ON_FRESH, &rec, &[]);
    }

    pub fn timer_stop(&mut self, timer: u32) {
        self.words()[14 + timer as usize] = 0;
        let rec = TimerRec { header: UNIT.header, deadline: 0, timer, pad: 0 };
        self.out.push(RecordKind::TimerStop, ON_KEYED, &rec, &[]);
    }

    pub fn notify(&mut self, code: u32, id: Id, arg: u64) {
        let rec = NotifyRec { header: UNIT.header, id, code, error: arg as u32, arg: [arg; 4] };
        self.out.push(RecordKind::Notify, self.on(), &rec, &[]);
    }

    /// Sets the ends of the new context to the stacks `own` and `peer`.
    pub fn set_ends(&mut self, own: u8, peer: u8) {
        let ip = |host: u8| hawser_engine::net::to_bytes([10, 0, 0, host + 1].into());
        let ports = self.ev.local_port | self.ev.remote_port << 16;
        let ends: [[u8; 16]; 2] = [ip(own), ip(peer)];
        let words = &mut self.fresh.as_mut().expect("a fresh slot").words;
        words[ENDS..ENDS + 4].copy_from_slice(&cast::<_, [u64; 4]>(ends));
        words[ENDS + 4] = ports;
    }

    /// Issues a record of a kind that refers to an id.
    pub fn context_record(&mut self, kind: RecordKind, id: Id) {
        let rec = ContextRec { header: UNIT.header, id, context: 0, pad: 0 };
        self.out.push(kind, self.on(), &rec, &[]);
    }

    pub fn queue(&mut self, kind: RecordKind, queue: u32, value: u64) {
        let rec = QueueRec { header: UNIT.header, value, queue, pad: 0 };
        self.out.push(kind, ON_KEYED, &rec, &[]);
    }

    pub fn raise(&mut self, target: Id, flag: u64) {
        let mut ev = Ev::zeroed();
        ev.flag = flag;
        let bytes = size_of::<Ev>() as u32;
        let rec = RaiseRec { header: UNIT.header, target, event: RAISED.into(), bytes };
        let on = if target.is_none() { self.on() } else { ON_TARGET };
        self.out.push(RecordKind::Raise, on, &rec, bytes_of(&ev));
    }
}

impl Script {
    /// Creates a program without reactions.
    pub fn new() -> Script {
        Script {
            module: module(),
            reactions: HashMap::new(),
            coalesces: false,
            tcp: false,
        }
    }

    pub fn on(
        mut self,
        event: u16,
        reaction: impl Fn(&mut Step<'_>) -> ChainOutcome + Send + Sync + 'static,
    ) -> Script {
        self.reactions.insert(event, Box::new(reaction));
        self
    }

    /// Makes later packets without data replace earlier ones of the same flag.
    pub fn coalescing(mut self) -> Script {
        self.coalesces = true;
        self.module
            .coalesce
            .push(Coalesce { blueprint: BlueprintId(0), func: FuncId(0) });
        self
    }

    /// Makes packets have TCP's header. The last of several has PSH set; with flag 1, the fourth has another
    /// window, and with flag 2, all have CWR set.
    pub fn tcp(mut self) -> Script {
        self.tcp = true;
        self.module.blueprints[0].max_len = 20;
        self.with(|module| {
            module.parsers.retain(|p| p.source != ParserInput::Ip(253));
            module.parsers.push(Parser {
                source: ParserInput::Ip(6),
                func: FuncId(0),
                max_events: 1,
                steps: 0,
            });
        })
    }

    /// Declares that devices can cut the packets unless CWR is set.
    pub fn proven(self) -> Script {
        let names = (String::from("seq"), vec![String::from("psh")]);
        let cut = Cut {
            protocol: 6,
            clear: vec![104],
            grows: names.0,
            last_only: names.1,
            first_only: vec![],
        };
        let (rules, sites) = (vec![], vec![]);
        self.with(|module| {
            module
                .offloads
                .push(Offload { blueprint: BlueprintId(0), rules, sites, proof: Ok(cut) });
        })
    }

    /// Changes the program's tables.
    pub fn with(mut self, change: impl FnOnce(&mut Module)) -> Script {
        change(&mut self.module);
        self
    }
}

impl Program for Script {
    fn module(&self) -> &Module {
        &self.module
    }

    fn parse(&self, _parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        let mut ev = Ev::zeroed();
        let mut event = PACKET;
        let mut ids = [Id::NONE; 3];
        match input {
            Input::Packet(packet) => {
                let &[s0, s1, d0, d1, kind, flag, _, _, a, b, c, d, ref payload @ ..] = packet.head else {
                    return Err(ParseError::Truncated);
                };
                ev.remote_port = u64::from(u16::from_be_bytes([s0, s1]));
                ev.local_port = u64::from(u16::from_be_bytes([d0, d1]));
                (ev.flag, ev.seq) = (flag.into(), u32::from_be_bytes([a, b, c, d]).into());
                (ev.addr, ev.len) = (
                    packet.addr + 12,
                    (payload.len() + packet.tail.len() + packet.merged) as u64,
                );
                event = kind.into();
                ids = [
                    id(&[ev.local_port, ev.remote_port]),
                    id(&[ev.local_port]),
                    Id::NONE,
                ];
            }
            Input::App(op, view) => {
                (ev.local_port, ev.remote_port) = (view.local_port.into(), view.remote_port.into());
                (ev.addr, ev.len, ev.seq) = (view.addr, view.len, view.backlog.into());
                if op == AppOp::Call {
                    ev.seq = view.sub;
                }
                if op == AppOp::Option {
                    (ev.flag, ev.seq) = (view.option.into(), view.arg);
                }
                (event, ids) = match op {
                    AppOp::Listen => (LISTEN, [id(&[ev.local_port]), Id::NONE, Id::NONE]),
                    AppOp::Connect => (
                        CONNECT,
                        [flow_id(ev.local_port, ev.remote_port), Id::NONE, Id::NONE],
                    ),
                    AppOp::Send => (SEND, ids),
                    AppOp::Recv => (RECV, ids),
                    AppOp::Close => (CLOSE, ids),
                    AppOp::Abort => (ABORT, ids),
                    AppOp::Release => (RELEASE, ids),
                    AppOp::Option => (OPTION, ids),
                    AppOp::Open | AppOp::Reset | AppOp::Stop | AppOp::Post => {
                        unreachable!("scripts register none of them")
                    }
                    AppOp::Message | AppOp::Call => {
                        (CALL, [flow_id(ev.local_port, ev.remote_port), Id::NONE, Id::NONE])
                    }
                };
            }
            Input::Icmp(..) | Input::Start => {}
        }
        ev.header.ids = ids.iter().filter(|id| !id.is_none()).count() as u8;
        ev.header.id = ids;
        out.push(EventId(event.into()), bytes_of(&ev));
        Ok(())
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        let ev: Ev = pod_read_unaligned(event);
        let Some(reaction) = self.reactions.get(&ev.header.event) else {
            return ChainOutcome::Done;
        };
        let mut step = Step {
            ev,
            keyed: memory
                .keyed
                .as_ref()
                .map(|(kind, bytes)| (*kind, pod_read_unaligned(bytes))),
            fresh: memory.fresh.as_ref().map(|bytes| pod_read_unaligned(bytes)),
            made: false,
            scratch: memory.scratch,
            out,
        };
        let outcome = reaction(&mut step);
        let (keyed, fresh) = (step.keyed, step.fresh);
        if let (Some((_, context)), Some((_, bytes))) = (keyed, &mut memory.keyed) {
            bytes.copy_from_slice(bytes_of(&context));
        }
        if let (Some(context), Some(bytes)) = (fresh, &mut memory.fresh) {
            bytes.copy_from_slice(bytes_of(&context));
        }
        outcome
    }

    fn build(&self, _: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let mut packet: Image = pod_read_unaligned(image);
        header[0..2].copy_from_slice(&(packet.local_port as u16).to_be_bytes());
        header[2..4].copy_from_slice(&(packet.remote_port as u16).to_be_bytes());
        header[4..8].copy_from_slice(&[packet.event as u8, packet.flag as u8, 0, 0]);
        header[8..12].copy_from_slice(&(packet.seq as u32).to_be_bytes());
        let seq = packet.seq as u32;
        packet.seq = packet.seq.wrapping_add(segment.len.into());
        image.copy_from_slice(bytes_of(&packet));
        if !self.tcp {
            return Built { len: 12, trailer: 0, csum: None };
        }
        let last = segment.index + 1 == segment.count;
        header[4..8].copy_from_slice(&seq.to_be_bytes());
        header[8..16].copy_from_slice(&[0, 0, 0, 0, 0x50, 0x10 | u8::from(last) << 3, 0, 0]);
        header[13] |= u8::from(packet.flag == 2) << 7;
        header[15] = u8::from(segment.index == 3 && packet.flag == 1);
        header[16..20].copy_from_slice(&[0; 4]);
        // The pseudo-header's sum, as far as it depends on the packet.
        header[16..18].copy_from_slice(&(segment.len as u16 + 20).to_be_bytes());
        Built { len: 20, trailer: 0, csum: Some((0, 16)) }
    }

    fn coalesce(&self, _blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        let (a, b): (Image, Image) = (pod_read_unaligned(earlier), pod_read_unaligned(later));
        self.coalesces && a.data.len == 0 && b.data.len == 0 && a.flag == b.flag
    }
}

/// Returns the offset of a word of a context.
fn word(n: usize) -> u32 {
    (size_of::<ContextHeader>() + 8 * n) as u32
}

fn ends() -> EndpointOffsets {
    EndpointOffsets {
        local_ip: word(ENDS),
        remote_ip: word(ENDS + 2),
        local_port: word(ENDS + 4),
        remote_port: word(ENDS + 4) + 2,
    }
}

/// The requests that a script offers.
const APPS: [AppOp; 9] = [
    AppOp::Listen,
    AppOp::Connect,
    AppOp::Send,
    AppOp::Recv,
    AppOp::Close,
    AppOp::Abort,
    AppOp::Release,
    AppOp::Option,
    AppOp::Call,
];

/// Returns the tables of a script.
fn module() -> Module {
    let field = |name: &str, offset: u32, observable: bool| Field {
        name: name.into(),
        ty: Ty::uint(64),
        offset,
        default: None,
        access: AccessRights { observable, modifiable: None },
    };
    let structure =
        |name: &str, size: usize, fields: Vec<Field>| Struct { name: name.into(), fields, size: size as u32 };
    let structs = vec![
        structure("ev", size_of::<Ev>(), vec![]),
        structure(
            "ctx",
            size_of::<Ctx>(),
            vec![field("shown", word(0), true), field("hidden", word(1), false)],
        ),
        structure("scratch", 8, vec![]),
        structure("image", size_of::<Image>(), vec![]),
    ];
    let event = |n| Event {
        name: format!("event{n}"),
        kind: EventKind::Internal,
        body: StructId(0),
    };
    let timer = |n: usize| Timer {
        name: format!("timer{n}"),
        offset: word(14 + n),
        event: EventId(TIMER.into()),
    };
    let context = |name: &str, timers| Context {
        name: name.into(),
        granularity: Granularity::Flow,
        body: StructId(1),
        ends: Some(ends()),
        timers,
        invariants: vec![],
    };
    let creates = |event| match event {
        LISTEN => Some(LISTENER),
        CONNECT | CALL | PACKET | RAISED => Some(FLOW),
        _ => None,
    };
    let chain = |event| Chain {
        processors: vec![],
        bounds: Bounds {
            records: 16,
            record_bytes: 4096,
            packets: 4,
            raises: 4,
            units: 2,
            steps: 0,
        },
        creates: creates(event),
        globals: vec![],
    };
    let source = |source| Parser { source, func: FuncId(0), max_events: 1, steps: 0 };
    let queue = |prio| PacketQueue { name: format!("q{prio}"), policy: QueuePolicy::Fifo, prio };
    Module {
        name: "script".into(),
        files: vec![],
        params: vec![],
        structs,
        events: (0..EVENTS).map(event).collect(),
        contexts: vec![
            context("flow", vec![timer(0), timer(1)]),
            context("listener", vec![]),
        ],
        signals: vec![],
        scratch: Some(StructId(2)),
        funcs: vec![],
        chains: (0..EVENTS).map(chain).collect(),
        parsers: APPS
            .map(|op| source(ParserInput::App(op)))
            .into_iter()
            .chain([source(ParserInput::Ip(253))])
            .collect(),
        blueprints: vec![Blueprint {
            name: "packet".into(),
            body: StructId(3),
            header: vec![],
            data_at: Some(0),
            trailer: vec![],
            fixed_len: 12,
            max_len: 12,
        }],
        queues: vec![queue(5), queue(1)],
        ..Module::default()
    }
}
