//! The event tap: who observes every event, after it took effect. For traces, recordings and tests.
//!
//! Without an observer nothing here is done: a chain costs one comparison more.

use std::sync::Arc;

use hawser_ir::ContextId;
use hawser_ir::abi::{Net, Outcome};
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_time::Instant;

use super::cause::Buffer;
use crate::counters::Counters;
use crate::program::Program;

/// What happened: an event, the context that it changed, and the instructions that came of it.
#[derive(Clone, Copy)]
pub struct TapEvent<'a> {
    /// The program that runs.
    pub program: &'a Arc<dyn Program>,
    /// The time of the batch that the event belongs to.
    pub now: Instant,
    /// The event's bytes, header first. Empty when a parser refused an input, or there was none for it: no event came
    /// of it.
    pub event: &'a [u8],
    /// The parser that refused its input, by its place in the module's list.
    pub refused_by: Option<usize>,
    /// The packet that the event comes from; absent for requests, timers and what is about a packet of this host.
    pub packet: Option<&'a Received>,
    /// The keyed context after the chain.
    pub context: Option<(ContextId, &'a [u8])>,
    /// The context that the chain made.
    pub fresh: Option<(ContextId, &'a [u8])>,
    /// The `GLOBAL` contexts after the chain, by type; empty for types that are not global.
    pub globals: &'a [Vec<u8>],
    /// The instructions, in order.
    pub records: &'a RecordBuf,
    /// What the chain ended with. Absent when no chain ran: then [`TapEvent::counted`] says why.
    pub outcome: Option<Outcome>,
    /// What the chain ran on, as it was before. Of an event without a chain, its bytes alone.
    pub before: &'a Before,
    /// What the engine counted while it carried the instructions out, in order.
    pub counted: &'a [Counted],
    /// The number of the first instruction: [`TxFrame::cause`](crate::wire::TxFrame::cause) of what it sends. The others
    /// count on.
    pub first_cause: u32,
}

impl std::fmt::Debug for TapEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TapEvent")
            .field("now", &self.now)
            .field("event", &self.event)
            .field("refused_by", &self.refused_by)
            .field("context", &self.context)
            .field("fresh", &self.fresh)
            .field("globals", &self.globals)
            .field("records", &self.records)
            .field("outcome", &self.outcome)
            .field("counted", &self.counted)
            .finish_non_exhaustive()
    }
}

/// The memory of a chain before it ran: a program does the same on it again.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The event's bytes, stamped with time and random bits.
    pub event: Vec<u8>,
    /// The keyed context.
    pub keyed: Option<(ContextId, Vec<u8>)>,
    /// The slot for a new context.
    pub fresh: Option<Vec<u8>>,
    /// The `GLOBAL` contexts, by type.
    pub globals: Vec<Vec<u8>>,
    /// The scratchpad.
    pub scratch: Vec<u8>,
}

impl Before {
    /// Nothing is known of memory.
    fn clear(&mut self) {
        (self.keyed, self.fresh) = (None, None);
        self.globals.clear();
        self.scratch.clear();
    }
}

/// A packet that was received, from its transport header on.
#[derive(Clone, Debug)]
pub struct Received {
    /// The parser that it was given to, by its place in the module's list; absent when the program has none for it.
    pub parser: Option<usize>,
    /// Its network header.
    pub net: Net,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A counter grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// While this record was carried out, by its place among the chain's. Absent: the event itself.
    pub record: Option<usize>,
    /// The counter, by its name in [`Counters`].
    pub counter: &'static str,
    /// By how much it grew.
    pub by: u64,
}

/// Who observes.
pub type EventTap = Box<dyn FnMut(&TapEvent<'_>) + Send>;

/// Who observes, if anybody does. With the feature `untapped` nobody can, and nothing of it is compiled: that is what an
/// engine without observers costs, for `cargo xtask tap` to compare with.
#[derive(Default)]
pub(crate) struct Tap(Option<Box<Observer>>);

impl Tap {
    pub(crate) fn of(tap: Option<EventTap>) -> Tap {
        Tap(tap.map(|tap| Box::new(Observer::new(tap))))
    }

    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        !cfg!(feature = "untapped") && self.0.is_some()
    }

    #[inline(always)]
    pub(crate) fn get(&mut self) -> Option<&mut Observer> {
        if cfg!(feature = "untapped") {
            return None;
        }
        self.0.as_deref_mut()
    }
}

