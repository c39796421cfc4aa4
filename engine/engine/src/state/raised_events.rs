//! Events raised by chains, which wait for their own chains.
//!
//! Invariants: they run in the order in which they were raised, except that answers to instructions run right
//! after the chain that issued the instruction. Their number is bounded by [`crate::StackLimits::raised`].
//! Their memory is reused.

use std::collections::VecDeque;

use bytemuck::cast_slice_mut;
use hawser_ir::abi::Id;
use hawser_ir::buf::{event_header, set_event_header};
use hawser_ir::{EventId, abi::EventHeader};

/// A raised event.
#[derive(Debug)]
pub(crate) struct RaisedEvent {
    /// The id of the context that the event is for; `NONE` if it is for no context.
    pub(crate) target: Id,
    words: Vec<u64>,
    /// True if the event answers an instruction.
    pub(crate) answer: bool,
    pub(crate) data: Vec<u8>,
}

impl RaisedEvent {
    /// Returns the event, header first, padded with zeros to whole words.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.words)
    }
}

/// An event for another of the stacks that share their addresses (shards): see
/// [`crate::Stack::next_forwarded`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedEvent {
    /// The stacks that the event is for.
    pub to: ForwardTo,
    pub(crate) event: u16,
    /// The id of the context that the event is for; `NONE` if it is for no context.
    pub(crate) target: Id,
    /// The event, header first.
    pub(crate) bytes: Vec<u8>,
}

/// The stacks that an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardTo {
    /// The first stack, which alone has the contexts that its chain touches.
    First,
    /// All stacks but the first; one of them has the context that the event is for.
    Others,
}

/// The waiting events, and the number of them that may run.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    waiting: VecDeque<RaisedEvent>,
    /// The answers to instructions of the last chain.
    answers: VecDeque<RaisedEvent>,
    /// The events for other stacks.
    pub(crate) forwarded: VecDeque<ForwardedEvent>,
    spare: Vec<RaisedEvent>,
    /// Memory for the data of answers.
    buffer: Vec<u8>,
    /// The number of events that may still run in this batch.
    pub(crate) budget: usize,
}

impl Raised {
    /// Returns the number of waiting events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.answers.len()
    }

    /// Returns the number of waiting events, including those for other stacks.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.len() + self.forwarded.len()
    }

    /// Adds an event for the context with this id; `NONE` stands for no context.
    pub(crate) fn push(&mut self, event: EventId, target: Id, bytes: &[u8]) {
        let mut raised = self.blank(event, target, bytes.len(), Some(bytes));
        raised.answer = false;
        self.waiting.push_back(raised);
    }

    /// Returns an answer to an instruction of a context, all zero; [`Raised::push_answer`] adds it.
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
        // A program may raise an event that it received; the ids in it are those of the original context.
        let header = EventHeader { event: event.0 as u16, ids: 0, ..event_header(room) };
        set_event_header(room, &header);
        raised
    }

    /// Takes an answer, or else the oldest event, within the batch's budget.
    pub(crate) fn take(&mut self) -> Option<RaisedEvent> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        if self.budget == 0 {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Takes an empty buffer for the data of answers; [`Raised::keep_buffer`] returns it.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back.
    pub(crate) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.buffer = buffer;
    }

    /// Puts back the event that was taken last, because it could not run.
    pub(crate) fn put_back(&mut self, raised: RaisedEvent) {
        self.waiting.push_front(raised);
    }

    /// Recycles the event that was taken last, which has run.
    pub(crate) fn finish(&mut self, raised: RaisedEvent) {
        self.budget -= usize::from(!raised.answer);
        self.spare.push(raised);
    }
}
