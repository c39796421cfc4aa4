//! Turns an event that the engine shows into its description.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_engine::{MemorySnapshot, ReceivedPacket, StackCounters, TapEvent};
use hawser_interp::{Interpreter, LastingMemory, Steps, Unsupported};
use hawser_ir::abi::{ChainOutcome, ContextHeader, EventHeader};
use hawser_ir::buf::{RecordBuf, Regions, event_header};
use hawser_ir::{ContextId, EndpointOffsets, EventKind, Layout, Module, ParserInput, Span, StructId};
use hawser_time::Instant;

use crate::trace::event::{Context, CounterChange, FieldChange, Processor, TracedEvent, TracedInstruction};
use crate::trace::event_copy::copy_before;
use crate::trace::fields::{Leaf, leaves};
use crate::trace::filter::{Filter, Flows, is_field};
use crate::trace::instruction::{ChainContext, describe};
use crate::trace::packet::{Decoded, behind_udp, decode, network, parser_of};
use crate::trace::shared_names::{ProgramNames, SharedName};
use crate::trace::source::{ProgramLine, ProgramLines};
use crate::trace::value::{Reader, TraceValue, number, pod};

/// Describes the effects of the events of one host's program.
pub struct Tracer {
    program: Arc<dyn Program>,
    host: SharedName,
    /// The start of the run on the host's clock.
    start: Instant,
    interpreter: Interpreter,
    member_size: Vec<u32>,
    lines: ProgramLines,
    /// The first line of each function.
    functions: Vec<ProgramLine>,
    names: ProgramNames,
    /// The fields of each event, and of each context type.
    events: Vec<Vec<Leaf>>,
    contexts: Vec<Vec<Leaf>>,
    /// The number of events so far.
    number: u64,
    steps: Steps,
    records: RecordBuf,
    /// The memory on which an event is repeated.
    memory: MemorySnapshot,
}

/// The identification of a wanted event.
#[derive(Clone, Copy)]
pub(crate) struct WantedEvent {
    /// The event's number on its host.
    pub(crate) number: u64,
    /// The event's flow.
    pub(crate) flow: Option<usize>,
}

/// A context that a chain could change.
struct Looked<'a> {
    id: ContextId,
    memory: LastingMemory,
    before: &'a [u8],
    after: &'a [u8],
}

impl Tracer {
    /// Creates a tracer for the program on a host. `start` is the time on its clock when the run began.
    ///
    /// # Errors
    /// A construct of the program that the interpreter does not run yet.
    pub fn new(program: &Arc<dyn Program>, host: &str, start: Instant) -> Result<Tracer, Unsupported> {
        let module = Arc::new(program.module().clone());
        let member_size = module.member_sizes();
        let layout = Layout { structs: &module.structs, member_size: &member_size };
        let names = ProgramNames::from_module(&module);
        let reader = Reader { module: &module, layout, names: Cow::Borrowed(&names), start };
        let of = |structure: StructId| leaves(&reader, structure);
        let events = module.events.iter().map(|event| of(event.body)).collect();
        let contexts = module.contexts.iter().map(|context| of(context.body)).collect();
        let lines = ProgramLines::from_module(&module);
        let functions = module
            .funcs
            .iter()
            .map(|function| lines.line(function.span))
            .collect();
        Ok(Tracer {
            program: Arc::clone(program),
            host: SharedName::new(host),
            start,
            events,
            contexts,
            lines,
            functions,
            names,
            interpreter: Interpreter::new(Arc::clone(&module), program.params().to_vec())?,
            member_size,
            number: 0,
            steps: Steps::default(),
            records: RecordBuf::default(),
            memory: MemorySnapshot::default(),
        })
    }

    /// Continues the event numbers of another tracer.
    pub(crate) fn count_on(&mut self, before: &Tracer) {
        self.number = before.number;
    }

