//! Copies of the events that the engine shows.

use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_engine::{CounterIncrement, MemorySnapshot, TapEvent};
use hawser_ir::ContextId;
use hawser_ir::abi::ChainOutcome;
use hawser_ir::buf::RecordBuf;
use hawser_time::Instant;

/// A copy of a [`TapEvent`], without the packet from which it comes. It allows the event to be described
/// later, or on another thread.
#[derive(Clone)]
pub struct EventCopy {
    program: Arc<dyn Program>,
    refused_by: Option<usize>,
    event: Vec<u8>,
    counted: Vec<CounterIncrement>,
    /// The time of its batch.
    pub now: Instant,
    /// The memory of the chain.
    pub before: MemorySnapshot,
    /// The outcome of the chain; absent when none ran.
    pub outcome: Option<ChainOutcome>,
    /// The instructions.
    pub records: RecordBuf,
    /// The number of the first instruction.
    pub first_cause: u32,
    /// The keyed context after the chain.
    pub context: Option<(ContextId, Vec<u8>)>,
    /// The context that the chain created.
    pub fresh: Option<(ContextId, Vec<u8>)>,
    /// The `GLOBAL` contexts after the chain, by type.
    pub globals: Vec<Vec<u8>>,
}

impl EventCopy {
    /// Copies a shown event.
    #[must_use]
    pub fn from_tap(shown: &TapEvent<'_>) -> EventCopy {
        let mut kept = EventCopy {
            program: Arc::clone(shown.program),
            refused_by: None,
            event: Vec::new(),
            counted: Vec::new(),
            now: shown.now,
            before: MemorySnapshot::default(),
            outcome: None,
            records: RecordBuf::default(),
            first_cause: 0,
            context: None,
            fresh: None,
            globals: Vec::new(),
        };
        kept.keep(shown);
        kept
    }

    /// Copies another event into this one's buffers.
    pub fn keep(&mut self, shown: &TapEvent<'_>) {
        if !Arc::ptr_eq(&self.program, shown.program) {
            self.program = Arc::clone(shown.program);
        }
        self.refused_by = shown.refused_by;
        fill(&mut self.event, shown.event);
        fill(&mut self.counted, shown.counted);
        self.now = shown.now;
        copy_before(shown.before, &mut self.before);
        self.outcome = shown.outcome;
        copy_records(shown.records, &mut self.records);
        self.first_cause = shown.first_cause;
        keep_context(&mut self.context, shown.context);
        keep_context(&mut self.fresh, shown.fresh);
        self.globals.resize_with(shown.globals.len(), Vec::new);
        for (room, bytes) in self.globals.iter_mut().zip(shown.globals) {
            fill(room, bytes);
        }
    }

    /// Returns the event in the form in which the engine showed it.
    #[must_use]
    pub fn shown(&self) -> TapEvent<'_> {
        fn lent(kept: &Option<(ContextId, Vec<u8>)>) -> Option<(ContextId, &[u8])> {
            kept.as_ref().map(|(id, bytes)| (*id, bytes.as_slice()))
        }
        TapEvent {
            program: &self.program,
            now: self.now,
            event: &self.event,
            refused_by: self.refused_by,
            packet: None,
            context: lent(&self.context),
            fresh: lent(&self.fresh),
            globals: &self.globals,
            records: &self.records,
            outcome: self.outcome,
            before: &self.before,
            counted: &self.counted,
            first_cause: self.first_cause,
        }
    }
}

fn fill<T: Copy>(room: &mut Vec<T>, values: &[T]) {
    room.clear();
    room.extend_from_slice(values);
}

fn keep_context(room: &mut Option<(ContextId, Vec<u8>)>, context: Option<(ContextId, &[u8])>) {
    match (&mut *room, context) {
        (Some((kept, bytes)), Some((id, are))) => {
            *kept = id;
            fill(bytes, are);
        }
        (_, context) => *room = context.map(|(id, bytes)| (id, bytes.to_vec())),
    }
}

/// Copies the memory of a chain into existing buffers.
pub(crate) fn copy_before(from: &MemorySnapshot, to: &mut MemorySnapshot) {
    fill(&mut to.event, &from.event);
    let keyed = from.keyed.as_ref();
    keep_context(&mut to.keyed, keyed.map(|(id, bytes)| (*id, bytes.as_slice())));
    match (&mut to.fresh, &from.fresh) {
        (Some(room), Some(bytes)) => fill(room, bytes),
        (room, fresh) => room.clone_from(fresh),
    }
    to.globals.clone_from(&from.globals);
    fill(&mut to.scratch, &from.scratch);
}

fn copy_records(from: &RecordBuf, to: &mut RecordBuf) {
    to.clear();
    to.want(from.wanted());
    let bytes = from.bytes();
    bytemuck::cast_slice_mut(to.room(bytes.len()))[..bytes.len()].copy_from_slice(bytes);
    to.commit(bytes.len()).expect("they are whole records");
}
