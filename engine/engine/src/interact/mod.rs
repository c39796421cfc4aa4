//! The stack as a provider of the interactive layer. Its program's signals are events, the scalars that the
//! program declares `observable` and `modifiable` are variables, and each context is a flow.
//!
//! This module has no code for a particular transport: it follows the declarations alone. A signal is
//! published after its chain took effect, so that the variables that accompany it are those after the event.
//! A variable under a lease is written again after each chain of its context.

mod schema;

use hawser_bus::{
    AttachmentChange, EventId, FlowId, FlowInfo, ProviderState, SchemaError, Source, VariableId,
};
use hawser_ir::Module;
use hawser_ir::abi::{ON_FRESH, RecordKind, SignalRec};
use hawser_ir::buf::RecordBuf;
use hawser_time::Instant;

pub use schema::schema;

use crate::scalar;
use crate::state::{Contexts, Slot};
use schema::{FAILED, Row, ScalarLocation, Signalled, context_kind, provider, signals, variables};

/// The stack's end of the bus.
#[derive(Debug)]
pub(crate) struct Interactive {
    source: Source,
    /// The rows of the variables, by number.
    rows: Vec<Row>,
    /// The signals of the running program, by number.
    signals: Vec<Signalled>,
    /// The event for a false assertion.
    failed: Option<EventId>,
    /// The name of flows, by context type.
    kinds: Vec<String>,
    now: Instant,
}

impl Interactive {
    /// Creates a provider that publishes to `source`, which was made for the [`schema`] of this program.
    pub(crate) fn new(source: Source, module: &Module) -> Interactive {
        Interactive {
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
            now: Instant::ORIGIN,
            source,
        }
    }

    /// Offers the signals of another program with the same memory, which may differ.
    pub(crate) fn offer(&mut self, module: &Module) -> Result<(), SchemaError> {
        self.source.offer(&schema(module)?)?;
        self.signals = signals(module, self.source.schema());
        Ok(())
    }

    /// Returns the stack's end of the bus.
    pub(crate) fn source(&mut self) -> &mut Source {
        &mut self.source
    }

    /// Returns the program's signals that have subscribers, each by its bit.
    pub(crate) fn wanted(&self) -> u64 {
        let bit = |(at, signal): (usize, &Signalled)| u64::from(self.source.wants(signal.event)) << at;
        self.signals
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |all, bit| all | bit)
    }

    /// Records in the bus's log that `who` has changed the program's attachments without the bus.
    pub(crate) fn note_change(&mut self, now: Instant, who: &str, change: AttachmentChange<'_>) {
        self.source.note_change(now, who, change);
    }

    /// Returns the time of the next work for [`Interactive::poll`].
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.source.next_deadline()
    }

    /// Carries out the bus's orders; returns true if there was work.
    pub(crate) fn poll(&mut self, now: Instant, contexts: &mut Contexts) -> bool {
        self.now = now;
        let (source, _, mut view) = self.view(contexts);
        source.poll(now, &mut view)
    }

    /// Publishes the signals of a chain, and restores the held variables of its contexts.
    pub(crate) fn after(
        &mut self,
        now: Instant,
        [keyed, fresh]: [Option<Slot>; 2],
        records: &RecordBuf,
        signalled: bool,
        contexts: &mut Contexts,
    ) {
        self.now = now;
        if !signalled && self.source.holds().is_empty() {
            return;
        }
        let (source, signals, mut view) = self.view(contexts);
        for slot in [keyed, fresh].into_iter().flatten() {
            source.settle(flow_id(slot), &mut view);
        }
        if !signalled {
            return;
        }
        for record in records.iter().filter(|record| record.kind == RecordKind::Signal) {
            let number = record.view::<SignalRec>().signal as usize;
            let subject = if record.on == ON_FRESH { fresh } else { keyed };
            // Chains that run only on GLOBAL contexts can signal as well.
            let flow = subject.map_or(FlowId::ALL, flow_id);
            let Some(Signalled { event, scalars }) = signals.get(number) else {
                continue;
            };
            if !source.wants(*event) {
                continue;
            }
            let bytes = record.tail::<SignalRec>();
            let mut values = [0; hawser_bus::MAX_FIELDS];
            for (value, at) in values.iter_mut().zip(scalars) {
                *value = at.load(bytes);
            }
            let values = &values[..scalars.len().min(values.len())];
            source.publish(now, flow, *event, values, &mut view);
        }
    }

    /// Reports a false assertion in the chain of an event that ran on this context.
    #[cold]
    pub(crate) fn failed(
        &mut self,
        now: Instant,
        slot: Option<Slot>,
        event: u32,
        assertion: u32,
        contexts: &mut Contexts,
    ) {
        let failed = self.failed;
        let (source, _, mut view) = self.view(contexts);
        source.failed_assertion(event, assertion);
        if let Some(failed) = failed.filter(|failed| source.wants(*failed)) {
            let flow = slot.map_or(FlowId::ALL, flow_id);
            source.publish(now, flow, failed, &[assertion.into()], &mut view);
        }
    }

    /// Ends the flow of a context that ends.
    pub(crate) fn ended(&mut self, slot: Slot, contexts: &mut Contexts) {
        let now = self.now;
        let (source, _, mut view) = self.view(contexts);
        source.ended(now, flow_id(slot), &mut view);
    }

    fn view<'a>(&'a mut self, contexts: &'a mut Contexts) -> (&'a mut Source, &'a [Signalled], View<'a>) {
        let view = View { contexts, rows: &self.rows, kinds: &self.kinds };
        (&mut self.source, &self.signals, view)
    }
}

/// A view of the contexts as flows.
struct View<'a> {
    contexts: &'a mut Contexts,
    rows: &'a [Row],
    kinds: &'a [String],
}

impl View<'_> {
    /// Returns the context of a flow, if it is alive.
    #[inline]
    fn slot(&self, flow: FlowId) -> Option<Slot> {
        Some(Slot::from_bits(flow.0)).filter(|slot| self.contexts.is_live(*slot))
    }

    /// Returns the context and the location of a flow's variable.
    #[inline]
    fn place(&self, flow: FlowId, variable: VariableId) -> Option<(Slot, ScalarLocation)> {
        let slot = self.slot(flow)?;
        let row = self.rows.get(usize::from(variable.0))?;
        (self.contexts.entry(slot).kind == row.context).then_some((slot, row.at))
    }
}

impl ProviderState for View<'_> {
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
        self.contexts.living().map(flow_id).collect()
    }
}

fn flow_id(slot: Slot) -> FlowId {
    FlowId(slot.to_bits())
}
