//! One program under random events, with the same behaviour on both sides, step by step.
//!
//! Contexts persist between events, as in an engine: created by `new_ctx`, found by ids, deleted by
//! `del_ctx`. Both sides run on copies of the same memory. Then event, contexts, scratchpad, records and
//! outcome are compared byte for byte. Occasionally the memory is garbage, because a program's behaviour is
//! defined for that, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use hawser_ir::abi::{
    ChainOutcome, ContextHeader, ContextRec, EventHeader, Id, ON_FRESH, RaiseRec, RecordKind,
};
use hawser_ir::buf::{RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::{ContextId, EventId, EventKind, FuncId, Granularity, Module, Precondition};

use crate::coverage::Coverage;
use crate::rng::Rng;
use crate::side::Side;
use crate::{diff, values};

/// The number of events in one trial, without those that chains raise.
pub const EVENTS: usize = 50;
/// The maximum number of raised events that follow one event.
const RAISED: usize = 4;
/// The maximum number of contexts that exist at once.
const CONTEXTS: usize = 8;

/// The memory of one step, as both sides receive it.
#[derive(Clone, Debug)]
pub struct StepMemory {
    pub event: Vec<u8>,
    /// The keyed context that was found.
    pub keyed: Option<(ContextId, Vec<u8>)>,
    /// The slot for a new context.
    pub fresh: Option<Vec<u8>>,
    /// The `GLOBAL` contexts, by type; empty for other types.
    pub globals: Vec<Vec<u8>>,
    pub scratch: Vec<u8>,
    pub wanted: u64,
}

impl StepMemory {
    /// Runs the event's chain in this memory.
    pub fn react(&mut self, side: &dyn Side) -> (ChainOutcome, RecordBuf) {
        let mut records = RecordBuf::default();
        records.want(self.wanted);
        let mut regions = Regions {
            keyed: self.keyed.as_mut().map(|(id, bytes)| (*id, bytes.as_mut_slice())),
            fresh: self.fresh.as_deref_mut(),
            globals: &mut self.globals,
            scratch: &mut self.scratch,
        };
        let outcome = side.react(&mut self.event, &mut regions, &mut records);
        (outcome, records)
    }

    /// Describes the differences from another memory; empty if the two are equal.
    fn difference(&self, module: &Module, other: &StepMemory) -> String {
        let event = usize::from(event_header(&self.event).event);
        let body = module.events.get(event).map(|event| event.body);
        let mut text = diff::memory(module, "event", body, &self.event, &other.event);
        if let (Some((id, left)), Some((_, right))) = (&self.keyed, &other.keyed) {
            let context = &module.contexts[id.0 as usize];
            text += &diff::memory(module, &context.name, Some(context.body), left, right);
        }
        if let (Some(left), Some(right)) = (&self.fresh, &other.fresh) {
            let made = module.chains.get(event).and_then(|chain| chain.creates);
            let body = made.map(|id| module.contexts[id.0 as usize].body);
            text += &diff::memory(module, "new context", body, left, right);
        }
        for ((context, left), right) in module.contexts.iter().zip(&self.globals).zip(&other.globals) {
            text += &diff::memory(module, &context.name, Some(context.body), left, right);
        }
        text + &diff::memory(
            module,
            "scratchpad",
            module.scratch,
            &self.scratch,
            &other.scratch,
        )
    }
}

/// An event that waits to run, and the context that it carries.
type PendingEvent = (Vec<u8>, Option<usize>);

/// An existing context.
struct Living {
    kind: ContextId,
    bytes: Vec<u8>,
}

/// A program and its state.
pub struct Trial<'a> {
    module: &'a Module,
    left: &'a dyn Side,
    right: &'a dyn Side,
    rng: Rng,
    contexts: Vec<Option<Living>>,
    ids: BTreeMap<Id, usize>,
    globals: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    now: u64,
    /// The functions of the processors that ran.
    pub ran: BTreeSet<FuncId>,
    /// The number of chains for each outcome: all ran, `done`, refused, an assertion.
    pub outcomes: [u64; 4],
    /// The number of records by kind.
    pub records: BTreeMap<u8, u64>,
}

