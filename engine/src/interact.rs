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

/// The stack's end of the bus.
#[derive(Debug)]
pub(crate) struct Interactive {
    source: Source,
    /// By variable.
    rows: Vec<Row>,
    /// By signal: its scalars.
    signals: Vec<Vec<At>>,
    /// By context type: what its flows are called.
    kinds: Vec<String>,
    now: Nanos,
}

/// What a program offers to the interactive layer: `PROVIDER.SIGNAL` and `PROVIDER.CONTEXT.PATH`.
/// The provider is the program's name up to the first `-`, so that variants of one transport are one
/// provider; a context's name is without it.
///
/// # Errors
/// When the program declares more than a provider can have.
pub fn schema(module: &Module) -> Result<Schema, SchemaError> {
    let provider = provider(module);
    let field = |f: &hawser_ir::Field| Field { name: f.name.clone(), kind: kind(module, f) };
    let event = |(name, body): &(String, StructId)| EventType {
        name: format!("{provider}.{name}"),
        fields: module.structure(*body).fields.iter().filter(|f| f.ty.is_scalar()).map(field).collect(),
    };
    let events = module.signals.iter().map(event).collect();
    let variables = variables(module).into_iter().map(|(variable, _)| variable).collect();
    Schema::new(provider, events, variables)
}

fn provider(module: &Module) -> &str {
    module.name.split('-').next().unwrap_or(&module.name)
}

/// What flows of a context type are called.
fn context_kind(module: &Module, context: &Context) -> String {
    let bare = context.name.strip_prefix(provider(module)).and_then(|rest| rest.strip_prefix('_'));
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

/// The observable scalars of all keyed contexts, in order of declaration.
fn variables(module: &Module) -> Vec<(Variable, Row)> {
    let mut out = Vec::new();
    for (index, context) in module.contexts.iter().enumerate() {
        let prefix = format!("{}.{}", provider(module), context_kind(module, context));
        walk(module, context.body, &prefix, 0, ContextId(index as u32), &mut out);
    }
    out
}

fn walk(
    module: &Module,
    body: StructId,
    prefix: &str,
    base: u32,
    context: ContextId,
    out: &mut Vec<(Variable, Row)>,
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
            let row = Row { context, at: At { offset, len: len as u32 } };
            out.push((Variable { name, kind: kind(module, field), access }, row));
        }
    }
}

fn signal_scalars(module: &Module, body: StructId) -> Vec<At> {
    let fields = &module.structure(body).fields;
    let at = |f: &hawser_ir::Field| Some(At { offset: f.offset, len: scalar::size(&f.ty)? as u32 });
    fields.iter().filter(|f| f.ty.is_scalar()).filter_map(at).collect()
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
        let Some((slot, at)) = self.place(flow, variable) else { return false };
        let from = at.offset as usize;
        scalar::store(&mut self.contexts.bytes_mut(slot)[from..from + at.len as usize], value);
        true
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        let entry = self.contexts.entry(self.slot(flow)?);
        Some(FlowInfo {
            kind: self.kinds.get(entry.kind.0 as usize).cloned().unwrap_or_default(),
            local: entry.flow.map(|flow| flow.local()),
            remote: entry.flow.and_then(|flow| flow.remote()),
            label: String::new(),
        })
    }

    fn flows(&self) -> Vec<FlowId> {
        self.contexts.living().map(|slot| flow_id(self.contexts, slot)).collect()
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
            rows: variables(module).into_iter().map(|(_, row)| row).collect(),
            signals: module.signals.iter().map(|(_, body)| signal_scalars(module, *body)).collect(),
            kinds: module.contexts.iter().map(|context| context_kind(module, context)).collect(),
            now: 0,
            source,
        }));
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
            if begins { source.begin_batch() } else { source.end_batch() }
        }
    }

    /// Takes the bus's orders; true when it did something.
    pub(crate) fn poll_source(&mut self, now: Nanos) -> bool {
        let Some(interactive) = &mut self.interactive else { return false };
        let Interactive { source, rows, kinds, .. } = &mut **interactive;
        let any = source.poll(now, &mut View { contexts: &mut self.contexts, rows, kinds });
        self.records.want(source.wanted());
        interactive.now = now;
        if any {
            self.take_steps(now);
        }
        any
    }

    /// Takes the changes of what is attached to the program.
    fn take_steps(&mut self, now: Nanos) {
        while let Some((stepping, step)) =
            self.interactive.as_mut().and_then(|interactive| interactive.source.next_step())
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
        let Some(interactive) = &mut self.interactive else { return };
        let Interactive { source, rows, signals, kinds, now: latest } = &mut **interactive;
        *latest = now;
        if !signalled && source.holds().is_empty() {
            return;
        }
        let mut view = View { contexts: &mut self.contexts, rows, kinds };
        for slot in [keyed, fresh].into_iter().flatten() {
            source.settle(flow_id(view.contexts, slot), &mut view);
        }
        let subject = keyed.or(fresh);
        let Some(slot) = subject.filter(|_| signalled) else { return };
        for record in records.iter().filter(|record| record.kind == RecordKind::Signal) {
            let slot = fresh.filter(|_| record.on == hawser_ir::abi::ON_FRESH).unwrap_or(slot);
            let event = EventId(record.view::<SignalRec>().signal as u16);
            if !source.wants(event) {
                continue;
            }
            let bytes = record.tail::<SignalRec>();
            let mut values = [0; hawser_bus::MAX_FIELDS];
            let scalars = signals.get(usize::from(event.0)).map_or(&[][..], Vec::as_slice);
            for (value, at) in values.iter_mut().zip(scalars) {
                *value = at.load(bytes);
            }
            let flow = flow_id(view.contexts, slot);
            source.publish(now, flow, event, &values[..scalars.len().min(values.len())], &mut view);
        }
    }

    /// A context ends: so does the flow.
    pub(crate) fn interact_end(&mut self, slot: Slot) {
        let Some(interactive) = &mut self.interactive else { return };
        let Interactive { source, rows, kinds, now, .. } = &mut **interactive;
        let flow = flow_id(&self.contexts, slot);
        source.ended(*now, flow, &mut View { contexts: &mut self.contexts, rows, kinds });
    }
}
