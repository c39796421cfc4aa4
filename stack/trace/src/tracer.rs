//! From what the engine shows of an event to what is said of it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_engine::{Counters, TapEvent};
use hawser_interp::{Interpreter, Memory, Steps, Unsupported, Write};
use hawser_ir::abi::{ContextHeader, EventHeader, Outcome};
use hawser_ir::buf::{RecordBuf, Regions, event_header};
use hawser_ir::{ContextId, Ends, EventKind, Layout, Module, StructId};
use hawser_time::Instant;

use crate::event::{Change, Context, Count, Event, Instruction, Processor};
use crate::fields::{Leaf, leaves};
use crate::instruction::{Subject, describe};
use crate::source::{Line, Lines};
use crate::value::{Reader, Value, number, pod};

/// Says what each event of one host's program did.
#[derive(Debug)]
pub struct Tracer {
    host: String,
    /// When the run began on the host's clock.
    start: Instant,
    interpreter: Interpreter,
    member_size: Vec<u32>,
    lines: Lines,
    /// By event, and by context: its fields.
    events: Vec<Vec<Leaf>>,
    contexts: Vec<Vec<Leaf>>,
    /// Events so far.
    number: u64,
    steps: Steps,
    records: RecordBuf,
}

/// A context that a chain could change.
struct Looked<'a> {
    id: ContextId,
    memory: Memory,
    before: &'a [u8],
    after: &'a [u8],
}

impl Tracer {
    /// For the program that runs on a host; `start` is what its clock showed when the run began.
    ///
    /// # Errors
    /// A construct of the program that the interpreter does not run yet.
    pub fn new(program: &dyn Program, host: &str, start: Instant) -> Result<Tracer, Unsupported> {
        let module = Arc::new(program.module().clone());
        let member_size = module.member_sizes();
        let layout = Layout {
            structs: &module.structs,
            member_size: &member_size,
        };
        let reader = Reader {
            module: &module,
            layout,
            start,
        };
        let of = |structure: StructId| leaves(&reader, structure);
        Ok(Tracer {
            host: host.to_owned(),
            start,
            events: module.events.iter().map(|event| of(event.body)).collect(),
            contexts: module.contexts.iter().map(|context| of(context.body)).collect(),
            lines: Lines::of(&module),
            interpreter: Interpreter::new(Arc::clone(&module), program.params().to_vec())?,
            member_size,
            number: 0,
            steps: Steps::default(),
            records: RecordBuf::default(),
        })
    }

    /// Says what an event did. Each event of the host has to be shown, in order, so that numbers are right; `wanted`
    /// is asked whether anything is to be found out about this one.
    pub fn event(
        &mut self,
        shown: &TapEvent<'_>,
        wanted: impl FnOnce(&str, Duration, &Range<u32>) -> bool,
    ) -> Option<Event> {
        self.number += 1;
        let causes = shown.first_cause..shown.first_cause + shown.records.iter().count() as u32;
        if !wanted(&self.host, shown.now - self.start, &causes) {
            return None;
        }
        if shown.outcome.is_some() {
            self.repeat(shown);
        }
        Some(self.describe(shown))
    }

    /// Lets the interpreter run the event again, on the memory as it was, watched.
    fn repeat(&mut self, shown: &TapEvent<'_>) {
        let before = shown.before;
        let mut event = before.event.clone();
        let mut keyed = before.keyed.clone();
        let mut fresh = before.fresh.clone();
        let mut globals = before.globals.clone();
        let mut scratch = before.scratch.clone();
        let mut regions = Regions {
            keyed: keyed.as_mut().map(|(id, bytes)| (*id, bytes.as_mut_slice())),
            fresh: fresh.as_deref_mut(),
            globals: &mut globals,
            scratch: &mut scratch,
        };
        self.records.clear();
        self.records.want(shown.records.wanted());
        self.interpreter
            .react_watched(&mut event, &mut regions, &mut self.records, &mut self.steps);
        debug_assert_eq!(
            self.records.bytes(),
            shown.records.bytes(),
            "a program does the same again"
        );
    }

