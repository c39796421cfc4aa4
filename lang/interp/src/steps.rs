//! What a run that is watched did, and where in the source: for traces and debuggers.

use std::ops::Range;

use hawser_ir::buf::RecordBuf;
use hawser_ir::{BlueprintId, ContextId, FuncId, Span, Stmt};

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
    /// The statements that ran, if they are asked for: [`Steps::of_statements`].
    pub statements: Vec<Statement>,
    /// For each record, if statements are asked for: the statement that wrote it, by its place among them.
    pub emitted: Vec<usize>,
    /// The headers that a parser took apart: whose format each has, and its image.
    pub headers: Vec<(BlueprintId, Vec<u8>)>,
    /// The running statement.
    pub(crate) at: Span,
    /// Who calls whom, while statements are noted.
    pub(crate) calls: Vec<Call>,
    pub(crate) notes_statements: bool,
    /// The chain halts when this many statements were noted.
    pub(crate) halt_before: Option<usize>,
    /// Bytes of records so far.
    recorded: usize,
}

/// A statement that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its place.
    pub span: Span,
    /// The function that it is of.
    pub func: FuncId,
    /// How many functions were running: 1 in a processor.
    pub depth: usize,
}

/// A function that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which one.
    pub func: FuncId,
    /// The statement that runs in it.
    pub at: Span,
    /// That statement, by its place among those that ran.
    pub(crate) statement: usize,
    /// The first node of that statement: several make one statement of the source.
    node: usize,
    /// Where its variables and its references begin.
    pub(crate) base: usize,
    pub(crate) refs: usize,
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
    /// That statement, by its place among those that ran; 0 where they are not noted.
    pub statement: usize,
}

/// Memory that outlives a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The event. What is written there is not noted.
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
    /// Notes each statement that runs, too.
    #[must_use]
    pub fn of_statements() -> Steps {
        Steps { notes_statements: true, ..Steps::default() }
    }

    /// A function begins to run.
    pub(crate) fn enter(&mut self, func: FuncId, base: usize, refs: usize) {
        if self.notes_statements {
            self.calls
                .push(Call { func, at: Span::default(), statement: 0, node: 0, base, refs });
        }
    }

    /// It is over.
    pub(crate) fn leave(&mut self) {
        self.calls.pop();
    }

    /// A node is about to run; whether the chain is to halt before. Nodes of one statement of the source count once,
    /// and again when they run again.
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

    /// A statement may have written a record.
    pub(crate) fn recorded(&mut self, records: &RecordBuf, span: Span) {
        let bytes = records.bytes().len();
        if bytes > self.recorded {
            self.records.push(span);
            self.emitted.extend(self.calls.last().map(|call| call.statement));
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
            statement: self.calls.last().map_or(0, |call| call.statement),
        });
    }
}
