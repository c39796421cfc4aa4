//! A timeout that restarts with every sign of progress.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

/// Expires when a figure has not changed for too long.
pub(super) struct ProgressTimeout {
    limit: Duration,
    /// The last value of the figure, and the end of the timeout.
    waiting: Option<(u64, Pin<Box<Sleep>>)>,
}

impl ProgressTimeout {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, waiting: None }
    }

    /// Returns true if it has expired. Otherwise, the task is woken when it does.
    pub(super) fn is_over(&mut self, figure: u64, cx: &mut Context<'_>) -> bool {
        if self.waiting.as_ref().is_none_or(|(before, _)| *before != figure) {
            self.waiting = Some((figure, Box::pin(tokio::time::sleep(self.limit))));
        }
        self.waiting
            .as_mut()
            .is_some_and(|(_, end)| matches!(end.as_mut().poll(cx), Poll::Ready(())))
    }

    pub(super) fn reset(&mut self) {
        self.waiting = None;
    }
}
