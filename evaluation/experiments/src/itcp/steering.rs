//! iFAST at a sender: the thread in which the T-ware runs, and the steps that it executes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hawser::interact::kernel::{Options, serve_kernel};
use hawser::interact::twares::{FastParams, Mode, NamedController, SteerOptions};
use hawser::interact::{
    Bus, Hands, Rights, Schema, Signal, SourceId, Subscriber, Subscription, Tware, TwareThread, run_in_thread,
};

use crate::Error;

/// Linux's name for the congestion control that T-wares steer.
pub(super) const CONGESTION_CONTROL: &str = "hawser_ifast";
/// The number of signals that may wait for a T-ware in a thread.
const SLOTS: usize = 4_096;

/// The thread in which a T-ware runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadChoice {
    /// The thread that publishes.
    Loop,
    /// A thread of its own.
    Thread,
}

/// The steering of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    pub(super) place: ThreadChoice,
    pub(super) mode: Mode,
    /// The minimum time between two signalled acknowledgements. With zero, each is signalled.
    pub(super) interval: Duration,
    /// Counts the delivered signals.
    pub(super) count: Option<&'static Count>,
}

/// Counters of the signals delivered to T-wares.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) signals: AtomicU64,
    /// The nanoseconds spent in the T-ware itself.
    pub(super) spent: AtomicU64,
}

impl Count {
    /// Returns the signals and the nanoseconds so far.
    pub(super) fn now(&self) -> [u64; 2] {
        [self.signals.load(Relaxed), self.spent.load(Relaxed)]
    }
}

/// An attached T-ware, which steers until this is dropped.
pub(super) enum Steered {
    Loop { _subscriber: Subscriber },
    Thread { _running: TwareThread },
}

impl Steering {
    /// The full T-ware on each acknowledgement, in the loop.
    pub(super) const FULL: Steering = Steering {
        place: ThreadChoice::Loop,
        mode: Mode::Full,
        interval: Duration::ZERO,
        count: None,
    };

    /// Attaches the T-ware.
    pub(super) fn begin(self, bus: &Bus, provider: &'static str) -> Result<Steered, Error> {
        let make = move || -> Box<dyn Tware> {
            let options = SteerOptions {
                mode: self.mode,
                interval: self.interval,
                ..SteerOptions::new(provider)
            };
            let steer = NamedController::Fast(FastParams::default()).steers(options);
            match self.count {
                Some(count) => Box::new(Counted { tware: steer, count }),
                None => steer,
            }
        };
        Ok(match self.place {
            ThreadChoice::Loop => Steered::Loop { _subscriber: bus.attach("ifast", Rights::all(), 1, make)? },
            ThreadChoice::Thread => Steered::Thread {
                _running: run_in_thread(bus, "ifast", Rights::all(), 1, SLOTS, make())?,
            },
        })
    }
}

/// Returns the options that make the kernel wake the reader at the interval of the signals, but not for each
/// acknowledgement.
pub(super) fn options(steering: Option<Steering>) -> Options {
    let usual = Options::default();
    let interval = steering.map_or(Duration::ZERO, |steering| steering.interval);
    let name = Some(CONGESTION_CONTROL.to_owned());
    Options { congestion_control: name, wake: interval.max(usual.wake), ..usual }
}

/// Returns the reason if Linux's TCP cannot be steered on this machine.
pub(super) fn missing() -> Option<String> {
    serve_kernel(&Bus::new(), &options(None))
        .err()
        .map(|error| error.to_string())
}

/// A wrapper that counts the signals of a T-ware, and its time.
struct Counted {
    tware: Box<dyn Tware>,
    count: &'static Count,
}

impl Tware for Counted {
    fn subscriptions(&self) -> Vec<Subscription> {
        self.tware.subscriptions()
    }

    fn begin(&mut self, source: SourceId, schema: &Schema) {
        self.tware.begin(source, schema);
    }

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
        let began = Instant::now();
        self.tware.signal(subscription, signal, hands);
        self.count
            .spent
            .fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
        self.count.signals.fetch_add(1, Relaxed);
    }
}
