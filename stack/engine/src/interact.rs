//! The stack as a provider of the interactive layer: its program's signals are events, what the
//! program declares `observable` and `modifiable` are variables, each context is a flow.
//!
//! Nothing stands here for one transport: all comes from the declarations. A signal goes out after
//! its chain took effect, so that the variables that come with it are those after the event. What
//! somebody holds is written again after each chain of its context.

use hawser_bus::{
    Access, Change, EventId, EventType, Field, FlowId, FlowInfo, Kind, Schema, SchemaError, Source, State,
    Variable, VariableId,
};
use hawser_ir::abi::{RecordKind, SignalRec};
use hawser_ir::buf::RecordBuf;
use hawser_ir::{Context, ContextId, Module, StructId, Ty};

use crate::contexts::{Contexts, Slot};
use crate::scalar;
use crate::stack::Stack;
use crate::swap::Step;
use crate::wire::Nanos;

/// Where a scalar lies.
#[derive(Clone, Copy, Debug)]
struct At {
    offset: u32,
    len: u32,
}

/// A variable of contexts of one kind.
#[derive(Clone, Copy, Debug)]
struct Row {
    context: ContextId,
    at: At,
}

/// A signal of the program that runs.
#[derive(Debug)]
struct Signalled {
    /// Its number on the bus.
    event: EventId,
    scalars: Vec<At>,
}

/// The stack's end of the bus.
#[derive(Debug)]
pub(crate) struct Interactive {
    source: Source,
    /// By variable.
    rows: Vec<Row>,
    /// By signal of the program that runs.
    signals: Vec<Signalled>,
    /// That an assertion was false.
    failed: Option<EventId>,
    /// By context type: what its flows are called.
    kinds: Vec<String>,
    now: Nanos,
}

/// What a program offers to the interactive layer: `PROVIDER.SIGNAL` and `PROVIDER.CONTEXT.PATH`.
/// The provider is the program's name up to the first `-`, so that variants of one transport are one
/// provider; a context's name is without it. Beside the program's signals there is [`FAILED`].
///
/// # Errors
/// When the program declares more than a provider can have.
pub fn schema(module: &Module) -> Result<Schema, SchemaError> {
    let provider = provider(module);
    let field = |f: &hawser_ir::Field| Field {
        name: f.name.clone(),
        kind: kind(module, f),
    };
    let event = |(name, body): &(String, StructId)| EventType {
        name: format!("{provider}.{name}"),
        fields: module
            .structure(*body)
            .fields
            .iter()
            .filter(|f| f.ty.is_scalar())
            .map(field)
            .collect(),
    };
    let asserts = (0u64..)
        .zip(&module.asserts)
        .map(|(index, (_, text))| (index, text.clone()));
    let assertion = Field {
        name: "assertion".to_owned(),
        kind: Kind::Enum(asserts.collect()),
    };
    let failed = EventType {
        name: format!("{provider}.{FAILED}"),
        fields: vec![assertion],
    };
    let events = module.signals.iter().map(event).chain([failed]).collect();
    let mut about = Vec::new();
    for (name, body) in &module.signals {
        let of_it = module.notes.iter().filter(|(of, ..)| of == body);
        about.extend(of_it.map(|(_, field, text)| match field.as_str() {
            "" => (format!("{provider}.{name}"), text.clone()),
            field => (format!("{provider}.{name}.{field}"), text.clone()),
        }));
    }
    about.push((
        format!("{provider}.{FAILED}"),
        "an assertion or an invariant was false in a chain: a bug of the program, or of what is attached to it"
            .to_owned(),
    ));
    let observable = variables(module);
    about.extend(observable.iter().filter_map(|(variable, row)| {
        let (_, _, text) = module
            .notes
            .iter()
            .find(|(of, field, _)| *of == row.of && *field == row.field)?;
        Some((variable.name.clone(), text.clone()))
    }));
    let variables = observable.into_iter().map(|(variable, _)| variable).collect();
    Ok(Schema::new(provider, events, variables)?.described(about))
}