    /// Describes the effects of an event, if it is wanted. All events of the host must be shown in order, so
    /// that their numbers are correct.
    pub fn event(&mut self, shown: &TapEvent<'_>, filter: &Filter, flows: &Flows) -> Option<TracedEvent> {
        let wanted = self.wanted(shown, filter, flows)?;
        Some(self.say(shown, wanted))
    }

    /// Returns whether an event is wanted, without repeating it. All events of the host must be shown in
    /// order.
    pub(crate) fn wanted(
        &mut self,
        shown: &TapEvent<'_>,
        filter: &Filter,
        flows: &Flows,
    ) -> Option<WantedEvent> {
        self.number += u64::from(!shown.event.is_empty());
        self.follow(shown.program);
        let causes = shown.first_cause..shown.first_cause + shown.records.iter().count() as u32;
        if !filter.admits(&self.host, shown.now - self.start, &causes) {
            return None;
        }
        // A context that a listener creates belongs to one flow, even if the listener itself belongs to
        // several.
        let contexts = [shown.fresh, shown.context].into_iter().flatten();
        let flow = contexts
            .filter_map(|(id, bytes)| self.ends(id, bytes))
            .find_map(|[local, remote]| flows.find(&self.host, local, remote));
        let is_of_flow = filter.flow.is_none() || filter.flow == flow;
        let is_of_field = |field: &String| self.changes_field(shown, field);
        let is_wanted = is_of_flow && filter.field.as_ref().is_none_or(is_of_field);
        is_wanted.then_some(WantedEvent { number: self.number, flow })
    }

    /// Describes the effects of a wanted event. Such events are independent of each other, so that another
    /// tracer of the same host may describe it.
    pub(crate) fn say(&mut self, shown: &TapEvent<'_>, wanted: WantedEvent) -> TracedEvent {
        self.follow(shown.program);
        if shown.outcome.is_some() {
            self.repeat(shown);
        }
        self.describe(shown, wanted)
    }

    /// Follows a change of program or params.
    fn follow(&mut self, program: &Arc<dyn Program>) {
        if Arc::ptr_eq(&self.program, program) {
            return;
        }
        // If the interpreter does not run the new program, the names of the old one are used as far as they
        // go, without lines.
        if let Ok(tracer) = Tracer::new(program, &self.host, self.start) {
            *self = Tracer { number: self.number, ..tracer };
        }
    }

    /// Returns the tracer's host.
    pub(crate) fn host(&self) -> &SharedName {
        &self.host
    }

    /// Describes a packet that the host received.
    pub(crate) fn received(&self, packet: &ReceivedPacket) -> Decoded {
        decode(
            &self.interpreter,
            &self.reader(),
            packet.parser,
            &packet.net,
            &packet.bytes,
        )
    }

    /// Describes an IP packet that the host sent.
    pub(crate) fn decode(&self, packet: &[u8]) -> Decoded {
        let opened = network(packet).and_then(|(mut net, bytes)| {
            let bytes = behind_udp(&self.interpreter, &mut net, bytes)?;
            Some((net, bytes))
        });
        opened.map_or_else(Decoded::default, |(net, bytes)| {
            let parser = parser_of(&self.interpreter, &net);
            decode(&self.interpreter, &self.reader(), parser, &net, bytes)
        })
    }

