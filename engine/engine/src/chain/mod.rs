//! From an event to its effects: find the context, check the room, run the chain, carry out its records, then
//! run the raised events.
//!
//! All resources of a chain are resolved before it runs, and it runs only if its worst case is free. So no
//! instruction can fail, and a rollback is never needed.
//!
//! * `cause`: the cause of an event, and its outcome
//! * `resolve`: its context
//! * `execute`: the execution of its records
//! * `memory`: instructions on registered memory, and their answers
//! * `tap`: observers of every event

mod cause;
mod execute;
mod memory;
mod resolve;
mod tap;

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use hawser_ir::abi::{ChainOutcome, EventHeader, Id};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::{Bounds, ContextId};
use hawser_time::Instant;

pub(crate) use cause::{Buffer, Cause, Denied, InputOutcome};
pub use tap::{CounterIncrement, EventTap, MemorySnapshot, ReceivedPacket, TapEvent};
pub(crate) use tap::{NoEffect, Observer, Tap};

use crate::front::FrontResults;
use crate::interact::Interactive;
use crate::program::Program;
use crate::rand::Rand;
use crate::state::{Errno, Guess, Slot, StackState};
use crate::tables::Tables;
use execute::Effects;
use resolve::{Aim, ResolvedContext};

/// A program with its state, and its observer.
pub(crate) struct Chains {
    pub(crate) program: Arc<dyn Program>,
    pub(crate) tables: Tables,
    pub(crate) state: StackState,
    pub(crate) globals: Vec<Vec<u8>>,
    pub(crate) rand: Rand,
    pub(crate) memory: ChainScratch,
    pub(crate) observer: Tap,
    pub(crate) interactive: Option<Box<Interactive>>,
    /// The last false assert, as an index into the module's list.
    pub(crate) last_assert: Option<u32>,
}

/// The working memory of one chain, kept for the next.
#[derive(Debug)]
pub(crate) struct ChainScratch {
    pub(crate) records: RecordBuf,
    /// The slot for a new context; all zero between chains.
    fresh: Vec<u64>,
    /// The scratchpad, which the events of one input share.
    scratch: Vec<u64>,
}

impl ChainScratch {
    /// Creates the memory for the chains of a program with these tables.
    pub(crate) fn new(tables: &Tables) -> ChainScratch {
        let mut memory = ChainScratch {
            records: RecordBuf::default(),
            fresh: Vec::new(),
            scratch: vec![0; tables.scratch_size.div_ceil(8)],
        };
        memory.fit(tables);
        memory
    }

    /// Resizes the memory for another program that shares the first one's contexts.
    pub(crate) fn fit(&mut self, tables: &Tables) {
        self.fresh.resize(tables.fresh_size.div_ceil(8), 0);
    }

    /// Prepares for the next input.
    pub(crate) fn begin_input(&mut self) {
        self.scratch.fill(0);
    }
}