/// The event of every program: an assertion, or an invariant, was false in a chain.
const FAILED: &str = "assertion_failed";

fn provider(module: &Module) -> &str {
    module.name.split('-').next().unwrap_or(&module.name)
}

/// What flows of a context type are called.
fn context_kind(module: &Module, context: &Context) -> String {
    let bare = context
        .name
        .strip_prefix(provider(module))
        .and_then(|rest| rest.strip_prefix('_'));
    bare.unwrap_or(&context.name).to_owned()
}

fn kind(module: &Module, field: &hawser_ir::Field) -> Kind {
    match field.ty {
        Ty::Enum { index, .. } => match module.enums.get(index as usize) {
            Some(names) => Kind::Enum(names.variants.clone()),
            None => Kind::Number,
        },
        Ty::Bool => Kind::Bool,
        Ty::Duration => Kind::Duration,
        Ty::Time | Ty::Timer => Kind::Time,
        _ => Kind::Number,
    }
}

/// An observable scalar where it is declared.
struct Declared {
    row: Row,
    /// The structure that has it as a field, and what that is called.
    of: StructId,
    field: String,
}

/// The observable scalars of all keyed contexts, in order of declaration.
fn variables(module: &Module) -> Vec<(Variable, Declared)> {
    let mut out = Vec::new();
    for (index, context) in module.contexts.iter().enumerate() {
        let prefix = format!("{}.{}", provider(module), context_kind(module, context));
        walk(
            module,
            context.body,
            &prefix,
            0,
            ContextId(index as u32),
            &mut out,
        );
    }
    out
}

fn walk(
    module: &Module,
    body: StructId,
    prefix: &str,
    base: u32,
    context: ContextId,
    out: &mut Vec<(Variable, Declared)>,
) {
    for field in &module.structure(body).fields {
        let (name, offset) = (format!("{prefix}.{}", field.name), base + field.offset);
        if let Ty::Struct(part) = &field.ty {
            walk(module, *part, &name, offset, context, out);
        } else if field.access.observable
            && let Some(len) = scalar::size(&field.ty)
        {
            let access = match field.access.modifiable {
                Some((min, max)) => Access::Modifiable { min, max },
                None => Access::Observable,
            };
            let row = Row {
                context,
                at: At {
                    offset,
                    len: len as u32,
                },
            };
            let declared = Declared {
                row,
                of: body,
                field: field.name.clone(),
            };
            out.push((
                Variable {
                    name,
                    kind: kind(module, field),
                    access,
                },
                declared,
            ));
        }
    }
}

/// The signals of a program in a schema that has them.
fn signals(module: &Module, schema: &Schema) -> Vec<Signalled> {
    let provider = provider(module);
    let signal = |(name, body): &(String, StructId)| {
        let event = schema.event(&format!("{provider}.{name}"))?;
        Some(Signalled {
            event,
            scalars: signal_scalars(module, *body),
        })
    };
    // What it lacks is heard of by nobody: the schema was made of the module.
    module.signals.iter().map_while(signal).collect()
}

impl Interactive {
    /// The program's signals that somebody wants, each by its bit.
    fn wanted(&self) -> u64 {
        let bit = |(at, signal): (usize, &Signalled)| u64::from(self.source.wants(signal.event)) << at;
        self.signals
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |all, bit| all | bit)
    }
}

fn signal_scalars(module: &Module, body: StructId) -> Vec<At> {
    let fields = &module.structure(body).fields;
    let at = |f: &hawser_ir::Field| {
        Some(At {
            offset: f.offset,
            len: scalar::size(&f.ty)? as u32,
        })
    };
    fields
        .iter()
        .filter(|f| f.ty.is_scalar())
        .filter_map(at)
        .collect()
}

impl At {
    #[inline]
    fn load(self, bytes: &[u8]) -> u64 {
        let from = self.offset as usize;
        bytes.get(from..from + self.len as usize).map_or(0, scalar::load)
    }
}

/// The contexts as flows.
struct View<'a> {
    contexts: &'a mut Contexts,
    rows: &'a [Row],
    kinds: &'a [String],
}

