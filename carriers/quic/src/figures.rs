//! A congestion controller that tells what it sees: bytes in flight and acknowledged, and how round
//! trips vary, which quinn keeps to itself.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;

use crate::endpoint::Congestion;

/// What a connection's controller has seen.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    sent: AtomicU64,
    acked: AtomicU64,
    lost: AtomicU64,
    in_flight: AtomicU64,
    /// No packet was lost yet.
    lossy: AtomicBool,
    rounds: Mutex<Rounds>,
}

/// Round trips and the rate of delivery.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// Mean deviation (RFC 6298 2.3).
    variation: Duration,
    since: Option<Instant>,
    acked_then: u64,
    /// Bytes per second over the last round trip in which there was always something to send.
    rate: u64,
}

impl Figures {
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub(crate) fn acked(&self) -> u64 {
        self.acked.load(Relaxed)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lossy.load(Relaxed)
    }

    pub(crate) fn variation(&self) -> Duration {
        self.rounds.lock().map_or(Duration::ZERO, |rounds| rounds.variation)
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rounds.lock().map_or(0, |rounds| rounds.rate)
    }

    fn acknowledged(&self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: Duration) {
        let acked = self.acked.fetch_add(bytes, Relaxed) + bytes;
        self.in_flight.fetch_update(Relaxed, Relaxed, |flying| Some(flying.saturating_sub(bytes))).ok();
        let Ok(mut rounds) = self.rounds.lock() else { return };
        let sample = now.saturating_duration_since(sent);
        rounds.variation = (3 * rounds.variation + rtt.abs_diff(sample)) / 4;
        let since = *rounds.since.get_or_insert(sent);
        let span = now.saturating_duration_since(since);
        if span >= rtt.max(Duration::from_millis(1)) {
            let rate = ((acked - rounds.acked_then) as f64 / span.as_secs_f64()) as u64;
            if !app_limited || rate > rounds.rate {
                rounds.rate = rate;
            }
            (rounds.since, rounds.acked_then) = (Some(now), acked);
        }
    }
}

/// A congestion controller, which tells its [`Figures`].
pub(crate) struct ObservedFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl ObservedFactory {
    pub(crate) fn new(congestion: Congestion) -> Self {
        Self {
            inner: match congestion {
                Congestion::Cubic => Arc::<CubicConfig>::default(),
                Congestion::Bbr => Arc::<BbrConfig>::default(),
            },
        }
    }
}

impl ControllerFactory for ObservedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        Box::new(Observed { inner, figures: Arc::default() })
    }
}

/// A controller with somebody who looks on.
pub(crate) struct Observed {
    inner: Box<dyn Controller>,
    figures: Arc<Figures>,
}

impl Observed {
    /// The figures of a connection whose controllers come from [`ObservedFactory`].
    pub(crate) fn of(connection: &quinn::Connection) -> Arc<Figures> {
        match connection.congestion_state().into_any().downcast::<Self>() {
            Ok(observed) => observed.figures,
            Err(_) => Arc::default(),
        }
    }
}

impl Controller for Observed {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.figures.sent.fetch_add(bytes, Relaxed);
        self.figures.in_flight.fetch_add(bytes, Relaxed);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.figures.acknowledged(now, sent, bytes, app_limited, rtt.get());
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.figures.in_flight.store(in_flight, Relaxed);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.figures.lost.fetch_add(lost, Relaxed);
        self.figures.lossy.store(true, Relaxed);
        self.figures
            .in_flight
            .fetch_update(Relaxed, Relaxed, |flying| Some(flying.saturating_sub(lost)))
            .ok();
        self.inner.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> quinn::congestion::ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), figures: self.figures.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
