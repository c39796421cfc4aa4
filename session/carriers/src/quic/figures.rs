//! A congestion controller that reports figures which quinn keeps to itself: bytes in flight and
//! acknowledged, and the variation of round trips. Also a variant of CUBIC that ignores losses which no queue
//! caused.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quinn::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;

use crate::quic::endpoint::Congestion;

/// The figures that a connection's controller has observed.
#[derive(Debug, Default)]
pub(crate) struct ControllerStatistics {
    sent: AtomicU64,
    acked: AtomicU64,
    lost: AtomicU64,
    in_flight: AtomicU64,
    /// True if a packet was lost.
    lossy: AtomicBool,
    rounds: Mutex<Rounds>,
}

/// The variation of round trips, and the delivery rate.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// The mean deviation (RFC 6298, 2.3).
    variation: Duration,
    since: Option<Instant>,
    acked_then: u64,
    /// The rate in bytes per second over the last round trip that was not limited by the application.
    rate: u64,
}

impl ControllerStatistics {
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
        self.rounds.lock().variation
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rounds.lock().rate
    }

    fn acknowledged(&self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: Duration) {
        let acked = self.acked.fetch_add(bytes, Relaxed) + bytes;
        self.in_flight
            .fetch_update(Relaxed, Relaxed, |flying| Some(flying.saturating_sub(bytes)))
            .ok();
        let mut rounds = self.rounds.lock();
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

/// Creates congestion controllers that report their [`ControllerStatistics`].
pub(crate) struct ObservedFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    is_tolerant: bool,
}

impl ObservedFactory {
    pub(crate) fn new(congestion: Congestion) -> Self {
        Self {
            inner: match congestion {
                Congestion::Cubic | Congestion::Tolerant => Arc::<CubicConfig>::default(),
                Congestion::Bbr => Arc::<BbrConfig>::default(),
            },
            is_tolerant: congestion == Congestion::Tolerant,
        }
    }
}

impl ControllerFactory for ObservedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        let tolerance = self.is_tolerant.then(Tolerance::default);
        Box::new(Observed { inner, tolerance, figures: Arc::default() })
    }
}

/// Distinguishes losses of a full queue from those of a bad line, as TCP Veno does (Fu and Liew 2003).
/// Packets that a queue drops are preceded by others that waited in it. A loss while round trips are at their
/// minimum is therefore not a sign of congestion. Frequent losses are one all the same, because a queue may
/// be too short to be detected.
#[derive(Clone, Debug, Default)]
struct Tolerance {
    /// Bytes that were acknowledged and lost. Earlier bytes lose an eighth of their weight in each round
    /// trip.
    acked: f64,
    lost: f64,
    round_began: Option<Instant>,
    /// True if the smoothed round trip exceeds the shortest one.
    is_queued: bool,
}

impl Tolerance {
    /// The share of losses beyond which they always count as congestion. It is higher than the loss of lines
    /// in use.
    const MAX_SHARE: f64 = 0.03;
    /// Bytes that may be lost in addition, about six packets, because the share of a few packets is not
    /// significant.
    const FEW: f64 = 7_200.0;
    /// The minimum queueing delay. A round trip that exceeds the shortest by a quarter, and by at least this
    /// much, indicates a queue.
    const MIN_QUEUE: Duration = Duration::from_micros(500);

    fn acknowledged(&mut self, now: Instant, bytes: u64, smoothed: Duration, shortest: Duration) {
        self.is_queued = smoothed > shortest + (shortest / 4).max(Self::MIN_QUEUE);
        let began = *self.round_began.get_or_insert(now);
        if now.saturating_duration_since(began) >= smoothed {
            (self.acked, self.lost) = (self.acked * 7.0 / 8.0, self.lost * 7.0 / 8.0);
            self.round_began = Some(now);
        }
        self.acked += bytes as f64;
    }

    /// Returns true if the loss of these bytes counts as congestion.
    fn blames_a_queue(&mut self, lost: u64) -> bool {
        self.lost += lost as f64;
        self.is_queued || self.lost > Self::MAX_SHARE * (self.acked + self.lost) + Self::FEW
    }
}

/// A controller with an observer.
pub(crate) struct Observed {
    inner: Box<dyn Controller>,
    tolerance: Option<Tolerance>,
    figures: Arc<ControllerStatistics>,
}

impl Observed {
    /// Returns the figures of a connection whose controllers come from [`ObservedFactory`].
    pub(crate) fn from_connection(connection: &quinn::Connection) -> Arc<ControllerStatistics> {
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
        self.figures
            .acknowledged(now, sent, bytes, app_limited, rtt.get());
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.acknowledged(now, bytes, rtt.get(), rtt.min());
        }
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
        let blames = |tolerance: &mut Tolerance| tolerance.blames_a_queue(lost);
        if persistent || self.tolerance.as_mut().is_none_or(blames) {
            self.inner.on_congestion_event(now, sent, persistent, lost);
        }
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
        let (tolerance, figures) = (self.tolerance.clone(), self.figures.clone());
        Box::new(Self { inner: self.inner.clone_box(), tolerance, figures })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns a tolerance that has seen ten rounds of 100,000 bytes with this smoothed round trip; the
    /// shortest round trip is 40 ms.
    fn after(smoothed: Duration) -> Tolerance {
        let (mut tolerance, begin) = (Tolerance::default(), Instant::now());
        for round in 0..10 {
            tolerance.acknowledged(begin + round * 50 * MS, 100_000, smoothed, 40 * MS);
        }
        tolerance
    }

    #[test]
    fn a_loss_behind_a_queue_is_congestion() {
        assert!(after(51 * MS).blames_a_queue(1_200));
    }

    #[test]
    fn a_loss_without_a_queue_is_not_congestion() {
        assert!(!after(49 * MS).blames_a_queue(1_200));
    }

    #[test]
    fn many_losses_without_a_queue_are_congestion() {
        let mut tolerance = after(40 * MS);
        let blamed_at = (1..).find(|_| tolerance.blames_a_queue(1_000));
        // Ten rounds of 100,000 bytes, each with seven eighths of the weight of the next: 100,000 · 8 · (1 -
        // (7/8)^10).
        let acked = 800_000.0 * (1.0 - 0.875_f64.powi(10));
        let expected = ((acked * 0.03 + 7_200.0) / 0.97 / 1_000.0) as i32 + 1;
        assert_eq!(blamed_at, Some(expected));
    }
}