impl View<'_> {
    /// The context of a flow, if it lives.
    #[inline]
    fn slot(&self, flow: FlowId) -> Option<Slot> {
        let (slot, generation) = (flow.0 as u32, (flow.0 >> 32) as u32);
        self.contexts.is_live(slot, generation).then_some(slot)
    }

    /// Where a flow has a variable.
    #[inline]
    fn place(&self, flow: FlowId, variable: VariableId) -> Option<(Slot, At)> {
        let slot = self.slot(flow)?;
        let row = self.rows.get(usize::from(variable.0))?;
        (self.contexts.entry(slot).kind == row.context).then_some((slot, row.at))
    }
}

impl State for View<'_> {
    #[inline]
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        let (slot, at) = self.place(flow, variable)?;
        Some(at.load(self.contexts.bytes(slot)))
    }

    fn write(&mut self, flow: FlowId, variable: VariableId, value: u64) -> bool {
        let Some((slot, at)) = self.place(flow, variable) else {
            return false;
        };
        let from = at.offset as usize;
        scalar::store(
            &mut self.contexts.bytes_mut(slot)[from..from + at.len as usize],
            value,
        );
        true
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        let entry = self.contexts.entry(self.slot(flow)?);
        Some(FlowInfo {
            kind: self.kinds.get(entry.kind.0 as usize).cloned().unwrap_or_default(),
            local: entry.flow.map(|flow| flow.local()),
            remote: entry.flow.and_then(|flow| flow.remote()),
            ..FlowInfo::default()
        })
    }

    fn flows(&self) -> Vec<FlowId> {
        self.contexts
            .living()
            .map(|slot| flow_id(self.contexts, slot))
            .collect()
    }
}

fn flow_id(contexts: &Contexts, slot: Slot) -> FlowId {
    FlowId(u64::from(contexts.entry(slot).generation) << 32 | u64::from(slot))
}

impl Stack {
    /// The tables of the program that runs.
    #[must_use]
    pub fn module(&self) -> &Module {
        self.program.module()
    }

    /// Publishes to the interactive layer from now on: `source` is this stack's end of a bus, made for
    /// the [`schema`] of its program. Orders are taken by [`Stack::poll`]; so is each [`Step`] that an
    /// attachable source has.
    pub fn interact(&mut self, source: Source) {
        let module = self.program.module();
        self.interactive = Some(Box::new(Interactive {
            rows: variables(module)
                .into_iter()
                .map(|(_, declared)| declared.row)
                .collect(),
            signals: signals(module, source.schema()),
            failed: source.schema().event(&format!("{}.{FAILED}", provider(module))),
            kinds: module
                .contexts
                .iter()
                .map(|context| context_kind(module, context))
                .collect(),
            now: 0,
            source,
        }));
    }

    /// Offers what another program of the same memory has: its signals, which may be others.
    pub(crate) fn offer(&mut self, module: &Module) -> Result<(), SchemaError> {
        let Some(interactive) = &mut self.interactive else {
            return Ok(());
        };
        interactive.source.offer(&schema(module)?)?;
        interactive.signals = signals(module, interactive.source.schema());
        self.records.want(interactive.wanted());
        Ok(())
    }

    /// Writes into the bus's log that `who` has changed what is attached to the program, past the bus.
    pub fn note_change(&mut self, now: Nanos, who: &str, change: Change<'_>) {
        if let Some(interactive) = &mut self.interactive {
            interactive.source.note_change(now, who, change);
        }
    }

    /// Those who listen are woken once for a turn of the stack, when what it sends has left.
    pub(crate) fn batch_signals(&mut self, begins: bool) {
        if let Some(Interactive { source, .. }) = self.interactive.as_deref_mut() {
            if begins {
                source.begin_batch()
            } else {
                source.end_batch()
            }
        }
    }

    /// Takes the bus's orders; true when it did something.
    pub(crate) fn poll_source(&mut self, now: Nanos) -> bool {
        let Some(interactive) = &mut self.interactive else {
            return false;
        };
        let Interactive {
            source, rows, kinds, ..
        } = &mut **interactive;
        let any = source.poll(
            now,
            &mut View {
                contexts: &mut self.contexts,
                rows,
                kinds,
            },
        );
        interactive.now = now;
        self.records.want(interactive.wanted());
        if any {
            self.take_steps(now);
        }
        any
    }

