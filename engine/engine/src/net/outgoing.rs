//! Frames that wait for the wire, and the memory of frames that have left.
//!
//! Invariant: a frame's memory is moved in once and out once. In a steady state, its header and its list of
//! pieces are never allocated anew.

use crate::wire::TxFrame;

/// The maximum number of empty frames kept for reuse.
const SPARE: usize = 1024;

/// The waiting frames, in order.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    pub(super) waiting: Vec<TxFrame>,
    spare: Vec<TxFrame>,
}

impl FrameQueue {
    /// Appends an empty frame behind the waiting ones.
    pub(super) fn blank(&mut self) -> &mut TxFrame {
        self.waiting.push(self.spare.pop().unwrap_or_default());
        let last = self.waiting.len() - 1;
        &mut self.waiting[last]
    }

    /// Removes the last frame.
    pub(super) fn withdraw(&mut self) {
        if let Some(last) = self.waiting.pop() {
            self.recycle(last);
        }
    }

    /// Removes the first `count` frames, which have left.
    pub(super) fn sent(&mut self, count: usize) {
        let gone = count.min(self.waiting.len());
        let left = self.waiting.len() - gone;
        self.waiting.rotate_left(gone);
        while self.waiting.len() > left {
            self.withdraw();
        }
    }

    fn recycle(&mut self, mut frame: TxFrame) {
        if self.spare.len() < SPARE {
            frame.clear();
            self.spare.push(frame);
        }
    }
}
