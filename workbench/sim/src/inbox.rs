//! Frames that wait to be received, in the form that [`Wire`](hawser_engine::wire::Wire) requires.

use std::collections::VecDeque;

use hawser_engine::wire::RxFrame;
use hawser_time::Instant;

use crate::frame::Frame;

/// Waiting frames; the first `batch` of them are being received.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    frames: VecDeque<(Instant, Frame)>,
    batch: usize,
}

impl Inbox {
    /// Adds a frame that arrived at this time.
    pub(crate) fn push(&mut self, at: Instant, mut frame: Frame) {
        frame.join();
        self.frames.push_back((at, frame));
    }

    /// Returns the number of frames, including the batch.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Makes up to `max` frames the batch.
    pub(crate) fn take(&mut self, max: usize) -> usize {
        self.batch = self.frames.len().min(max);
        self.batch
    }

    pub(crate) fn frame(&self, i: usize) -> RxFrame<'_> {
        let (at, frame) = &self.frames[i];
        RxFrame {
            head: &frame.head,
            tail: frame.payload.first().map_or(&[], |p| p.bytes()),
            csum: frame.standing(),
            seg_size: frame.seg_size,
            at: *at,
        }
    }

    /// Drops the batch.
    pub(crate) fn release(&mut self) {
        self.frames.drain(..self.batch);
        self.batch = 0;
    }
}
