//! What a run that is watched did, and where in the source: for traces and debuggers.

use std::ops::Range;

use hawser_ir::buf::RecordBuf;
use hawser_ir::{ContextId, FuncId, Span};

use crate::memory::{Loc, Region};

/// What a chain did, in order.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// The processors that ran, to their end or not.
    pub processors: Vec<FuncId>,
    /// For each record: the statement that wrote it.
    pub records: Vec<Span>,
    /// What was written in contexts and in the scratchpad, whether it changed anything or not.
    pub writes: Vec<Write>,
    /// The running statement.
    pub(crate) at: Span,
    /// Bytes of records so far.
    recorded: usize,
}

/// Something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub memory: Memory,
    /// Which of its bytes.
    pub bytes: Range<usize>,
    /// The statement that did.
    pub span: Span,
}

/// Memory that outlives a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The keyed context.
    Keyed,
    /// The context that the chain creates.
    Fresh,
    /// A `GLOBAL` context.
    Global(ContextId),
    /// The scratchpad.
    Scratch,
}

impl Steps {
    pub(crate) fn begin(&mut self, out: &RecordBuf) {
        self.processors.clear();
        self.records.clear();
        self.writes.clear();
        (self.at, self.recorded) = (Span::default(), out.bytes().len());
    }

    /// A statement may have written a record.
    pub(crate) fn recorded(&mut self, records: &RecordBuf, span: Span) {
        let bytes = records.bytes().len();
        if bytes > self.recorded {
            self.records.push(span);
        }
        self.recorded = bytes;
    }

    /// Bytes are about to be written.
    pub(crate) fn written(&mut self, loc: Loc, len: usize) {
        let memory = match loc.region {
            Region::Keyed => Memory::Keyed,
            Region::Fresh => Memory::Fresh,
            Region::Global(context) => Memory::Global(ContextId(context)),
            Region::Scratch => Memory::Scratch,
            Region::Nowhere
            | Region::Stack
            | Region::Event
            | Region::Image
            | Region::Previous
            | Region::View(_) => return,
        };
        self.writes.push(Write {
            memory,
            bytes: loc.at..loc.at.saturating_add(len),
            span: self.at,
        });
    }
}
