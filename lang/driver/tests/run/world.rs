//! A minimal engine for tests: contexts by id, one event after another, and a log. It does not send packets,
//! and no timer fires by itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hawser_interp::Interpreter;
use hawser_ir::abi::{
    ChainOutcome, ContextHeader, ContextRec, EventHeader, Id, ON_FRESH, Op, Packet, ParseError, RaiseRec,
    RecordKind,
};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::{ContextId, Granularity, Module, ParserInput};

use crate::show;
use crate::steps::Step;

/// The value of `ev.rand` in every event.
const RAND: u64 = 0x0123_4567_89ab_cdef;

struct Context {
    kind: ContextId,
    bytes: Vec<u8>,
}

/// A program, its contexts, and the output so far.
pub(crate) struct World<'a> {
    program: &'a Interpreter,
    module: &'a Module,
    contexts: Vec<Option<Context>>,
    ids: BTreeMap<Id, usize>,
    globals: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    now: u64,
    out: String,
}

impl<'a> World<'a> {
    pub(crate) fn new(program: &'a Interpreter) -> World<'a> {
        let module: &Module = program.module();
        let global = |(i, context): (usize, &hawser_ir::Context)| match context.granularity {
            Granularity::Global => initial(module, ContextId(i as u32)),
            Granularity::Flow | Granularity::Shard => Vec::new(),
        };
        World {
            program,
            module,
            contexts: Vec::new(),
            ids: BTreeMap::new(),
            globals: module.contexts.iter().enumerate().map(global).collect(),
            scratch: vec![0; module.scratch.map_or(0, |id| module.structure(id).size as usize)],
            now: 1000,
            out: String::new(),
        }
    }

    /// Performs a step.
    pub(crate) fn step(&mut self, line: &str, step: Step) -> Result<(), String> {
        let _ = writeln!(self.out, "{line}");
        match step {
            Step::Start => self.input(ParserInput::Start, Input::Start, None),
            Step::App(kind, op) => self.input(ParserInput::App(kind), Input::App(kind, &op), Some(&op)),
            Step::Packet { mut net, bytes, csum, icmp } => {
                let carries =
                    |p: &&hawser_ir::Parser| matches!(p.source, ParserInput::Ip(_) | ParserInput::Udp(_));
                let source = self.module.parsers.iter().find(carries).map(|p| p.source);
                if let (Some(ParserInput::Ip(number)), 0) = (source, net.protocol) {
                    net.protocol = number;
                }
                let addr = hawser_ir::abi::addr(0, 0);
                let packet = Packet { net: &net, head: &bytes, tail: &[], merged: 0, addr, csum, crc: None };
                match &icmp {
                    Some(icmp) => self.input(ParserInput::IcmpError, Input::Icmp(packet, icmp), None),
                    None => self.input(
                        source.ok_or("no parser for packets")?,
                        Input::Packet(packet),
                        None,
                    ),
                }
            }
            Step::Timer { context, timer } => self.timer(&context, &timer),
            Step::Now(now) => {
                self.now = now;
                Ok(())
            }
        }
    }

    /// Prints all contexts after the last step.
    pub(crate) fn finish(mut self) -> String {
        let globals = self
            .module
            .contexts
            .iter()
            .zip(&self.globals)
            .filter(|(_, bytes)| !bytes.is_empty());
        for (context, bytes) in globals {
            let _ = writeln!(self.out, "{}", show::context(self.module, context, bytes));
        }
        for Context { kind, bytes } in self.contexts.iter().flatten() {
            let context = &self.module.contexts[kind.0 as usize];
            let _ = writeln!(self.out, "{}", show::context(self.module, context, bytes));
        }
        self.out
    }

    /// Parses an input and runs the chains of its events.
    fn input(&mut self, source: ParserInput, input: Input<'_>, op: Option<&Op>) -> Result<(), String> {
        let (parser, _) = self
            .module
            .parser(source)
            .ok_or_else(|| format!("no parser for {source:?}"))?;
        let mut events = EventBuf::default();
        if let Err(error) = self.program.parse(parser, input, &mut events) {
            let _ = writeln!(self.out, "  dropped: {}", drop_name(error));
        }
        self.scratch.fill(0);
        for i in 0..events.len() {
            let event = events.get_mut(i);
            let mut header = event_header(event);
            if let (0, Some(op)) = (header.ids, op) {
                (header.ids, header.id[0]) = (1, op.self_id);
                set_event_header(event, &header);
            }
            if self.event(event, None)? == ChainOutcome::Stop {
                break;
            }
        }
        Ok(())
    }

    fn timer(&mut self, context: &str, timer: &str) -> Result<(), String> {
        let kinds = &self.module.contexts;
        let kind = kinds
            .iter()
            .position(|c| c.name == context)
            .ok_or("no such context type")?;
        let index = self
            .contexts
            .iter()
            .position(|c| c.as_ref().is_some_and(|c| c.kind.0 as usize == kind));
        let timer = kinds[kind]
            .timers
            .iter()
            .find(|t| t.name == timer)
            .ok_or("no such timer")?;
        let mut event = vec![0; self.module.event_size(timer.event)];
        let header = EventHeader { event: timer.event.0 as u16, ..event_header(&event) };
        set_event_header(&mut event, &header);
        self.scratch.fill(0);
        self.event(&mut event, Some(index.ok_or("no such context")?))
            .map(|_| ())
    }

    /// Runs one event's chain, then executes its records, then the events that it raised.
    fn event(&mut self, event: &mut [u8], carried: Option<usize>) -> Result<ChainOutcome, String> {
        let mut header = event_header(event);
        (header.now, header.rand) = (self.now, RAND);
        set_event_header(event, &header);
        let ids = &header.id[..usize::from(header.ids)];
        let found = carried.or_else(|| ids.iter().find_map(|id| self.ids.get(id).copied()));
        let free = ids
            .iter()
            .find(|id| !id.is_none() && !self.ids.contains_key(id))
            .copied();

        let creates = self.module.chains[usize::from(header.event)].creates;
        let mut fresh = creates.zip(free).map(|(kind, id)| {
            let mut bytes = vec![0; self.module.context_size(kind)];
            bytes[..size_of::<ContextHeader>()].copy_from_slice(bytemuck::bytes_of(&ContextHeader { id }));
            bytes
        });
        let keyed = found.and_then(|i| self.contexts[i].as_mut());
        let mut records = RecordBuf::default();
        let mut regions = Regions {
            keyed: keyed.map(|c| (c.kind, c.bytes.as_mut_slice())),
            fresh: fresh.as_deref_mut(),
            globals: &mut self.globals,
            scratch: &mut self.scratch,
        };
        let outcome = self.program.react(event, &mut regions, &mut records);
        let name = &self.module.events[usize::from(header.event)].name;
        let _ = writeln!(self.out, "  {name}: {}", show::outcome(self.module, outcome));
        let kind = found.and_then(|i| self.contexts[i].as_ref()).map(|c| c.kind);
        for record in records.iter() {
            let on = if record.on == ON_FRESH { creates } else { kind };
            self.out += &show::record(self.program, on, &record);
        }
        self.execute(&records, found, fresh)?;
        Ok(outcome)
    }

    /// Executes the records that concern contexts and events.
    fn execute(
        &mut self,
        records: &RecordBuf,
        keyed: Option<usize>,
        mut fresh: Option<Vec<u8>>,
    ) -> Result<(), String> {
        let mut created = None;
        let mut raised = Vec::new();
        for record in records.iter() {
            let subject = if record.on == ON_FRESH { created } else { keyed };
            match record.kind {
                RecordKind::NewContext => {
                    let made: ContextRec = record.fixed();
                    let bytes = fresh.take().ok_or("a second context in one chain")?;
                    created = Some(self.contexts.len());
                    self.ids.insert(made.id, self.contexts.len());
                    self.contexts
                        .push(Some(Context { kind: ContextId(made.context), bytes }));
                }
                RecordKind::DelContext => {
                    let gone = subject.ok_or("del_ctx without a context")?;
                    self.contexts[gone] = None;
                    self.ids.retain(|_, index| *index != gone);
                }
                RecordKind::AddId => {
                    let alias: ContextRec = record.fixed();
                    self.ids
                        .insert(alias.id, subject.ok_or("add_id without a context")?);
                }
                RecordKind::DropId => {
                    self.ids.remove(&record.fixed::<ContextRec>().id);
                }
                RecordKind::Raise => {
                    let target = record.fixed::<RaiseRec>().target;
                    raised.push((target, record.tail::<RaiseRec>().to_vec()));
                }
                RecordKind::NewTx
                | RecordKind::AddTx
                | RecordKind::FlushTx
                | RecordKind::NewRx
                | RecordKind::AddRx
                | RecordKind::FlushRx
                | RecordKind::Packet
                | RecordKind::TimerStart
                | RecordKind::TimerStop
                | RecordKind::Notify
                | RecordKind::Signal
                | RecordKind::QueueRate
                | RecordKind::QueuePrio
                | RecordKind::QueueReset
                | RecordKind::Extern
                | RecordKind::DelTx
                | RecordKind::DelRx => {}
            }
        }
        for (target, mut event) in raised {
            let carried = if target.is_none() {
                None
            } else {
                self.ids.get(&target).copied()
            };
            self.event(&mut event, carried)?;
        }
        Ok(())
    }
}

/// Returns a context of a type in its initial state.
fn initial(module: &Module, kind: ContextId) -> Vec<u8> {
    let mut bytes = vec![0; module.context_size(kind)];
    let structure = module.structure(module.contexts[kind.0 as usize].body);
    for field in &structure.fields {
        if let Some(value) = field.default {
            let size = show::size(module, &field.ty).min(8);
            let at = field.offset as usize;
            bytes[at..at + size].copy_from_slice(&value.to_ne_bytes()[..size]);
        }
    }
    bytes
}

fn drop_name(error: ParseError) -> &'static str {
    match error {
        ParseError::Truncated => "truncated",
        ParseError::Checksum => "checksum",
        ParseError::Length => "length",
        ParseError::Frame => "frame",
        ParseError::Events => "events",
    }
}
