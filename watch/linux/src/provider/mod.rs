//! Linux's own TCP as a provider: `kernel.tcp`, with the same names as our own transport.
//!
//! A thread serves it. If all subscribers of an event have the same filter, the eBPF programs apply it.
//! Leases lie in the kernel, so that they end even when this process has died. A modification takes effect at
//! a flow's next acknowledgement. [`KernelProvider::capabilities`] lists what the kernel cannot do.
//!
//! * `schema`: the events and variables
//! * `view`: flows as the bus reads and sets them
//! * `thread`: from the kernel's ring to the bus, a batch at a time
//! * `pace`: the time that records wait for the reader

mod pace;
mod schema;
mod thread;
mod view;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub use crate::{Capability, CapabilitySubject, KernelError, Missing, Options};
use crate::{Diagnostics, Kernel};
use hawser_bus::ring::Waker;
use hawser_bus::{Bus, SourceId};
use pace::PollInterval;
use rustix::event::{EventfdFlags, eventfd};
pub use schema::schema;
use view::View;

/// Linux's TCP, served on a bus. The programs are removed from the kernel when it is dropped; modified flows
/// continue under their own congestion controller.
#[derive(Debug)]
pub struct KernelProvider {
    source: SourceId,
    capabilities: Vec<Capability>,
    ends: Arc<AtomicBool>,
    waker: ThreadWaker,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread.
struct ThreadWaker(Waker);

impl std::fmt::Debug for ThreadWaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

impl KernelProvider {
    /// Returns its number on the bus.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// Returns the capabilities of this machine's kernel, and the reasons why others are missing.
    #[must_use]
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }
}

/// Returns the same as [`KernelProvider::capabilities`] without loading, and takes no privilege. It reports
/// whether this process could load, and what the kernel would then provide.
///
/// # Errors
/// When an option is wrong, or a system call failed.
pub fn survey_kernel(options: &Options) -> Result<Vec<Capability>, KernelError> {
    Kernel::survey(options)
}

/// Puts Linux's TCP on a bus. Loading takes privilege ([`Kernel::load`]); later calls do not.
///
/// # Errors
/// The requirement that is not met, with a remedy.
pub fn serve_kernel(bus: &Bus, options: &Options) -> Result<KernelProvider, KernelError> {
    let mut kernel = Kernel::load(options)?;
    let diagnostics = if options.own_namespace {
        Diagnostics::open()?
    } else {
        Diagnostics::open_all()?
    };
    let system = |doing, error: std::io::Error| KernelError::System { doing, error };
    let wakeup = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .map_err(|error| system("make an eventfd", error.into()))?;
    kernel.wake_by(wakeup.as_fd())?;
    let waker: Waker = Arc::new(move || {
        // An eventfd counts the writes and its value is never read: each increase wakes the thread.
        let _ = rustix::io::write(&wakeup, &1u64.to_ne_bytes());
    });
    let capabilities = kernel.capabilities();
    let source = bus.source(Arc::new(schema(&capabilities)), Some(waker.clone()));
    let id = source.id();
    let ends = Arc::new(AtomicBool::new(false));
    let over = ends.clone();
    let view = View::new(kernel, diagnostics);
    let pace = PollInterval::new(options.wake);
    let body = move || thread::run(source, view, pace, &over);
    let thread = std::thread::Builder::new()
        .name("kernel-tcp".into())
        .spawn(body)
        .map_err(|error| system("start a thread", error))?;
    Ok(KernelProvider {
        source: id,
        capabilities,
        ends,
        waker: ThreadWaker(waker),
        thread: Some(thread),
    })
}

impl Drop for KernelProvider {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        (self.waker.0)();
        if let Some(thread) = self.thread.take() {
            // The thread owns the programs, which are removed from the kernel when this returns.
            let _ = thread.join();
        }
    }
}
