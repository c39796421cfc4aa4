//! The actions of an observed run, with their places in the source, for traces and debuggers.

use std::ops::Range;

use hawser_ir::buf::RecordBuf;
use hawser_ir::{BlueprintId, ContextId, FuncId, Span, Stmt};

use crate::memory::{Loc, Region};

/// The actions of a chain, in order.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// The processors that ran, including one that did not complete.
    pub processors: Vec<FuncId>,
    /// For each record, the statement that wrote it.
    pub records: Vec<Span>,
    /// The writes to contexts and to the scratchpad, including those without effect.
    pub writes: Vec<Write>,
    /// The statements that ran, if they were requested by [`Steps::of_statements`].
    pub statements: Vec<Statement>,
    /// For each record, the index in `statements` of the statement that wrote it, if statements were
    /// requested.
    pub emitted: Vec<usize>,
    /// The headers that a parser extracted: the blueprint and the image of each.
    pub headers: Vec<(BlueprintId, Vec<u8>)>,
    /// The running statement.
    pub(crate) at: Span,
    /// The call stack, while statements are recorded.
    pub(crate) calls: Vec<Call>,
    pub(crate) notes_statements: bool,
    /// The number of recorded statements at which the chain halts.
    pub(crate) halt_before: Option<usize>,
    /// The size of the records so far, in bytes.
    recorded: usize,
}

/// A statement that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    pub span: Span,
    /// The function that contains it.
    pub func: FuncId,
    /// The number of running functions: 1 in a processor.
    pub depth: usize,
}

/// A running function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub func: FuncId,
    /// The statement that runs in it.
    pub at: Span,
    /// The index of that statement among the executed ones.
    pub(crate) statement: usize,
    /// The first node of that statement; a statement of the source can have several.
    node: usize,
    /// The start of its variables and of its references.
    pub(crate) base: usize,
    pub(crate) refs: usize,
}

/// A write to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The memory that was written to.
    pub memory: LastingMemory,
    /// The byte range in that memory.
    pub bytes: Range<usize>,
    /// The statement that wrote.
    pub span: Span,
    /// The index of that statement among the executed ones; 0 if statements are not recorded.
    pub statement: usize,
}

/// Memory that outlives a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastingMemory {
    /// The event. Writes to it are not recorded.
    Event,
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
    /// Creates a record that includes each executed statement.
    #[must_use]
    pub fn of_statements() -> Steps {
        Steps { notes_statements: true, ..Steps::default() }
    }

    /// Records that a function begins to run.
    pub(crate) fn enter(&mut self, func: FuncId, base: usize, refs: usize) {
        if self.notes_statements {
            self.calls
                .push(Call { func, at: Span::default(), statement: 0, node: 0, base, refs });
        }
    }

    /// Records that the running function ends.
    pub(crate) fn leave(&mut self) {
        self.calls.pop();
    }

    /// Records that a node is about to run, and returns true if the chain is to halt before it. The nodes of
    /// one statement of the source count once, and again when they run again.
    pub(crate) fn node(&mut self, stmt: &Stmt) -> bool {
        let depth = self.calls.len();
        let Some(call) = self.calls.last_mut() else {
            return false;
        };
        let node = std::ptr::from_ref(stmt).addr();
        if stmt.span == Span::default() || stmt.span == call.at && node != call.node {
            return false;
        }
        if self.halt_before == Some(self.statements.len()) {
            call.at = stmt.span;
            return true;
        }
        (call.at, call.node, call.statement) = (stmt.span, node, self.statements.len());
        self.statements
            .push(Statement { span: stmt.span, func: call.func, depth });
        false
    }

    pub(crate) fn begin(&mut self, recorded: usize) {
        self.processors.clear();
        self.records.clear();
        self.writes.clear();
        self.statements.clear();
        self.emitted.clear();
        self.calls.clear();
        self.headers.clear();
        (self.at, self.recorded) = (Span::default(), recorded);
    }

    /// Records the statement if it has written a record.
    pub(crate) fn recorded(&mut self, records: &RecordBuf, span: Span) {
        let bytes = records.bytes().len();
        if bytes > self.recorded {
            self.records.push(span);
            self.emitted.extend(self.calls.last().map(|call| call.statement));
        }
        self.recorded = bytes;
    }

    /// Records that bytes are about to be written.
    pub(crate) fn written(&mut self, loc: Loc, len: usize) {
        let memory = match loc.region {
            Region::Keyed => LastingMemory::Keyed,
            Region::Fresh => LastingMemory::Fresh,
            Region::Global(context) => LastingMemory::Global(ContextId(context)),
            Region::Scratch => LastingMemory::Scratch,
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
            statement: self.calls.last().map_or(0, |call| call.statement),
        });
    }
}