impl Chains {
    /// Parses an input and runs its events in order. An input that the parser rejects is dropped and counted.
    /// `events` is working memory.
    pub(crate) fn input(
        &mut self,
        now: Instant,
        (parser, input): (usize, Input<'_>),
        cause: &Cause<'_>,
        events: &mut EventBuf,
    ) -> Result<InputOutcome, Denied> {
        self.state.counters.inputs += 1;
        events.clear();
        match self.program.parse(parser, input, events) {
            Ok(()) => {
                let count = events.len();
                self.run_events(now, events, 0..count, &[], cause)
            }
            Err(error) => {
                let counter = self.state.counters.parse_error(error);
                self.not_run(now, NoEffect::Refused(parser), counter);
                Err(Denied::Refused(Errno::INVALID))
            }
        }
    }

    /// Runs one input's events, `range` of `events`, in order. `guesses` has the results of look-ups for the
    /// events in `events`, if there are any.
    pub(crate) fn run_events(
        &mut self,
        now: Instant,
        events: &mut EventBuf,
        range: Range<usize>,
        guesses: &[Option<Guess>],
        cause: &Cause<'_>,
    ) -> Result<InputOutcome, Denied> {
        self.memory.begin_input();
        self.run_in_order(now, events, range, guesses, cause)
    }

    #[inline(always)]
    fn run_in_order(
        &mut self,
        now: Instant,
        events: &mut EventBuf,
        range: Range<usize>,
        guesses: &[Option<Guess>],
        cause: &Cause<'_>,
    ) -> Result<InputOutcome, Denied> {
        let mut verdict = InputOutcome::Nobody;
        if range.len() > 1 && !self.room_for_all(events, range.clone(), guesses, cause) {
            self.note_no_room(now, events.get(range.start), cause);
            return Err(Denied::NoRoom);
        }
        for i in range {
            let aim = Aim::Ids(guesses.get(i).copied().flatten());
            let outcome = self.event(now, events.get_mut(i), aim, cause);
            if outcome == Err(Denied::NoRoom) {
                self.note_no_room(now, events.get(i), cause);
            }
            let of_one = outcome?;
            self.run_raised(now, cause);
            if of_one != InputOutcome::Nobody {
                verdict = of_one;
            }
            if of_one == InputOutcome::Stopped {
                break;
            }
        }
        Ok(verdict)
    }

    /// Counts an event that was dropped for lack of room.
    #[cold]
    fn note_no_room(&mut self, now: Instant, event: &[u8], cause: &Cause<'_>) {
        let counters = &mut self.state.counters;
        let (counter, name) = if cause.application {
            (&mut counters.no_room_request, "no_room_request")
        } else {
            (&mut counters.no_room_packet, "no_room_packet")
        };
        *counter += 1;
        self.not_run(now, NoEffect::Event(event), name);
    }

    /// Returns true if all events of one input have room. A packet is processed as a whole or not at all.
    /// Otherwise its first event might record its arrival, and the bytes of a later event would be
    /// acknowledged and lost.
    #[inline(never)] // Most inputs are one event.
    fn room_for_all(
        &self,
        events: &EventBuf,
        range: Range<usize>,
        guesses: &[Option<Guess>],
        cause: &Cause<'_>,
    ) -> bool {
        let mut all = Bounds::default();
        for i in range {
            let header = event_header(events.get(i));
            let Some(plan) = self.tables.events.get(header.event as usize) else {
                continue;
            };
            let guess = guesses.get(i).copied().flatten().and_then(|guess| guess.slot);
            let keyed = guess.filter(|slot| self.state.contexts.is_known(*slot, &header.id[0]));
            if !cause.application && !self.state.room_to_receive(keyed, cause.buffer.len()) {
                return false;
            }
            all.packets = all.packets.saturating_add(plan.bounds.packets);
            all.raises = all.raises.max(plan.bounds.raises); // raised events run before the next event
        }
        // An input may not need more than the limit could ever provide.
        all.packets = all.packets.min((self.state.limits.pending_packets / 2) as u32);
        room_for_records(&self.state, &all, None)
    }

    /// Runs the events of a packet that was in front of the stack: the results of chains that ran there take
    /// effect.
    #[cold]
    pub(crate) fn run_behind_front(
        &mut self,
        now: Instant,
        events: &mut EventBuf,
        range: Range<usize>,
        guesses: &[Option<Guess>],
        cause: &Cause<'_>,
        ran: Option<FrontResults<'_>>,
    ) -> Result<InputOutcome, Denied> {
        let Some(ran) = ran else {
            return self.run_events(now, events, range, guesses, cause);
        };
        let mut verdict = InputOutcome::Nobody;
        let mut next = range.start;
        for chain in ran.chains.iter().take(range.len()) {
            let cause = Cause { ran: Some((ran.at, chain)), ..*cause };
            let aim = Aim::Ids(guesses.get(next).copied().flatten());
            verdict = self.event(now, events.get_mut(next), aim, &cause)?;
            self.run_raised(now, &cause);
            next += 1;
            if verdict == InputOutcome::Stopped {
                return Ok(verdict);
            }
        }
        self.memory.begin_input();
        let scratch: &mut [u8] = cast_slice_mut(&mut self.memory.scratch);
        if let Some(room) = scratch.get_mut(..ran.scratch.len()) {
            room.copy_from_slice(ran.scratch);
        }
        match self.run_in_order(now, events, next..range.end, guesses, cause)? {
            InputOutcome::Nobody => Ok(verdict),
            of_the_rest => Ok(of_the_rest),
        }
    }

    /// Runs raised events, including those that they raise in turn, within the batch's budget and the
    /// available room. Returns true if it ran any.
    #[inline]
    pub(crate) fn run_raised(&mut self, now: Instant, cause: &Cause<'_>) -> bool {
        self.state.raised.len() > 0 && self.run_those_raised(now, cause)
    }

    fn run_those_raised(&mut self, now: Instant, cause: &Cause<'_>) -> bool {
        let cause = Cause {
            application: false,
            handle: None,
            slot: None,
            shared: false,
            ran: None,
            ..*cause
        };
        let mut any = false;
        // The answers that follow can access the bytes that were read last, as they can the packet.
        let mut read = self.state.raised.buffer();
        while let Some(mut raised) = self.state.raised.take() {
            let aim = if raised.target.is_none() {
                Aim::Ids(None)
            } else {
                Aim::Id(raised.target)
            };
            if !raised.answer {
                read.clear();
            } else if !raised.data.is_empty() {
                std::mem::swap(&mut read, &mut raised.data);
            }
            let cause = Cause { answer: raised.answer, buffer: cause.buffer.beside(&read), ..cause };
            if self.event(now, raised.bytes_mut(), aim, &cause) == Err(Denied::NoRoom) {
                self.state.counters.no_room_raised += 1;
                self.not_run(now, NoEffect::Event(raised.bytes_mut()), "no_room_raised");
                self.state.raised.put_back(raised);
                break;
            }
            self.state.raised.finish(raised);
            any = true;
        }
        self.state.raised.keep_buffer(read);
        any
    }

    /// Returns true if a timer's chain can run now.
    pub(crate) fn room_for_timer(&mut self, now: Instant, event: u16) -> bool {
        let bounds = &self.tables.events[event as usize].bounds;
        let room = room(&self.state, bounds, None, &Cause::default()).is_ok();
        if !room {
            self.state.counters.no_room_timer += 1;
            let header = EventHeader { event, ..bytemuck::Zeroable::zeroed() };
            self.not_run(now, NoEffect::Event(bytemuck::bytes_of(&header)), "no_room_timer");
        }
        room
    }

    /// Runs the event of a timer of this context, or of a GLOBAL one. The caller has checked for room;
    /// `words` is working memory.
    pub(crate) fn timer_event(&mut self, now: Instant, slot: Option<Slot>, event: u16, words: &mut Vec<u64>) {
        self.memory.begin_input();
        words.clear();
        words.resize(self.tables.events[event as usize].size.div_ceil(8), 0);
        let bytes: &mut [u8] = cast_slice_mut(words);
        let header = EventHeader { event, ..event_header(bytes) };
        set_event_header(bytes, &header);
        // It cannot be denied: there is room, no id is vacant, and only requests are refused.
        let aim = slot.map_or(Aim::Ids(None), Aim::Slot);
        let _ = self.event(now, bytes, aim, &Cause::default());
        self.run_raised(now, &Cause::default());
    }

    /// Runs the chain of one event.
    fn event(
        &mut self,
        now: Instant,
        event: &mut [u8],
        aim: Aim,
        cause: &Cause<'_>,
    ) -> Result<InputOutcome, Denied> {
        let header: &mut EventHeader = bytemuck::from_bytes_mut(&mut event[..size_of::<EventHeader>()]);
        let state = &mut self.state;
        let Some(plan) = self.tables.events.get(header.event as usize) else {
            state.counters.dangling += 1;
            self.not_run(now, NoEffect::Event(event), "dangling");
            return Ok(InputOutcome::Nobody);
        };
        let replicated = |(kind, _): (ContextId, usize)| self.tables.contexts[kind.0 as usize].replicated;
        let found = if cause.shared && plan.creates.is_some_and(replicated) {
            // The new context joins those that already have its id.
            header.hash = state.contexts.hash(&header.id[0]) as u32;
            ResolvedContext { keyed: None, vacant: state.contexts.member_id(&header.id[0]) }
        } else {
            state.resolve(header, aim, cause, plan)
        };
        if found.keyed.is_none() && !plan.runs_without {
            state.counters.no_context += 1;
            self.not_run(now, NoEffect::Event(event), "no_context");
            return Ok(InputOutcome::Nobody);
        }
        let creates = plan.creates.filter(|_| found.vacant.is_some());
        if !cause.answer && cause.ran.is_none() {
            room(state, &plan.bounds, found.keyed, cause)?;
        }
        room_to_create(state, creates, cause)?;
        if cause.is_answered() && !room_for_units(state, &plan.bounds, found.keyed) {
            state.counters.unit_limit += 1;
            self.not_run(now, NoEffect::Event(event), "unit_limit");
            return Err(Denied::Limit("units_per_context"));
        }
        let now = cause.ran.map_or(now, |(at, _)| at);
        header.now = now.as_nanos();
        header.rand = self.rand.bits();
        if self.observer.is_set() {
            self.react::<true>(now, event, found, creates, cause)
        } else {
            self.react::<false>(now, event, found, creates, cause)
        }
    }

    /// Runs the program and carries out its records. It is compiled twice, so that unobserved chains contain
    /// no check for an observer.
    fn react<const OBSERVED: bool>(
        &mut self,
        now: Instant,
        event: &mut [u8],
        found: ResolvedContext,
        creates: Option<(ContextId, usize)>,
        cause: &Cause<'_>,
    ) -> Result<InputOutcome, Denied> {
        let (state, memory) = (&mut self.state, &mut self.memory);
        state.counters.chains += 1;
        memory.records.clear();
        let fresh_size = creates.map_or(0, |(_, size)| size);
        let fresh: &mut [u8] = &mut cast_slice_mut(&mut memory.fresh)[..fresh_size];
        if let Some(id) = found.vacant.filter(|_| fresh_size > 0) {
            fresh[..size_of::<Id>()].copy_from_slice(&id.0);
        }
        let keyed = found
            .keyed
            .map(|slot| (state.contexts.entry(slot).kind, state.contexts.bytes_mut(slot)));
        let mut regions = Regions {
            keyed,
            fresh: creates.is_some().then_some(fresh),
            globals: &mut self.globals,
            scratch: cast_slice_mut(&mut memory.scratch),
        };
        if let Some(observer) = self.observer.get().filter(|_| OBSERVED) {
            observer.begin(event, &regions);
        }
        let (outcome, records) = match cause.ran {
            Some((_, ran)) => {
                ran.give(&mut regions);
                (ran.outcome, &ran.records)
            }
            None => {
                let outcome = self.program.react(event, &mut regions, &mut memory.records);
                (outcome, &memory.records)
            }
        };
        let mut effects = Effects {
            tables: &self.tables,
            state,
            cause,
            now,
            creates: creates.map(|(kind, size)| (kind, &cast_slice(&memory.fresh)[..size])),
            keyed: found.keyed,
            fresh: None,
            keyed_ends: false,
            fresh_ends: false,
            signalled: false,
        };
        let result = match outcome {
            ChainOutcome::Done => Ok(InputOutcome::Taken),
            ChainOutcome::Stop => Ok(InputOutcome::Stopped),
            ChainOutcome::Assert(index) => {
                effects.state.counters.asserts += 1;
                self.last_assert = Some(index);
                Ok(InputOutcome::Stopped)
            }
            ChainOutcome::Refused(code) => {
                effects.state.counters.refused += 1;
                Err(Denied::Refused(Errno(code)))
            }
        };
        if result.is_ok() {
            let (program, records) = (&*self.program, records.iter());
            match self.observer.get().filter(|_| OBSERVED) {
                None => effects.execute(program, records),
                Some(observer) => effects.execute_observed(program, records, observer),
            }
        }
        let Effects { keyed, fresh, keyed_ends, fresh_ends, signalled, .. } = effects;
        if fresh_size > 0 {
            // The slot must be all zero for the next chain. If it was not used, only its id is non-zero.
            let dirty = if fresh.is_some() {
                fresh_size
            } else {
                size_of::<Id>()
            };
            cast_slice_mut::<u64, u8>(&mut memory.fresh)[..dirty].fill(0);
        }
        self.show::<OBSERVED>(now, event, [keyed, fresh], outcome, signalled);
        let ended = [keyed.filter(|_| keyed_ends), fresh.filter(|_| fresh_ends)];
        ended
            .into_iter()
            .flatten()
            .for_each(|slot| self.end_context(slot));
        result
    }

    /// Shows the effects of a chain to the event tap.
    #[inline]
    fn show<const OBSERVED: bool>(
        &mut self,
        now: Instant,
        event: &[u8],
        [keyed, fresh]: [Option<Slot>; 2],
        outcome: ChainOutcome,
        signalled: bool,
    ) {
        let (contexts, records) = (&mut self.state.contexts, &self.memory.records);
        if let Some(observer) = self.observer.get().filter(|_| OBSERVED) {
            let view = |slot: Slot| (contexts.entry(slot).kind, contexts.bytes(slot));
            (observer.tap)(&TapEvent {
                program: &self.program,
                now,
                event,
                refused_by: None,
                packet: observer.is_of_packet.then_some(&observer.packet),
                context: keyed.map(view),
                fresh: fresh.map(view),
                globals: &self.globals,
                records,
                outcome: Some(outcome),
                before: &observer.before,
                counted: &observer.counted,
                first_cause: observer.first_cause,
            });
        }
        if let Some(interactive) = &mut self.interactive {
            interactive.after(now, [keyed, fresh], records, signalled, contexts);
            if let ChainOutcome::Assert(assertion) = outcome {
                let number = event_header(event).event;
                interactive.failed(now, keyed.or(fresh), number.into(), assertion, contexts);
            }
        }
    }

    /// Shows an event or input without effect to the observer.
    #[inline]
    pub(crate) fn not_run(&mut self, now: Instant, what: NoEffect<'_>, counter: &'static str) {
        if let Some(observer) = self.observer.get() {
            observer.not_run(&self.program, now, what, counter);
        }
    }

    /// Ends a context and its flow on the bus.
    pub(crate) fn end_context(&mut self, slot: Slot) {
        if let Some(interactive) = &mut self.interactive {
            interactive.ended(slot, &mut self.state.contexts);
        }
        self.state.end_context(slot);
    }
}

/// Checks that a chain's worst case is free.
fn room(state: &StackState, bounds: &Bounds, keyed: Option<Slot>, cause: &Cause<'_>) -> Result<(), Denied> {
    // Requests without bytes are few and never held up; closing and aborting are among them.
    let offers = cause.application && cause.buffer.len() > 0;
    let records = room_for_records(state, bounds, keyed.filter(|_| offers));
    let received = cause.application || state.room_to_receive(keyed, cause.buffer.len());
    if records && received {
        Ok(())
    } else {
        Err(Denied::NoRoom)
    }
}

/// Returns true if there is room for the packets and raised events of a chain that runs on an application's
/// data for the context.
#[inline(always)]
fn room_for_records(state: &StackState, bounds: &Bounds, offered_to: Option<Slot>) -> bool {
    state.room_for_packets(bounds.packets as usize, offered_to)
        && state.raised.held() + bounds.raises as usize <= state.limits.raised
}

/// Returns true if a context may have as many additional units as a chain can create. The check is not
/// applied to chains of packets and timers, because some of them acknowledge data and end units.
fn room_for_units(state: &StackState, bounds: &Bounds, keyed: Option<Slot>) -> bool {
    let units = if bounds.units > 0 {
        keyed.map(|slot| &state.contexts.entry(slot).units)
    } else {
        None
    };
    units.is_none_or(|units| units.len() + bounds.units as usize <= state.limits.units_per_context)
}

fn room_to_create(
    state: &StackState,
    creates: Option<(ContextId, usize)>,
    cause: &Cause<'_>,
) -> Result<(), Denied> {
    if creates.is_none() || state.contexts.len() < state.limits.contexts {
        Ok(())
    } else if cause.application {
        Err(Denied::Limit("contexts"))
    } else {
        Err(Denied::NoRoom)
    }
}
