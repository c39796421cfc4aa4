//! The event tap: who observes every event, after it took effect. For traces, recordings and tests.
//!
//! Without an observer nothing here is done: a chain costs one comparison more.

use hawser_ir::ContextId;
use hawser_ir::abi::Outcome;
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_time::Instant;

use crate::counters::Counters;

/// What happened: an event, the context that it changed, and the instructions that came of it.
#[derive(Clone, Copy, Debug)]
pub struct TapEvent<'a> {
    /// The time of the batch that the event belongs to.
    pub now: Instant,
    /// The event's bytes, header first.
    pub event: &'a [u8],
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

/// An observer, and what is kept for it while a chain runs.
pub(crate) struct Observer {
    pub(crate) tap: EventTap,
    pub(crate) before: Before,
    pub(crate) counted: Vec<Counted>,
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
            causes: 0,
            first_cause: 1,
        }
    }

    /// The number of the instruction that is carried out next.
    pub(crate) fn next_cause(&mut self) -> u32 {
        self.causes = self.causes.wrapping_add(1);
        self.causes
    }

    /// A chain is about to run on this.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&mut self, event: &[u8], regions: &Regions<'_>) {
        self.before = Before {
            event: event.to_vec(),
            keyed: regions.keyed.as_ref().map(|(id, bytes)| (*id, bytes.to_vec())),
            fresh: regions.fresh.as_ref().map(|bytes| bytes.to_vec()),
            globals: regions.globals.to_vec(),
            scratch: regions.scratch.to_vec(),
        };
        self.counted.clear();
        self.first_cause = self.causes.wrapping_add(1);
    }

    /// Notes what was counted between two states of the counters.
    #[cold]
    #[inline(never)]
    pub(crate) fn count(&mut self, record: Option<usize>, before: &Counters, after: &Counters) {
        let grown = before.rows().zip(after.rows());
        let grown = grown.filter(|((_, before), (_, after))| before != after);
        self.counted
            .extend(grown.map(|((counter, before), (_, after))| Counted {
                record,
                counter,
                by: after - before,
            }));
    }

    /// An event came to nothing, for the reason that a counter names.
    pub(crate) fn not_run(&mut self, now: Instant, event: &[u8], records: &RecordBuf, counter: &'static str) {
        self.before = Before {
            event: event.to_vec(),
            ..Before::default()
        };
        self.first_cause = self.causes.wrapping_add(1);
        let counted = [Counted {
            record: None,
            counter,
            by: 1,
        }];
        (self.tap)(&TapEvent {
            now,
            event,
            context: None,
            fresh: None,
            globals: &[],
            records,
            outcome: None,
            before: &self.before,
            counted: &counted,
            first_cause: self.first_cause,
        });
    }
}
