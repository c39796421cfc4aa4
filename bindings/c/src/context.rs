//! Contexts: a runtime with threads of its own for I/O, and a queue from which the application takes events in
//! a thread that it chooses.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use hawser::connect::taps;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::event::Queued;
use crate::handle::{self, Object, hawser_context};
use crate::pointer::write;
use crate::status::{Failure, call, hawser_status};

/// The maximum number of events that one call dispatches, so that it returns although events keep coming.
const MAX_EVENTS: usize = 256;

pub(crate) struct Context {
    runtime: Mutex<Option<Runtime>>,
    pub(crate) handle: Handle,
    queue: Mutex<VecDeque<Queued>>,
    /// Readable while the queue is not empty.
    signal: OwnedFd,
    /// The thread that dispatches events at the moment.
    dispatcher: Mutex<Option<ThreadId>>,
    /// The context's own thread for dispatching, if it has one.
    thread: Mutex<Option<JoinHandle<()>>>,
    is_stopping: AtomicBool,
    /// Preconnections are cloned from it, so that they share their knowledge of the network.
    pub(crate) template: taps::Preconnection,
}

impl Context {
    fn new() -> Result<Context, Failure> {
        let system = |error: std::io::Error| Failure::new(hawser_status::HAWSER_ERROR_SYSTEM, error);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hawser")
            .enable_all()
            .build()
            .map_err(system)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Context {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            queue: Mutex::default(),
            signal: eventfd(0, flags).map_err(|error| system(error.into()))?,
            dispatcher: Mutex::default(),
            thread: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            template: taps::Preconnection::default(),
        })
    }

    /// Queues an event.
    pub(crate) fn push(&self, event: Queued) {
        let mut queue = self.queue.lock();
        queue.push_back(event);
        if queue.len() == 1 {
            self.wake();
        }
    }

    fn wake(&self) {
        // The counter cannot overflow: it is written once while the queue is not empty.
        let _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
    }

    /// Dispatches the events that are queued, at most [`MAX_EVENTS`], and returns their number.
    fn dispatch(&self) -> usize {
        let mut count = 0;
        while count < MAX_EVENTS {
            let Some(event) = self.queue.lock().pop_front() else {
                break;
            };
            count += 1;
            // An object that was freed has no more events.
            let target = if event.listener.id > 0 {
                event.listener.get().map(|listener| listener.target())
            } else {
                event.connection.get().map(|connection| connection.target())
            };
            let Ok(target) = target else {
                // A connection that its listener's application never sees ends with the listener.
                if event.listener.id > 0 {
                    let _ = event.connection.take();
                }
                continue;
            };
            target.call(&event);
        }
        let queue = self.queue.lock();
        let _ = rustix::io::read(&self.signal, &mut [0; 8]);
        if !queue.is_empty() {
            self.wake();
        }
        count
    }

    /// Waits until the queue is not empty, at most this long.
    fn wait(&self, timeout: Option<Duration>) -> Result<(), Failure> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut polled = [PollFd::new(&self.signal, PollFlags::IN)];
            match poll(&mut polled, left.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::new(hawser_status::HAWSER_ERROR_SYSTEM, error)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Becomes the one dispatcher, waits, and dispatches.
    fn run_once(&self, timeout: Option<Duration>) -> Result<usize, Failure> {
        let _claim = self.claim()?;
        if self.queue.lock().is_empty() && timeout != Some(Duration::ZERO) {
            self.wait(timeout)?;
        }
        Ok(self.dispatch())
    }

    fn claim(&self) -> Result<Claim<'_>, Failure> {
        let own = std::thread::current().id();
        let mut dispatcher = self.dispatcher.lock();
        if let Some(other) = *dispatcher {
            let text = if other == own {
                "a callback cannot dispatch events, or free its context"
            } else {
                "another thread dispatches the events of the context"
            };
            return Err(Failure::new(hawser_status::HAWSER_ERROR_BUSY, text));
        }
        *dispatcher = Some(own);
        Ok(Claim(self))
    }
}

/// Held by the thread that dispatches events.
struct Claim<'a>(&'a Context);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        *self.0.dispatcher.lock() = None;
    }
}

