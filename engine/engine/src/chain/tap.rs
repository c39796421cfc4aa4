//! The event tap, which observes every event after it took effect, for traces, recordings and tests.
//!
//! Without an observer, its only cost is one comparison per chain.

use std::sync::Arc;

use hawser_ir::ContextId;
use hawser_ir::abi::{ChainOutcome, Net};
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_time::Instant;

use super::cause::Buffer;
use crate::counters::StackCounters;
use crate::program::Program;

/// An event, the context that it changed, and the resulting instructions.
#[derive(Clone, Copy)]
pub struct TapEvent<'a> {
    /// The running program.
    pub program: &'a Arc<dyn Program>,
    /// The time of the batch that the event belongs to.
    pub now: Instant,
    /// The event's bytes, header first. Empty if no event resulted from an input, because its parser refused
    /// it or does not exist.
    pub event: &'a [u8],
    /// The parser that refused its input, as an index into the module's list.
    pub refused_by: Option<usize>,
    /// The packet that the event comes from; absent for requests, timers, and reports about a packet of this
    /// host.
    pub packet: Option<&'a ReceivedPacket>,
    /// The keyed context after the chain.
    pub context: Option<(ContextId, &'a [u8])>,
    /// The context that the chain created.
    pub fresh: Option<(ContextId, &'a [u8])>,
    /// The `GLOBAL` contexts after the chain, by type; empty for types that are not global.
    pub globals: &'a [Vec<u8>],
    /// The instructions, in order.
    pub records: &'a RecordBuf,
    /// The outcome of the chain. Absent if no chain ran: then [`TapEvent::counted`] gives the reason.
    pub outcome: Option<ChainOutcome>,
    /// The memory that the chain ran on, as it was before. For an event without a chain, only the event's
    /// bytes.
    pub before: &'a MemorySnapshot,
    /// The counters that the engine increased while it carried out the instructions, in order.
    pub counted: &'a [CounterIncrement],
    /// The number of the first instruction: [`TxFrame::cause`](crate::wire::TxFrame::cause) of the frames
    /// that it sends. The following instructions have consecutive numbers.
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

/// The memory of a chain before it ran. A program that runs on it again has the same effects.
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshot {
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

impl MemorySnapshot {
    /// Removes all recorded memory.
    fn clear(&mut self) {
        (self.keyed, self.fresh) = (None, None);
        self.globals.clear();
        self.scratch.clear();
    }
}

/// A received packet, from its transport header on.
#[derive(Clone, Debug)]
pub struct ReceivedPacket {
    /// The parser that received the packet, as an index into the module's list; absent if the program has no
    /// parser for it.
    pub parser: Option<usize>,
    /// Its network header.
    pub net: Net,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An increase of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterIncrement {
    /// The record that caused it, as an index into the chain's records. Absent if the event itself did.
    pub record: Option<usize>,
    /// The counter, by its name in [`StackCounters`].
    pub counter: &'static str,
    /// The amount of the increase.
    pub by: u64,
}

/// An observer of events.
pub type EventTap = Box<dyn FnMut(&TapEvent<'_>) + Send>;

/// The observer, if there is one. With the feature `untapped` there cannot be one, and its code is not
/// compiled. `cargo xtask tap` compares with such a build to measure the cost of the tap.
#[derive(Default)]
pub(crate) struct Tap(Option<Box<Observer>>);

impl Tap {
    pub(crate) fn new(tap: Option<EventTap>) -> Tap {
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

/// An observer, and the data kept for it while a chain runs.
pub(crate) struct Observer {
    pub(crate) tap: EventTap,
    pub(crate) before: MemorySnapshot,
    pub(crate) counted: Vec<CounterIncrement>,
    /// The packet that is being processed. Its memory is reused for the next one.
    pub(crate) packet: ReceivedPacket,
    pub(crate) is_of_packet: bool,
    /// The empty list of records for events without effect.
    none: RecordBuf,
    /// The number of instructions carried out.
    causes: u32,
    /// The number of the running chain's first instruction.
    pub(crate) first_cause: u32,
}

impl Observer {
    pub(crate) fn new(tap: EventTap) -> Observer {
        Observer {
            tap,
            before: MemorySnapshot::default(),
            counted: Vec::new(),
            packet: ReceivedPacket { parser: None, net: bytemuck::Zeroable::zeroed(), bytes: Vec::new() },
            is_of_packet: false,
            none: RecordBuf::default(),
            causes: 0,
            first_cause: 1,
        }
    }

    /// Returns the number of the instruction that is carried out next.
    pub(crate) fn next_cause(&mut self) -> u32 {
        self.causes = self.causes.wrapping_add(1);
        self.causes
    }

    /// Declares this packet the cause of the following events.
    pub(crate) fn packet(&mut self, parser: Option<usize>, net: &Net, buffer: &Buffer<'_>) {
        self.is_of_packet = true;
        (self.packet.parser, self.packet.net) = (parser, *net);
        self.packet.bytes.clear();
        for piece in buffer.get(buffer.addr(), u64::MAX) {
            self.packet.bytes.extend_from_slice(piece);
        }
    }

    /// Declares that the following events come from no packet.
    pub(crate) fn no_packet(&mut self) {
        self.is_of_packet = false;
    }

    /// Records the memory on which a chain is about to run.
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

    /// Records the increases between two states of the counters.
    #[inline]
    pub(crate) fn count(&mut self, record: Option<usize>, before: &StackCounters, after: &StackCounters) {
        if before == after {
            return;
        }
        let grown = before.rows().zip(after.rows());
        let grown = grown.filter(|((_, before), (_, after))| before != after);
        self.counted
            .extend(grown.map(|((counter, before), (_, after))| CounterIncrement {
                record,
                counter,
                by: after - before,
            }));
    }

    /// Shows an event without effect, or an input without an event. The counter names the reason.
    #[cold]
    #[inline(never)]
    pub(crate) fn not_run(
        &mut self,
        program: &Arc<dyn Program>,
        now: Instant,
        what: NoEffect<'_>,
        counter: &'static str,
    ) {
        let (event, refused_by) = match what {
            NoEffect::Event(event) => (event, None),
            NoEffect::Refused(parser) => (&[][..], Some(parser)),
            NoEffect::NoParser => (&[][..], None),
        };
        self.before.clear();
        keep(&mut self.before.event, event);
        self.first_cause = self.causes.wrapping_add(1);
        let counted = [CounterIncrement { record: None, counter, by: 1 }];
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

/// An event or input without effect.
pub(crate) enum NoEffect<'a> {
    /// An event without a chain, or whose chain could not run.
    Event(&'a [u8]),
    /// An input that this parser refused.
    Refused(usize),
    /// A packet without a parser.
    NoParser,
}

/// Copies into reused memory.
fn keep(room: &mut Vec<u8>, bytes: &[u8]) {
    room.clear();
    room.extend_from_slice(bytes);
}
