//! Linux's own TCP as a provider: `kernel.tcp`, with the names that our own transport has.
//!
//! A thread serves it. The bus's filters are given to the eBPF programs where all who want an event
//! want the same of it; leases lie in the kernel, so that they end there even when this process is
//! dead. What is set acts at a flow's next acknowledgement, and what of it the kernel cannot do is in
//! [`Serving::capabilities`].
//!
//! * `schema`: what is offered
//! * `view`: flows as the bus reads and sets them
//! * `thread`: from the kernel's ring to the bus, a batch at a time
//! * `pace`: how long records wait for the reader

mod pace;
mod schema;
mod thread;
mod view;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub use crate::{Capability, KernelError, Missing, Options, Subject};
use crate::{Diagnostics, Kernel};
use hawser_bus::ring::Waker;
use hawser_bus::{Bus, SourceId};
use pace::Pace;
use rustix::event::{EventfdFlags, eventfd};
pub use schema::schema;
use view::View;

/// Linux's TCP, being served. All is taken out of the kernel when it is dropped; flows that were
/// modified go on by their own congestion controller.
#[derive(Debug)]
pub struct Serving {
    source: SourceId,
    capabilities: Vec<Capability>,
    ends: Arc<AtomicBool>,
    waker: Bell,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread.
struct Bell(Waker);

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

impl Serving {
    /// Its number on the bus.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// What this machine's kernel gives, and why not the rest.
    #[must_use]
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }
}

/// What [`Serving::capabilities`] would return, without loading anything: whether this process could load,
/// and what the kernel would give then. It takes no privilege.
///
/// # Errors
/// An option that is wrong, or a system call that failed.
pub fn survey_kernel(options: &Options) -> Result<Vec<Capability>, KernelError> {
    Kernel::survey(options)
}

/// Puts Linux's TCP on a bus. Loading takes privilege ([`Kernel::load`]); nothing after it does.
///
/// # Errors
/// What is missing, and what would help.
pub fn serve_kernel(bus: &Bus, options: &Options) -> Result<Serving, KernelError> {
    let mut kernel = Kernel::load(options)?;
    let diagnostics = if options.own_namespace {
        Diagnostics::open()?
    } else {
        Diagnostics::open_all()?
    };
    let system = |doing, error: std::io::Error| KernelError::System { doing, error };
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .map_err(|error| system("make an eventfd", error.into()))?;
    kernel.wake_by(bell.as_fd())?;
    let waker: Waker = Arc::new(move || {
        // It counts the calls, and nobody reads it: that it becomes more is what wakes.
        let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
    });
    let capabilities = kernel.capabilities();
    let source = bus.source(Arc::new(schema(&capabilities)), Some(waker.clone()));
    let id = source.id();
    let ends = Arc::new(AtomicBool::new(false));
    let over = ends.clone();
    let view = View::new(kernel, diagnostics);
    let pace = Pace::new(options.wake);
    let body = move || thread::run(source, view, pace, &over);
    let thread = std::thread::Builder::new()
        .name("kernel-tcp".into())
        .spawn(body)
        .map_err(|error| system("start a thread", error))?;
    Ok(Serving {
        source: id,
        capabilities,
        ends,
        waker: Bell(waker),
        thread: Some(thread),
    })
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        (self.waker.0)();
        if let Some(thread) = self.thread.take() {
            // It owns what is in the kernel: gone when this returns.
            let _ = thread.join();
        }
    }
}
