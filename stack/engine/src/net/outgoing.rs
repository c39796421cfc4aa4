//! Frames that wait for the wire, and the memory of those that have left.
//!
//! Invariant: a frame's memory is moved in here once and out once; its header and its list of
//! pieces are never allocated anew in a steady state.

use crate::wire::TxFrame;

/// The maximum number of emptied frames kept.
const SPARE: usize = 1024;

/// Frames that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) waiting: Vec<TxFrame>,
    spare: Vec<TxFrame>,
}

impl Outgoing {
    /// An empty frame behind those that wait.
    pub(super) fn blank(&mut self) -> &mut TxFrame {
        self.waiting.push(self.spare.pop().unwrap_or_default());
        let last = self.waiting.len() - 1;
        &mut self.waiting[last]
    }

    /// Takes the last frame back.
    pub(super) fn withdraw(&mut self) {
        let last = self.waiting.len().saturating_sub(1);
        self.recycle(last..);
    }

    /// The first `count` frames have left.
    pub(super) fn sent(&mut self, count: usize) {
        self.recycle(..count);
    }

    fn recycle(&mut self, range: impl std::ops::RangeBounds<usize>) {
        for mut frame in self.waiting.drain(range) {
            if self.spare.len() < SPARE {
                frame.clear();
                self.spare.push(frame);
            }
        }
    }
}
