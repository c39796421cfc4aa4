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
        if let Some(last) = self.waiting.pop() {
            self.recycle(last);
        }
    }

    /// The first `count` frames have left.
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
