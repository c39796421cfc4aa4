//! Events raised by chains: a queue, bounded by [`crate::Limits::raised`].

use bytemuck::cast_slice_mut;
use hawser_ir::EventId;
use hawser_ir::abi::Id;
use hawser_ir::buf::EventBuf;

/// Events raised by chains, waiting for theirs.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    events: EventBuf,
    targets: Vec<Id>,
    next: usize,
}

impl Raised {
    /// How many wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.events.len() - self.next
    }

    /// Adds one for the context with this id; `NONE`: for none.
    pub(crate) fn push(&mut self, event: EventId, target: Id, bytes: &[u8]) {
        self.events.push(event, bytes);
        self.targets.push(target);
    }

    /// Copies the oldest one out; it stays until [`Raised::pop`].
    pub(crate) fn front(&self, words: &mut Vec<u64>) -> Option<Id> {
        if self.len() == 0 {
            return None;
        }
        let bytes = self.events.get(self.next);
        words.clear();
        words.resize(bytes.len().div_ceil(8), 0);
        cast_slice_mut(words)[..bytes.len()].copy_from_slice(bytes);
        Some(self.targets[self.next])
    }

    /// Forgets the oldest one.
    pub(crate) fn pop(&mut self) {
        self.next += 1;
        if self.next == self.events.len() {
            self.events.clear();
            self.targets.clear();
            self.next = 0;
        }
    }
}
