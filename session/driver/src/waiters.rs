//! Tasks that wait for an event of a session, each in a place of its own. A future that is polled often, or
//! dropped early as in a `select!`, leaves no waker behind.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use super::shared::{Inner, Shared};

/// The tasks to wake, by place.
#[derive(Default)]
pub(super) struct Waiters {
    /// The number of the last place.
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    pub(super) fn wake_all(&mut self) {
        std::mem::take(&mut self.wakers)
            .into_values()
            .for_each(Waker::wake);
    }
}

/// A future's place among the waiting tasks.
pub(super) struct WaiterRegistration<'a> {
    shared: &'a Shared,
    number: Option<u64>,
}

impl<'a> WaiterRegistration<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, number: None }
    }

    /// Registers the task to be woken. `inner` is the state that `shared` guards.
    pub(super) fn take<T>(&mut self, inner: &mut Inner, cx: &Context<'_>) -> Poll<T> {
        let waiters = &mut inner.waiting;
        let number = *self.number.get_or_insert_with(|| {
            waiters.next += 1;
            waiters.next
        });
        waiters.wakers.insert(number, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for WaiterRegistration<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.shared.lock().waiting.wakers.remove(&number);
            // Values that are dropped with their last waker may need the lock.
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::super::testing;
    use super::*;

    #[test]
    fn futures_that_are_dropped_leave_no_waker() {
        let session = testing::session();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let mut event = pin!(session.next_event());
            for _ in 0..3 {
                assert!(event.as_mut().poll(&mut cx).is_pending());
            }
            assert_eq!(
                session.shared.lock().waiting.wakers.len(),
                1,
                "one future, one waker"
            );
        }
        assert_eq!(session.shared.lock().waiting.wakers.len(), 0);
    }
}