    fn reader(&self) -> Reader<'_> {
        let module = self.interpreter.module();
        Reader {
            module,
            layout: Layout { structs: &module.structs, member_size: &self.member_size },
            names: Cow::Borrowed(&self.names),
            start: self.start,
        }
    }

    /// Returns the ends of a context's connection, its own first.
    fn ends(&self, context: ContextId, bytes: &[u8]) -> Option<[SocketAddr; 2]> {
        let contexts = &self.interpreter.module().contexts;
        let ends = contexts.get(context.0 as usize)?.ends.as_ref()?;
        let pairs = [
            (ends.local_ip, ends.local_port),
            (ends.remote_ip, ends.remote_port),
        ];
        Some(pairs.map(|(ip, port)| end_at(bytes, ip, port)))
    }

    /// Returns whether this field has a new value.
    fn changes_field(&self, shown: &TapEvent<'_>, field: &str) -> bool {
        looked(shown).any(|looked| {
            let index = looked.id.0 as usize;
            let leaves = self.contexts.get(index).map_or(&[][..], Vec::as_slice);
            let mut changed = leaves
                .iter()
                .filter(|leaf| !leaf.is_same(looked.before, looked.after));
            changed.any(|leaf| is_field(field, &self.names.contexts[index], &leaf.name))
        })
    }

    /// Lets the interpreter repeat the event on its original memory, observed.
    fn repeat(&mut self, shown: &TapEvent<'_>) {
        copy_before(shown.before, &mut self.memory);
        let MemorySnapshot { event, keyed, fresh, globals, scratch } = &mut self.memory;
        let mut regions = Regions {
            keyed: keyed.as_mut().map(|(id, bytes)| (*id, bytes.as_mut_slice())),
            fresh: fresh.as_deref_mut(),
            globals,
            scratch,
        };
        self.records.clear();
        self.records.want(shown.records.wanted());
        self.interpreter
            .react_watched(event, &mut regions, &mut self.records, &mut self.steps);
        if self.records.bytes() != shown.records.bytes() {
            // Another program has replaced this one in the meantime. Unknown lines are not guessed.
            self.steps = Steps::default();
        }
    }

    fn describe(&self, shown: &TapEvent<'_>, wanted: WantedEvent) -> TracedEvent {
        let module: &Module = self.interpreter.module();
        let reader = self.reader();
        if shown.event.is_empty() {
            return self.not_parsed(shown, wanted);
        }
        let header: EventHeader = event_header(shown.event);
        let index = usize::from(header.event);
        let event = module.events.get(index);
        let fields = self.events.get(index).map_or(&[][..], Vec::as_slice);
        let values = fields
            .iter()
            .map(|leaf| (leaf.name.clone(), leaf.value(&reader, &shown.before.event)));
        let ran = shown.outcome.is_some();
        let (outcome, why) = match shown.outcome {
            None => ("not run", None),
            Some(ChainOutcome::Done) => ("done", None),
            Some(ChainOutcome::Stop) => ("stopped", None),
            Some(ChainOutcome::Refused(code)) => ("refused", Some(format!("error {code}"))),
            Some(ChainOutcome::Assert(index)) => {
                let text = module.asserts.get(index as usize).map(|(_, text)| text.clone());
                ("assert", text)
            }
        };
        TracedEvent {
            at_ns: hawser_time::nanos(shown.now - self.start),
            host: self.host.clone(),
            number: wanted.number,
            flow: wanted.flow,
            event: self.names.events.get(index).cloned().unwrap_or_default(),
            source: event.map_or("unknown", |event| source(event.kind)),
            packet: None,
            fields: values.filter(|(name, value)| !is_handle(name, value)).collect(),
            context: shown.context.map(|(id, bytes)| self.context(id, bytes)),
            created: shown.fresh.map(|(id, bytes)| self.context(id, bytes)),
            processors: if ran { self.processors() } else { Vec::new() },
            changes: if ran {
                self.changes(&reader, shown)
            } else {
                Vec::new()
            },
            instructions: if ran {
                self.instructions(&reader, shown)
            } else {
                Vec::new()
            },
            first_cause: shown.first_cause,
            outcome,
            why,
            counted: counts(shown, None),
        }
    }

    /// Describes an input that gave no event.
    fn not_parsed(&self, shown: &TapEvent<'_>, wanted: WantedEvent) -> TracedEvent {
        let module = self.interpreter.module();
        let parser = shown.refused_by.and_then(|parser| module.parsers.get(parser));
        let function = parser.map(|parser| parser.func.0 as usize);
        let is_request = parser.is_some_and(|parser| matches!(parser.source, ParserInput::App(_)));
        TracedEvent {
            at_ns: hawser_time::nanos(shown.now - self.start),
            host: self.host.clone(),
            number: 0,
            flow: wanted.flow,
            event: function.map_or_else(SharedName::default, |function| {
                self.names.functions[function].clone()
            }),
            source: if is_request { "request" } else { "packet" },
            fields: Vec::new(),
            packet: None,
            context: None,
            created: None,
            processors: function
                .map(|function| self.processor(function))
                .into_iter()
                .collect(),
            changes: Vec::new(),
            instructions: Vec::new(),
            first_cause: shown.first_cause,
            outcome: "not parsed",
            why: None,
            counted: counts(shown, None),
        }
    }

    /// Describes a context by its type, with its connection's ends if it states them.
    fn context(&self, id: ContextId, bytes: &[u8]) -> Context {
        let name = self.names.contexts.get(id.0 as usize).cloned();
        ends(self.interpreter.module(), id, bytes, name.unwrap_or_default())
    }

    fn processor(&self, function: usize) -> Processor {
        Processor {
            processor: self.names.functions[function].clone(),
            line: self.functions[function].clone(),
        }
    }

    fn processors(&self) -> Vec<Processor> {
        let functions = self.steps.processors.iter();
        functions.map(|id| self.processor(id.0 as usize)).collect()
    }

    fn changes(&self, reader: &Reader<'_>, shown: &TapEvent<'_>) -> Vec<FieldChange> {
        let mut changes = Vec::new();
        for looked in looked(shown) {
            let Some(leaves) = self.contexts.get(looked.id.0 as usize) else {
                continue;
            };
            if looked.before == looked.after {
                continue;
            }
            let changed = leaves
                .iter()
                .filter(|leaf| !leaf.is_same(looked.before, looked.after));
            let changed: Vec<&Leaf> = changed.collect();
            let writers = self.writers(looked.memory, &changed);
            changes.extend(changed.iter().zip(writers).map(|(leaf, writer)| FieldChange {
                context: self.names.contexts[looked.id.0 as usize].clone(),
                field: leaf.name.clone(),
                old: leaf.value(reader, looked.before),
                new: leaf.value(reader, looked.after),
                line: writer.map_or_else(ProgramLine::default, |span| self.lines.line(span)),
            }));
        }
        changes
    }

    /// Returns, for each of these fields, the last statement that wrote it.
    fn writers(&self, memory: LastingMemory, fields: &[&Leaf]) -> Vec<Option<Span>> {
        let mut writers = vec![None; fields.len()];
        // The fields are sorted by place. They do not overlap.
        let mut order: Vec<usize> = (0..fields.len()).collect();
        order.sort_unstable_by_key(|field| fields[*field].bytes.start);
        let mut left = fields.len();
        let writes = self.steps.writes.iter().rev();
        for write in writes.filter(|write| write.memory == memory) {
            let first = order.partition_point(|field| fields[*field].bytes.end <= write.bytes.start);
            let after = order[first..].iter();
            for field in after.take_while(|field| fields[**field].bytes.start < write.bytes.end) {
                left -= usize::from(writers[*field].is_none());
                writers[*field].get_or_insert(write.span);
            }
            if left == 0 {
                break;
            }
        }
        writers
    }

    fn instructions(&self, reader: &Reader<'_>, shown: &TapEvent<'_>) -> Vec<TracedInstruction> {
        let subject =
            |context: ContextId, bytes: &[u8]| ChainContext { context, id: pod::<ContextHeader>(bytes).id };
        let keyed = shown
            .before
            .keyed
            .as_ref()
            .map(|(context, bytes)| subject(*context, bytes));
        let fresh = shown.fresh.map(|(context, bytes)| subject(context, bytes));
        let records = shown.records.iter().enumerate();
        records
            .map(|(index, record)| {
                let (instruction, arguments) = describe(reader, &record, keyed, fresh);
                let span = self.steps.records.get(index);
                TracedInstruction {
                    instruction,
                    arguments,
                    line: span.map_or_else(ProgramLine::default, |span| self.lines.line(*span)),
                    packet: None,
                    counted: counts(shown, Some(index)),
                }
            })
            .collect()
    }
}

