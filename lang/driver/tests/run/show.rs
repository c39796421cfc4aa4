//! Outcomes, records and contexts as text.

use std::fmt::Write as _;

use hawser_interp::Interpreter;
use hawser_ir::abi::{
    ChainOutcome, ContextRec, Data, ExternRec, INF, Id, NOTIFY_ACCEPTED, NOTIFY_CLOSED, NOTIFY_CONNECTED,
    NOTIFY_EOF, NOTIFY_FAILED, NOTIFY_MESSAGE, NOTIFY_RESET, NOTIFY_STOPPED, NotifyRec, ON_FRESH, PacketRec,
    QueueRec, RaiseRec, RecordKind, Segment, SignalRec, TimerRec, UnitRec,
};
use hawser_ir::buf::Record;
use hawser_ir::{Context, ContextId, LIST_HEADER, Layout, Module, OPTION_TAG, Struct, Ty, WINDOW_HEADER};

/// Formats the outcome of a chain.
pub(crate) fn outcome(module: &Module, outcome: ChainOutcome) -> String {
    match outcome {
        ChainOutcome::Done => "all ran".into(),
        ChainOutcome::Stop => "done".into(),
        ChainOutcome::Refused(code) => format!("refused {code}"),
        ChainOutcome::Assert(index) => format!("broken: {}", module.asserts[index as usize].1),
    }
}

/// Formats a record; for a packet instruction, with all headers that it yields. `on` is the type of its
/// context.
pub(crate) fn record(program: &Interpreter, on: Option<ContextId>, record: &Record<'_>) -> String {
    let module: &Module = program.module();
    let fresh = if record.on == ON_FRESH { " (new)" } else { "" };
    let unit = |name: &str| {
        let UnitRec { uid, addr, len, off, .. } = record.fixed();
        let len = if len == INF { "INF".into() } else { len.to_string() };
        format!("{name} {} addr={} len={len} off={off}", id(&uid), address(addr))
    };
    let context = |name: &str| {
        let ContextRec { id: key, context, .. } = record.fixed();
        format!("{name} {} {}", module.contexts[context as usize].name, id(&key))
    };
    let timer = |name: &str, with_deadline: bool| {
        let TimerRec { deadline, timer, .. } = record.fixed();
        let timers = on.map_or(&[][..], |id| &module.contexts[id.0 as usize].timers);
        let which = timers.get(timer as usize).map_or("?", |t| &t.name);
        if with_deadline {
            format!("{name} {which} at {deadline}")
        } else {
            format!("{name} {which}")
        }
    };
    let queue = |name: &str| {
        let QueueRec { value, queue, .. } = record.fixed();
        format!("{name} {} {value}", module.queues[queue as usize].name)
    };
    let line = match record.kind {
        RecordKind::NewTx => unit("new_tx"),
        RecordKind::AddTx => unit("add_tx"),
        RecordKind::FlushTx => unit("flush_tx"),
        RecordKind::NewRx => unit("new_rx"),
        RecordKind::AddRx => unit("add_rx"),
        RecordKind::FlushRx => unit("flush_rx"),
        RecordKind::DelTx => unit("del_tx"),
        RecordKind::DelRx => unit("del_rx"),
        RecordKind::Packet => packet(program, record),
        RecordKind::TimerStart => timer("timer_start", true),
        RecordKind::TimerStop => timer("timer_stop", false),
        RecordKind::NewContext => context("new_ctx"),
        RecordKind::DelContext => context("del_ctx"),
        RecordKind::AddId => context("add_id"),
        RecordKind::DropId => context("drop_id"),
        RecordKind::Notify => notify(&record.fixed()),
        RecordKind::Raise => {
            let RaiseRec { target, event, .. } = record.fixed();
            format!("raise {} to {}", module.events[event as usize].name, id(&target))
        }
        RecordKind::Signal => {
            let SignalRec { signal, .. } = record.fixed();
            let (name, body) = &module.signals[signal as usize];
            format!(
                "signal {name} {}",
                structure(module, module.structure(*body), record.tail::<SignalRec>())
            )
        }
        RecordKind::QueueRate => queue("queue_rate"),
        RecordKind::QueuePrio => queue("queue_prio"),
        RecordKind::QueueReset => queue("queue_reset"),
        RecordKind::Extern => {
            let ExternRec { extern_, .. } = record.fixed();
            let words = record
                .tail::<ExternRec>()
                .chunks(8)
                .map(|w| number(w).to_string());
            let args: Vec<String> = words.collect();
            format!(
                "extern {}({})",
                module.externs[extern_ as usize].name,
                args.join(", ")
            )
        }
    };
    format!("    {line}{fresh}\n")
}