/// Makes a context, and writes its handle to `context`. Its I/O runs in threads of its own. Events wait until
/// hawser_run_once() dispatches them in the thread that calls it, or hawser_context_start() has a thread of the
/// context do so. All functions of the library may be called in any thread.
///
/// Errors: HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_context_new(context: *mut hawser_context) -> hawser_status {
    call(|| {
        let id = handle::reserve();
        // SAFETY: the caller promises that the pointer is NULL or valid.
        unsafe { write(context, "context", hawser_context { id }) }?;
        handle::insert(id, Object::Context(Arc::new(Context::new()?)));
        Ok(())
    })
}

/// Returns, through `fd`, a descriptor that is readable while events wait, for poll(), epoll and event loops.
/// The library owns it: a program must neither read it nor close it.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_context_fd(context: hawser_context, fd: *mut i32) -> hawser_status {
    call(|| {
        let raw = context.get()?.signal.as_fd().as_raw_fd();
        // SAFETY: the caller promises that the pointer is NULL or valid.
        unsafe { write(fd, "fd", raw) }
    })
}

/// Waits at most `timeout_ms` milliseconds for events (0: not at all, negative: without limit), and calls the
/// callbacks of those that wait, at most 256, in this thread. Their number is written to `count`, unless that
/// is NULL. If more wait, the descriptor stays readable.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_BUSY in a callback or while another thread dispatches,
/// HAWSER_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_run_once(
    context: hawser_context,
    timeout_ms: i32,
    count: *mut usize,
) -> hawser_status {
    call(|| {
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let dispatched = context.get()?.run_once(timeout)?;
        if !count.is_null() {
            // SAFETY: the caller promises that the pointer is NULL or valid.
            unsafe { count.write(dispatched) };
        }
        Ok(())
    })
}

/// Starts a thread of the context that dispatches events from now on, until the context is freed. All
/// callbacks run in this thread, one at a time.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_BUSY if it was started before, HAWSER_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_context_start(context: hawser_context) -> hawser_status {
    call(|| {
        let context = context.get()?;
        let mut thread = context.thread.lock();
        if thread.is_some() {
            let text = "the context has a thread already";
            return Err(Failure::new(hawser_status::HAWSER_ERROR_BUSY, text));
        }
        let own = Arc::clone(&context);
        let run = move || {
            while !own.is_stopping.load(Ordering::Acquire) {
                // Another thread may dispatch for a while; its claim ends.
                if own.run_once(None).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        };
        let named = std::thread::Builder::new().name("hawser-events".to_owned());
        let started = named.spawn(run);
        *thread = Some(started.map_err(|error| Failure::new(hawser_status::HAWSER_ERROR_SYSTEM, error))?);
        Ok(())
    })
}

/// Frees a context with all that was made from it. Connections end as if they were aborted; a program that
/// wants their data delivered closes them first and waits for HAWSER_CLOSED. No callback is called after it
/// has returned.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_BUSY in a callback.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_context_free(context: hawser_context) -> hawser_status {
    call(|| {
        let object = context.get()?;
        let own = Some(std::thread::current().id());
        if *object.dispatcher.lock() == own {
            let text = "a callback cannot free its context";
            return Err(Failure::new(hawser_status::HAWSER_ERROR_BUSY, text));
        }
        context.take()?;
        object.is_stopping.store(true, Ordering::Release);
        handle::remove_all(|other| match other {
            Object::Context(_) => false,
            Object::Preconnection(preconnection) => Arc::ptr_eq(&preconnection.lock().context, &object),
            Object::Connection(connection) => Arc::ptr_eq(&connection.context, &object),
            Object::Listener(listener) => Arc::ptr_eq(&listener.context, &object),
        });
        object.wake();
        if let Some(thread) = object.thread.lock().take() {
            let _ = thread.join();
        }
        // A thread that is within hawser_run_once() ends its dispatch first.
        while object.dispatcher.lock().is_some() {
            object.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(runtime) = object.runtime.lock().take() {
            runtime.shutdown_background();
        }
        Ok(())
    })
}