/// Returns the cause of events of a kind.
fn source(kind: EventKind) -> &'static str {
    match kind {
        EventKind::App => "request",
        EventKind::Net => "packet",
        EventKind::Timer => "timer",
        EventKind::Sys => "start",
        EventKind::Internal => "raise",
    }
}

/// Returns whether a value is a reference to bytes that the engine holds, which is of no use to a reader.
fn is_handle(name: &str, value: &TraceValue) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last == "addr" && matches!(value, TraceValue::Number(_))
}

/// Returns the end of a connection whose address and port are at these places.
fn end_at(bytes: &[u8], ip: u32, port: u32) -> SocketAddr {
    let address: [u8; 16] = pod(bytes.get(ip as usize..).unwrap_or(&[]));
    let port = number(bytes.get(port as usize..).unwrap_or(&[]), 2) as u16;
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)).to_canonical(), port)
}

/// Describes a context by its type, with its connection's ends if it states them.
#[must_use]
pub fn context(module: &Module, id: ContextId, bytes: &[u8]) -> Context {
    let known = module.contexts.get(id.0 as usize);
    let name = known.map_or_else(SharedName::default, |context| SharedName::new(&context.name));
    ends(module, id, bytes, name)
}

/// Returns whether a context of the program has a field of this name: `cc.cwnd`, or `tcp_conn.cc.cwnd`.
#[must_use]
pub fn has_field(module: &Module, wanted: &str) -> bool {
    let member_size = module.member_sizes();
    let reader = Reader::new(module, &member_size, Instant::ORIGIN);
    module.contexts.iter().any(|context| {
        let mut fields = leaves(&reader, context.body).into_iter();
        fields.any(|field| is_field(wanted, &context.name, &field.name))
    })
}

