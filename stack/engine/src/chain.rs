//! From an input to its effects: parse, find the contexts, check the room, run the chain, carry
//! out its records, then what it raised.
//!
//! Everything a chain needs is resolved before it runs, and it runs only if its worst case is
//! free. So no instruction can fail and nothing is ever rolled back.

use std::ops::Range;

use bytemuck::cast_slice_mut;
use hawser_ir::abi::{self, Addr, EventHeader, Id, Outcome, addr_parts};
use hawser_ir::buf::{EventBuf, Input, Regions, event_header, set_event_header};
use hawser_ir::{Bounds, ContextId};

use crate::contexts::{Guess, Slot};
use crate::execute::Run;
use crate::handles::{Errno, Flow, Handle};
use crate::resolve::{Aim, Found};
use crate::stack::Stack;
use crate::tap::TapEvent;
use crate::wire::Nanos;

/// The bytes that addresses of the running input refer to: a packet from its transport header on,
/// or the data of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffer<'a> {
    number: u32,
    pub(crate) head: &'a [u8],
    pub(crate) tail: &'a [u8],
}

impl<'a> Buffer<'a> {
    /// The address of its first byte.
    pub(crate) fn addr(&self) -> Addr {
        abi::addr(self.number, 0)
    }

    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Up to `len` bytes from an address on, in two pieces; fewer where the buffer ends or the
    /// address is another input's.
    #[inline]
    pub(crate) fn get(&self, addr: Addr, len: u64) -> [&'a [u8]; 2] {
        let Some((number, offset)) = addr_parts(addr).filter(|(number, _)| *number == self.number) else {
            return [&[], &[]];
        };
        debug_assert_eq!(number, self.number);
        let from = (offset as usize).min(self.len());
        let to = (from as u64).saturating_add(len).min(self.len() as u64) as usize;
        if self.tail.is_empty() {
            return [&self.head[from..to], &[]];
        }
        let split = self.head.len();
        [
            &self.head[from.min(split)..to.min(split)],
            &self.tail[from.max(split) - split..to.max(split) - split],
        ]
    }
}

/// Where an event comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cause<'a> {
    /// What its addresses refer to.
    pub(crate) buffer: Buffer<'a>,
    /// An application's request, which may be refused.
    pub(crate) application: bool,
    /// The request's handle.
    pub(crate) handle: Option<Handle>,
    /// The request's context, where the handle may be gone.
    pub(crate) slot: Option<Slot>,
    /// The addresses at both ends of what the application opens.
    pub(crate) flow: Option<Flow>,
    /// The request opens a listener beside others at the same address.
    pub(crate) shared: bool,
}

impl<'a> Cause<'a> {
    /// A request of an application.
    pub(crate) fn application(buffer: Buffer<'a>) -> Cause<'a> {
        Cause {
            buffer,
            application: true,
            ..Cause::default()
        }
    }

    /// A request whose caller gets the error.
    fn is_answered(&self) -> bool {
        self.application && self.slot.is_none()
    }
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The program turned the request down.
    Refused(Errno),
    /// The chain's worst case is not free now.
    NoRoom,
    /// A limit is reached that only the end of something else can change.
    Limit(&'static str),
}

/// What became of an input's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No chain ran: there was no event, or no context for it.
    Nobody,
    /// Chains ran to their ends.
    Taken,
    /// A chain ended with `done`, and the input with it.
    Stopped,
}

impl Stack {
    /// A buffer for the running input, under a number that the ones before did not have.
    pub(crate) fn buffer<'a>(&mut self, head: &'a [u8], tail: &'a [u8]) -> Buffer<'a> {
        // Numbers are below 2^32 - 1: an address holds the number plus one.
        self.buffers = self.buffers % (u32::MAX - 1) + 1;
        Buffer {
            number: self.buffers,
            head,
            tail,
        }
    }

    /// Parses an input and runs its events in order. An input that is not understood is dropped
    /// and counted.
    pub(crate) fn input(
        &mut self,
        now: Nanos,
        parser: usize,
        input: Input<'_>,
        cause: &Cause<'_>,
    ) -> Result<Verdict, Denied> {
        self.counters.inputs += 1;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let result = match self.program.parse(parser, input, &mut events) {
            Ok(()) => {
                let count = events.len();
                self.run_events(now, &mut events, 0..count, &[], cause)
            }
            Err(error) => {
                self.counters.parse_error(error);
                Err(Denied::Refused(Errno::INVALID))
            }
        };
        self.events = events;
        result
    }