fn notify(record: &NotifyRec) -> String {
    let name = match record.code {
        NOTIFY_CONNECTED => "CONNECTED",
        NOTIFY_EOF => "EOF",
        NOTIFY_CLOSED => "CLOSED",
        NOTIFY_ACCEPTED => return format!("notify ACCEPTED {}", id(&record.id)),
        NOTIFY_FAILED => return format!("notify FAILED {}", record.error),
        NOTIFY_RESET => return format!("notify RESET {}", record.arg[0]),
        NOTIFY_STOPPED => return format!("notify STOPPED {}", record.arg[0]),
        NOTIFY_MESSAGE => return format!("notify {:?}", record.arg),
        _ => "?",
    };
    format!("notify {name}")
}

/// Formats a packet instruction and, below it, each header with the payload bytes that follow.
fn packet(program: &Interpreter, record: &Record<'_>) -> String {
    let module: &Module = program.module();
    let packet: PacketRec = record.fixed();
    let blueprint = &module.blueprints[usize::from(packet.blueprint)];
    let mut image = record.tail::<PacketRec>()[..packet.bytes as usize].to_vec();
    let data: Option<Data> = blueprint
        .data_at
        .map(|at| bytemuck::pod_read_unaligned(&image[at as usize..at as usize + size_of::<Data>()]));
    let (len, cut) = data.map_or((0, 0), |d| (d.len, d.seg_size));
    let count = if cut == 0 { 1 } else { len.div_ceil(cut).max(1) };
    let mut out = format!(
        "packet {} queue={} rank={}",
        blueprint.name, packet.queue, packet.rank
    );
    let mut left = len;
    for index in 0..count {
        let here = if cut == 0 { left } else { left.min(cut) };
        left -= here;
        let mut header = vec![0; blueprint.max_len as usize];
        let built = program.build(
            &packet,
            &mut image,
            Segment { index, count, len: here },
            &mut header,
        );
        let hex: String = header[..built.len].iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let _ = write!(out, "\n      {hex} + {here}");
        if let Some((start, at)) = built.csum {
            let _ = write!(out, " sum {start}..@{at}");
        }
    }
    out
}

/// Formats a context with all its fields.
pub(crate) fn context(module: &Module, context: &Context, bytes: &[u8]) -> String {
    let key: Id = bytemuck::pod_read_unaligned(&bytes[..size_of::<Id>()]);
    let body = structure(module, module.structure(context.body), bytes);
    if key.is_none() {
        format!("{} {body}", context.name)
    } else {
        format!("{} {} {body}", context.name, id(&key))
    }
}

fn structure(module: &Module, structure: &Struct, bytes: &[u8]) -> String {
    let field = |f: &hawser_ir::Field| {
        format!(
            "{}: {}",
            f.name,
            value(module, &f.ty, &bytes[f.offset as usize..])
        )
    };
    let fields: Vec<String> = structure.fields.iter().map(field).collect();
    format!("{{ {} }}", fields.join(", "))
}

