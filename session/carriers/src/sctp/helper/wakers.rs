//! Passes events from the library's threads to waiting tasks.
//!
//! The library calls back with a number, never with a pointer. A call after its socket is closed
//! (usrsctp#381) finds no entry under the number, and does no harm. No lock is held while a task is woken,
//! and no function of the library is called from a callback.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};

use parking_lot::Mutex;

static SOCKETS: LazyLock<Mutex<WakerTable>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct WakerTable {
    next: usize,
    by_number: HashMap<usize, Arc<SocketWakers>>,
}

/// The tasks that wait for one socket.
#[derive(Default)]
struct SocketWakers {
    waiting: Mutex<WaitForEvent>,
}

#[derive(Default)]
struct WaitForEvent {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The registration of a socket's wakers, which is removed when the value is dropped.
pub(crate) struct WakerRegistration {
    number: usize,
    wakers: Arc<SocketWakers>,
}

impl WakerRegistration {
    /// Registers the wakers of a new socket.
    pub(crate) fn new() -> Self {
        let wakers = Arc::new(SocketWakers::default());
        let mut table = SOCKETS.lock();
        table.next += 1;
        let number = table.next;
        table.by_number.insert(number, wakers.clone());
        Self { number, wakers }
    }

    /// Returns the number with which the library calls back. It is never 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Wakes the task when data may be readable. It must be called before trying to read, so that no event in
    /// between is missed.
    pub(crate) fn wake_reader(&self, cx: &Context<'_>) {
        set(&mut self.wakers.waiting.lock().reader, cx);
    }

    /// Wakes the task when there may be room to write.
    pub(crate) fn wake_writer(&self, cx: &Context<'_>) {
        set(&mut self.wakers.waiting.lock().writer, cx);
    }
}

impl Drop for WakerRegistration {
    fn drop(&mut self) {
        SOCKETS.lock().by_number.remove(&self.number);
    }
}

/// Wakes the tasks of the socket with this number, after an event.
pub(crate) fn wake(number: usize) {
    let wakers = SOCKETS.lock().by_number.get(&number).cloned();
    let Some(wakers) = wakers else { return };
    let (reader, writer) = {
        let mut waiting = wakers.waiting.lock();
        (waiting.reader.take(), waiting.writer.take())
    };
    reader.into_iter().chain(writer).for_each(Waker::wake);
}

fn set(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_ring_wakes_both_sides_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let cx = Context::from_waker(&waker);
        let registration = WakerRegistration::new();
        registration.wake_reader(&cx);
        registration.wake_writer(&cx);
        wake(registration.number());
        wake(registration.number());
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_wake_after_the_drop_is_ignored() {
        let registration = WakerRegistration::new();
        let number = registration.number();
        drop(registration);
        wake(number);
        assert_ne!(WakerRegistration::new().number(), number);
    }
}