    /// Runs one input's events, `range` of `events`, in order. `guesses` has what is known of those
    /// in `events`, if anything.
    pub(crate) fn run_events(
        &mut self,
        now: Nanos,
        events: &mut EventBuf,
        range: Range<usize>,
        guesses: &[Option<Guess>],
        cause: &Cause<'_>,
    ) -> Result<Verdict, Denied> {
        self.scratch.fill(0);
        let mut verdict = Verdict::Nobody;
        for i in range {
            let aim = Aim::Ids(guesses.get(i).copied().flatten());
            let outcome = self.event(now, events.get_mut(i), aim, cause);
            if outcome == Err(Denied::NoRoom) {
                let application = cause.application;
                let counters = &mut self.counters;
                *if application {
                    &mut counters.no_room_request
                } else {
                    &mut counters.no_room_packet
                } += 1;
            }
            let of_one = outcome?;
            if self.raised.len() > 0 {
                self.run_raised(now, cause);
            }
            if of_one != Verdict::Nobody {
                verdict = of_one;
            }
            if of_one == Verdict::Stopped {
                break;
            }
        }
        Ok(verdict)
    }

    /// Runs raised events, those included that they raise, as far as the batch's budget and the
    /// room go; true when it ran any.
    pub(crate) fn run_raised(&mut self, now: Nanos, cause: &Cause<'_>) -> bool {
        if self.raised.len() == 0 {
            return false;
        }
        let cause = Cause {
            application: false,
            handle: None,
            slot: None,
            shared: false,
            ..*cause
        };
        let mut event = std::mem::take(&mut self.event_words);
        let mut any = false;
        while self.raise_budget > 0
            && let Some(target) = self.raised.front(&mut event)
        {
            let aim = if target.is_none() {
                Aim::Ids(None)
            } else {
                Aim::Id(target)
            };
            if self.event(now, cast_slice_mut(&mut event), aim, &cause) == Err(Denied::NoRoom) {
                self.counters.no_room_raised += 1;
                break;
            }
            self.raised.pop();
            self.raise_budget -= 1;
            any = true;
        }
        self.event_words = event;
        any
    }

    /// Whether a timer's chain can run now.
    pub(crate) fn room_for_timer(&mut self, event: u16) -> bool {
        let bounds = &self.tables.events[event as usize].bounds;
        let room = self.room(bounds, None, &Cause::default()).is_ok();
        self.counters.no_room_timer += u64::from(!room);
        room
    }

    /// Runs a timer's event, for which there is room.
    pub(crate) fn timer_event(&mut self, now: Nanos, slot: Slot, event: u16) {
        self.scratch.fill(0);
        let mut words = std::mem::take(&mut self.event_words);
        words.clear();
        words.resize(self.tables.events[event as usize].size.div_ceil(8), 0);
        let bytes: &mut [u8] = cast_slice_mut(&mut words);
        let header = EventHeader {
            event,
            ..event_header(bytes)
        };
        set_event_header(bytes, &header);
        // It cannot be denied: there is room, no id is vacant, and only requests are refused.
        let _ = self.event(now, bytes, Aim::Slot(slot), &Cause::default());
        self.event_words = words;
        self.run_raised(now, &Cause::default());
    }

    /// Runs the chain of one event.
    fn event(
        &mut self,
        now: Nanos,
        event: &mut [u8],
        aim: Aim,
        cause: &Cause<'_>,
    ) -> Result<Verdict, Denied> {
        let header: &mut EventHeader = bytemuck::from_bytes_mut(&mut event[..size_of::<EventHeader>()]);
        let Some(plan) = self.tables.events.get(header.event as usize) else {
            self.counters.dangling += 1;
            return Ok(Verdict::Nobody);
        };
        let replicated = |(kind, _): (ContextId, usize)| self.tables.contexts[kind.0 as usize].replicated;
        let found = if cause.shared && plan.creates.is_some_and(replicated) {
            // One more beside those that have its id.
            header.hash = self.contexts.hash(&header.id[0]) as u32;
            Found {
                keyed: None,
                vacant: self.contexts.member_id(&header.id[0]),
            }
        } else {
            self.resolve(header, aim, cause, plan)
        };
        if found.keyed.is_none() && !plan.runs_without {
            self.counters.no_context += 1;
            return Ok(Verdict::Nobody);
        }
        let creates = plan.creates.filter(|_| found.vacant.is_some());
        self.room(&plan.bounds, found.keyed, cause)?;
        self.room_to_create(creates, cause)?;
        if cause.is_answered() && !self.room_for_units(&plan.bounds, found.keyed) {
            self.counters.unit_limit += 1;
            return Err(Denied::Limit("units_per_context"));
        }
        header.now = now;
        header.rand = self.rand.bits();
        self.react(now, event, found, creates, cause)
    }