    fn describe(&self, shown: &TapEvent<'_>) -> Event {
        let module: &Module = self.interpreter.module();
        let reader = Reader {
            module,
            layout: Layout {
                structs: &module.structs,
                member_size: &self.member_size,
            },
            start: self.start,
        };
        let number: EventHeader = event_header(shown.event);
        let index = usize::from(number.event);
        let event = module.events.get(index);
        let fields = self.events.get(index).map_or(&[][..], Vec::as_slice);
        let values = fields
            .iter()
            .map(|leaf| (leaf.name.clone(), leaf.value(&reader, &shown.before.event)));
        let ran = shown.outcome.is_some();
        let (outcome, why) = match shown.outcome {
            None => ("not run", None),
            Some(Outcome::Done) => ("done", None),
            Some(Outcome::Stop) => ("stopped", None),
            Some(Outcome::Refused(code)) => ("refused", Some(format!("error {code}"))),
            Some(Outcome::Assert(index)) => {
                let text = module.asserts.get(index as usize).map(|(_, text)| text.clone());
                ("assert", text)
            }
        };
        Event {
            at_ns: hawser_time::nanos(shown.now - self.start),
            host: self.host.clone(),
            number: self.number,
            event: event.map_or_else(|| index.to_string(), |event| event.name.clone()),
            source: event.map_or("unknown", |event| source(event.kind)),
            fields: values.filter(|(name, value)| !is_handle(name, value)).collect(),
            context: shown.context.map(|(id, bytes)| context(module, id, bytes)),
            created: shown.fresh.map(|(id, bytes)| context(module, id, bytes)),
            processors: if ran { self.processors(module) } else { Vec::new() },
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

    fn processors(&self, module: &Module) -> Vec<Processor> {
        let functions = self
            .steps
            .processors
            .iter()
            .map(|id| &module.funcs[id.0 as usize]);
        functions
            .map(|function| Processor {
                processor: function.name.clone(),
                line: self.lines.line(function.span),
            })
            .collect()
    }

    fn changes(&self, reader: &Reader<'_>, shown: &TapEvent<'_>) -> Vec<Change> {
        let keyed = shown.before.keyed.as_ref().zip(shown.context);
        let keyed = keyed.map(|((id, before), (_, after))| Looked {
            id: *id,
            memory: Memory::Keyed,
            before,
            after,
        });
        let globals = shown.before.globals.iter().zip(shown.globals).enumerate();
        let globals =
            globals
                .filter(|(_, (before, _))| !before.is_empty())
                .map(|(index, (before, after))| Looked {
                    id: ContextId(index as u32),
                    memory: Memory::Global(ContextId(index as u32)),
                    before,
                    after,
                });
        let mut changes = Vec::new();
        for looked in keyed.into_iter().chain(globals) {
            let Some(leaves) = self.contexts.get(looked.id.0 as usize) else {
                continue;
            };
            let changed = leaves
                .iter()
                .filter(|leaf| !leaf.is_same(looked.before, looked.after));
            changes.extend(changed.map(|leaf| Change {
                context: reader.module.contexts[looked.id.0 as usize].name.clone(),
                field: leaf.name.clone(),
                old: leaf.value(reader, looked.before),
                new: leaf.value(reader, looked.after),
                line: self.writer(looked.memory, leaf),
            }));
        }
        changes
    }

    /// The statement that wrote a field last.
    fn writer(&self, memory: Memory, leaf: &Leaf) -> Line {
        let wrote = |write: &&Write| {
            write.memory == memory && write.bytes.start < leaf.bytes.end && leaf.bytes.start < write.bytes.end
        };
        let write = self.steps.writes.iter().rev().find(wrote);
        write.map_or_else(Line::default, |write| self.lines.line(write.span))
    }

    fn instructions(&self, reader: &Reader<'_>, shown: &TapEvent<'_>) -> Vec<Instruction> {
        let subject = |context: ContextId, bytes: &[u8]| Subject {
            context,
            id: pod::<ContextHeader>(bytes).id,
        };
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
                Instruction {
                    instruction,
                    arguments,
                    line: span.map_or_else(Line::default, |span| self.lines.line(*span)),
                    packet: None,
                    counted: counts(shown, Some(index)),
                }
            })
            .collect()
    }
}

/// What causes events of a kind.
fn source(kind: EventKind) -> &'static str {
    match kind {
        EventKind::App => "request",
        EventKind::Net => "packet",
        EventKind::Timer => "timer",
        EventKind::Sys => "start",
        EventKind::Internal => "raise",
    }
}

/// References to bytes that the engine holds mean nothing to a reader.
fn is_handle(name: &str, value: &Value) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last == "addr" && matches!(value, Value::Number(_))
}

/// A context by its type, with its connection's ends where it states them.
#[must_use]
pub fn context(module: &Module, id: ContextId, bytes: &[u8]) -> Context {
    let Some(context) = module.contexts.get(id.0 as usize) else {
        return Context {
            context: id.0.to_string(),
            local: None,
            remote: None,
        };
    };
    let end = |ip: u32, port: u32| {
        let address: [u8; 16] = pod(bytes.get(ip as usize..).unwrap_or(&[]));
        let port = number(bytes.get(port as usize..).unwrap_or(&[]), 2) as u16;
        (address, port)
    };
    let shown = |(address, port): ([u8; 16], u16)| {
        let known = port > 0 || address != [0; 16];
        known.then(|| SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)).to_canonical(), port))
    };
    let at = |pick: fn(&Ends) -> (u32, u32)| {
        let (ip, port) = pick(context.ends.as_ref()?);
        shown(end(ip, port))
    };
    Context {
        context: context.name.clone(),
        local: at(|ends| (ends.local_ip, ends.local_port)),
        remote: at(|ends| (ends.remote_ip, ends.remote_port)),
    }
}

/// What the engine counted of a record, or of the event itself.
fn counts(shown: &TapEvent<'_>, record: Option<usize>) -> Vec<Count> {
    let of_it = shown.counted.iter().filter(|counted| counted.record == record);
    of_it
        .filter(|counted| !Counters::WORK.contains(&counted.counter))
        .map(|counted| Count {
            counter: counted.counter,
            by: counted.by,
        })
        .collect()
}
