//! Events raised by chains, which wait for theirs.
//!
//! Invariants: they run in the order in which they were raised, but for answers to instructions, which run right
//! after the chain that asked; their number is bounded by
//! [`crate::Limits::raised`]; their memory is used again.

use std::collections::VecDeque;

use bytemuck::cast_slice_mut;
use hawser_ir::abi::Id;
use hawser_ir::buf::{event_header, set_event_header};
use hawser_ir::{EventId, abi::EventHeader};

/// An event that was raised.
#[derive(Debug)]
pub(crate) struct RaisedEvent {
    /// The id of the context that it is for; `NONE`: of none.
    pub(crate) target: Id,
    words: Vec<u64>,
    /// It answers an instruction, and with these bytes.
    pub(crate) answer: bool,
    pub(crate) data: Vec<u8>,
}

impl RaisedEvent {
    /// The event, header first, filled up with zeros to whole words.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.words)
    }
}

/// An event for another of the stacks that share their addresses (shards): see [`crate::Stack::next_forwarded`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedEvent {
    /// The stacks that it is for.
    pub to: ForwardTo,
    pub(crate) event: u16,
    /// The id of the context that it is for; `NONE`: of none.
    pub(crate) target: Id,
    /// The event, header first.
    pub(crate) bytes: Vec<u8>,
}

/// The stacks that an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardTo {
    /// The first, which alone has the contexts that its chain touches.
    First,
    /// All but the first: the context that it is for is in one of them.
    Others,
}

/// Events that wait, and how many of them may run.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    waiting: VecDeque<RaisedEvent>,
    /// Answers of the chain that ran last.
    answers: VecDeque<RaisedEvent>,
    /// What is for other stacks.
    pub(crate) forwarded: VecDeque<ForwardedEvent>,
    spare: Vec<RaisedEvent>,
    /// Memory for what answers bring.
    buffer: Vec<u8>,
    /// How many may still run in this batch.
    pub(crate) budget: usize,
}

impl Raised {
    /// How many wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.answers.len()
    }

    /// How many wait, those for other stacks included.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.len() + self.forwarded.len()
    }

    /// Adds one for the context with this id; `NONE`: for none.
    pub(crate) fn push(&mut self, event: EventId, target: Id, bytes: &[u8]) {
        let mut raised = self.blank(event, target, bytes.len(), Some(bytes));
        raised.answer = false;
        self.waiting.push_back(raised);
    }

    /// An answer to an instruction of a context, all zero; [`Raised::push_answer`] adds it.
    pub(crate) fn answer(&mut self, event: EventId, target: Id, size: usize) -> RaisedEvent {
        let mut answer = self.blank(event, target, size, None);
        answer.answer = true;
        answer
    }

    /// Adds an answer behind those of the same chain, and before all other events.
    pub(crate) fn push_answer(&mut self, answer: RaisedEvent) {
        self.answers.push_back(answer);
    }

    fn blank(&mut self, event: EventId, target: Id, size: usize, bytes: Option<&[u8]>) -> RaisedEvent {
        let mut raised = self.spare.pop().unwrap_or(RaisedEvent {
            target,
            words: Vec::new(),
            answer: false,
            data: Vec::new(),
        });
        raised.target = target;
        raised.data.clear();
        raised.words.clear();
        raised.words.resize(size.div_ceil(8), 0);
        let room = raised.bytes_mut();
        if let Some(bytes) = bytes {
            room[..size].copy_from_slice(bytes);
        }
        // A program may raise an event that came to it; its ids are those of the context that it came to.
        let header = EventHeader { event: event.0 as u16, ids: 0, ..event_header(room) };
        set_event_header(room, &header);
        raised
    }

    /// Takes an answer out, and otherwise the oldest one, while the batch's budget lasts.
    pub(crate) fn take(&mut self) -> Option<RaisedEvent> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        if self.budget == 0 {
            return None;
        }
        self.waiting.pop_front()
    }

    /// An empty buffer for what answers bring; [`Raised::keep_buffer`] gives it back.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back.
    pub(crate) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.buffer = buffer;
    }

    /// Puts the one that was taken last back: it could not run.
    pub(crate) fn put_back(&mut self, raised: RaisedEvent) {
        self.waiting.push_front(raised);
    }

    /// The one that was taken last has run.
    pub(crate) fn finish(&mut self, raised: RaisedEvent) {
        self.budget -= usize::from(!raised.answer);
        self.spare.push(raised);
    }
}