    /// Whether a chain's worst case is free.
    fn room(&self, bounds: &Bounds, keyed: Option<Slot>, cause: &Cause<'_>) -> Result<(), Denied> {
        let packets = self.packets.len() + bounds.packets as usize <= self.limits.pending_packets;
        let raised = self.raised.len() + bounds.raises as usize <= self.limits.raised;
        let received = cause.application || self.room_to_receive(keyed, cause.buffer.len());
        if packets && raised && received {
            Ok(())
        } else {
            Err(Denied::NoRoom)
        }
    }

    /// Whether a context may have as many units more as a chain can make. Chains of packets and timers
    /// are not asked: those that acknowledge and end units are among them.
    fn room_for_units(&self, bounds: &Bounds, keyed: Option<Slot>) -> bool {
        let units = if bounds.units > 0 {
            keyed.map(|slot| &self.contexts.entry(slot).units)
        } else {
            None
        };
        units.is_none_or(|units| units.len() + bounds.units as usize <= self.limits.units_per_context)
    }

    fn room_to_create(&self, creates: Option<(ContextId, usize)>, cause: &Cause<'_>) -> Result<(), Denied> {
        if creates.is_none() || self.contexts.len() < self.limits.contexts {
            Ok(())
        } else if cause.application {
            Err(Denied::Limit("contexts"))
        } else {
            Err(Denied::NoRoom)
        }
    }

    /// Runs the program and carries out its records.
    fn react(
        &mut self,
        now: Nanos,
        event: &mut [u8],
        found: Found,
        creates: Option<(ContextId, usize)>,
        cause: &Cause<'_>,
    ) -> Result<Verdict, Denied> {
        self.counters.chains += 1;
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let fresh_size = creates.map_or(0, |(_, size)| size);
        let fresh: &mut [u8] = &mut cast_slice_mut(&mut self.fresh)[..fresh_size];
        if let Some(id) = found.vacant.filter(|_| fresh_size > 0) {
            fresh[..size_of::<Id>()].copy_from_slice(&id.0);
        }
        let mut regions = Regions {
            keyed: found
                .keyed
                .map(|slot| (self.contexts.entry(slot).kind, self.contexts.bytes_mut(slot))),
            fresh: creates.is_some().then_some(fresh),
            globals: &mut self.globals,
            scratch: cast_slice_mut(&mut self.scratch),
        };
        let outcome = self.program.react(event, &mut regions, &mut records);
        let mut run = Run::new(found.keyed, creates, cause);
        let result = match outcome {
            Outcome::Done => Ok(Verdict::Taken),
            Outcome::Stop => Ok(Verdict::Stopped),
            Outcome::Assert(index) => {
                self.counters.asserts += 1;
                self.last_assert = Some(index);
                Ok(Verdict::Stopped)
            }
            Outcome::Refused(code) => {
                self.counters.refused += 1;
                Err(Denied::Refused(Errno(code)))
            }
        };
        if result.is_ok() {
            self.execute(&records, &mut run);
        }
        self.look(now, event, &run, &records, outcome);
        if self.interactive.is_some() {
            self.interact_after(now, [run.keyed(), run.fresh()], &records, run.signalled());
            if let Outcome::Assert(assertion) = outcome {
                let number = event_header(event).event;
                self.interact_failed(now, run.keyed().or(run.fresh()), number.into(), assertion);
            }
        }
        self.end_contexts(&run);
        if fresh_size > 0 {
            // The slot is all zero again for the next chain; unless it was used, only its id is not.
            let dirty = if run.made() { fresh_size } else { size_of::<Id>() };
            cast_slice_mut::<u64, u8>(&mut self.fresh)[..dirty].fill(0);
        }
        self.records = records;
        result
    }

    /// Shows the tap what happened.
    fn look(
        &mut self,
        now: Nanos,
        event: &[u8],
        run: &Run<'_>,
        records: &hawser_ir::buf::RecordBuf,
        outcome: Outcome,
    ) {
        let Some(tap) = &mut self.tap else { return };
        let contexts = &self.contexts;
        let view = |slot: Slot| (contexts.entry(slot).kind, contexts.bytes(slot));
        tap(&TapEvent {
            now,
            event,
            context: run.keyed().map(view),
            fresh: run.fresh().map(view),
            records,
            outcome,
        });
    }
}
