//! Tasks that wait for completions.

use std::task::Waker;

use super::CompletionQueue;
use crate::MAX_WAITING;
use crate::endpoint::Endpoint;

/// The tasks that wait for completions, with their queues; at most [`MAX_WAITING`] in all.
#[derive(Default)]
pub(crate) struct CompletionWakers(Vec<(CompletionQueue, Waker)>);

impl CompletionWakers {
    pub(super) fn add(&mut self, queue: CompletionQueue, waker: &Waker) {
        let is_known = |(of, other): &(CompletionQueue, Waker)| *of == queue && other.will_wake(waker);
        if self.0.iter().any(is_known) {
            return;
        }
        // A task that is woken without cause asks again; most likely its wait was given up.
        if self.0.len() >= MAX_WAITING {
            self.0.remove(0).1.wake();
        }
        self.0.push((queue, waker.clone()));
    }

    /// Wakes the tasks whose queues have completions or are gone, if notices about pairs have come since the
    /// last call.
    pub(crate) fn wake(&mut self, endpoint: &mut Endpoint) {
        if !std::mem::take(&mut endpoint.has_pair_news) {
            return;
        }
        let Some(device) = &endpoint.verbs else { return };
        let has_none = |queue| device.waiting(queue) == Ok(0);
        for (_, waker) in self.0.extract_if(.., |(queue, _)| !has_none(*queue)) {
            waker.wake();
        }
    }

    pub(crate) fn wake_all(&mut self) {
        self.0.drain(..).for_each(|(_, waker)| waker.wake());
    }
}
