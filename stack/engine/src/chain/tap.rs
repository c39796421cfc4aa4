//! The event tap: an observer of every event, after it took effect.

use hawser_ir::ContextId;
use hawser_ir::abi::Outcome;
use hawser_ir::buf::RecordBuf;
use hawser_time::Instant;

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
    /// The instructions, in order.
    pub records: &'a RecordBuf,
    /// What the chain ended with.
    pub outcome: Outcome,
}

/// An observer of every event.
pub type EventTap = Box<dyn FnMut(&TapEvent<'_>) + Send>;