/// Returns a context with this name and its connection's ends.
fn ends(module: &Module, id: ContextId, bytes: &[u8], name: SharedName) -> Context {
    let ends = module
        .contexts
        .get(id.0 as usize)
        .and_then(|context| context.ends.as_ref());
    let shown = |end: SocketAddr| (end.port() > 0 || !end.ip().is_unspecified()).then_some(end);
    let at = |pick: fn(&EndpointOffsets) -> (u32, u32)| {
        let (ip, port) = pick(ends?);
        shown(end_at(bytes, ip, port))
    };
    Context {
        context: name,
        local: at(|ends| (ends.local_ip, ends.local_port)),
        remote: at(|ends| (ends.remote_ip, ends.remote_port)),
    }
}

/// Returns the contexts that a chain could change.
fn looked<'a>(shown: &TapEvent<'a>) -> impl Iterator<Item = Looked<'a>> {
    let keyed = shown.before.keyed.as_ref().zip(shown.context);
    let keyed = keyed.map(|((id, before), (_, after))| Looked {
        id: *id,
        memory: LastingMemory::Keyed,
        before,
        after,
    });
    let globals = shown.before.globals.iter().zip(shown.globals).enumerate();
    let globals = globals.filter(|(_, (before, _))| !before.is_empty());
    let globals = globals.map(|(index, (before, after))| Looked {
        id: ContextId(index as u32),
        memory: LastingMemory::Global(ContextId(index as u32)),
        before,
        after,
    });
    keyed.into_iter().chain(globals)
}

/// Returns the engine's counts of a record, or of the event itself.
fn counts(shown: &TapEvent<'_>, record: Option<usize>) -> Vec<CounterChange> {
    let of_it = shown.counted.iter().filter(|counted| counted.record == record);
    of_it
        .filter(|counted| !StackCounters::WORK.contains(&counted.counter))
        .map(|counted| CounterChange { counter: counted.counter, by: counted.by })
        .collect()
}
