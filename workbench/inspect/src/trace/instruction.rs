//! Describes records by the names of the language.

use hawser_ir::abi::{
    ContextRec, INF, Id, NOTIFY_ACCEPTED, NOTIFY_CLOSED, NOTIFY_CONNECTED, NOTIFY_EOF, NOTIFY_FAILED,
    NOTIFY_MESSAGE, NOTIFY_RESET, NOTIFY_STOPPED, NotifyRec, ON_FRESH, ON_GLOBAL, PacketRec, QueueRec,
    RaiseRec, RecordKind, SignalRec, TimerRec, UnitRec,
};
use hawser_ir::buf::Record;
use hawser_ir::{ContextId, Ty};

use crate::trace::shared_names::SharedName;
use crate::trace::value::{Reader, TraceValue, address, identity};

type Arguments = Vec<(SharedName, TraceValue)>;

fn argument(name: impl Into<SharedName>, value: TraceValue) -> (SharedName, TraceValue) {
    (name.into(), value)
}

fn number(name: &'static str, value: u64) -> (SharedName, TraceValue) {
    let value = if value == INF {
        TraceValue::Text("INF".to_owned())
    } else {
        TraceValue::Number(value)
    };
    argument(name, value)
}

/// The context of a chain, or the one that it created.
#[derive(Clone, Copy)]
pub(crate) struct ChainContext {
    pub(crate) context: ContextId,
    pub(crate) id: Id,
}

/// Returns an instruction's name and its arguments. An id is omitted if it belongs to the context of the
/// instruction.
pub(crate) fn describe(
    reader: &Reader<'_>,
    record: &Record<'_>,
    keyed: Option<ChainContext>,
    fresh: Option<ChainContext>,
) -> (&'static str, Arguments) {
    let on = match record.on {
        ON_FRESH => fresh,
        ON_GLOBAL => record
            .global()
            .map(|context| ChainContext { context, id: Id::NONE }),
        _ => keyed,
    };
    match record.kind {
        RecordKind::NewTx => unit("new_tx_ordered_data", record, on, &["size"]),
        RecordKind::AddTx => unit("add_tx_data", record, on, &["len"]),
        RecordKind::FlushTx => unit("tx_flush_and_notify", record, on, &["len"]),
        RecordKind::NewRx => unit("new_rx_ordered_data", record, on, &["size", "cap"]),
        RecordKind::AddRx => unit("add_rx_data_seg", record, on, &["len", "off"]),
        RecordKind::FlushRx => unit("rx_flush_and_notify", record, on, &["len"]),
        RecordKind::DelTx => unit("del_tx_ordered_data", record, on, &[]),
        RecordKind::DelRx => unit("del_rx_ordered_data", record, on, &[]),
        RecordKind::Packet => ("pkt_gen", packet(reader, record)),
        RecordKind::TimerStart => ("timer_start", timer(reader, record, on)),
        RecordKind::TimerStop => ("timer_stop", timer(reader, record, on)),
        RecordKind::NewContext => ("new_ctx", context(reader, record, on)),
        RecordKind::DelContext => ("del_ctx", context(reader, record, on)),
        RecordKind::AddId => ("add_id", context(reader, record, on)),
        RecordKind::DropId => ("drop_id", context(reader, record, on)),
        RecordKind::Notify => ("notify", notify(record)),
        RecordKind::Raise => ("raise", raise(reader, record)),
        RecordKind::Signal => ("signal", signal(reader, record)),
        RecordKind::QueueRate => ("set_queue_rate", queue(reader, record, Some("rate"))),
        RecordKind::QueuePrio => ("set_queue_prio", queue(reader, record, Some("prio"))),
        RecordKind::QueueReset => ("queue_reset", queue(reader, record, None)),
        RecordKind::Extern => ("extern", Vec::new()),
    }
}