/// An observer, and what is kept for it while a chain runs.
pub(crate) struct Observer {
    pub(crate) tap: EventTap,
    pub(crate) before: Before,
    pub(crate) counted: Vec<Counted>,
    /// The packet that is worked on. Its room is kept for the next one.
    pub(crate) packet: Received,
    pub(crate) is_of_packet: bool,
    /// The records of what came to nothing.
    none: RecordBuf,
    /// Instructions that were carried out.
    causes: u32,
    /// The number of the first one of the running chain.
    pub(crate) first_cause: u32,
}

impl Observer {
    pub(crate) fn new(tap: EventTap) -> Observer {
        Observer {
            tap,
            before: Before::default(),
            counted: Vec::new(),
            packet: Received { parser: None, net: bytemuck::Zeroable::zeroed(), bytes: Vec::new() },
            is_of_packet: false,
            none: RecordBuf::default(),
            causes: 0,
            first_cause: 1,
        }
    }

    /// The number of the instruction that is carried out next.
    pub(crate) fn next_cause(&mut self) -> u32 {
        self.causes = self.causes.wrapping_add(1);
        self.causes
    }

    /// What happens next comes from this packet.
    pub(crate) fn packet(&mut self, parser: Option<usize>, net: &Net, buffer: &Buffer<'_>) {
        self.is_of_packet = true;
        (self.packet.parser, self.packet.net) = (parser, *net);
        self.packet.bytes.clear();
        for piece in buffer.get(buffer.addr(), u64::MAX) {
            self.packet.bytes.extend_from_slice(piece);
        }
    }

    /// What happens next comes from no packet.
    pub(crate) fn no_packet(&mut self) {
        self.is_of_packet = false;
    }

    /// A chain is about to run on this.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&mut self, event: &[u8], regions: &Regions<'_>) {
        let before = &mut self.before;
        keep(&mut before.event, event);
        match (&mut before.keyed, &regions.keyed) {
            (Some((kept, room)), Some((id, bytes))) => {
                *kept = *id;
                keep(room, bytes);
            }
            (kept, keyed) => *kept = keyed.as_ref().map(|(id, bytes)| (*id, bytes.to_vec())),
        }
        match (&mut before.fresh, &regions.fresh) {
            (Some(room), Some(bytes)) => keep(room, bytes),
            (kept, fresh) => *kept = fresh.as_ref().map(|bytes| bytes.to_vec()),
        }
        before.globals.resize_with(regions.globals.len(), Vec::new);
        for (room, bytes) in before.globals.iter_mut().zip(regions.globals.iter()) {
            keep(room, bytes);
        }
        keep(&mut before.scratch, regions.scratch);
        self.counted.clear();
        self.first_cause = self.causes.wrapping_add(1);
    }

    /// Notes what was counted between two states of the counters.
    #[inline]
    pub(crate) fn count(&mut self, record: Option<usize>, before: &Counters, after: &Counters) {
        if before == after {
            return;
        }
        let grown = before.rows().zip(after.rows());
        let grown = grown.filter(|((_, before), (_, after))| before != after);
        self.counted
            .extend(grown.map(|((counter, before), (_, after))| Counted {
                record,
                counter,
                by: after - before,
            }));
    }

    /// An event came to nothing, or an input to no event, for the reason that a counter names.
    #[cold]
    #[inline(never)]
    pub(crate) fn not_run(
        &mut self,
        program: &Arc<dyn Program>,
        now: Instant,
        what: Nothing<'_>,
        counter: &'static str,
    ) {
        let (event, refused_by) = match what {
            Nothing::Event(event) => (event, None),
            Nothing::Refused(parser) => (&[][..], Some(parser)),
            Nothing::NoParser => (&[][..], None),
        };
        self.before.clear();
        keep(&mut self.before.event, event);
        self.first_cause = self.causes.wrapping_add(1);
        let counted = [Counted { record: None, counter, by: 1 }];
        (self.tap)(&TapEvent {
            program,
            now,
            event,
            refused_by,
            packet: self.is_of_packet.then_some(&self.packet),
            context: None,
            fresh: None,
            globals: &[],
            records: &self.none,
            outcome: None,
            before: &self.before,
            counted: &counted,
            first_cause: self.first_cause,
        });
    }
}

/// What came to nothing.
pub(crate) enum Nothing<'a> {
    /// An event without a chain that could run.
    Event(&'a [u8]),
    /// An input that this parser refused.
    Refused(usize),
    /// A packet that there is no parser for.
    NoParser,
}

/// Copies into room that is kept.
fn keep(room: &mut Vec<u8>, bytes: &[u8]) {
    room.clear();
    room.extend_from_slice(bytes);
}
