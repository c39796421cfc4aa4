//! An association in the process, as the program sees it.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::sctp::error::Fault;
use crate::sctp::path::PathEvent;
use crate::sctp::protocol::{CloseCause, View};

/// The number of path events that are kept until they are read. The oldest are dropped.
const EVENTS: usize = 64;

/// The process's reports on an association, and the tasks that wait for more.
#[derive(Default)]
pub(crate) struct Remote {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Set once the association is up.
    view: Option<View>,
    fault: Option<Fault>,
    trying: bool,
    finished: bool,
    /// Set at the end of the peer's direction, with the cause if the whole association is over.
    end: Option<Option<CloseCause>>,
    events: VecDeque<PathEvent>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Remote {
    pub(crate) fn up(&self, view: View) {
        self.change(view);
    }

    pub(crate) fn change(&self, mut view: View) {
        for event in &view.events {
            tracing::debug!(peer = %event.peer, state = ?event.state, "a path of an association has changed");
        }
        self.with(|state| {
            state.events.extend(view.events.drain(..));
            let surplus = state.events.len().saturating_sub(EVENTS);
            state.events.drain(..surplus);
            state.view = Some(view);
        });
    }

    pub(crate) fn try_it(&self) {
        self.with(|state| state.trying = true);
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.with(|state| state.fault = Some(fault));
    }

    pub(crate) fn finish(&self) {
        self.with(|state| state.finished = true);
    }

    /// Records the end. The first cause is kept.
    pub(crate) fn end(&self, cause: Option<CloseCause>) {
        self.with(|state| {
            if state.end.flatten().is_none() {
                state.end = Some(cause);
            }
        });
    }

    /// Changes the state, and wakes the tasks that wait.
    fn with(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = self.state.lock();
            change(&mut state);
            [state.reader.take(), state.writer.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits until the handshake has begun. It never resolves if the handshake cannot begin.
    pub(crate) fn poll_trying(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.trying {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits for the end of the handshake.
    pub(crate) fn poll_up(&self, cx: &Context<'_>) -> Poll<Result<(), Fault>> {
        let mut state = self.state.lock();
        match (&state.view, &state.fault) {
            (Some(_), _) => Poll::Ready(Ok(())),
            (None, Some(fault)) => Poll::Ready(Err(fault.clone())),
            (None, None) => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for the process's report of the end of the data, with its cause.
    pub(crate) fn poll_end(&self, cx: &Context<'_>) -> Poll<Option<CloseCause>> {
        let mut state = self.state.lock();
        match state.end {
            Some(end) => Poll::Ready(end),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits until the peer has everything, or the association is over.
    pub(crate) fn poll_finished(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.finished || state.end.flatten().is_some() {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the cause if the association is over.
    pub(crate) fn cause(&self) -> Option<CloseCause> {
        self.state.lock().end.flatten()
    }

    /// Waits for that cause.
    pub(crate) fn poll_cause(&self, cx: &Context<'_>) -> Poll<CloseCause> {
        let mut state = self.state.lock();
        match state.end.flatten() {
            Some(cause) => Poll::Ready(cause),
            None => {
                state.writer = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Reads its state, once it is up.
    pub(crate) fn view<T>(&self, read: impl FnOnce(&View) -> T) -> Option<T> {
        self.state.lock().view.as_ref().map(read)
    }

    pub(crate) fn take_events(&self) -> Vec<PathEvent> {
        self.state.lock().events.drain(..).collect()
    }
}