impl<'a> Trial<'a> {
    /// Creates a trial without keyed contexts.
    #[must_use]
    pub fn new(module: &'a Module, left: &'a dyn Side, right: &'a dyn Side, seed: u64) -> Trial<'a> {
        let mut rng = Rng::new(seed, "events");
        let globals = module.contexts.iter().map(|context| match context.granularity {
            Granularity::Global => {
                let mut bytes = vec![0; module.structure(context.body).size as usize];
                values::fill_struct(module, &mut rng, context.body, &mut bytes);
                bytes
            }
            Granularity::Flow | Granularity::Shard => Vec::new(),
        });
        let globals = globals.collect();
        let scratch = vec![0; module.scratch.map_or(0, |id| module.structure(id).size as usize)];
        Trial {
            module,
            left,
            right,
            rng,
            contexts: Vec::new(),
            ids: BTreeMap::new(),
            globals,
            scratch,
            now: 1000,
            ran: BTreeSet::new(),
            outcomes: [0; 4],
            records: BTreeMap::new(),
        }
    }

    /// Runs one random event and the events that it raises.
    ///
    /// # Errors
    /// Returns the difference between the sides.
    pub fn event(
        &mut self,
        each: &mut dyn FnMut(&StepMemory, &StepMemory, ChainOutcome, &RecordBuf),
    ) -> Result<(), String> {
        if self.rng.one_in(2) {
            self.scratch.fill(0);
        }
        if self.rng.one_in(25) {
            self.spoil();
        }
        let chains = self.module.chains.iter().enumerate();
        let running: Vec<usize> = chains
            .filter(|(_, c)| !c.processors.is_empty())
            .map(|(i, _)| i)
            .collect();
        if running.is_empty() {
            return Ok(());
        }
        let event = EventId(*self.rng.pick(&running) as u32);
        let (bytes, carried) = self.random_event(event);
        let mut waiting = vec![(bytes, carried)];
        let mut budget = RAISED;
        while let Some((bytes, carried)) = waiting.pop() {
            let raised = self.run(bytes, carried, each)?;
            let taken = raised.len().min(budget);
            budget -= taken;
            waiting.extend(raised.into_iter().take(taken));
        }
        Ok(())
    }

    /// Creates an event with random fields; a timer's event carries a context.
    fn random_event(&mut self, event: EventId) -> PendingEvent {
        let declared = &self.module.events[event.0 as usize];
        let mut bytes = vec![0; self.module.event_size(event)];
        if self.rng.one_in(15) {
            self.rng.fill(&mut bytes);
        } else {
            values::fill_struct(self.module, &mut self.rng, declared.body, &mut bytes);
        }
        let ids = if declared.kind == EventKind::Timer {
            0
        } else {
            self.rng.below(4) as u8
        };
        let mut id = [Id::NONE; 3];
        for slot in id.iter_mut().take(usize::from(ids)) {
            *slot = values::known_id(&mut self.rng);
        }
        let header = EventHeader {
            now: self.now,
            rand: self.rng.word(),
            hash: self.rng.edge(32) as u32,
            event: event.0 as u16,
            ids,
            pad: 0,
            id,
        };
        set_event_header(&mut bytes, &header);
        let living: Vec<usize> = (0..self.contexts.len())
            .filter(|i| self.contexts[*i].is_some())
            .collect();
        let carried =
            (declared.kind == EventKind::Timer && !living.is_empty()).then(|| *self.rng.pick(&living));
        (bytes, carried)
    }

    /// Runs one event on both sides, compares them, and executes the records about contexts.
    fn run(
        &mut self,
        mut event: Vec<u8>,
        carried: Option<usize>,
        each: &mut dyn FnMut(&StepMemory, &StepMemory, ChainOutcome, &RecordBuf),
    ) -> Result<Vec<PendingEvent>, String> {
        self.now = match self.rng.below(20) {
            0 => self.rng.edge(64),
            _ => self.now.wrapping_add(self.rng.word() % 1_000_000),
        };
        let header = EventHeader { now: self.now, rand: self.rng.word(), ..event_header(&event) };
        set_event_header(&mut event, &header);
        let ids = &header.id[..usize::from(header.ids).min(3)];
        let found = carried.or_else(|| ids.iter().find_map(|id| self.ids.get(id).copied()));
        let free = ids
            .iter()
            .find(|id| !id.is_none() && !self.ids.contains_key(id))
            .copied();
        let chain = &self.module.chains[usize::from(header.event)];
        let fresh = chain.creates.zip(free).map(|(kind, id)| self.slot(kind, id));
        let keyed = found
            .and_then(|i| self.contexts[i].as_ref())
            .map(|c| (c.kind, c.bytes.clone()));
        let kind = keyed.as_ref().map(|(kind, _)| *kind);
        let wanted = if self.rng.one_in(2) {
            u64::MAX
        } else {
            self.rng.word()
        };
        let (globals, scratch) = (self.globals.clone(), self.scratch.clone());
        let before = StepMemory { event, keyed, fresh, globals, scratch, wanted };

        let (mut left, mut right) = (before.clone(), before.clone());
        let (left_outcome, left_records) = left.react(self.left);
        let (right_outcome, right_records) = right.react(self.right);
        let mut text = left.difference(self.module, &right);
        if left_outcome != right_outcome {
            let _ = writeln!(text, "outcome: {left_outcome:?} | {right_outcome:?}");
        }
        text += &diff::records(&left_records, &right_records);
        if left_records.bytes().len() > chain.bounds.record_bytes as usize {
            let _ = writeln!(
                text,
                "records of {} bytes, more than the checker's bound",
                left_records.bytes().len()
            );
        }
        if !text.is_empty() {
            return Err(format!("{}{text}", self.describe(&before)));
        }
        each(&before, &left, left_outcome, &left_records);
        self.note(&header, kind, left_outcome, &left_records);
        Ok(self.settle(left, found, left_outcome, &left_records))
    }

    /// Returns a slot reserved for a context: zero except for its id.
    fn slot(&self, kind: ContextId, id: Id) -> Vec<u8> {
        let mut bytes = vec![0; self.module.context_size(kind)];
        bytes[..size_of::<ContextHeader>()].copy_from_slice(bytemuck::bytes_of(&ContextHeader { id }));
        bytes
    }

    /// Returns the beginning of a difference's description: the event and the contexts that it found.
    fn describe(&self, memory: &StepMemory) -> String {
        let header = event_header(&memory.event);
        let name = &self.module.events[usize::from(header.event)].name;
        let found = memory
            .keyed
            .as_ref()
            .map_or("nothing", |(id, _)| &self.module.contexts[id.0 as usize].name);
        let slot = if memory.fresh.is_some() {
            ", a free slot"
        } else {
            ""
        };
        format!(
            "{name} at {}, found {found}{slot}; interpreter | other\n",
            header.now
        )
    }

    fn note(
        &mut self,
        header: &EventHeader,
        kind: Option<ContextId>,
        outcome: ChainOutcome,
        records: &RecordBuf,
    ) {
        for processor in &self.module.chains[usize::from(header.event)].processors {
            let runs = match processor.when {
                Precondition::Always => true,
                Precondition::Found(context) => kind == Some(context),
                Precondition::NotFound => kind.is_none(),
            };
            if runs {
                self.ran.insert(processor.func);
            }
        }
        let slot = match outcome {
            ChainOutcome::Done => 0,
            ChainOutcome::Stop => 1,
            ChainOutcome::Refused(_) => 2,
            ChainOutcome::Assert(_) => 3,
        };
        self.outcomes[slot] += 1;
        records
            .iter()
            .for_each(|record| *self.records.entry(record.kind as u8).or_default() += 1);
    }

    /// Adds the outcomes of chains and their records to the coverage.
    pub fn tally(&self, coverage: &mut Coverage) {
        for (name, count) in ["all ran", "done", "refused", "assert"].iter().zip(self.outcomes) {
            (0..count).for_each(|_| coverage.count(format!("outcome {name}")));
        }
        for (kind, count) in &self.records {
            let name = RecordKind::from_u8(*kind);
            (0..*count).for_each(|_| {
                coverage.count(format!(
                    "record {}",
                    name.map_or("?".into(), |k| format!("{k:?}"))
                ))
            });
        }
    }

    /// Takes over the memory, executes the records about contexts, and returns the raised events.
    fn settle(
        &mut self,
        after: StepMemory,
        keyed: Option<usize>,
        outcome: ChainOutcome,
        records: &RecordBuf,
    ) -> Vec<PendingEvent> {
        let StepMemory { keyed: found, mut fresh, globals, scratch, .. } = after;
        (self.globals, self.scratch) = (globals, scratch);
        if let (Some(index), Some((kind, bytes))) = (keyed, found) {
            self.contexts[index] = Some(Living { kind, bytes });
        }
        let mut raised = Vec::new();
        if matches!(outcome, ChainOutcome::Refused(_)) {
            return raised;
        }
        let mut created = None;
        for record in records.iter() {
            let subject = if record.on == ON_FRESH { created } else { keyed };
            match record.kind {
                RecordKind::NewContext => {
                    let made: ContextRec = record.fixed();
                    if let Some(bytes) = fresh.take() {
                        created = Some(self.admit(ContextId(made.context), made.id, bytes));
                    }
                }
                RecordKind::DelContext => {
                    if let Some(gone) = subject {
                        self.remove(gone);
                    }
                }
                RecordKind::AddId => {
                    let id = record.fixed::<ContextRec>().id;
                    if let Some(subject) = subject.filter(|_| !id.is_none()) {
                        self.ids.insert(id, subject);
                    }
                }
                RecordKind::DropId => {
                    self.ids.remove(&record.fixed::<ContextRec>().id);
                }
                RecordKind::Raise => {
                    let raise: RaiseRec = record.fixed();
                    let bytes = record.tail::<RaiseRec>()[..raise.bytes as usize].to_vec();
                    raised.push((bytes, self.ids.get(&raise.target).copied()));
                }
                _ => {}
            }
        }
        let lives = |index: &usize| self.contexts[*index].is_some();
        raised
            .into_iter()
            .map(|(bytes, carried)| (bytes, carried.filter(lives)))
            .collect()
    }

    /// Adds a context. If there are too many, an old one is removed.
    fn admit(&mut self, kind: ContextId, id: Id, bytes: Vec<u8>) -> usize {
        let living: Vec<usize> = (0..self.contexts.len())
            .filter(|i| self.contexts[*i].is_some())
            .collect();
        if living.len() >= CONTEXTS {
            self.remove(living[0]);
        }
        self.contexts.push(Some(Living { kind, bytes }));
        self.ids.insert(id, self.contexts.len() - 1);
        self.contexts.len() - 1
    }

    fn remove(&mut self, gone: usize) {
        self.contexts[gone] = None;
        self.ids.retain(|_, index| *index != gone);
    }

    /// Damages a piece of memory: lengths beyond capacities, runs out of order, bools of 2.
    fn spoil(&mut self) {
        let rng = &mut self.rng;
        let living: Vec<&mut Living> = self.contexts.iter_mut().flatten().collect();
        let count = living.len();
        let target = match rng.below(4) {
            0 => Some(&mut self.scratch),
            1 => self.globals.iter_mut().find(|bytes| !bytes.is_empty()),
            _ if count > 0 => living
                .into_iter()
                .nth(rng.below(count))
                .map(|living| &mut living.bytes),
            _ => None,
        };
        let Some(bytes) = target.filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        let (from, to) = (rng.below(bytes.len()), rng.below(bytes.len() + 1));
        if rng.one_in(3) {
            rng.fill(bytes);
        } else if from < to {
            rng.fill(&mut bytes[from..to]);
        }
    }
}
