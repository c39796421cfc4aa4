//! A T-ware in a separate thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_bus::ring::{Ring, Waker};
use hawser_bus::{Bus, BusError, Hands, Rights, SourceId, Statistics, SubscriptionId, Tware, run_waiting};

/// The interval at which a sleeping thread checks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running T-ware. Dropping this value ends the T-ware, its subscriptions and its holds. A panic of the
/// T-ware has the same effect.
#[derive(Debug)]
pub struct TwareThread {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The thread has the strong reference, so that the subscriber ends with the thread.
    subscriber: Weak<hawser_bus::Subscriber>,
    ids: Vec<SubscriptionId>,
}

/// Runs a T-ware in a separate thread, with a queue of `slots` signals. The same source code runs in the loop
/// by [`Bus::attach`].
///
/// # Errors
/// When one of its subscriptions is refused, or the thread cannot be started.
pub fn run_in_thread(
    bus: &Bus,
    name: &str,
    rights: Rights,
    priority: u8,
    slots: usize,
    mut tware: Box<dyn Tware>,
) -> Result<TwareThread, ThreadError> {
    let subscriber = Arc::new(bus.join(name, rights, priority)?);
    let ends = Arc::new(AtomicBool::new(false));
    let parked: Arc<std::sync::OnceLock<std::thread::Thread>> = Arc::default();
    let waker = parked.clone();
    let waker: Waker = Arc::new(move || {
        if let Some(thread) = waker.get() {
            thread.unpark();
        }
    });
    let (queue, mut signals) = Ring::new(slots, Some(waker));
    let subscriptions = tware.subscriptions();
    let ids: Result<Vec<_>, _> = subscriptions
        .into_iter()
        .map(|subscription| subscriber.subscribe(subscription, &queue))
        .collect();
    let ids = ids?;
    let (steering, numbers, over) = (subscriber.clone(), ids.clone(), ends.clone());
    let subscriber = Arc::downgrade(&subscriber);
    let ended = EndLogger(name.to_owned());
    let body = move || {
        let _ended = ended;
        let _ = parked.set(std::thread::current());
        let (mut hands, mut known) = (Hands::default(), Vec::<SourceId>::new());
        while !over.load(Ordering::Relaxed) {
            let count = run_waiting(
                &mut signals,
                &mut hands,
                |signal, hands| {
                    // Names are resolved to numbers before a source's first signal, and only then.
                    let source = signal.target().source;
                    if !known.contains(&source) {
                        known.push(source);
                        if let Ok(schema) = steering.bus().schema(source) {
                            tware.begin(source, &schema);
                        }
                    }
                    if let Some(subscription) = numbers.iter().position(|id| *id == signal.subscription()) {
                        tware.signal(subscription, signal, hands);
                    }
                },
                |modification| {
                    steering.steer(&modification);
                },
            );
            if count == 0 && signals.doze() {
                std::thread::park_timeout(POLL_INTERVAL);
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name(format!("tware-{name}"))
        .spawn(body)?;
    Ok(TwareThread { ends, thread: Some(thread), subscriber, ids })
}

/// Logs the end of a T-ware's thread, whatever its cause.
struct EndLogger(String);

impl Drop for EndLogger {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::warn!(tware = ?self.0, "a T-ware panicked; its leases were released");
        } else {
            tracing::debug!(tware = ?self.0, "a T-ware ended");
        }
    }
}

/// The reasons for which a T-ware cannot run in a thread.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The bus refused it.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl TwareThread {
    /// Returns the statistics of all its subscriptions; zeros once the T-ware has panicked.
    #[must_use]
    pub fn statistics(&self, timeout: Duration) -> Statistics {
        let mut sum = Statistics::default();
        if let Some(subscriber) = self.subscriber.upgrade() {
            self.ids
                .iter()
                .for_each(|id| sum += subscriber.statistics(*id, timeout));
        }
        sum
    }
}

impl Drop for TwareThread {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A T-ware that never returns blocks its thread, but not its owner.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}