    /// Takes the changes of what is attached to the program.
    fn take_steps(&mut self, now: Nanos) {
        while let Some((stepping, step)) = self
            .interactive
            .as_mut()
            .and_then(|interactive| interactive.source.next_step())
        {
            let result = match step.downcast::<Step>() {
                Ok(step) => step(&mut |program| self.swap_program(program)),
                Err(_) => Err("what is attached is not for a stack".to_owned()),
            };
            if let Some(interactive) = &mut self.interactive {
                interactive.source.stepped(now, stepping, result);
            }
        }
    }

    /// When [`Stack::poll_source`] has something to do.
    pub(crate) fn source_deadline(&self) -> Option<Nanos> {
        self.interactive.as_ref()?.source.next_deadline()
    }

    /// After a chain: its signals go out, and what is held of its contexts stays.
    pub(crate) fn interact_after(
        &mut self,
        now: Nanos,
        [keyed, fresh]: [Option<Slot>; 2],
        records: &RecordBuf,
        signalled: bool,
    ) {
        let Some(interactive) = &mut self.interactive else {
            return;
        };
        let Interactive {
            source,
            rows,
            signals,
            kinds,
            now: latest,
            ..
        } = &mut **interactive;
        *latest = now;
        if !signalled && source.holds().is_empty() {
            return;
        }
        let mut view = View {
            contexts: &mut self.contexts,
            rows,
            kinds,
        };
        for slot in [keyed, fresh].into_iter().flatten() {
            source.settle(flow_id(view.contexts, slot), &mut view);
        }
        let subject = keyed.or(fresh);
        let Some(slot) = subject.filter(|_| signalled) else {
            return;
        };
        for record in records.iter().filter(|record| record.kind == RecordKind::Signal) {
            let slot = fresh
                .filter(|_| record.on == hawser_ir::abi::ON_FRESH)
                .unwrap_or(slot);
            let number = record.view::<SignalRec>().signal as usize;
            let Some(Signalled { event, scalars }) = signals.get(number) else {
                continue;
            };
            let event = *event;
            if !source.wants(event) {
                continue;
            }
            let bytes = record.tail::<SignalRec>();
            let mut values = [0; hawser_bus::MAX_FIELDS];
            for (value, at) in values.iter_mut().zip(scalars) {
                *value = at.load(bytes);
            }
            let flow = flow_id(view.contexts, slot);
            source.publish(
                now,
                flow,
                event,
                &values[..scalars.len().min(values.len())],
                &mut view,
            );
        }
    }

    /// An assertion was false in the chain of an event, which is told of the context that it ran on.
    #[cold]
    pub(crate) fn interact_failed(&mut self, now: Nanos, slot: Option<Slot>, event: u32, assertion: u32) {
        let Some(interactive) = &mut self.interactive else {
            return;
        };
        let Interactive {
            source,
            rows,
            kinds,
            failed,
            ..
        } = &mut **interactive;
        source.failed_assertion(event, assertion);
        let mut view = View {
            contexts: &mut self.contexts,
            rows,
            kinds,
        };
        let flow = slot.map_or(FlowId::ALL, |slot| flow_id(view.contexts, slot));
        if let Some(failed) = failed.filter(|failed| source.wants(*failed)) {
            source.publish(now, flow, failed, &[assertion.into()], &mut view);
        }
    }

    /// A context ends: so does the flow.
    pub(crate) fn interact_end(&mut self, slot: Slot) {
        let Some(interactive) = &mut self.interactive else {
            return;
        };
        let Interactive {
            source,
            rows,
            kinds,
            now,
            ..
        } = &mut **interactive;
        let flow = flow_id(&self.contexts, slot);
        source.ended(
            *now,
            flow,
            &mut View {
                contexts: &mut self.contexts,
                rows,
                kinds,
            },
        );
    }
}