/// Describes ordered data. `names` gives the names of the record's length and offset.
fn unit(
    instruction: &'static str,
    record: &Record<'_>,
    on: Option<ChainContext>,
    names: &[&'static str],
) -> (&'static str, Arguments) {
    let rec: UnitRec = record.fixed();
    let uid = id_of_another("uid", &rec.uid, on);
    let values = names.iter().zip([rec.len, rec.off]);
    let values = values.map(|(name, value)| number(name, value));
    (instruction, uid.into_iter().chain(values).collect())
}

/// Returns an id, unless it is the context's own.
fn id_of_another(name: &'static str, id: &Id, on: Option<ChainContext>) -> Option<(SharedName, TraceValue)> {
    let is_own = on.is_some_and(|on| on.id == *id);
    (!is_own && !id.is_none()).then(|| argument(name, TraceValue::Text(identity(id))))
}

/// Returns the blueprint with its fields, and the destination.
fn packet(reader: &Reader<'_>, record: &Record<'_>) -> Arguments {
    let rec: PacketRec = record.fixed();
    let Some(blueprint) = reader.module.blueprints.get(usize::from(rec.blueprint)) else {
        return Vec::new();
    };
    let image = reader.value(&Ty::Struct(blueprint.body), record.tail::<PacketRec>());
    let mut arguments = vec![argument(
        reader.names.blueprints[usize::from(rec.blueprint)].clone(),
        image,
    )];
    arguments.push(argument("to", TraceValue::Text(address(&rec.net.dst_ip))));
    let mut values = rec.args.iter();
    let rules = rec.rule.iter().take(usize::from(rec.rules));
    let rules = rules.filter_map(|rule| reader.module.seg_rules.get(usize::from(*rule)));
    arguments.extend(rules.map(|rule| {
        let of_rule = values
            .by_ref()
            .take(usize::from(rule.args))
            .map(|value| TraceValue::Number(*value));
        argument(
            SharedName::new(&rule.name),
            TraceValue::List(of_rule.collect(), 0),
        )
    }));
    if rec.queue > 0 {
        arguments.push(named_queue(reader, rec.queue));
    }
    arguments
}

fn timer(reader: &Reader<'_>, record: &Record<'_>, on: Option<ChainContext>) -> Arguments {
    let rec: TimerRec = record.fixed();
    let context = on.and_then(|on| reader.module.contexts.get(on.context.0 as usize));
    let timer = context.and_then(|context| context.timers.get(rec.timer as usize));
    let name = timer.map_or_else(|| rec.timer.to_string(), |timer| timer.name.clone());
    let mut arguments = vec![argument("timer", TraceValue::Text(name))];
    if record.kind == RecordKind::TimerStart {
        arguments.push(argument("deadline", reader.time(rec.deadline)));
    }
    arguments
}

fn context(reader: &Reader<'_>, record: &Record<'_>, on: Option<ChainContext>) -> Arguments {
    let rec: ContextRec = record.fixed();
    let context = reader.module.contexts.get(rec.context as usize);
    let name = context.map_or_else(|| rec.context.to_string(), |context| context.name.clone());
    let id = id_of_another("id", &rec.id, on);
    std::iter::once(argument("context", TraceValue::Text(name)))
        .chain(id)
        .collect()
}

fn notify(record: &Record<'_>) -> Arguments {
    let rec: NotifyRec = record.fixed();
    let code = match rec.code {
        NOTIFY_CONNECTED => "CONNECTED",
        NOTIFY_EOF => "EOF",
        NOTIFY_CLOSED => "CLOSED",
        NOTIFY_ACCEPTED => "ACCEPTED",
        NOTIFY_FAILED => "FAILED",
        NOTIFY_MESSAGE => "MESSAGE",
        NOTIFY_RESET => "RESET",
        NOTIFY_STOPPED => "STOPPED",
        _ => "unknown",
    };
    let mut arguments = vec![argument("notice", TraceValue::Text(code.to_owned()))];
    if rec.code == NOTIFY_FAILED {
        arguments.push(argument("errno", TraceValue::Number(rec.error.into())));
    }
    arguments
}

fn raise(reader: &Reader<'_>, record: &Record<'_>) -> Arguments {
    let rec: RaiseRec = record.fixed();
    let event = reader.module.events.get(rec.event as usize);
    let name = event.map_or_else(|| rec.event.to_string(), |event| event.name.clone());
    vec![argument("event", TraceValue::Text(name))]
}

fn signal(reader: &Reader<'_>, record: &Record<'_>) -> Arguments {
    let rec: SignalRec = record.fixed();
    match reader.module.signals.get(rec.signal as usize) {
        Some((name, body)) => vec![argument(
            SharedName::new(name),
            reader.value(&Ty::Struct(*body), record.tail::<SignalRec>()),
        )],
        None => Vec::new(),
    }
}

fn queue(reader: &Reader<'_>, record: &Record<'_>, value: Option<&'static str>) -> Arguments {
    let rec: QueueRec = record.fixed();
    let value = value.map(|name| argument(name, TraceValue::Number(rec.value)));
    std::iter::once(named_queue(reader, rec.queue))
        .chain(value)
        .collect()
}

fn named_queue(reader: &Reader<'_>, queue: u32) -> (SharedName, TraceValue) {
    let known = reader.module.queues.get(queue as usize);
    argument(
        "queue",
        TraceValue::Text(known.map_or_else(|| queue.to_string(), |queue| queue.name.clone())),
    )
}
