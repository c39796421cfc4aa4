//! Events raised by chains, which wait for theirs.
//!
//! Invariants: they run in the order in which they were raised; their number is bounded by
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
}

impl RaisedEvent {
    /// The event, header first, filled up with zeros to whole words.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.words)
    }
}

/// Events that wait, and how many of them may run.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    waiting: VecDeque<RaisedEvent>,
    spare: Vec<RaisedEvent>,
    /// How many may still run in this batch.
    pub(crate) budget: usize,
}

impl Raised {
    /// How many wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds one for the context with this id; `NONE`: for none.
    pub(crate) fn push(&mut self, event: EventId, target: Id, bytes: &[u8]) {
        let spare = self.spare.pop();
        let mut raised = spare.unwrap_or(RaisedEvent {
            target,
            words: Vec::new(),
        });
        raised.target = target;
        raised.words.clear();
        raised.words.resize(bytes.len().div_ceil(8), 0);
        let room = raised.bytes_mut();
        room[..bytes.len()].copy_from_slice(bytes);
        let header = EventHeader {
            event: event.0 as u16,
            ..event_header(room)
        };
        set_event_header(room, &header);
        self.waiting.push_back(raised);
    }

    /// Takes the oldest one out, while the batch's budget lasts.
    pub(crate) fn take(&mut self) -> Option<RaisedEvent> {
        if self.budget == 0 {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Puts the one that was taken last back: it could not run.
    pub(crate) fn put_back(&mut self, raised: RaisedEvent) {
        self.waiting.push_front(raised);
    }

    /// The one that was taken last has run.
    pub(crate) fn finish(&mut self, raised: RaisedEvent) {
        self.budget -= 1;
        self.spare.push(raised);
    }
}