/// Formats a value of any type at the start of `bytes`.
fn value(module: &Module, ty: &Ty, bytes: &[u8]) -> String {
    let list = |elem: &Ty, stride: usize, start: usize| {
        let len = number(&bytes[..4]) as usize;
        let item = |i| value(module, elem, &bytes[start + i * stride..]);
        let items: Vec<String> = (0..len).map(item).collect();
        format!("[{}]", items.join(", "))
    };
    match ty {
        Ty::Bool => (bytes[0] != 0).to_string(),
        Ty::Int { signed: true, bits } | Ty::Enum { signed: true, bits, .. } => {
            let spare = 64 - u32::from(*bits);
            ((number(&bytes[..size(module, ty)]) << spare) as i64 >> spare).to_string()
        }
        Ty::Int { .. }
        | Ty::Enum { .. }
        | Ty::Seq { .. }
        | Ty::Duration
        | Ty::Time
        | Ty::Varint
        | Ty::Timer => number(&bytes[..size(module, ty)]).to_string(),
        Ty::Addr => address(number(&bytes[..8])),
        Ty::Ip => {
            let octets: [u8; 16] = bytes[..16].try_into().expect("sixteen bytes");
            std::net::Ipv6Addr::from(octets).to_canonical().to_string()
        }
        Ty::Id => id(&bytemuck::pod_read_unaligned(&bytes[..size_of::<Id>()])),
        Ty::Data => {
            let data: Data = bytemuck::pod_read_unaligned(&bytes[..size_of::<Data>()]);
            format!(
                "data({}, {}, {}, {})",
                id(&data.uid),
                data.off,
                data.len,
                data.seg_size
            )
        }
        Ty::Bytes { len } => format!("{:02x?}", &bytes[..*len as usize]),
        Ty::Struct(id) => structure(module, module.structure(*id), bytes),
        Ty::Array { elem, len } => {
            let stride = layout(module, &member_sizes(module)).stride(elem) as usize;
            let item = |i| value(module, elem, &bytes[i * stride..]);
            let items: Vec<String> = (0..*len as usize).map(item).collect();
            format!("[{}]", items.join(", "))
        }
        Ty::List { elem, .. } | Ty::Sorted { elem, .. } => list(
            elem,
            layout(module, &member_sizes(module)).stride(elem) as usize,
            LIST_HEADER as usize,
        ),
        Ty::Window { .. } => {
            let runs = number(&bytes[8..12]) as usize;
            let run = |i: usize| {
                let at = WINDOW_HEADER as usize + i * 16;
                format!(
                    "[{}, {})",
                    number(&bytes[at..at + 8]),
                    number(&bytes[at + 8..at + 16])
                )
            };
            let runs: Vec<String> = (0..runs).map(run).collect();
            format!(
                "{}: {}",
                number(&bytes[..8]),
                if runs.is_empty() {
                    "-".into()
                } else {
                    runs.join(" ")
                }
            )
        }
        Ty::Options { list: which, .. } => {
            let stride = layout(module, &member_sizes(module)).option_stride(*which) as usize;
            let len = number(&bytes[..4]) as usize;
            let entry = |i: usize| {
                let at = LIST_HEADER as usize + i * stride;
                let member = &module.opt_list(*which).members[number(&bytes[at..at + 8]) as usize];
                let body = module.structure(module.blueprints[member.blueprint.0 as usize].body);
                format!(
                    "{} {}",
                    member.name,
                    structure(module, body, &bytes[at + OPTION_TAG as usize..])
                )
            };
            let entries: Vec<String> = (0..len).map(entry).collect();
            format!("[{}]", entries.join(", "))
        }
    }
}

/// Returns the size of a value in bytes.
pub(crate) fn size(module: &Module, ty: &Ty) -> usize {
    layout(module, &member_sizes(module)).size(ty) as usize
}

fn member_sizes(module: &Module) -> Vec<u32> {
    let size = |m: &hawser_ir::OptKind| {
        module
            .structure(module.blueprints[m.blueprint.0 as usize].body)
            .size
    };
    module
        .opt_lists
        .iter()
        .map(|list| list.members.iter().map(size).max().unwrap_or(0))
        .collect()
}

fn layout<'a>(module: &'a Module, member_size: &'a [u32]) -> Layout<'a> {
    Layout { structs: &module.structs, member_size }
}

/// Reads a number in native byte order.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn id(id: &Id) -> String {
    if id.is_none() {
        return "NONE".into();
    }
    id.bytes().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn address(addr: u64) -> String {
    hawser_ir::abi::addr_parts(addr).map_or("NONE".into(), |(buffer, offset)| format!("{buffer}+{offset}"))
}
